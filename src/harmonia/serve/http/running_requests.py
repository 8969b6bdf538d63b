"""Requests that use a model or a processor: how many may run at once, and what ends one before its last byte.

    create -> events* -> end          create -> result -> end
       |         |                       |         |
      gone   gone, slow, late, stopped  gone   gone, slow, late, stopped

gone     The client has left: the generation is cancelled at once.
slow     The client does not read: one write took longer than `limits.send_s`. The connection is cut, because closing it
         properly would wait for the client again.
late     `limits.request_s` is over: the generation is asked to end and has GRACE_S for its terminal event. Then it is
         cancelled.
stopped  The server stops. A stream whose terminal event can say so is asked to end, as above. Any other incomplete
         answer is cancelled at once and the client gets an error, so that it cannot look complete.

1. One write for each event, in order. After `limits.keep_alive_s` of silence a keep-alive is sent, so that proxies keep
   the connection; an event waits for it no longer than for its one write.
2. A stream has one task (which waits for the client to leave) and one timer. An event has neither: it costs a look at
   the clock and the write itself.
3. However it ends, the generator is closed before the request is over.

An `EventSink` carries the events to the client: endpoints.py has the one for server-sent events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import JSON_HEADERS, ClientGone, Exchange, RawHeaders
from harmonia.serve.wire.event_stream import EventSink, StreamEvent

GRACE_S: Final = 3.0
_PIECE_BYTES: Final = 64 * 1024

Cut = Literal["gone", "slow", "late", "stopped"]

# After one of these a stream is complete, and clients may leave.
_TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
# A generator that never waits would block the event loop.
_EVENTS_AT_ONCE: Final = 128


class Generation(Protocol):
    """A running generation. Either `events` or `result` is used, once.

    `output_tokens` (sampled so far, if known) and `failure` are for log and metrics: the events have already reported
    why the generation failed after its start. A failure that is not a HarmonyError is a bug.
    """

    @property
    def wants_stream(self) -> bool: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def failure(self) -> Exception | None: ...
    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Ends with exactly one terminal event and raises nothing. Closing it, or cancelling the task that waits for
        the next event, cancels the generation."""
        ...

    async def result(self) -> bytes:
        """The JSON of the complete answer. Cancelling the waiting task cancels the generation."""
        ...

    def cancel(self) -> None:
        """End the generation soon, as if the client had asked: the events continue to their terminal event, and
        `result` returns the output so far. Called when the server stops or the time is up, perhaps twice."""
        ...


