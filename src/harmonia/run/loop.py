"""The run: render, sample, parse, run the tools, and again until there is an answer. One stream of events for all.

    async for event in run(engine, "What is the weather in Paris?", tools=[get_weather]): ...

1. `Run.conversation` is consistent whenever the run ends, also by a cancellation or an error: every message in it is
   whole or renders as one, and every call has its result, but for those that are handed to whoever consumes the run.
2. What was sampled goes into the next prompt as the same tokens.
3. A fault of the model's, and an error of a tool's, are part of the stream. Only the engine's errors and the caller's
   are raised, and what came before them is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import Any, TypedDict, Unpack, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import Event, MessageEnded, TurnEnded
from harmonia.history import DOCUMENTED, Policy, call_id, shared_prefix
from harmonia.messages import Conversation, Message, ReasoningEffort, ResponseFormat
from harmonia.parser import Tools
from harmonia.parts import call_of, visible_text
from harmonia.renderer import Renderer
from harmonia.run.approval import Approver
from harmonia.run.calls import Calls
from harmonia.run.completion import Completion, sort_out
from harmonia.run.engines.engine import Chunk, Engine, Finish, Request, Sampling, ToolChoice, Usage
from harmonia.run.interruption import Interruption, find_task
from harmonia.run.limits import RunLimits
from harmonia.run.prompt import Prompt, build, compose, declared_namespaces, known_effort, take_last
from harmonia.run.tools import ToolLike, ToolSet
from harmonia.run.turn_events import (
    LimitName,
    LogprobsGiven,
    PendingCall,
    RunEnd,
    RunEnded,
    SamplingEnded,
    SamplingStarted,
    TurnEvent,
)
from harmonia.run.upstreams.upstream import Upstream

Model = Engine | Upstream
SomeConversation = Conversation | Iterable[Message] | str
SomeTools = ToolSet | Iterable[ToolLike]

_Pieces = AsyncGenerator[Chunk | Finish, None] | AsyncGenerator[Event | Finish, None]

# Rendering so much text for the first time takes some milliseconds.
_LONG_PROMPT_CHARS = 64_000
_SHARED_RENDERER = Renderer()
_NO_TOOLS = Tools([])
_ENDS = frozenset((MessageEnded, TurnEnded))
# The engine did not stop at <|return|>, or at the one call that was asked for, so it has to be stopped; what follows is
# no part of the answer.
_WENT_ON = Finish("stop", notes=("the engine went on behind the end of the turn and was stopped",))


class Run:
    """A conversation on its way to an answer. Iterate it once; `conversation` and `usage` are up to date throughout.

    Leaving the loop early stops the engine as soon as the generator is closed; `async with run:` makes that at once.
    """

    def __init__(
        self,
        model: Model,
        conversation: SomeConversation,
        *,
        tools: SomeTools | None = None,
        sampling: Sampling | None = None,
        tool_choice: ToolChoice = "auto",
        response_format: ResponseFormat | None = None,
        effort: ReasoningEffort | str | None = None,
        policy: Policy = DOCUMENTED,
        limits: RunLimits | None = None,
        approve: Approver | None = None,
        allow_unverified: bool = False,
        begun: Message | None = None,
        resume: bool = False,
        calls_run_here: bool = True,
        parallel_calls: bool = True,
        renderer: Renderer | None = None,
    ) -> None:
        _check_kinds(model, sampling, limits, approve, tools)
        if isinstance(conversation, str):
            conversation = [Message.user(conversation)]
        given = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        toolset = tools if isinstance(tools, ToolSet) or tools is None else ToolSet(tools)
        # Tools that the conversation declares, and nobody brought, are the caller's to run.
        known = toolset if toolset is not None else ToolSet(declared_namespaces(given))
        if resume:
            if begun is not None:
                raise InputError(ErrorCode.RUN_INVALID_OPTION, "resume goes on with the last message; leave begun out")
            given, begun = take_last(given)
        if begun is not None and _as_upstream(model) is not None:
            raise InputError(ErrorCode.RUN_INVALID_OPTION, f"{model.name} cannot go on with a message that was begun")
        self.model = model
        self._upstream = _as_upstream(model)
        self.conversation = compose(given, toolset, effort=effort, response_format=response_format)
        self.usage = Usage()
        self.ended: RunEnded | None = None
        self._tools = known
        self._declared = known.declared if len(known) else _NO_TOOLS
        self._sampling = sampling or Sampling()
        self._request = Request(
            self._sampling,
            self._tools.namespaces,
            _known_choice(tool_choice, self._tools),
            response_format,
            None if effort is None else known_effort(effort),
        )
        # An engine that constrains nothing lets the model call all the same; then the call is not run.
        self._runnable = self._tools.allow([]) if self._request.tool_choice == "none" else self._tools
        self._policy = policy
        self._limits = limits or RunLimits()
        self._approve = approve
        self._allow_unverified = allow_unverified
        self._begun = begun
        self._calls_run_here = calls_run_here
        self._parallel_calls = parallel_calls
        self._renderer = renderer or _SHARED_RENDERER
        self._interruption = Interruption()
        self._events: AsyncGenerator[TurnEvent, None] | None = None
        self._prompt_before: list[int] = []
        self._calls_made = 0
        self._open_calls: tuple[PendingCall, ...] = ()  # calls in the conversation that nobody has answered yet

    def __aiter__(self) -> AsyncGenerator[TurnEvent, None]:
        if self._events is not None:
            raise InputError(ErrorCode.RUN_INVALID_OPTION, "a run can be iterated once; make another one")
        self._events = self._run()
        self._interruption.interrupts = cast("AsyncGeneratorType[TurnEvent, None]", self._events)
        return self._events

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the engine and the tools, and leave the conversation consistent."""
        if self._events is not None:
            if cast("AsyncGeneratorType[TurnEvent, None]", self._events).ag_running:
                raise InputError(
                    ErrorCode.RUN_INVALID_OPTION, "another task waits for this run; stop it, or cancel that"
                )
            await self._events.aclose()

    def stop(self) -> None:
        """End the run soon, from the same thread: what came is kept, and the stream ends with a RunEnded."""
        self._interruption.interrupt("stopped")

    async def result(self) -> RunEnded:
        """The end of the run; for those who do not care for the events."""
        async for _ in self:
            pass
        assert self.ended is not None
        return self.ended

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> AsyncGenerator[TurnEvent, None]:
        interruption = self._interruption
        loop = asyncio.get_running_loop()
        interruption.start_timer(self._limits.time_s)
        index = 0
        try:
            while True:
                if interruption.reason is not None:
                    yield self._end_interrupted()
                    return
                renderer = None if self._upstream is not None else self._renderer
                prompt = await self._build(renderer)
                if prompt is None:
                    yield self._end_interrupted()
                    return
                yield SamplingStarted(
                    index, len(prompt.tokens), shared_prefix(self._prompt_before, prompt.tokens), prompt.dropped
                )
                self._prompt_before = prompt.tokens
                completion, stream = self._open(prompt)
                finish: Finish | None = None
                is_settled = False
                try:
                    # This loop runs once a chunk, which may be once a token: no layer, no timeout, no task in between.
                    pull, feed = stream.__anext__, completion.feed
                    while interruption.reason is None:
                        interruption.waiting = find_task(loop)
                        try:
                            piece = await pull()
                        except StopAsyncIteration:
                            break
                        except asyncio.CancelledError:
                            if interruption.caught():
                                break
                            raise
                        if isinstance(piece, Chunk):
                            tokens = piece.tokens
                            count = len(tokens)
                            if completion.is_over and (count or piece.text):
                                finish = _WENT_ON
                                break
                            if piece.logprobs:
                                yield LogprobsGiven(piece.logprobs)
                            events = feed(tokens[0] if count == 1 else tokens if count else piece.text)
                        elif isinstance(piece, Finish):
                            # Behind <|return|> it does not matter for what else the engine stopped.
                            finish = msgspec.structs.replace(piece, reason="stop") if completion.is_over else piece
                            break
                        else:
                            events = (piece,)
                        for event in events:
                            if event.__class__ in _ENDS:
                                completion.note(cast("MessageEnded | TurnEnded", event))
                                if completion.is_over and event is not events[-1]:
                                    finish = _WENT_ON  # in the same chunk
                                    yield event
                                    break
                            yield event
                        if finish is not None:
                            break
                    interruption.end_wait()
                    await stream.aclose()
                    for event in completion.end(None if finish is None else finish.reason):
                        yield event
                    is_settled = True
                except Exception as error:
                    interruption.end_wait()
                    # What came is kept, and whoever reads the stream sees where it broke.
                    for event in completion.end(None):
                        yield event
                    if isinstance(error, InputError) and error.code is ErrorCode.PARSE_INVALID_CHUNK:
                        raise EngineError(ErrorCode.ENGINE_BAD_ANSWER, error.message, error.at) from error
                    raise
                finally:
                    interruption.end_wait()
                    if not is_settled:
                        try:
                            await stream.aclose()
                        finally:
                            completion.end(None)
                            self._keep(completion, prompt, None)
                index += 1
                ended = self._keep(completion, prompt, finish)
                yield ended
                self._begun = None
                if interruption.reason is not None:
                    yield self._end_interrupted()
                    return
                pending = self._open_calls
                if not pending:
                    yield self._end_answered(ended, completion)
                    return
                if not self._calls_run_here:
                    self._open_calls = ()
                    yield self._end("calls", pending=pending)
                    return
                calls = self._take_up(pending)
                try:
                    async with aclosing(calls.run()) as call_events:
                        async for event in call_events:
                            yield event
                finally:
                    self._answer(calls)
                if interruption.reason is not None:
                    yield self._end_interrupted(calls.handed_over)
                    return
                if calls.handed_over:
                    yield self._end("calls", pending=calls.handed_over)
                    return
                # The call that was demanded has been made. Who demands it again gets no answer, but calls for ever.
                if self._request.tool_choice not in ("auto", "none"):
                    self._request = msgspec.structs.replace(self._request, tool_choice="auto")
                limit = self._limit_reached(index, calls)
                if limit is not None:
                    yield self._end("limit", limit=limit)
                    return
        finally:
            interruption.stop_timer()
            self._answer_open_calls()

    async def _build(self, renderer: Renderer | None) -> Prompt | None:
        """The next prompt; None where the run was interrupted first. A long one is rendered in a thread, so that all
        others in this process go on meanwhile."""
        if renderer is None or sum(len(message.text) for message in self.conversation) < _LONG_PROMPT_CHARS:
            return build(self.conversation, self._begun, self._policy, renderer)
        interruption = self._interruption
        interruption.waiting = asyncio.current_task()
        try:
            return await asyncio.to_thread(build, self.conversation, self._begun, self._policy, renderer)
        except asyncio.CancelledError:
            if interruption.caught():
                return None
            raise
        finally:
            interruption.end_wait()

    def _open(self, prompt: Prompt) -> tuple[Completion, _Pieces]:
        request = self._request
        if self._limits.tokens is not None:
            left = self._limits.tokens - self.usage.completion_tokens
            most = self._sampling.max_tokens
            sampling = msgspec.structs.replace(self._sampling, max_tokens=left if most is None else min(left, most))
            request = msgspec.structs.replace(request, sampling=sampling)
        if self._upstream is not None:
            completion = Completion(self._declared, is_upstream=True, one_call=not self._parallel_calls)
            return completion, self._upstream.respond(prompt.conversation, request)
        engine = cast("Engine", self.model)
        completion = Completion(
            self._declared,
            prompt.given,
            is_text=not engine.traits.gives_tokens,
            one_call=not self._parallel_calls,
        )
        return completion, engine.generate(prompt.tokens, request)

    def _keep(self, completion: Completion, prompt: Prompt, finish: Finish | None) -> SamplingEnded:
        """Take what was said into the conversation."""
        reason = finish.reason if finish is not None else "unknown"
        is_cut = finish is None or finish.reason == "length"
        kept, left_out = sort_out(completion.messages, self._renderer, is_cut=is_cut)
        self.conversation = self.conversation.add(*kept)
        usage = finish.usage if finish is not None else None
        if usage is None:
            usage = Usage(len(prompt.tokens), completion.sampled_tokens)
        self.usage += usage
        self._open_calls = self._pending(kept)
        interrupt = self._interruption.reason
        return SamplingEnded(
            reason if interrupt is None or finish is not None else "stopped" if interrupt == "stopped" else "limit",
            usage,
            kept,
            left_out,
            (*(finish.notes if finish is not None else ()), *self._unmet_demand()),
        )

    def _unmet_demand(self) -> tuple[str, ...]:
        """What to say where a call was demanded, and the model made none."""
        choice = self._request.tool_choice
        if choice in ("auto", "none") or self._open_calls:
            return ()
        return (f"the tool choice is {choice}, and the model made no call; nothing here makes a model obey",)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _pending(self, messages: tuple[Message, ...]) -> tuple[PendingCall, ...]:
        first = len(self.conversation) - len(messages)
        found: list[PendingCall] = []
        for at, message in enumerate(messages, first):
            call = call_of(message, self._declared)
            if call is not None:
                found.append(PendingCall(call_id(at), call, message))
        return tuple(found)

    def _take_up(self, pending: tuple[PendingCall, ...]) -> Calls:
        most = self._limits.calls
        return Calls(
            pending,
            self._runnable,
            approve=self._approve,
            allow_unverified=self._allow_unverified,
            time_s=self._limits.call_time_s,
            most=None if most is None else most - self._calls_made,
            interruption=self._interruption,
        )

    def _answer_open_calls(self) -> None:
        """The run ends, and nobody will take up these calls any more."""
        if self._open_calls:
            self._answer(self._take_up(self._open_calls))

    def _answer(self, calls: Calls) -> None:
        """Put the results into the conversation; what has none was stopped."""
        self._open_calls = ()
        self._calls_made += calls.count
        messages = list(self.conversation)
        for pending in calls.pending:
            edited = calls.edited.get(pending.id)
            if edited is not None:
                messages[int(pending.id.removeprefix("call_"))] = edited
        self.conversation = Conversation([*messages, *calls.settle()])

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _limit_reached(self, samplings: int, calls: Calls) -> LimitName | None:
        limits = self._limits
        if calls.hit_limit:
            return "calls"
        if limits.samplings is not None and samplings >= limits.samplings:
            return "samplings"
        if limits.tokens is not None and self.usage.completion_tokens >= limits.tokens:
            return "tokens"
        return None

    def _end_answered(self, ended: SamplingEnded, completion: Completion) -> RunEnded:
        limits = self._limits
        if ended.reason == "length":
            if limits.tokens is not None and self.usage.completion_tokens >= limits.tokens:
                return self._end("limit", limit="tokens")
            return self._end("length")
        if ended.reason == "unknown" and _lacks_its_end(ended.messages):
            return self._end("cut_off")
        if visible_text(ended.messages).strip():
            return self._end("answered")
        return self._end("silent", hidden_because=completion.hidden_because or _why_silent(ended))

    def _end_interrupted(self, pending: tuple[PendingCall, ...] = ()) -> RunEnded:
        self._answer_open_calls()
        if self._interruption.reason == "time":
            return self._end("limit", limit="time", pending=pending)
        return self._end("stopped", pending=pending)

    def _end(
        self,
        reason: RunEnd,
        *,
        pending: tuple[PendingCall, ...] = (),
        limit: LimitName | None = None,
        hidden_because: str | None = None,
    ) -> RunEnded:
        self.ended = RunEnded(reason, self.conversation, self.usage, pending, limit, hidden_because)
        return self.ended


