"""A response while it is made: the run behind it, its events, and what the store gets of it.

1. What a client is told is in the store before it is told: an item when it is done, the end before the terminal event.
2. However a response ends, its stream has one terminal event and the store has what came: also where the client left.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.messages import Message
from harmonia.parts import call_of
from harmonia.run.engines.engine import Sampling
from harmonia.run.limits import RunLimits
from harmonia.run.loop import Run
from harmonia.run.tools import ToolResult, ToolSet
from harmonia.run.tools.results import error_result
from harmonia.run.turn_events import TurnEvent
from harmonia.serve.api.encoding import encode
from harmonia.serve.api.fields import unsupported
from harmonia.serve.api.responses.output_items import OutputItem
from harmonia.serve.api.responses.reading import Waiting
from harmonia.serve.api.responses.request import SEALED_ITEMS
from harmonia.serve.api.responses.resource import new_resource
from harmonia.serve.api.responses.writer import ResponseWriter
from harmonia.serve.api.schema_errors import locate
from harmonia.serve.api.stream import StreamEvent
from harmonia.serve.asked import Asked
from harmonia.serve.identity import new_id
from harmonia.serve.server_tools import ServerTool
from harmonia.serve.store import StoredItem, StoredResponse
from harmonia.serve.vouched import write_messages

if TYPE_CHECKING:
    from harmonia.serve.service import Service

_LOG: Final = logging.getLogger("harmonia.serve")
_MOST_CALLS: Final = 128
_SAMPLINGS: Final = 4
_SAMPLINGS_WITH_TOOLS: Final = 32


class StartedResponse:
    """A response that was begun; see serve/http/contract.py."""

    def __init__(self, service: Service, asked: Asked, stack: AsyncExitStack, on_end: Callable[[str], None]) -> None:
        request, caller, settings = asked.request, asked.caller, service.settings
        self.id = new_id("resp")
        self.owner = caller.owner
        self._on_end = on_end
        self._service = service
        self._asked = asked
        self._stack = stack
        self._stores = request.stores
        self._is_cancelled = False
        self._ended = asyncio.Event()
        self._run: Run | None = None
        self._first: TurnEvent | None = None
        self._pulled: AsyncGenerator[TurnEvent, None] | None = None
        created_at = int(service.clock())
        resource = new_resource(
            request,
            id=self.id,
            created_at=created_at,
            model=asked.model,
            tools=request.tools or [],
            dialect=caller.dialect,
            warnings=asked.offer.warnings,
        )
        self._created_at = created_at
        traits = service.traits
        self._calls_are_certain = traits is None or traits.gives_tokens or settings.calls == "unverified"
        self._writer = ResponseWriter(
            resource,
            asked.offer,
            asked.chosen,
            seal=self._seal,
            clock=service.clock,
            count_messages=self._count_messages,
            dialect=caller.dialect,
            shows_analysis=settings.analysis == "shown",
            shows_logprobs=request.wants_logprobs,
            seals_items=SEALED_ITEMS in (request.include or ()),
            calls_are_certain=self._calls_are_certain,
            allows_unverified=settings.calls == "unverified",
        )

    # ── the contract ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_stream(self) -> bool:
        return bool(self._asked.request.stream)

    @property
    def output_tokens(self) -> int | None:
        return None if self._run is None else self._run.usage.completion_tokens

    @property
    def failure(self) -> HarmonyError | None:
        error = self._writer.failure
        return error if isinstance(error, HarmonyError) else None

    @property
    def encoded(self) -> bytes:
        """The response as it is now."""
        return self._writer.encoded

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._run is not None:
            self._run.stop()

    async def stop_and_wait(self) -> None:
        self.cancel()
        await self._ended.wait()

    async def result(self) -> bytes:
        """The whole response. One that failed before anything came is an error, as clients expect it."""
        events = self.events()
        try:
            async for _ in events:
                pass
        finally:
            await events.aclose()
        error = self._writer.failure
        if error is not None and not self._writer.items:
            raise error
        return self.encoded

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        writer = self._writer
        try:
            for event in writer.start():
                yield event
            try:
                for event in await self._run_approved():
                    yield event
                run, pulled = await self._begin_run()
                first, self._first = self._first, None
                if first is not None:
                    writer.feed(first)
                feed = writer.feed
                # This loop runs once a token: no layer and no task in between.
                async for happened in pulled:
                    told = feed(happened)
                    if told:
                        if writer.finished:
                            await self._save()
                        for event in told:
                            yield event
                    if writer.stop_because is not None:
                        run.stop()
            except Exception as error:
                told = self._tell_failure(error)
                await self._save()
                for event in told:
                    yield event
        finally:
            await self._settle()

    # ── beginning ───────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self) -> None:
        """Everything that can be wrong with the request shows here."""
        asked = self._asked
        if asked.request.wants_logprobs:
            traits = self._service.traits
            if traits is None or not (traits.gives_logprobs and traits.gives_tokens):
                unsupported("the engine behind this server has no log-probabilities", "$.include")
        if not any(each.approves for each in asked.waiting):
            await self._begin_run()
        if self._stores:
            response = StoredResponse(
                self.id,
                self.owner,
                asked.model,
                "in_progress",
                self._created_at,
                self._writer.encoded,
                asked.request.previous_response_id,
            )
            await self._service.store.begin(response, asked.inputs)

    async def _begin_run(self) -> tuple[Run, AsyncGenerator[TurnEvent, None]]:
        """The run, up to its first prompt: rendering it shows whether the request can be answered at all."""
        if self._run is not None and self._pulled is not None:
            return self._run, self._pulled
        asked, service, request = self._asked, self._service, self._asked.request
        limits = service.settings.limits
        most = [each for each in (request.max_output_tokens, limits.output_tokens) if each is not None]
        run = Run(
            service.model,
            asked.fitted(),
            tools=asked.chosen.toolset,
            sampling=Sampling(
                temperature=request.temperature,
                top_p=request.top_p,
                presence_penalty=request.presence_penalty,
                frequency_penalty=request.frequency_penalty,
                logprobs=(request.top_logprobs or 0) if request.wants_logprobs else None,
            ),
            tool_choice=asked.chosen.choice,
            response_format=request.response_format,
            effort=request.effort,
            limits=RunLimits(
                samplings=self._most_samplings(),
                calls=request.max_tool_calls or _MOST_CALLS,
                tokens=min(most) if most else None,
                time_s=limits.request_s,
            ),
            allow_unverified=service.settings.calls == "unverified",
            parallel_calls=request.parallel_tool_calls is not False,
            renderer=service.renderer,
        )
        if self._is_cancelled:
            run.stop()
        self._run, self._pulled = run, aiter(run)
        try:
            self._first = await anext(self._pulled)
        except InputError as error:
            form = request.response_format
            schema = None if form is None else form.schema
            raise locate(error, [*asked.offer.schemas, (schema, "$.text.format.schema")]) from error
        return run, self._pulled

    def _most_samplings(self) -> int:
        """How often the model may be asked again: after its tools, and where it calls what it may not call."""
        if not self._calls_are_certain:
            return 1  # no call is ever certain, so it does not help to ask again
        return _SAMPLINGS_WITH_TOOLS if self._asked.hosted else _SAMPLINGS

    async def _run_approved(self) -> list[StreamEvent]:
        """Run the calls that the client approved, before the model is asked."""
        asked, events = self._asked, list[StreamEvent]()
        results: dict[str, ToolResult] = {}
        running = {tool.tool.name: tool for tool in asked.hosted}
        for waiting in asked.waiting:
            if not waiting.approves:
                continue
            result = await self._run_one(waiting, running)
            results[waiting.request_id] = result
            offered = asked.offer.find(waiting.message.recipient or "")
            if offered is not None:
                events += self._writer.add_approved(offered, waiting.request_id, waiting.message, result)
        if results:
            await self._save()
            asked.converse(results)
        return events

    async def _run_one(self, waiting: Waiting, running: Mapping[str, ServerTool]) -> ToolResult:
        toolset = self._asked.offer.toolset
        tool = toolset.find(waiting.message.recipient or "")
        hosted = None if tool is None else running.get(tool.name)
        call = call_of(waiting.message)
        assert call is not None
        try:
            if hosted is None:
                raise InputError(ErrorCode.TOOL_UNKNOWN, "the tool is no longer offered")
            return await ToolSet([hosted.tool]).run(call, timeout_s=RunLimits().call_time_s)
        except HarmonyError as error:
            return error_result(error)

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _save(self) -> None:
        """What is finished, into the store."""
        writer = self._writer
        finished, writer.finished = writer.finished, []
        if not self._stores:
            return
        store = self._service.store
        for item in finished:
            await store.add_output(self.id, item.index, _stored(item))
        if writer.is_over:
            await store.finish(self.id, writer.resource["status"], encode({**writer.resource, "output": []}))

    def _tell_failure(self, error: Exception) -> list[StreamEvent]:
        if not isinstance(error, HarmonyError):
            # Its words may have what a model said; where it happened will do.
            stack = "".join(traceback.format_tb(error.__traceback__))
            _LOG.error("a response failed by a bug: %s\n%s", type(error).__name__, stack)
        if self._run is not None:
            self._writer.note_usage(self._run.usage)
        return self._writer.fail(error)

    async def _settle(self) -> None:
        """However it ended: nothing runs any more, and the store knows."""
        try:
            if self._pulled is not None:
                await self._pulled.aclose()
            writer = self._writer
            if not writer.is_over:
                if self._run is not None:
                    writer.note_usage(self._run.usage)
                writer.cancel()  # nobody is there to be told
            await asyncio.shield(self._save())
        except HarmonyError as error:
            _LOG.error("what a response came to could not be stored: %s", error.code.value)
        finally:
            await self._stack.aclose()
            self._ended.set()
            self._on_end(self.id)

    def _seal(self, messages: Sequence[Message]) -> str:
        return self._service.seals.seal_messages(messages, owner=self.owner, model=self._asked.model)

    def _count_messages(self) -> int:
        assert self._run is not None
        return len(self._run.conversation)


def _stored(item: OutputItem) -> StoredItem:
    return StoredItem(item.id, encode(item.wire), write_messages(item.messages) if item.messages else None)
