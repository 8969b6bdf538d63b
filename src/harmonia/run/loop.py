"""The run: render, sample, parse, run the tools, and again until there is an answer. One stream of events for all.

    async for event in run(engine, "What is the weather in Paris?", tools=[get_weather]): ...

    prompt -> sample -> settle -> calls ─┐      each phase may end the run instead
       ^                                 │
       └─────────────────────────────────┘

1. `Run.conversation` is consistent whenever the run ends, also by a cancellation or an error: every message in it is
   whole or renders as one, and every call has its result, except calls that are handed to the consumer of the run.
2. What was sampled goes into the next prompt as the same tokens.
3. A fault of the model, and an error of a tool, are part of the stream. Only errors of the engine and of the caller
   are raised, and what came before them is kept.
4. What is demanded of the model (a tool choice, a response format, a strict tool) is enforced by an engine that takes
   a grammar. With any other it is validated before it is passed on, retried once, and reported; see
   constraints/attempts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from types import AsyncGeneratorType
from typing import Unpack, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError
from harmonia.events import Event, MessageEnded, TurnEnded
from harmonia.grammar import WrittenGrammar
from harmonia.messages import Conversation, Message, call_id
from harmonia.parts import call_of, visible_text
from harmonia.renderer import shared_prefix
from harmonia.run.cancellation import Cancellation, find_task
from harmonia.run.constraints.attempts import Attempts, HeldEvents, Verdict, callable_tools_of
from harmonia.run.engines.base import Chunk, Finish, Request, Usage
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
from harmonia.run.options import (
    RunChanges,
    RunOptions,
    SomeTools,
    check_model,
    check_strict_tools,
    check_text_forms,
    chosen_tools,
    known_format,
    tool_set,
    with_changes,
)
from harmonia.run.sampling import (
    Completion,
    Model,
    Pieces,
    Prompt,
    Source,
    compose,
    declared_namespaces,
    invalid_option,
    known_effort,
    sort_out,
    take_last,
)
from harmonia.run.tool_calls import Calls
from harmonia.run.tools import ToolSet

SomeConversation = Conversation | Iterable[Message] | str

_ENDS = frozenset((MessageEnded, TurnEnded))
_SEED_STEP = 1_000_003
# The engine did not stop at <|return|>, or at the one call that was asked for, so the run stops it. What follows is not
# part of the answer.
_WENT_ON = Finish("stop", notes=("the engine continued after the end of the turn and was stopped",))

# The model was told once and repeats the calls; it would do so until a limit is reached.
_NO_APPROVER = "the model keeps making calls that are read from text, and no approver is configured"
# Why there is nothing to read, where the completion had something to show or to call.
_LEFT_OUT = "everything the model sent was left out of the conversation, because it may not be part of one"


class _Sampling:
    """One sampling: what the model was asked, and what came."""

    def __init__(
        self, started: SamplingStarted, prompt: Prompt, grammar: WrittenGrammar | None, held: HeldEvents | None
    ) -> None:
        self.started, self.prompt, self.grammar, self.held = started, prompt, grammar, held
        self.completion: Completion
        self.stream: Pieces
        self.finish: Finish | None = None
        self.verdict = Verdict()
        self.is_settled = False


class Run:
    """A conversation on its way to an answer. Iterate it once; `conversation` and `usage` are up to date throughout.

    Leaving the loop early stops the engine as soon as the generator is closed; with `async with run:` that is at once.
    """

    def __init__(
        self,
        model: Model,
        conversation: SomeConversation,
        options: RunOptions | None = None,
        *,
        tools: SomeTools | None = None,
        **changes: Unpack[RunChanges],
    ) -> None:
        check_model(model)
        options = with_changes(options, changes)
        if isinstance(conversation, str):
            conversation = [Message.user(conversation)]
        given = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        toolset = None if tools is None else tool_set(tools)
        # Tools that only the conversation declares are the caller's to run.
        known = toolset if toolset is not None else ToolSet(declared_namespaces(given))
        prefix = options.prefix
        if options.resume:
            given, prefix = take_last(given)
        check_text_forms(known)  # as the caller gave them: other families do not take text
        self._source = Source(
            model,
            known,
            profile=options.profile,
            policy=options.policy,
            renderer=options.renderer,
            one_call=not options.parallel_calls,
            keeps_sampled=options.keep_sampled,
            shows_guessed=options.guessed == "shown",
        )
        if prefix is not None:
            self._source.check_prefix()
        known = self._source.tools
        self.model = model
        self.response_format = known_format(options.response_format, is_checked=not options.check_format)
        check_strict_tools(known)
        self.conversation = compose(
            given, None if toolset is None else known, effort=options.effort, response_format=self.response_format
        )
        self.usage = Usage()
        self.ended: RunEnded | None = None
        self._options = options
        self._limits = options.limits
        self._tools, choice = chosen_tools(options.tool_choice, known)
        self._request = Request(
            options.sampling,
            callable_tools_of(self._tools),
            choice,
            self.response_format,
            None if options.effort is None else known_effort(options.effort),
            allowed=self._tools.allowed,
            parallel_calls=options.parallel_calls,
            cache_salt=options.cache_salt,
        )
        # An engine that enforces nothing lets the model call all the same; then the call is not run.
        self._runnable = self._tools.allow([]) if choice == "none" else self._tools
        self._prefix = prefix
        self._attempts = Attempts(
            self._tools,
            self.response_format,
            takes_grammar=self._source.takes_grammar,
            takes_prefix=self._source.takes_headers,
            grammar=options.grammar,
            retry_malformed=options.retry_malformed,
        )
        self._cancellation = Cancellation()
        self._events: AsyncGenerator[TurnEvent, None] | None = None
        self._samplings = 0  # second attempts counted
        self._prompt_before: list[int] = []
        self._asked_at = len(self.conversation)  # how many messages the first attempt at a completion followed
        self._calls_made = 0
        self._lacked_approval = False  # the calls before were not run, because there was no approver
        self._open_calls: tuple[PendingCall, ...] = ()  # calls in the conversation that have no result yet

    def __aiter__(self) -> AsyncGenerator[TurnEvent, None]:
        if self._events is not None:
            raise invalid_option("a run can be iterated once; make another one")
        self._events = self._run()
        self._cancellation.generator = cast("AsyncGeneratorType[TurnEvent, None]", self._events)
        return self._events

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the engine and the tools, and leave the conversation consistent."""
        if self._events is not None:
            if cast("AsyncGeneratorType[TurnEvent, None]", self._events).ag_running:
                raise invalid_option("another task is reading this run; call stop(), or cancel that task")
            await self._events.aclose()

    def stop(self) -> None:
        """End the run soon, from the same thread: what came is kept, and the stream ends with a RunEnded."""
        self._cancellation.cancel("stopped")

    async def result(self) -> RunEnded:
        """The end of the run, for callers who do not need the events."""
        async for _ in self:
            pass
        assert self.ended is not None
        return self.ended

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> AsyncGenerator[TurnEvent, None]:
        cancellation = self._cancellation
        loop = asyncio.get_running_loop()
        cancellation.start_timer(self._limits.time_s)
        try:
            # Prompt.
            while (sampling := await self._prepare()) is not None:
                yield sampling.started
                # Sample. It stands here and not in a generator of its own, which would cost more than parsing does.
                completion, held = sampling.completion, sampling.held
                finish: Finish | None = None
                events: Sequence[Event] | None = None  # of the last piece that came
                try:
                    for event in completion.opening if self._attempts.has_prefix else ():
                        yield event
                    # This loop runs once a chunk, which may be once a token: no layer, no timeout, no task in between.
                    pull, feed = sampling.stream.__anext__, completion.feed
                    while cancellation.reason is None:
                        cancellation.waiting = find_task(loop)
                        try:
                            piece = await pull()
                        except StopAsyncIteration:
                            break
                        except asyncio.CancelledError:
                            if cancellation.caught():
                                break
                            raise
                        except (EngineError, InputError) as error:
                            if events is not None or not self._drop_grammar(sampling, error):
                                raise
                            completion, held = sampling.completion, sampling.held
                            pull, feed = sampling.stream.__anext__, completion.feed
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
                                for passed in (given,) if held is None else held.push(given):
                                    yield passed
                            events = feed(tokens[0] if count == 1 else tokens if count else piece.text)
                        elif isinstance(piece, Finish):
                            # After <|return|> it does not matter why else the engine stopped.
                            finish = msgspec.structs.replace(piece, reason="stop") if completion.is_over else piece
                            break
                        elif completion.is_over:
                            continue  # a provider continues after the one call that was wanted; its usage comes last
                        else:
                            events = (piece,)
                        for event in events:
                            if event.__class__ in _ENDS:
                                completion.note(cast("MessageEnded | TurnEnded", event))
                                if completion.is_over and event is not events[-1]:
                                    finish = _WENT_ON  # in the same chunk
                                    completion.note_late(events[events.index(event) + 1 :])
                            if held is None:
                                yield event
                            else:
                                for passed in held.push(event):
                                    yield passed
                            if finish is not None:
                                break
                        if finish is not None:
                            break
                    cancellation.end_wait()
                    await sampling.stream.aclose()
                    for event in completion.end(None if finish is None else finish.reason):
                        for passed in (event,) if held is None else held.push(event):
                            yield passed
                    sampling.verdict = await self._attempts.judge(completion.messages, finish)
                    sampling.finish, sampling.is_settled = finish, True
                except Exception as error:
                    cancellation.end_wait()
                    # What came is kept, and the consumer sees where it broke.
                    for event in () if held is None else held.release():
                        yield event
                    for event in completion.end(None):
                        yield event
                    if isinstance(error, InputError) and error.code is ErrorCode.PARSE_INVALID_CHUNK:
                        raise EngineError(ErrorCode.ENGINE_BAD_ANSWER, error.message, error.at) from error
                    raise
                finally:
                    cancellation.end_wait()
                    if not sampling.is_settled:
                        await self._abandon(sampling)
                # Settle.
                if (given_up := self._give_up(sampling)) is not None:
                    yield given_up
                    continue
                ended = self._keep(sampling)
                for event in () if held is None else held.release():
                    yield event
                yield ended
                if (run_ended := self._end_of_sampling(sampling, ended)) is not None:
                    yield run_ended
                    return
                # Calls.
                calls = self._take_up(self._open_calls)
                try:
                    async with aclosing(calls.run()) as call_events:
                        async for event in call_events:
                            yield event
                finally:
                    self._answer(calls)
                if (run_ended := self._end_of_calls(calls)) is not None:
                    yield run_ended
                    return
            yield self._end_cancelled()
        finally:
            cancellation.stop_timer()
            self._answer_open_calls()

    # ── prompt ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _prepare(self) -> _Sampling | None:
        """Ask the model; None where the run was cancelled first."""
        if self._cancellation.reason is not None:
            return None
        attempts = self._attempts
        grammar = await attempts.begin(self._request.tool_choice, self._prefix)
        if not attempts.is_second:
            self._asked_at = len(self.conversation)
        # A long prompt is rendered in a thread, so that others in this process need not wait.
        make = partial(self._source.build, self.conversation, self._prefix, asked_at=self._asked_at)
        is_long = self._source.is_long(self.conversation, self._prefix)
        prompt = await self._cancellation.wait_for(asyncio.to_thread(make)) if is_long else make()
        if prompt is None:
            return None
        shared = shared_prefix(self._prompt_before, prompt.tokens)
        given = len(prompt.given) if attempts.has_prefix else 0
        started = SamplingStarted(self._samplings, len(prompt.tokens), shared, prompt.dropped, given)
        self._samplings += 1
        self._prompt_before = prompt.tokens
        sampling = _Sampling(started, prompt, grammar, attempts.held)
        sampling.completion, sampling.stream = self._open(prompt, grammar)
        return sampling

    def _open(self, prompt: Prompt, grammar: WrittenGrammar | None) -> tuple[Completion, Pieces]:
        sampling = self._options.sampling
        if self._limits.tokens is not None:
            left = self._limits.tokens - self.usage.completion_tokens
            most = sampling.max_tokens
            sampling = msgspec.structs.replace(sampling, max_tokens=left if most is None else min(left, most))
        if self._attempts.is_second and sampling.seed is not None:
            # The same seed would give the same completion. The other is within the 64 bits that engines take, and far
            # off, because several completions that are sampled at a time have consecutive seeds.
            other = (sampling.seed + _SEED_STEP + 2**63) % 2**64 - 2**63
            sampling = msgspec.structs.replace(sampling, seed=other)
        return self._source.open(prompt, msgspec.structs.replace(self._request, sampling=sampling, grammar=grammar))

    # ── sample: what happens seldom ─────────────────────────────────────────────────────────────────────────────

    def _drop_grammar(self, sampling: _Sampling, error: HarmonyError) -> bool:
        """Whether the engine refused the grammar. Then it is asked without one, and the completion is validated."""
        if sampling.grammar is None or not self._attempts.drop_grammar(error):
            return False
        sampling.grammar, sampling.held = None, self._attempts.held
        sampling.completion, sampling.stream = self._open(sampling.prompt, None)
        return True

    async def _abandon(self, sampling: _Sampling) -> None:
        """The sampling broke, or the consumer left: stop the engine, and keep what came."""
        try:
            await sampling.stream.aclose()
        finally:
            sampling.completion.end(None)
            self._keep(sampling)

    # ── settle ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _give_up(self, sampling: _Sampling) -> SamplingGivenUp | None:
        """Where the completion is not what was demanded and another attempt is possible: keep what was passed on,
        discard the rest, and prepare that attempt."""
        completion, finish, held, unmet = sampling.completion, sampling.finish, sampling.held, sampling.verdict.unmet
        may_retry = self._cancellation.reason is None and not self._has_used_tokens(completion.sampled_tokens)
        if held is None or unmet is None or finish is None or not held.can_discard or not may_retry:
            return None
        kept, left_out = self._add(completion.messages[: held.passed_messages], is_cut=False)
        discarded = tuple(completion.messages[held.passed_messages :])
        first = discarded[0].origin if discarded else None
        start = None if first is None else first.header.start_token
        given_up = SamplingGivenUp(
            unmet,
            finish.reason,
            self._count(sampling, kept),
            kept,
            (*left_out, *discarded),
            0 if start is None else max(completion.sampled_tokens - start, 0),
            self._notes(finish, None),
            completion.as_sampled,
        )
        self._prefix = self._attempts.give_up(unmet)
        return given_up

    def _keep(self, sampling: _Sampling) -> SamplingEnded:
        """Take the completion into the conversation."""
        completion, finish = sampling.completion, sampling.finish
        verdict = sampling.verdict if sampling.is_settled else None
        is_cut = finish is None or finish.reason == "length"
        kept, left_out = self._add(completion.messages, is_cut=is_cut)
        usage = self._count(sampling, kept)
        self._open_calls = self._pending(kept)
        unverified = self._source.notes_on(self._request)
        if verdict is not None and not is_cut:
            # A call that was demanded and does not fit is made all the same where another may decide about it.
            unmet = verdict.unmet if self._open_calls else None
            misfit = (unmet.message,) if unmet is not None and unmet.kind == "call" else ()
            unverified += (*self._attempts.notes, *verdict.notes, *misfit)
        reason, cancelled = "unknown" if finish is None else finish.reason, self._cancellation.reason
        if finish is None and cancelled is not None:
            reason = "stopped" if cancelled == "stopped" else "limit"
        notes = self._notes(finish, verdict)
        return SamplingEnded(reason, usage, kept, left_out, notes, completion.as_sampled, unverified)

    def _add(self, messages: Sequence[Message], *, is_cut: bool) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Add messages to the conversation; returns those that were added, and those that may not be."""
        kept, left_out = sort_out(messages, self._source.renderer, is_cut=is_cut)
        self.conversation = self.conversation.add(*kept)
        return kept, left_out

    def _count(self, sampling: _Sampling, kept: Sequence[Message]) -> Usage:
        usage = sampling.finish.usage if sampling.finish is not None else None
        if usage is None:
            usage = Usage(len(sampling.prompt.tokens), sampling.completion.sampled_tokens)
        if self._options.most_cached is not None:
            most = self._options.most_cached(sampling.prompt, self._prefix, kept)
            usage = msgspec.structs.replace(usage, cached_tokens=min(usage.cached_tokens, most))
        self.usage += usage
        return usage

    def _notes(self, finish: Finish | None, verdict: Verdict | None) -> tuple[str, ...]:
        """What the engine reports, what no grammar enforces, and what is missing."""
        reported = () if finish is None else finish.notes
        notes = (*reported, *self._source.notes_on(self._request), *self._attempts.notes)
        if verdict is not None:
            notes += (*verdict.notes, *(() if verdict.unmet is None else (verdict.unmet.message,)))
        return notes

    def _end_of_sampling(self, sampling: _Sampling, ended: SamplingEnded) -> RunEnded | None:
        """The end of the run, unless there are calls to run here."""
        self._prefix = None
        self._attempts.settle()
        if self._cancellation.reason is not None:
            return self._end_cancelled()
        pending, unmet = self._open_calls, sampling.verdict.unmet
        # A call that does not fit gets that as its result, and malformed output ends as any that shows nothing.
        if unmet is not None and unmet.kind != "malformed" and not (unmet.kind == "call" and pending):
            self._answer_open_calls()
            return self._end("unmet", unmet=unmet)
        if not pending:
            return self._end_answered(ended, sampling.completion)
        if not self._options.run_calls:
            self._open_calls = ()
            return self._end("calls", pending=pending)
        return None

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _pending(self, messages: tuple[Message, ...]) -> tuple[PendingCall, ...]:
        calls = ((message, call_of(message, self._source.declared)) for message in messages)
        found = enumerate(calls, len(self.conversation) - len(messages))
        return tuple(PendingCall(call_id(at), call, message) for at, (message, call) in found if call is not None)

    def _take_up(self, pending: tuple[PendingCall, ...]) -> Calls:
        most = self._limits.calls
        most = None if most is None else most - self._calls_made
        trust = (self._options.approve, self._options.allow_unverified)
        return Calls(list(pending), self._runnable, *trust, self._limits.call_time_s, most, self._cancellation)

    def _answer_open_calls(self) -> None:
        """The run ends, so these calls will not be run any more."""
        if self._open_calls:
            self._answer(self._take_up(self._open_calls))

    def _answer(self, calls: Calls) -> None:
        """Add the results to the conversation; a call without one was stopped."""
        self._open_calls = ()
        self._calls_made += calls.count
        messages = list(self.conversation)
        for id, edited in calls.edited.items():
            messages[int(id.removeprefix("call_"))] = edited
        self.conversation = Conversation([*messages, *calls.settle()])

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end_of_calls(self, calls: Calls) -> RunEnded | None:
        """The end of the run, unless the model is to see the results."""
        limits, samplings = self._limits, self._samplings - self._attempts.given_up
        if self._cancellation.reason is not None:
            return self._end_cancelled(calls.handed_over)
        if calls.handed_over:
            return self._end("calls", pending=calls.handed_over)
        if self._request.tool_choice not in ("auto", "none"):
            # The demanded call has been made. Demanding it again would give calls for ever and never an answer.
            self._request = msgspec.structs.replace(self._request, tool_choice="auto")
        if calls.hit_limit:
            return self._end("limit", limit="calls")
        if limits.samplings is not None and samplings >= limits.samplings:
            return self._end("limit", limit="samplings")
        if self._has_used_tokens():
            return self._end("limit", limit="tokens")
        if calls.lack_approval and self._lacked_approval:
            return self._end("silent", hidden_because=_NO_APPROVER)
        self._lacked_approval = calls.lack_approval
        return None

    def _has_used_tokens(self, more: int = 0) -> bool:
        return self._limits.tokens is not None and self.usage.completion_tokens + more >= self._limits.tokens

    def _end_answered(self, ended: SamplingEnded, completion: Completion) -> RunEnded:
        if ended.reason == "length":
            return self._end("limit", limit="tokens") if self._has_used_tokens() else self._end("length")
        origin = ended.messages[-1].origin if ended.messages else None
        if ended.reason == "unknown" and origin is not None and origin.stop is None:
            return self._end("cut_off")
        if visible_text(ended.messages).strip():
            return self._end("answered")
        because = completion.hidden_because or (_LEFT_OUT if ended.left_out else "there is no text")
        return self._end("silent", hidden_because=because)

    def _end_cancelled(self, pending: tuple[PendingCall, ...] = ()) -> RunEnded:
        self._answer_open_calls()
        is_late = self._cancellation.reason == "time"
        return self._end("limit", pending, "time") if is_late else self._end("stopped", pending)

    def _end(
        self,
        reason: RunEnd,
        pending: tuple[PendingCall, ...] = (),
        limit: LimitName | None = None,
        hidden_because: str | None = None,
        unmet: Unmet | None = None,
    ) -> RunEnded:
        self.ended = RunEnded(reason, self.conversation, self.usage, pending, limit, hidden_because, unmet)
        return self.ended


# Run a conversation until the model has answered, its tools included. Options are given as one value, as keywords, or
# both: a keyword changes the value.
run = Run


def run_turn(
    model: Model,
    conversation: SomeConversation,
    options: RunOptions | None = None,
    *,
    tools: SomeTools | None = None,
    **changes: Unpack[RunChanges],
) -> Run:
    """Ask the model once. Its calls are left to the caller: the run then ends with the reason "calls"."""
    return Run(model, conversation, options, tools=tools, **{**changes, "run_calls": False})
