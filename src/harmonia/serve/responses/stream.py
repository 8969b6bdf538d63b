"""A response while it is made: the run behind it, its events, and what the store gets of it.

1. What a client is told is in the store before it is told: an item when it is done, the end before the terminal event.
   Only that a stream has begun is told while that is being written.
   A store that breaks fails the response.
2. However a response ends, its stream has one terminal event and the store has what came: also where the client left,
   or never read an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, cast

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position, ToolError
from harmonia.events import TextDelta
from harmonia.json_codec import encode_bytes
from harmonia.messages import Message
from harmonia.parts import call_of
from harmonia.run.engines.base import Sampling
from harmonia.run.events import AsSampled, TurnEvent
from harmonia.run.loop import Run
from harmonia.run.options import RunLimits, RunOptions
from harmonia.run.prompt import Prompt
from harmonia.run.tool_calls import may_run
from harmonia.run.tools import ToolResult, ToolSet
from harmonia.run.tools.results import error_result
from harmonia.serve.models.cached_tokens import cache_salt
from harmonia.serve.responses.context import PreparedRequest
from harmonia.serve.responses.conversation import Waiting
from harmonia.serve.responses.output_items import OutputItem
from harmonia.serve.responses.request import LOGPROBS, SEALED_ITEMS
from harmonia.serve.responses.resource import new_resource
from harmonia.serve.responses.writer import ResponseWriter
from harmonia.serve.security.identity import new_id
from harmonia.serve.store import Decision, StoredItem, StoredResponse
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.logprobs import DEFAULT_TEMPERATURE, DEFAULT_TOP_P
from harmonia.serve.wire.schema_errors import locate
from harmonia.serve.wire.trusted_messages import write_messages
from harmonia.serve.wire.validation import unsupported

if TYPE_CHECKING:
    from harmonia.serve.service import Service

_LOG: Final = logging.getLogger("harmonia.serve")
# The step before the first event; see `StartedResponse`.
_UNSEEN: Final = StreamEvent(b"")
_MOST_CALLS: Final = 128
_SAMPLINGS: Final = 4
_SAMPLINGS_WITH_TOOLS: Final = 32


class StartedResponse:
    """A response that was begun; see serve/http/protocols.py."""

    def __init__(
        self, service: Service, asked: PreparedRequest, stack: AsyncExitStack, on_end: Callable[[str], None]
    ) -> None:
        request, caller, settings = asked.request, asked.caller, service.settings
        self.id = new_id("resp")
        self.owner = caller.owner
        self._on_end = on_end
        self._service = service
        self._asked = asked
        self._stack = stack
        self._is_stored = False
        self._end_is_stored = False
        self._is_cancelled = False
        self._is_settled = False
        self._settled: asyncio.Event | None = None  # made for those who wait; thousands of streams have nobody
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
            warnings=asked.warnings,
        )
        self._created_at = created_at
        traits = service.traits
        self._calls_are_certain = traits is None or traits.gives_tokens or settings.calls == "unverified"
        self._seals_items = SEALED_ITEMS in (request.include or ())
        self._writer = ResponseWriter(
            resource,
            asked.offer,
            asked.chosen,
            seal=self._seal,
            clock=service.clock,
            count_messages=self._count_messages,
            dialect=caller.dialect,
            is_streamed=self.wants_stream,
            shows_analysis=settings.analysis == "shown",
            shows_logprobs=request.wants_logprobs,
            seals_items=self._seals_items,
            seal_sampled=self._seal_sampled if self._seals_items else None,
            begun_tokens=asked.begun_tokens,
            calls_are_certain=self._calls_are_certain,
            allows_unverified=settings.calls == "unverified",
            has_form=request.response_format is not None,
            demands_form=request.demands_form,
        )
        self._beginning: asyncio.Future[None] | None = None
        self._stream = self._events()
        # One step, to a yield that nobody sees. From here on whoever closes the generator, or forgets it, settles this.
        with suppress(StopIteration):
            self._stream.asend(None).send(None)

    # ── the contract ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_stream(self) -> bool:
        return bool(self._asked.request.stream)

    @property
    def output_tokens(self) -> int | None:
        return None if self._run is None else self._run.usage.completion_tokens

    @property
    def failure(self) -> Exception | None:
        return self._writer.failure

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
        if not self._is_settled:
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()

    async def result(self) -> bytes:
        """The whole response. One that failed before anything came is an error, as clients expect it."""
        try:
            async for _ in self._stream:
                pass
        finally:
            await self._stream.aclose()
        error = self._writer.failure
        # An item that goes on with another one is there before anything comes of it.
        is_empty = self._asked.begun is not None and len(self._writer.items) == 1 and not self.output_tokens
        if error is not None and (is_empty or self._writer.is_empty):
            raise error
        return self.encoded

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        return self._stream

    async def _events(self) -> AsyncGenerator[StreamEvent, None]:
        writer = self._writer
        try:
            yield _UNSEEN
            for event in writer.start():
                yield event
            try:
                for event in await self._list_servers():
                    yield event
                if writer.is_over:
                    return  # the store failed
                for event in await self._run_approved():
                    yield event
                if writer.is_over:
                    return  # the store failed
                run, first, pulled = await self._begin_run()
                told = writer.feed(first)
                if told:  # it was stopped before it began
                    for event in await self._keep(told):
                        yield event
                    return
                if self._asked.begun is not None:
                    for event in writer.go_on(self._asked.begun):
                        yield event
                delta = writer.delta
                async for happened in pulled:
                    if happened.__class__ is TextDelta:
                        event = delta(cast("TextDelta", happened))
                        if event is not None:
                            yield event
                        continue
                    told = writer.feed(happened)
                    if told:
                        if writer.finished or writer.is_over:
                            told = await self._keep(told)
                        for event in told:
                            yield event
                        if writer.is_over:
                            break
                    if writer.stop_because is not None:
                        run.stop()
            except Exception as error:
                for event in await self._keep(self._fail(error)):
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
                field = "include" if LOGPROBS in (asked.request.include or ()) else "top_logprobs"
                unsupported("the engine behind this server has no log-probabilities", f"$.{field}")
        if not any(each.approves for each in asked.waiting):
            await self._begin_run()
        await self._record_decisions()
        if asked.request.stores:
            self._is_stored = True  # also where this is cancelled: the write may be done all the same
            response = StoredResponse(
                self.id,
                self.owner,
                asked.model,
                "in_progress",
                self._created_at,
                self._writer.encoded,
                asked.request.previous_response_id,
            )
            beginning = self._service.store.begin(response, asked.inputs)
            asked.inputs = []  # a stream may wait for long, and need not hold them
            if self.wants_stream:
                # A stream need not wait for the disk to say that it has begun. No item is told before this is done.
                self._beginning = asyncio.ensure_future(beginning)
                self._beginning.add_done_callback(self._forget_beginning)
            else:
                await beginning

    async def _record_decisions(self) -> None:
        """Record what is decided here about calls that waited, so that nothing is approved twice, or after it was
        refused. From here on an approval is used, whatever becomes of this response."""
        decided = [each for each in self._asked.waiting if each.expires_at is not None]
        if not decided:
            return
        decisions = [Decision(each.request_id, each.expires_at or 0, runs=each.runs) for each in decided]
        used = await self._service.store.decide(self.owner, decisions, int(self._service.clock()))
        for each in decided:
            if each.request_id == used:
                raise InputError(
                    ErrorCode.SERVE_APPROVAL_USED,
                    "this request for an approval was decided before, and an approval works once: send the mcp_call "
                    "that came of it, or let the model make the call again",
                    Position(path=f"{each.path}.approval_request_id"),
                )

    def _forget_beginning(self, beginning: asyncio.Future[None]) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self._beginning = None

    async def begun(self) -> None:
        """Waits until the store knows of the response, or cannot."""
        if self._beginning is not None:
            await asyncio.wait([self._beginning])

    async def _begin_run(self) -> tuple[Run, TurnEvent, AsyncGenerator[TurnEvent, None]]:
        """The run, and its first event: rendering the prompt shows whether the request can be answered at all."""
        if self._run is not None and self._first is not None and self._pulled is not None:
            return self._run, self._first, self._pulled
        asked, service, request = self._asked, self._service, self._asked.request
        limits = service.settings.limits
        most = [each for each in (request.max_output_tokens, limits.output_tokens) if each is not None]
        options = RunOptions(
            tools=asked.chosen.toolset,
            sampling=Sampling(
                temperature=DEFAULT_TEMPERATURE if request.temperature is None else request.temperature,
                top_p=DEFAULT_TOP_P if request.top_p is None else request.top_p,
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
            prefix=asked.begun,
            parallel_calls=request.parallel_tool_calls is not False,
            keep_sampled=self._seals_items and asked.caller.dialect == "openai",
            check_format=False,  # the request reader has checked it, within bounds
            grammar=service.settings.grammar,
            retry_malformed=service.settings.retry_malformed,
            guessed=service.settings.guessed,
            renderer=service.renderer,
            most_cached=self._most_cached,
            cache_salt=cache_salt(self.owner),
        )
        run = Run(service.model, asked.fitted(), options)
        if self._is_cancelled:
            run.stop()
        self._run, self._pulled = run, aiter(run)
        try:
            self._first = await anext(self._pulled)
        except InputError as error:
            form = request.response_format
            schema = None if form is None else form.schema
            raise locate(error, [*asked.offer.schemas, (schema, "$.text.format.schema")]) from error
        return run, self._first, self._pulled

    def _most_samplings(self) -> int:
        """How often the model may be asked again: after its tools, and where it calls what it may not call."""
        if not self._calls_are_certain:
            return 1  # no call is ever certain, so it does not help to ask again
        return _SAMPLINGS_WITH_TOOLS if self._asked.hosted else _SAMPLINGS

    async def _list_servers(self) -> Sequence[StreamEvent]:
        """List the tools of the MCP servers that the request names, and that nobody listed before."""
        events = self._writer.list_servers(self._asked.unlisted_servers())
        return await self._keep(events) if events else events

    async def _run_approved(self) -> Sequence[StreamEvent]:
        """Run the calls that the client approved, before the model is asked."""
        asked, events = self._asked, list[StreamEvent]()
        approved = [each for each in asked.waiting if each.approves]
        if not approved:
            return ()
        results: dict[str, ToolResult] = {}
        # As they were offered, under the same names, but with what runs them.
        running = {(tool.tool.namespace, tool.tool.name): tool.tool for tool in asked.hosted}
        tools = ToolSet(running.get((tool.namespace, tool.name), tool) for tool in asked.offer.toolset)
        for waiting in approved:
            if self._is_cancelled:
                break
            offered = asked.offer.find(waiting.message.recipient or "")
            is_here = offered is not None and offered.server is not None
            result = waiting.by_hand
            if result is None:
                allows = self._service.settings.calls == "unverified"
                result = await _run_one(waiting, tools if is_here else ToolSet(), allow_unverified=allows)
            results[waiting.request_id] = result
            if offered is not None and is_here:
                by_hand = waiting.by_hand is not None
                events += self._writer.add_approved(
                    offered, waiting.request_id, waiting.message, result, by_hand=by_hand
                )
        if results:
            asked.converse(results)
        return await self._keep(events)

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep(self, told: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """What may be told now, because the store has it; where the store fails, so does the response."""
        try:
            await self._save()
        except Exception as error:
            return self._writer.fail_instead(told, error)
        return told

    async def _save(self) -> None:
        """What is finished, into the store. What this does not come to, the next one does."""
        writer = self._writer
        if not self._is_stored:
            writer.finished.clear()
            return
        beginning = self._beginning
        if beginning is not None:
            try:
                await asyncio.shield(beginning)
            except Exception:
                self._is_stored = False
                self._beginning = None
                raise
        store = self._service.store
        while writer.finished:
            item = writer.finished[0]
            await store.add_output(self.id, item.index, _stored(item))
            del writer.finished[0]
        if writer.is_over and not self._end_is_stored:
            await store.finish(self.id, writer.resource["status"], encode_bytes({**writer.resource, "output": []}))
            self._end_is_stored = True

    def _fail(self, error: Exception) -> list[StreamEvent]:
        if self._run is not None:
            self._writer.note_usage(self._run.usage)
        return self._writer.fail(error)

    async def _settle(self) -> None:
        """However it ended: nothing runs any more, and the store knows."""
        writer = self._writer
        try:
            try:
                if self._pulled is not None:
                    await self._pulled.aclose()
            finally:
                if not writer.is_over:
                    if self._run is not None:
                        writer.note_usage(self._run.usage)
                    writer.cancel()  # nobody is there to be told
                await _to_its_end(self._save())
        except Exception as error:
            _LOG.error("the end of a response was untidy: %s", _name_of(error))
        finally:
            try:
                await self._stack.aclose()
            except Exception as error:
                _LOG.error("a tool of a response could not be closed: %s", _name_of(error))
            finally:
                self._is_settled = True
                if self._settled is not None:
                    self._settled.set()
                self._on_end(self.id)

    def _seal(self, messages: Sequence[Message], bound_to: bytes) -> str:
        return self._service.seals.seal_messages(
            messages, owner=self.owner, model=self._service.model_names[0], bound_to=bound_to
        )

    def _seal_sampled(self, sampled: AsSampled) -> str:
        return self._service.seals.seal_sampled(sampled, owner=self.owner, model=self._service.model_names[0])

    def _most_cached(self, prompt: Prompt, begun: Message | None, sampled: Sequence[Message]) -> int:
        return self._service.sent_prompts.explain(self.owner, prompt, begun, sampled, self._asked.written)

    def _count_messages(self) -> int:
        assert self._run is not None
        return len(self._run.conversation)


def _stored(item: OutputItem) -> StoredItem:
    return StoredItem(item.id, encode_bytes(item.wire), write_messages(item.messages) if item.messages else None)


async def _run_one(waiting: Waiting, tools: ToolSet, *, allow_unverified: bool) -> ToolResult:
    call = call_of(waiting.message)
    assert call is not None
    # A person may have changed the arguments; that the model made the call is said by the call that it made.
    sampled = None if waiting.sampled is None else call_of(waiting.sampled)
    try:
        if sampled is None or not may_run(sampled, allow_unverified=allow_unverified):
            raise ToolError(ErrorCode.TOOL_NOT_CERTAIN, "it was not run: the model did not certainly make this call")
        return await tools.run(call, timeout_s=RunLimits().call_time_s)
    except HarmonyError as error:
        return error_result(error)


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Wait for it, also where whoever waits is cancelled; that they are is said afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


def _name_of(error: Exception) -> str:
    """An error for the log. The words of a bug may have what a model said."""
    return error.code.value if isinstance(error, HarmonyError) else type(error).__name__