class StreamGuard:
    """The task and the timer of one answer. Used as a context: a cut cancels the body, once, and the context ends with
    `cut` set instead of an exception."""

    def __init__(self, exchange: Exchange, limits: Limits, active: set[StreamGuard]) -> None:
        self.cut: Cut | None = None
        self._active = active  # all guards of the server
        self._generation: Generation | None = None
        self._sink: EventSink | None = None  # for keep-alives, once the stream has started
        # The last write, or the beginning; and whether that write is still in progress.
        self._wrote_at = 0.0
        self._is_writing = False
        self._is_complete = False  # only the end of the message is left to send: a client may leave
        self._reports_end = False
        self._keep_alive: asyncio.Task[None] | None = None
        self._exchange = exchange
        self._send_s = limits.send_s
        self._keep_alive_s = limits.keep_alive_s
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._deadline = self._time() + limits.request_s - (time.perf_counter() - exchange.began_at)
        self._is_ending = False
        self._was_cancelled = False
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> StreamGuard:
        self._active.add(self)
        self._task = asyncio.current_task()
        self._wrote_at = self._time()
        self._watcher = self._loop.create_task(self._wait_for_leaving())
        self._set_timer()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._active.discard(self)
        task, self._task = self._task, None  # nothing is cancelled from here on
        for each in (self._timer, self._watcher, self._keep_alive):
            if each is not None:
                each.cancel()
        if isinstance(error, ClientGone):
            return True
        if task is None or not self._was_cancelled:
            return False
        # If this task was also cancelled from elsewhere, it ends.
        return task.uncancel() == 0 and isinstance(error, asyncio.CancelledError)

    @property
    def is_stuck(self) -> bool:
        """Whether a write has not returned."""
        return self._is_writing or (self._keep_alive is not None and not self._keep_alive.done())

    def attach(self, generation: Generation, *, reports_end: bool) -> None:
        """Guard a generation that has started. `reports_end`: its terminal event can say that it was ended."""
        self._generation = generation
        self._reports_end = reports_end
        if self._is_ending:
            generation.cancel()

    def end_soon(self) -> None:
        """Ask the generation to end; cut it if it does not."""
        if self._is_ending or self._task is None:
            return
        self._is_ending = True
        self._deadline = self._time() + GRACE_S
        if self._generation is not None:
            self._generation.cancel()
        self._set_timer()

    def stop(self) -> None:
        """The server stops."""
        streams = self._generation is not None and self._generation.wants_stream
        if self._is_complete or self._reports_end or (self._exchange.has_started and not streams):
            self.end_soon()
        else:
            self._cut_off("stopped")

    async def write(self, sending: Awaitable[None]) -> None:
        """Await one write, after a keep-alive in progress."""
        if self._keep_alive is not None:
            await self._keep_alive
            self._keep_alive = None
        self._wrote_at = self._time()
        self._is_writing = True
        try:
            await sending
        except OSError:
            self._note("gone")
            raise ClientGone from None
        self._is_writing = False

    async def send_stream(self, sink: EventSink, stream: AsyncGenerator[StreamEvent, None]) -> None:
        """Send the events of a generation as they come."""
        await sink.start()
        self._sink = sink
        async with aclosing(stream) as events:
            await self._write_events(sink, events)
        self._is_complete = True
        await self.write(sink.finish())

    async def send_whole(self, data: bytes, status: int = 200, headers: RawHeaders = JSON_HEADERS) -> None:
        """Send an answer in pieces, so that a slow reader is noticed before all of it waits in a buffer."""
        exchange = self._exchange
        await exchange.start(status, (*headers, (b"content-length", b"%d" % len(data))))
        for start in range(0, len(data), _PIECE_BYTES):
            await self.write(exchange.send_piece(data[start : start + _PIECE_BYTES]))
        self._is_complete = True
        await self.write(exchange.send_piece(b"", is_last=True))

    async def _write_events(self, sink: EventSink, events: AsyncGenerator[StreamEvent, None]) -> None:
        """The loop runs once per token, so it repeats the body of `write` instead of calling it."""
        exchange, clock, send = self._exchange, self._time, sink.send
        count = 0
        try:
            async for event in events:
                if not count:
                    exchange.first_event_at = time.perf_counter()
                count += 1
                if self._keep_alive is not None:
                    await self._keep_alive
                    self._keep_alive = None
                self._wrote_at = clock()
                self._is_writing = True
                try:
                    await send(event)
                except OSError:
                    self._note("gone")
                    raise ClientGone from None
                self._is_writing = False
                if event.type in _TERMINAL:
                    self._is_complete = True
                if not count % _EVENTS_AT_ONCE:
                    # Neither the generator nor the write need have waited since the last time.
                    await asyncio.sleep(0)
                if self.cut is not None:
                    break  # the generator swallowed the cancellation, and the client no longer reads
        finally:
            exchange.events = count

    def _note(self, why: Cut) -> None:
        if why == "gone" and self._is_complete:
            return
        self.cut = why
        self._exchange.is_cut = True

    def _cut_off(self, why: Cut) -> None:
        if self._task is not None and self.cut is None:
            self._note(why)
            self._was_cancelled = True
            self._task.cancel()

    async def _wait_for_leaving(self) -> None:
        await self._exchange.wait_for_disconnect()
        if not self._is_complete:  # after the last piece the server reports a disconnect as well
            self._cut_off("gone")

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # A write begins and ends without touching the timer, so it fires as often as either limit needs.
        every_s = min(self._send_s, self._keep_alive_s)
        now = self._time()
        due = self._wrote_at + every_s
        self._timer = self._loop.call_at(min(due if due > now else now + every_s, self._deadline), self._look)

    def _look(self) -> None:
        now = self._time()
        idle_s = now - self._wrote_at
        if self.is_stuck:
            if idle_s >= self._send_s:
                self._cut_off("slow")
                return
        elif self._sink is not None and idle_s >= self._keep_alive_s:
            self._wrote_at = now
            self._keep_alive = self._loop.create_task(self._send_keep_alive(self._sink))
        if now < self._deadline:
            self._set_timer()
        elif self._is_ending:
            self._cut_off("late")
        else:
            self.end_soon()

    async def _send_keep_alive(self, sink: EventSink) -> None:
        try:
            await sink.keep_alive()
        except OSError:
            self._cut_off("gone")