class RunOptions(TypedDict, total=False):
    """The options of a run, as `Run` takes them."""

    tools: SomeTools | None
    sampling: Sampling | None
    tool_choice: ToolChoice
    response_format: ResponseFormat | None
    effort: ReasoningEffort | str | None
    policy: Policy
    limits: RunLimits | None
    approve: Approver | None
    allow_unverified: bool
    begun: Message | None
    resume: bool
    parallel_calls: bool
    renderer: Renderer | None


def run(model: Model, conversation: SomeConversation, **options: Unpack[RunOptions]) -> Run:
    """Run a conversation until the model has answered, its tools included. The options are those of `Run`."""
    return Run(model, conversation, **options)


def run_turn(model: Model, conversation: SomeConversation, **options: Unpack[RunOptions]) -> Run:
    """Ask the model once. Its calls are left to the caller: the run then ends with the reason "calls"."""
    return Run(model, conversation, calls_run_here=False, **options)


def _why_silent(ended: SamplingEnded) -> str:
    """Why there is nothing to read, where the completion had something to show or to call."""
    if ended.left_out:
        return "all that came was left out of the conversation, because it has no place in one"
    return "there is no text"


def _lacks_its_end(messages: tuple[Message, ...]) -> bool:
    origin = messages[-1].origin if messages else None
    return origin is not None and origin.stop is None


