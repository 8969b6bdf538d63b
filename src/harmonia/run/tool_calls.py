"""The calls of one completion: decided one after the other, run together, answered in the order of the calls.

1. Every call gets a result: the tool's, an approver's, or the reason why it was not run. Only calls to tools that the
   consumer of the run makes stay without one.
2. A tool's error is a result that the model reads; it does not end the run.
3. However it ends, also by cancellation, nothing is left running, and `settle` gives every call its result.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, ToolError
from harmonia.messages import Message
from harmonia.parts import Call, call_of
from harmonia.run.cancellation import Cancellation
from harmonia.run.events import CallEnded, CallStarted, PendingCall
from harmonia.run.tools import Tool, ToolResult, ToolSet, error_result, result_message, result_of
from harmonia.run.tools.arguments import text_for

# To a model whose calls are read from text, the usual form is what it wrote: it would repeat itself for ever.
_NEEDS_APPROVAL: Final = (
    "it was not run: a call that is read from text needs approval, and no approver is configured; "
    "do not repeat it, answer without it"
)
_NOT_MEANT: Final = "it was not run: the call is malformed and may not be intended; make it again in the usual form"
_STOPPED: Final = error_result(ToolError(ErrorCode.TOOL_REFUSED, "the call was stopped before it ended"))


class Approve(msgspec.Struct, frozen=True, tag_field="type", tag="approve"):
    """Run it."""


class Refuse(msgspec.Struct, frozen=True, tag_field="type", tag="refuse"):
    """Do not run it; the model gets the reason, where there is one."""

    reason: str | None = None


class Edit(msgspec.Struct, frozen=True, tag_field="type", tag="edit"):
    """Run it with these arguments. They replace the model's in the conversation, so that the result fits."""

    arguments: Any


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer"):
    """Do not run it; this is its result."""

    result: Any


# What an approver decides about a call. Without an approver, a call runs only if it was certainly made (law 5); an
# operator may allow those that were read from text, where a call and an echo look the same.
Decision = Approve | Refuse | Edit | Answer
Approver = Callable[[PendingCall], Decision | Awaitable[Decision]]


