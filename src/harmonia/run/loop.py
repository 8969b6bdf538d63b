"""The run: render, sample, parse, run the tools, and again until there is an answer. One stream of events for all.

    async for event in run(engine, "What is the weather in Paris?", tools=[get_weather]): ...

1. `Run.conversation` is consistent whenever the run ends, also by a cancellation or an error: every message in it is
   whole or renders as one, and every call has its result, but for those that are handed to whoever consumes the run.
2. What was sampled goes into the next prompt as the same tokens.
3. A fault of the model's, and an error of a tool's, are part of the stream. Only the engine's errors and the caller's
   are raised, and what came before them is kept.
4. What is demanded of the model (a tool choice, a response format, a strict tool) is guaranteed by an engine that takes
   a grammar. With any other it is checked before it is told, asked for once more, and reported; see attempts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.events import Event, MessageEnded, TurnEnded
from harmonia.grammar import WrittenGrammar
from harmonia.history import DOCUMENTED, Policy, call_id, shared_prefix
from harmonia.messages import Conversation, Message, ReasoningEffort, ResponseFormat
from harmonia.parts import Guessed, call_of, visible_text
from harmonia.renderer import Renderer
from harmonia.run.approval import Approver
from harmonia.run.cancellation import Interruption, find_task
from harmonia.run.constraints.demand import GrammarUse
from harmonia.run.constraints.retry import Attempts
from harmonia.run.constraints.validation import Verdict
from harmonia.run.engines.base import Chunk, Finish, Request, Sampling, ToolChoice, Usage
from harmonia.run.events import (
    LimitName,
    PendingCall,
    RunEnd,
    RunEnded,
    SamplingEnded,
    SamplingGivenUp,
    SamplingStarted,
    TurnEvent,
    Unmet,
)
from harmonia.run.limits import RunLimits
from harmonia.run.model_source import Model, Pieces, Source
from harmonia.run.options import (
    check_form,
    check_kinds,
    check_strict_tools,
    check_text_forms,
    chosen_tools,
    known_format,
    known_guessed,
    known_use,
)
from harmonia.run.prompt import Prompt, compose, declared_namespaces, known_effort, take_last
from harmonia.run.sampling import Completion, sort_out
from harmonia.run.tool_calls import Calls
from harmonia.run.tools import ToolLike, ToolSet

if TYPE_CHECKING:
    from harmonia.families.profiles import ModelProfile

SomeConversation = Conversation | Iterable[Message] | str
SomeTools = ToolSet | Iterable[ToolLike]
# Also as OpenAI's APIs have them.
SomeChoice = ToolChoice | Mapping[str, Any]
SomeFormat = ResponseFormat | Mapping[str, Any]
# How many cached tokens may be reported of a prompt, given the message that was begun and those that were sampled.
MostCached = Callable[[Prompt, Message | None, Sequence[Message]], int]

_ENDS = frozenset((MessageEnded, TurnEnded))
_SEED_STEP = 1_000_003
# The engine did not stop at <|return|>, or at the one call that was asked for, so it has to be stopped; what follows is
# no part of the answer.
_WENT_ON = Finish("stop", notes=("the engine went on behind the end of the turn and was stopped",))

# It was told so once, and repeats them; it would do so until a limit is reached.
_NOBODY_APPROVES = "it repeats calls that are read from text, and nobody is there to approve of them"


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
        tool_choice: SomeChoice = "auto",
        response_format: SomeFormat | None = None,
        effort: ReasoningEffort | str | None = None,
        policy: Policy = DOCUMENTED,
        limits: RunLimits | None = None,
        approve: Approver | None = None,
        allow_unverified: bool = False,
        begun: Message | None = None,
        resume: bool = False,
        calls_run_here: bool = True,
        parallel_calls: bool = True,
        keeps_sampled: bool = False,
        checks_form: bool = True,
        grammar: GrammarUse = "demanded",
        retry_malformed: bool = False,
        guessed: Guessed = "hidden",
        renderer: Renderer | None = None,
        profile: ModelProfile | str | None = None,
        most_cached: MostCached | None = None,
        cache_salt: str | None = None,
    ) -> None:
        check_kinds(model, sampling, limits, approve, tools)
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
        check_text_forms(known)  # as they were brought: no other family takes a text
        self._source = Source(
            model,
            known,
            profile=profile,
            policy=policy,
            renderer=renderer,
            one_call=not parallel_calls,
            keeps_sampled=keeps_sampled,
            shows_guessed=known_guessed(guessed) == "shown",
        )
        if begun is not None and self._source.why_not_begun is not None:
            raise InputError(ErrorCode.RUN_INVALID_OPTION, self._source.why_not_begun)
        known = self._source.tools
        toolset = None if toolset is None else known
        self.model = model
        self.response_format = known_format(response_format)
        if checks_form and self.response_format is not None:
            check_form(self.response_format)
        check_strict_tools(known)
        self.conversation = compose(given, toolset, effort=effort, response_format=self.response_format)
        self.usage = Usage()
        self.ended: RunEnded | None = None
        self._tools, choice = chosen_tools(tool_choice, known)
        self._sampling = sampling or Sampling()
        self._request = Request(
            self._sampling,
            self._tools.namespaces,
            choice,
            self.response_format,
            None if effort is None else known_effort(effort),
            allowed=self._tools.allowed,
            parallel_calls=parallel_calls,
            cache_salt=cache_salt,
        )
        self._most_cached = most_cached
        # An engine that constrains nothing lets the model call all the same; then the call is not run.
        self._runnable = self._tools.allow([]) if self._request.tool_choice == "none" else self._tools
        self._limits = limits or RunLimits()
        self._approve = approve
        self._allow_unverified = allow_unverified
        self._begun = begun
        self._calls_run_here = calls_run_here
        self._attempts = Attempts(
            self._tools,
            self.response_format,
            takes_grammar=self._source.takes_grammar,
            can_begin=self._source.takes_headers,
            grammar=known_use(grammar),
            retry_malformed=retry_malformed,
        )
        self._interruption = Interruption()
        self._events: AsyncGenerator[TurnEvent, None] | None = None
        self._prompt_before: list[int] = []
        self._asked_at = len(self.conversation)  # the messages that the first attempt at a completion followed
        self._calls_made = 0
        self._was_unapproved = False  # the calls before were not run, because nobody was there to approve of them
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
        interruption, attempts = self._interruption, self._attempts
        loop = asyncio.get_running_loop()
        interruption.start_timer(self._limits.time_s)
        index = 0
        try:
            while True:
                if interruption.reason is not None:
                    yield self._end_interrupted()
                    return
                grammar = await attempts.begin(self._request.tool_choice, self._begun)
                holding = attempts.holding
                if not attempts.is_second:
                    self._asked_at = len(self.conversation)
                prompt = await self._build()
                if prompt is None:
                    yield self._end_interrupted()
                    return
                yield SamplingStarted(
                    index,
                    len(prompt.tokens),
                    shared_prefix(self._prompt_before, prompt.tokens),
                    prompt.dropped,
                    len(prompt.given) if attempts.is_begun else 0,
                )
                self._prompt_before = prompt.tokens
                completion, stream = self._open(prompt, grammar)
                finish: Finish | None = None
                events: Sequence[Event] | None = None  # of the last piece that came
                is_settled = False
                verdict = Verdict()
                try:
                    for event in completion.opening if attempts.is_begun else ():
                        yield event
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
                        except (EngineError, InputError) as error:
                            if grammar is None or events is not None or not attempts.drop_grammar(error):
                                raise
                            # The engine will not have the grammar, so what is demanded is checked.
                            grammar, holding = None, attempts.holding
                            completion, stream = self._open(prompt, None)
                            pull, feed = stream.__anext__, completion.feed
                            continue
                        if isinstance(piece, Chunk):
                            tokens = piece.tokens
                            count = len(tokens)
                            if completion.is_over and (count or piece.text):
                                finish = _WENT_ON
                                completion.note_late((), tokens if count else piece.text)
                                break
                            if piece.logprobs:
                                given = completion.join_logprobs(piece)
                                for told in (given,) if holding is None else holding.take(given):
                                    yield told
                            events = feed(tokens[0] if count == 1 else tokens if count else piece.text)
                        elif isinstance(piece, Finish):
                            # Behind <|return|> it does not matter for what else the engine stopped.
                            finish = msgspec.structs.replace(piece, reason="stop") if completion.is_over else piece
                            break
                        elif completion.is_over:
                            continue  # a provider went on behind the one call that was wanted; what it cost comes last
                        else:
                            events = (piece,)
                        for event in events:
                            if event.__class__ in _ENDS:
                                completion.note(cast("MessageEnded | TurnEnded", event))
                                if completion.is_over and event is not events[-1]:
                                    finish = _WENT_ON  # in the same chunk
                                    completion.note_late(events[events.index(event) + 1 :])
                            if holding is None:
                                yield event
                            else:
                                for told in holding.take(event):
                                    yield told
                            if finish is not None:
                                break
                        if finish is not None:
                            break
                    interruption.end_wait()
                    await stream.aclose()
                    for event in completion.end(None if finish is None else finish.reason):
                        for told in (event,) if holding is None else holding.take(event):
                            yield told
                    verdict = await attempts.judge(completion.messages, finish)
                    is_settled = True
                except Exception as error:
                    interruption.end_wait()
                    # What came is kept, and whoever reads the stream sees where it broke.
                    for event in () if holding is None else holding.release():
                        yield event
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
                unmet = verdict.unmet
                can_give_up = holding is not None and holding.can_give_up and self._may_go_on(completion)
                if holding is not None and unmet is not None and finish is not None and can_give_up:
                    yield self._give_up(completion, prompt, finish, unmet, holding.told_messages)
                    continue
                ended = self._keep(completion, prompt, finish, verdict)
                for event in () if holding is None else holding.release():
                    yield event
                yield ended
                self._begun = None
                attempts.settle()
                if interruption.reason is not None:
                    yield self._end_interrupted()
                    return
                pending = self._open_calls
                if unmet is not None and self._ends_run(unmet):
                    self._answer_open_calls()
                    yield self._end("unmet", unmet=unmet)
                    return
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
                self._demand_no_more_calls()
                limit = self._limit_reached(index - attempts.given_up, calls)
                if limit is not None:
                    yield self._end("limit", limit=limit)
                    return
                if calls.lack_approval and self._was_unapproved:
                    yield self._end("silent", hidden_because=_NOBODY_APPROVES)
                    return
                self._was_unapproved = calls.lack_approval
        finally:
            interruption.stop_timer()
            self._answer_open_calls()

    async def _build(self) -> Prompt | None:
        """The next prompt; None where the run was interrupted first. A long one is rendered in a thread, so that all
        others in this process go on meanwhile."""
        make = partial(self._source.build, self.conversation, self._begun, asked_at=self._asked_at)
        if not self._source.is_long(self.conversation, self._begun):
            return make()
        interruption = self._interruption
        interruption.waiting = asyncio.current_task()
        try:
            return await asyncio.to_thread(make)
        except asyncio.CancelledError:
            if interruption.caught():
                return None
            raise
        finally:
            interruption.end_wait()

    def _open(self, prompt: Prompt, grammar: WrittenGrammar | None) -> tuple[Completion, Pieces]:
        sampling = self._sampling
        if self._limits.tokens is not None:
            left = self._limits.tokens - self.usage.completion_tokens
            most = sampling.max_tokens
            sampling = msgspec.structs.replace(sampling, max_tokens=left if most is None else min(left, most))
        if self._attempts.is_second and sampling.seed is not None:
            # The same seed would give the same completion.
            sampling = msgspec.structs.replace(sampling, seed=_other_seed(sampling.seed))
        return self._source.open(prompt, msgspec.structs.replace(self._request, sampling=sampling, grammar=grammar))

    def _keep(
        self, completion: Completion, prompt: Prompt, finish: Finish | None, verdict: Verdict | None = None
    ) -> SamplingEnded:
        """Take what was said into the conversation."""
        reason = finish.reason if finish is not None else "unknown"
        is_cut = finish is None or finish.reason == "length"
        kept, left_out = self._add(completion.messages, is_cut=is_cut)
        usage = self._count(completion, prompt, finish, kept)
        self._open_calls = self._pending(kept)
        interrupt = self._interruption.reason
        return SamplingEnded(
            reason if interrupt is None or finish is not None else "stopped" if interrupt == "stopped" else "limit",
            usage,
            kept,
            left_out,
            self._notes(finish, verdict),
            completion.as_sampled,
            (*self._source.notes_on(self._request), *(() if verdict is None or is_cut else self._unassured(verdict))),
        )

    def _give_up(
        self, completion: Completion, prompt: Prompt, finish: Finish, unmet: Unmet, told_messages: int
    ) -> SamplingGivenUp:
        """Keep what was told, leave out the rest, and begin the next attempt."""
        kept, left_out = self._add(completion.messages[:told_messages], is_cut=False)
        held = tuple(completion.messages[told_messages:])
        first = held[0].origin if held else None
        start = None if first is None else first.header.start_token
        given_up = SamplingGivenUp(
            unmet,
            finish.reason,
            self._count(completion, prompt, finish, kept),
            kept,
            (*left_out, *held),
            0 if start is None else max(completion.sampled_tokens - start, 0),
            self._notes(finish, None),
            completion.as_sampled,
        )
        self._begun = self._attempts.give_up(unmet)
        return given_up

    def _add(self, messages: Sequence[Message], *, is_cut: bool) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Put messages into the conversation; which were, and which have no place in one."""
        kept, left_out = sort_out(messages, self._source.renderer, is_cut=is_cut)
        self.conversation = self.conversation.add(*kept)
        return kept, left_out

    def _count(self, completion: Completion, prompt: Prompt, finish: Finish | None, kept: Sequence[Message]) -> Usage:
        usage = finish.usage if finish is not None else None
        if usage is None:
            usage = Usage(len(prompt.tokens), completion.sampled_tokens)
        if self._most_cached is not None:
            most = self._most_cached(prompt, self._begun, kept)
            usage = msgspec.structs.replace(usage, cached_tokens=min(usage.cached_tokens, most))
        self.usage += usage
        return usage

    def _notes(self, finish: Finish | None, verdict: Verdict | None) -> tuple[str, ...]:
        """What to say of a sampling: what the engine says, what no grammar holds it to, and what is missing."""
        said = finish.notes if finish is not None else ()
        notes = (*said, *self._source.notes_on(self._request), *self._attempts.notes)
        if verdict is None:
            return notes
        unmet = () if verdict.unmet is None else (verdict.unmet.message,)
        return (*notes, *verdict.notes, *unmet)

    def _unassured(self, verdict: Verdict) -> tuple[str, ...]:
        # A call that was demanded, and will not do, is made all the same where somebody else may decide about it.
        unmet = verdict.unmet if self._open_calls else None
        misfit = (unmet.message,) if unmet is not None and unmet.kind == "call" else ()
        return (*self._attempts.notes, *verdict.notes, *misfit)

    def _may_go_on(self, completion: Completion) -> bool:
        """Whether the model may be asked again instead of this completion, which is not counted yet."""
        most = self._limits.tokens
        used = self.usage.completion_tokens + completion.sampled_tokens
        return self._interruption.reason is None and (most is None or used < most)

    def _ends_run(self, unmet: Unmet) -> bool:
        """Whether nothing better can come. A call that will not do is answered by saying so, and output that is damaged
        ends as any does that shows nothing."""
        return unmet.kind != "malformed" and not (unmet.kind == "call" and self._open_calls)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _pending(self, messages: tuple[Message, ...]) -> tuple[PendingCall, ...]:
        first = len(self.conversation) - len(messages)
        found: list[PendingCall] = []
        for at, message in enumerate(messages, first):
            call = call_of(message, self._source.declared)
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

    def _demand_no_more_calls(self) -> None:
        """The call that was demanded has been made. Who demands it again gets no answer, but calls for ever."""
        if self._request.tool_choice not in ("auto", "none"):
            self._request = msgspec.structs.replace(self._request, tool_choice="auto")

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
        unmet: Unmet | None = None,
    ) -> RunEnded:
        self.ended = RunEnded(reason, self.conversation, self.usage, pending, limit, hidden_because, unmet)
        return self.ended


class RunOptions(TypedDict, total=False):
    """The options of a run, as `Run` takes them."""

    tools: SomeTools | None
    sampling: Sampling | None
    tool_choice: SomeChoice
    response_format: SomeFormat | None
    effort: ReasoningEffort | str | None
    policy: Policy
    limits: RunLimits | None
    approve: Approver | None
    allow_unverified: bool
    begun: Message | None
    resume: bool
    parallel_calls: bool
    grammar: GrammarUse
    retry_malformed: bool
    guessed: Guessed
    renderer: Renderer | None
    profile: ModelProfile | str | None


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


def _other_seed(seed: int) -> int:
    """Another seed, of the 64 bits that engines take. It is far off, because whoever samples several completions at a
    time gives them seeds that follow each other."""
    return (seed + _SEED_STEP + 2**63) % 2**64 - 2**63
