"""The service of /v1/responses: create, retrieve, delete, cancel, list input items, count input tokens.

1. What a client hears of is already in the store: an item when it is done, the end before the terminal event. Only
   `response.created` is sent while it is being stored. If the store fails, the response fails.
2. However a response ends, its stream has one terminal event and the store has what came, even if the client left or
   never read an event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final, cast
from weakref import WeakValueDictionary

from harmonia.errors import ErrorCode, HarmonyError, InputError, ToolError
from harmonia.events import TextDelta
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.parts import call_of
from harmonia.run.engines.base import Sampling
from harmonia.run.events import TurnEvent
from harmonia.run.loop import Run
from harmonia.run.options import RunLimits, RunOptions
from harmonia.run.tool_calls import may_run
from harmonia.run.tools import ToolResult, ToolSet
from harmonia.run.tools.results import error_result
from harmonia.serve.responses.conversation import DecidedCall
from harmonia.serve.responses.items.base import visible_item
from harmonia.serve.responses.prepared_request import Backend, PreparedRequest
from harmonia.serve.responses.request import LOGPROBS, read_request
from harmonia.serve.responses.writer import ResponseWriter
from harmonia.serve.security.keys import Caller, new_id
from harmonia.serve.security.trusted_messages import write_messages
from harmonia.serve.store.base import Decision, StoredItem, StoredResponse
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.request_tools import locate
from harmonia.serve.wire.token_usage import DEFAULT_TEMPERATURE, DEFAULT_TOP_P
from harmonia.serve.wire.validation import Query, check_query, invalid, limit_of, one_of, refuse, unsupported

_LOG: Final = logging.getLogger("harmonia.serve")
_MOST_INPUT_ITEMS: Final = 100
_MOST_CALLS: Final = 128
# What a stream yields before its first event; see `_started`.
_NOT_SENT: Final = StreamEvent(b"")


class Responses:
    """All responses of a server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Weak: a response that nobody reads any more ends.
        self._running: WeakValueDictionary[str, StartedResponse] = WeakValueDictionary()

    async def prepare(self, value: object, caller: Caller, stack: AsyncExitStack) -> PreparedRequest:
        """Read a request. The stack closes what was opened for it."""
        return await PreparedRequest(read_request(value), caller, self._backend).read(stack)

    async def create(self, value: object, caller: Caller) -> StartedResponse:
        """Start a response. Raises if the request is wrong; after that, everything is reported by events."""
        async with AsyncExitStack() as stack:
            prepared = await self.prepare(value, caller, stack)
            started = StartedResponse(self._backend, prepared, stack.pop_all(), self._running)
        try:
            await started.begin()
        except BaseException:
            await started.events().aclose()
            raise
        self._running[started.id] = started
        return started

    async def retrieve(self, response_id: str, caller: Caller, query: Query | None = None) -> bytes:
        """A stored response as it is now."""
        query = query or {}
        check_query(query, ("include", "include[]", "stream", "starting_after", "include_obfuscation"))
        if query.get("stream") in ("true", "1"):
            unsupported("a stored response cannot be streamed again; leave stream out", "$.stream")
        running = self._owned(response_id, caller)
        if running is not None:
            await running.wait_until_stored()
        turn = await self._backend.store.load(caller.owner, response_id)
        if turn is None:
            raise _no_response(response_id)
        body: Json = json.loads(turn.response.body)
        body["output"] = [json.loads(visible_item(item.wire, self._backend.settings)) for item in turn.outputs]
        return encode_bytes(body)

    async def delete(self, response_id: str, caller: Caller) -> bytes:
        """Delete a response and everything in it. One that is running is cancelled first."""
        running = self._owned(response_id, caller)
        if running is not None:
            await running.stop_and_wait()
        if not await self._backend.store.delete(caller.owner, response_id):
            raise _no_response(response_id)
        return encode_bytes({"id": response_id, "object": "response", "deleted": True})

    async def cancel(self, response_id: str, caller: Caller) -> bytes:
        """End a running response, and give it as it is then. One that has ended stays as it is."""
        running = self._owned(response_id, caller)
        if running is not None:
            await running.stop_and_wait()
            return running.encoded
        return await self.retrieve(response_id, caller)

    async def input_items(self, response_id: str, caller: Caller, query: Query | None = None) -> bytes:
        """The input of a response, a page at a time."""
        query = query or {}
        check_query(query, ("after", "before", "limit", "order", "include", "include[]"))
        if "before" in query:
            unsupported("pages only go forward; use after", "$.before")
        order = one_of(query, "order") or "desc"
        if order not in ("asc", "desc"):
            invalid(f"order must be asc or desc, got {order!r}", "$.order")
        limit, after = limit_of(query, _MOST_INPUT_ITEMS), one_of(query, "after")
        page = await self._backend.store.input_items(caller.owner, response_id, after=after, limit=limit, order=order)
        if page is None:
            raise _no_response(response_id)
        items = [visible_item(item.wire, self._backend.settings) for item in page.items]
        ids = [item.id for item in page.items]
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        head = encode_bytes({"object": "list", "first_id": first, "last_id": last, "has_more": page.has_more})
        return head[:-1] + b',"data":[' + b",".join(items) + b"]}"

    async def input_tokens(self, value: object, caller: Caller) -> bytes:
        """How many tokens the prompt of a request has."""
        async with AsyncExitStack() as stack:
            prepared = await self.prepare(value, caller, stack)
            count = await asyncio.to_thread(prepared.count_tokens)  # a long prompt takes time
            return encode_bytes({"object": "response.input_tokens", "input_tokens": count})

    def _owned(self, response_id: str, caller: Caller) -> StartedResponse | None:
        running = self._running.get(response_id)
        return running if running is not None and running.owner == caller.owner else None