@dataclass
class Calls:
    """The calls of one completion, at `most` so many of which are run. After `run`, `settle` has the results.

    `count` is how many were taken up, whatever became of them; `edited` are the messages of those that an approver
    changed."""

    pending: list[PendingCall]
    tools: ToolSet
    approve: Approver | None
    allow_unverified: bool
    time_s: float | None
    most: int | None
    cancellation: Cancellation
    edited: dict[str, Message] = field(default_factory=dict[str, Message])
    count: int = 0
    hit_limit: bool = False
    _results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    _handed_over: list[PendingCall] = field(default_factory=list[PendingCall])
    _is_finished: bool = False
    _unapproved: int = 0

    @property
    def lack_approval(self) -> bool:
        """Whether none of them was run, because there is no approver."""
        return 0 < self._unapproved == len(self.pending)

    @property
    def handed_over(self) -> tuple[PendingCall, ...]:
        """The calls that the consumer of the run makes; none where the run was cancelled."""
        return tuple(self._handed_over) if self._is_finished else ()

    def settle(self) -> list[Message]:
        """The results as messages, in the order of the calls. What has none yet was stopped."""
        waiting = {pending.id for pending in self.handed_over}
        messages: list[Message] = []
        for pending in self.pending:
            if pending.id not in waiting:
                tool, result = self.tools.find(pending.call.recipient), self._results.get(pending.id, _STOPPED)
                name = pending.call.recipient if tool is None else self.tools.recipient_of(tool)
                messages.append(result_message(name, result, pending.message.channel).answering(pending.message))
        return messages

    async def run(self) -> AsyncGenerator[CallStarted | CallEnded, None]:
        """Decide about each call, then run them all."""
        tasks: dict[asyncio.Task[ToolResult], tuple[PendingCall, float]] = {}
        try:
            for at, pending in enumerate(list(self.pending)):
                began = time.monotonic()
                decided = await self._decide(pending)
                if self.cancellation.reason is not None:
                    return
                if isinstance(decided, ToolResult):
                    self.count += 1
                    yield self._ended(pending, decided, began)
                    continue
                tool, pending = decided
                self.pending[at] = pending
                if tool.invoke is None:
                    self._handed_over.append(pending)
                else:
                    self.count += 1
                    given = text_for(tool, pending.call) if tool.takes == "text" else pending.call.value
                    yield CallStarted(pending.id, pending.call, given)
                    if self.cancellation.reason is not None:
                        return
                    tasks[asyncio.create_task(self._invoke(pending.call))] = (pending, time.monotonic())
            while tasks:
                if self.cancellation.reason is not None:
                    return
                waited = await self.cancellation.wait_for(asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))
                if waited is None:
                    return
                for task in [each for each in tasks if each in waited[0]]:
                    pending, began = tasks.pop(task)
                    yield self._ended(pending, task.result(), began)
            self._is_finished = True
        finally:
            self.cancellation.end_wait()
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.gather(*tasks, return_exceptions=True)
            for task, (pending, _) in tasks.items():
                # It was done all the same, and what it did is not undone, so the model should know.
                if not task.cancelled() and task.exception() is None:
                    self._results[pending.id] = task.result()

    async def _decide(self, pending: PendingCall) -> tuple[Tool, PendingCall] | ToolResult:
        """The tool, and the call to run it with or to hand over; or the result at once."""
        try:
            tool = self.tools.check(pending.call)
            # `check` has said that the arguments fit; what is left is whether the model really made this call.
            is_sure = may_run(pending.call, allow_unverified=self.allow_unverified)
            if tool.invoke is None and is_sure:
                return tool, pending  # the consumer asks for approval, or does not
            if tool.invoke is not None and self.most is not None and self.count >= self.most:
                self.hit_limit = True
                raise ToolError(ErrorCode.TOOL_NOT_ALLOWED, "it was not run: this run has reached its limit of calls")
            if self.approve is None:
                if not is_sure:
                    is_readable = pending.call.status == "unverified"
                    self._unapproved += is_readable
                    raise ToolError(ErrorCode.TOOL_NOT_CERTAIN, _NEEDS_APPROVAL if is_readable else _NOT_MEANT)
                return tool, pending
            match await self._ask(self.approve, pending):
                case None:
                    return _STOPPED
                case Approve():
                    return tool, pending
                case Refuse(reason):
                    because = f": {reason}" if reason else ""
                    raise ToolError(ErrorCode.TOOL_REFUSED, f"the user refused this call{because}")
                case Edit(arguments):
                    pending = _with_arguments(pending, arguments, self.tools)
                    self.edited[pending.id] = pending.message
                    return self.tools.check(pending.call), pending
                case Answer(result):
                    return result_of(result)
        except ToolError as error:
            return error_result(error)

    async def _ask(self, approve: Approver, pending: PendingCall) -> Decision | None:
        """What the approver decides; None where the run was cancelled while it was asked."""
        decision = approve(pending)
        if inspect.isawaitable(decision):
            decision = await self.cancellation.wait_for(decision)
            if decision is None and self.cancellation.reason is not None:
                return None
        if isinstance(decision, Decision):
            return decision
        said = f"approve returned {decision!r}; expected Approve, Refuse, Edit or Answer"
        raise InputError(ErrorCode.RUN_INVALID_OPTION, said)

    async def _invoke(self, call: Call) -> ToolResult:
        try:
            return await self.tools.run(call, timeout_s=self.time_s)
        except ToolError as error:
            return error_result(error)

    def _ended(self, pending: PendingCall, result: ToolResult, began: float) -> CallEnded:
        self._results[pending.id] = result
        return CallEnded(pending.id, pending.call, result, time.monotonic() - began)


def may_run(call: Call, *, allow_unverified: bool) -> bool:
    """Whether the model made this call so certainly that it may be run without asking anybody (law 5)."""
    return call.status == "certain" or (call.status == "unverified" and allow_unverified)


def _with_arguments(pending: PendingCall, arguments: Any, tools: ToolSet) -> PendingCall:
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"the edited arguments are not JSON: {error}") from None
    message = pending.message.replace(content=text)
    call = call_of(message, tools.declared)
    assert call is not None, "the recipient stays the same"
    return PendingCall(pending.id, call, message)