def out_of_time() -> EngineError:
    """The error of an answer that did not end in time, if it can still be sent."""
    return EngineError(ErrorCode.ENGINE_STALLED, "the answer did not end within the time limit of a request")


def stopping() -> InputError:
    """The error of a request that came too late, or whose answer was incomplete when the server stopped."""
    return InputError(ErrorCode.SERVE_STOPPING, "the server is stopping; send the request again")


class RunningRequests:
    """The requests that use a model or a processor."""

    def __init__(self, limits: Limits) -> None:
        self.is_stopping = False
        self._limits = limits
        self._guards: set[StreamGuard] = set()
        self._exchanges: dict[Exchange, None] = {}  # those with a slot, the oldest first

    @contextmanager
    def slot(self, exchange: Exchange) -> Generator[None]:
        """Hold a slot, from before the body is read until the answer is sent, so that bodies and answers are bounded,
        too. If all are taken, the request whose body arrives most slowly loses its slot: it has no work yet."""
        if self.is_stopping:
            raise stopping()
        if len(self._exchanges) >= self._limits.concurrent and not self._end_slowest_arrival():
            raise InputError(
                ErrorCode.SERVE_BUSY,
                f"{self._limits.concurrent} requests are running, which is the limit; send the request again later",
            )
        self._exchanges[exchange] = None
        try:
            yield
        finally:
            self._exchanges.pop(exchange, None)

    def _end_slowest_arrival(self) -> bool:
        now = asyncio.get_running_loop().time()
        arriving = [(each.arrival, each) for each in self._exchanges if each.arrival is not None]
        if not arriving:
            return False
        arrival, slowest = min(arriving, key=lambda pair: pair[0].rate(now))
        arrival.end()
        del self._exchanges[slowest]
        return True

    def guard(self, exchange: Exchange) -> StreamGuard:
        """A guard that `stop` reaches."""
        return StreamGuard(exchange, self._limits, self._guards)

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return len(self._exchanges)

    def drain(self) -> None:
        """Accept no more requests; let the running ones end."""
        self.is_stopping = True

    def stop(self) -> None:
        """Accept no more requests and end the running ones, so that no incomplete answer looks complete."""
        self.is_stopping = True
        for guard in tuple(self._guards):
            guard.stop()

    async def send(
        self, exchange: Exchange, data: bytes, status: int = 200, headers: RawHeaders = JSON_HEADERS
    ) -> None:
        """Send a complete answer. A client that does not read a long one in time is cut."""
        if len(data) <= _PIECE_BYTES:
            await exchange.answer(status, data, headers)
            return
        async with (guard := self.guard(exchange)):
            await guard.send_whole(data, status, headers)
        if guard.cut in ("slow", "late"):
            exchange.error_code = ErrorCode.SERVE_TOO_SLOW.value
            await exchange.cut()