def _no_response(response_id: str) -> InputError:
    return InputError(ErrorCode.SERVE_NOT_FOUND, f"no stored response has the id {response_id[:100]!r}")


class StartedResponse:
    """A response that has started; see `Generation` in serve/http/running_requests.py."""

    def __init__(
        self,
        backend: Backend,
        prepared: PreparedRequest,
        stack: AsyncExitStack,
        running: WeakValueDictionary[str, StartedResponse],
    ) -> None:
        self.id = new_id("resp")
        self.owner = prepared.caller.owner
        self._all_running = running
        self._backend = backend
        self._prepared = prepared
        self._stack = stack
        self._is_stored = False
        self._end_is_stored = False
        self._is_cancelled = False
        self._is_settled = False
        self._settled: asyncio.Event | None = None  # made for those who wait; most of thousands of streams have none
        self._first: TurnEvent | None = None
        self._pulled: AsyncGenerator[TurnEvent, None] | None = None
        self._writer = ResponseWriter(backend, prepared, self.id)
        self._beginning: asyncio.Future[None] | None = None
        self._stream = _started(self._events())

    # ── the contract ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_stream(self) -> bool:
        return bool(self._prepared.request.stream)

    @property
    def output_tokens(self) -> int | None:
        return None if self._writer.run is None else self._writer.run.usage.completion_tokens

    @property
    def failure(self) -> Exception | None:
        return self._writer.failure

    @property
    def encoded(self) -> bytes:
        """The response as it is now."""
        return encode_bytes(self._writer.resource)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._writer.run is not None:
            self._writer.run.stop()

    async def stop_and_wait(self) -> None:
        self.cancel()
        if not self._is_settled:
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()

    async def result(self) -> bytes:
        """The whole response. If it failed before anything came, the error is raised, as clients expect."""
        try:
            async for _ in self._stream:
                pass
        finally:
            await self._stream.aclose()
        error = self._writer.failure
        # The item that continues another one is there before the model has written anything.
        is_empty = self._prepared.prefix is not None and len(self._writer.items) == 1 and not self.output_tokens
        if error is not None and (is_empty or self._writer.is_empty):
            raise error
        return self.encoded

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        return self._stream

    async def _events(self) -> AsyncGenerator[StreamEvent, None]:
        writer = self._writer
        try:
            yield _NOT_SENT
            for event in writer.start():
                yield event
            try:
                listed = writer.list_servers(self._prepared.unlisted_servers())
                for event in await self._save_before(listed):
                    yield event
                if not writer.is_over:  # the store has not failed
                    for event in await self._save_before(await self._run_approved()):
                        yield event
                if writer.is_over:
                    return
                run, first, pulled = await self._begin_run()
                events = writer.feed(first)
                if events:  # it was stopped before it began
                    for event in await self._save_before(events):
                        yield event
                    return
                if self._prepared.prefix is not None:
                    for event in writer.continue_message(self._prepared.prefix):
                        yield event
                delta = writer.delta
                async for happened in pulled:
                    if happened.__class__ is TextDelta:  # once a token: no layer in between
                        event = delta(cast("TextDelta", happened))
                        if event is not None:
                            yield event
                        continue
                    events = writer.feed(happened)
                    if events:
                        if writer.unsaved or writer.is_over:
                            events = await self._save_before(events)
                        for event in events:
                            yield event
                        if writer.is_over:
                            break
                    if writer.stop_because is not None:
                        run.stop()
            except Exception as error:
                for event in await self._save_before(writer.fail(error)):
                    yield event
        finally:
            await self._settle()

    # ── beginning ───────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self) -> None:
        """Raise whatever is wrong with the request, and store that the response is in progress."""
        prepared = self._prepared
        request = prepared.request
        if request.wants_logprobs and not self._backend.served.gives_logprobs:
            field = "include" if LOGPROBS in (request.include or ()) else "top_logprobs"
            unsupported("the engine of this server does not return log-probabilities; leave this out", f"$.{field}")
        if not any(each.approves for each in prepared.decided):
            await self._begin_run()
        await self._record_decisions()
        if request.store is not False:
            self._is_stored = True  # even if this is cancelled: the write may still be done
            created_at, body, previous = self._writer.created_at, self.encoded, request.previous_response_id
            model, status = prepared.model, "in_progress"
            response = StoredResponse(self.id, self.owner, model, status, created_at, body, previous)
            beginning = self._backend.store.begin(response, prepared.inputs)
            prepared.inputs = []  # a stream may wait for long, and need not hold them
            if self.wants_stream:
                # A stream need not wait for the disk before `response.created`. No item is sent before this is done.
                self._beginning = asyncio.ensure_future(beginning)
                self._beginning.add_done_callback(self._note_beginning)
            else:
                await beginning

    async def _record_decisions(self) -> None:
        """Store what the request decides about waiting calls, so that nothing is approved twice, or after it was
        refused. From here on an approval is used, whatever becomes of this response."""
        decided = [each for each in self._prepared.decided if each.expires_at is not None]
        if not decided:
            return
        decisions = [
            Decision(each.request_id, each.expires_at or 0, runs=each.approves and each.by_hand is None)
            for each in decided
        ]
        used = await self._backend.store.decide(self.owner, decisions, int(self._backend.clock()))
        for each in decided:
            if each.request_id == used:
                message = (
                    "this approval request was decided before, and an approval works once: send the mcp_call that came "
                    "of it, or let the model make the call again"
                )
                refuse(ErrorCode.SERVE_APPROVAL_USED, message, f"{each.path}.approval_request_id")

    def _note_beginning(self, beginning: asyncio.Future[None]) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self._beginning = None

    async def wait_until_stored(self) -> None:
        """Wait until the store knows of the response, or has failed to."""
        if self._beginning is not None:
            await asyncio.wait([self._beginning])

    async def _begin_run(self) -> tuple[Run, TurnEvent, AsyncGenerator[TurnEvent, None]]:
        """The run, and its first event: only rendering the prompt shows whether the request can be answered at all."""
        if self._writer.run is not None and self._first is not None and self._pulled is not None:
            return self._writer.run, self._first, self._pulled
        prepared, served = self._prepared, self._backend.served
        request, limits = prepared.request, self._backend.settings.limits
        most = [each for each in (request.max_output_tokens, limits.output_tokens) if each is not None]
        options = RunOptions(
            sampling=Sampling(
                temperature=DEFAULT_TEMPERATURE if request.temperature is None else request.temperature,
                top_p=DEFAULT_TOP_P if request.top_p is None else request.top_p,
                presence_penalty=request.presence_penalty,
                frequency_penalty=request.frequency_penalty,
                logprobs=(request.top_logprobs or 0) if request.wants_logprobs else None,
            ),
            tool_choice=prepared.tool_choice,
            response_format=request.response_format,
            effort=request.effort,
            limits=RunLimits(
                samplings=served.most_samplings(has_tools=bool(prepared.hosted)),
                calls=request.max_tool_calls or _MOST_CALLS,
                tokens=min(most) if most else None,
                time_s=limits.request_s,
            ),
            prefix=prepared.prefix,
            parallel_calls=request.parallel_tool_calls is not False,
            keep_sampled=request.seals_items and prepared.caller.dialect == "openai",
        )
        tools, written = prepared.allowed_tools, prepared.written
        run = served.run(prepared.fitted(), tools, options, owner=self.owner, written=written)
        if self._is_cancelled:
            run.stop()
        self._writer.run, self._pulled = run, aiter(run)
        try:
            self._first = await anext(self._pulled)
        except InputError as error:
            raise locate(error, prepared.tools, request.response_format, "$.text.format.schema") from error
        return run, self._first, self._pulled

    async def _run_approved(self) -> Sequence[StreamEvent]:
        """Run the calls that the client approved, before the model is asked."""
        prepared, events = self._prepared, list[StreamEvent]()
        approved = [each for each in prepared.decided if each.approves]
        if not approved:
            return ()
        results: dict[str, ToolResult] = {}
        # As they were offered, under the same names, but with what runs them.
        running = {(tool.tool.namespace, tool.tool.name): tool.tool for tool in prepared.hosted}
        tools = ToolSet(running.get((tool.namespace, tool.name), tool) for tool in prepared.tools)
        for decided in approved:
            if self._is_cancelled:
                break
            tool = prepared.tools.find(decided.message.recipient or "")
            is_here = tool is not None and tool.server is not None
            result = decided.by_hand or await self._run_one(decided, tools if is_here else ToolSet())
            results[decided.request_id] = result
            if tool is not None and is_here:
                by_hand = decided.by_hand is not None
                events += self._writer.add_approved(tool, decided.request_id, decided.message, result, by_hand=by_hand)
        if results:
            prepared.converse(results)
        return events

    async def _run_one(self, decided: DecidedCall, tools: ToolSet) -> ToolResult:
        call = call_of(decided.message)
        assert call is not None
        # A person may have changed the arguments; whether the model made the call, the sampled one shows.
        sampled = None if decided.sampled is None else call_of(decided.sampled)
        try:
            if sampled is None or not may_run(sampled, allow_unverified=self._backend.settings.calls == "unverified"):
                message = "it was not run: it is not certain that the model made this call"
                raise ToolError(ErrorCode.TOOL_NOT_CERTAIN, message)
            return await tools.run(call, timeout_s=RunLimits().call_time_s)
        except HarmonyError as error:
            return error_result(error)

    # ── storing ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _save_before(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """The events that may be sent, now that the store has what they report; if it fails, so does the response."""
        try:
            if self._writer.unsaved or self._writer.is_over:
                await self._save()
        except Exception as error:
            return self._writer.fail_instead(events, error)
        return events

    async def _save(self) -> None:
        """Store what is unsaved. What this does not get to, the next one does."""
        writer = self._writer
        if not self._is_stored:
            writer.unsaved.clear()
            return
        beginning = self._beginning
        if beginning is not None:
            try:
                await asyncio.shield(beginning)
            except Exception:
                self._is_stored = False
                self._beginning = None
                raise
        store = self._backend.store
        while writer.unsaved:
            item = writer.unsaved[0]
            sampled = write_messages(item.messages) if item.messages else None
            await store.add_output(self.id, item.index, StoredItem(item.wire["id"], encode_bytes(item.wire), sampled))
            writer.unsaved.popleft()
        if writer.is_over and not self._end_is_stored:
            await store.finish(self.id, writer.resource["status"], encode_bytes({**writer.resource, "output": []}))
            self._end_is_stored = True

    async def _settle(self) -> None:
        """However the response ended: nothing is left running, and the store knows."""
        writer = self._writer
        try:
            try:
                if self._pulled is not None:
                    await self._pulled.aclose()
            finally:
                writer.cancel()  # unless it is over; no client is left to hear of it
                await _to_its_end(self._save())
        except Exception as error:
            _LOG.error("a response could not be ended cleanly: %s", _name_of(error))
        finally:
            try:
                await self._stack.aclose()
            except Exception as error:
                _LOG.error("a tool of a response could not be closed: %s", _name_of(error))
            finally:
                self._is_settled = True
                if self._settled is not None:
                    self._settled.set()
                self._all_running.pop(self.id, None)


def _started(stream: AsyncGenerator[StreamEvent, None]) -> AsyncGenerator[StreamEvent, None]:
    """Run the stream to its first yield, which comes before anything is awaited and is not an event.

    Python runs the `finally` of an async generator when it is closed or forgotten, but only if it has started. So from
    here on a response is settled, even if nobody ever reads an event of it.
    """
    with suppress(StopIteration):
        stream.asend(None).send(None)
    return stream


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Wait for the work, even if the waiting task is cancelled; the cancellation is raised afterwards."""
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
    """An error for the log. The message of a bug may contain model text."""
    return error.code.value if isinstance(error, HarmonyError) else type(error).__name__