def _as_upstream(model: Model) -> Upstream | None:
    return cast("Upstream", model) if hasattr(model, "respond") else None


def _known_choice(choice: object, tools: ToolSet) -> ToolChoice:
    if isinstance(choice, Mapping):
        # OpenAI's form, {"type": "function", "function": {"name": "x"}}, or flat.
        named = cast("Mapping[str, Any]", choice)
        choice = cast("Mapping[str, Any]", named.get("function") or named).get("name")
    if not isinstance(choice, str):
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"tool_choice is {choice!r}; expected {_choices(tools)}")
    if choice in ("auto", "none"):
        return choice
    if choice == "required":
        if not tools.namespaces:
            raise InputError(ErrorCode.RUN_INVALID_OPTION, "a call is required, and there are no tools")
        return choice
    tool = tools.find(choice)
    if tool is None:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"tool_choice is {choice!r}; expected {_choices(tools)}")
    return tools.recipient_of(tool)


def _choices(tools: ToolSet) -> str:
    return ", ".join(["auto", "none", "required", *(tools.recipient_of(tool) for tool in tools)])


def _check_kinds(model: object, sampling: object, limits: object, approve: object, tools: object) -> None:
    """Callers without types get an error here, not in the middle of a run."""
    wrong = None
    if not hasattr(model, "generate") and not hasattr(model, "respond"):
        wrong = f"{model!r} is no engine; `await open_model(name)` opens one by its name, and Agent takes the name"
    elif sampling is not None and not isinstance(sampling, Sampling):
        wrong = f"sampling is {sampling!r}; expected a Sampling, such as Sampling(temperature=0.5)"
    elif limits is not None and not isinstance(limits, RunLimits):
        wrong = f"limits is {limits!r}; expected a RunLimits, such as RunLimits(calls=8)"
    elif approve is not None and not callable(approve):
        wrong = f"approve is {approve!r}; expected a function that gets a PendingCall and gives a decision"
    elif tools is not None and (isinstance(tools, str | Mapping) or not isinstance(tools, Iterable)):
        wrong = f"tools is {tools!r}; expected a list of functions, Tools or definitions"
    if wrong is not None:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, wrong)
