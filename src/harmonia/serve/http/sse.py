"""An answer in the making, watched until its last byte: as server-sent events, or whole.

    create -> events* -> [DONE] -> end          create -> result -> end
       |         |                                 |         |
      gone   gone, slow, late, stopped            gone   gone, slow, late, stopped

gone   The client has left: the generation is cancelled at once.
slow   The client does not read: one write took longer than `limits.send_s`. The connection is cut, because closing it
       politely would wait for the client again.
late   `limits.request_s` is over: the generation is asked to end and has GRACE_S for its terminal event. Then it is
       cancelled.
stopped  The server stops. A stream whose terminal event can say so is asked to end, as above. Any other answer that is
       not whole is cancelled at once, and the client is told: cut off politely, it would look like a whole one.

1. One write for each event, in the order they come. A comment goes out where nothing else did for
   `limits.keep_alive_s`, so that proxies keep the connection; no event waits for it longer than for its one write.
2. Per stream there is one task (which waits for the client to leave) and one timer. Per event there is neither: it
   costs a look at the clock and the write itself.
3. However it ends, the generator is closed before the request is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.body import ClientGone
from harmonia.serve.http.protocols import Started
from harmonia.serve.http.request_state import JSON_HEADERS, Exchange, RawHeaders
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent

GRACE_S: Final = 3.0

Cut = Literal["gone", "slow", "late", "stopped"]

# Behind these a stream has nothing more to say, and clients may leave.
_TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})

_COMMENT: Final = b": keep-alive\n\n"
_DONE: Final = b"data: [DONE]\n\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the events
)
# A generator that never has to wait would keep everybody else waiting.
_EVENTS_AT_ONCE: Final = 128
PIECE_BYTES: Final = 64 * 1024

# `event: TYPE\ndata: ` by type; there are some fifty.
_heads: Final[dict[str | None, bytes]] = {None: b"data: "}


class Watch:
    """The one task and the one timer of an answer. Used as a context: a cut cancels what runs inside, once, and leaves
    the context with `cut` set instead of an exception."""

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        self.cut: Cut | None = None
        self.has_comments = False
        self._started: Started | None = None
        # The last write, or the beginning; and whether that write is still under way.
        self._wrote_at = 0.0
        self._is_writing = False
        self._is_whole = False  # the client has all that there is to have
        self._tells_end = False
        self._comment: asyncio.Task[None] | None = None
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

    async def __aenter__(self) -> Watch:
        self._task = asyncio.current_task()
        self._wrote_at = self._time()
        self._watcher = self._loop.create_task(self._wait_for_leaving())
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None  # from here on nobody is cancelled
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._comment is not None:
            self._comment.cancel()
        if isinstance(error, ClientGone):
            return True
        if task is None or not self._was_cancelled:
            return False
        # Where somebody else wants this task to end as well, it does.
        return task.uncancel() == 0 and isinstance(error, asyncio.CancelledError)

    @property
    def is_stuck(self) -> bool:
        """Whether a write does not come to its end."""
        return self._is_writing or (self._comment is not None and not self._comment.done())

    def attach(self, started: Started, *, tells_end: bool) -> None:
        """From now on there is a generation to end. `tells_end`: its terminal event can say that it was ended."""
        self._started = started
        self._tells_end = tells_end
        if self._is_ending:
            started.cancel()

    def end_soon(self) -> None:
        """Ask the generation to end, and cut it where it does not."""
        if self._is_ending or self._task is None:
            return
        self._is_ending = True
        self._deadline = self._time() + GRACE_S
        if self._started is not None:
            self._started.cancel()
        self._arm()

    def stop(self) -> None:
        """The server stops."""
        is_sent = self._exchange.has_started and not (self._started is not None and self._started.wants_stream)
        if self._is_whole or self._tells_end or is_sent:
            self.end_soon()
        else:
            self._cut_off("stopped")

    def note_whole(self) -> None:
        """What was written is the whole answer but for its frame. Who leaves now has missed nothing."""
        self._is_whole = True

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Write one piece of the body, behind a comment that is under way."""
        if self._comment is not None:
            await self._comment
            self._comment = None
        self._is_whole = self._is_whole or is_last
        self._wrote_at = self._time()
        self._is_writing = True
        try:
            await self._exchange.send_unchanged({"type": "http.response.body", "body": data, "more_body": not is_last})
        except OSError:
            self._note("gone")
            raise ClientGone from None
        self._is_writing = False

    async def write_events(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        """Write each event as it comes. The loop runs once a token, so it does what `write` does without calling it."""
        exchange, clock = self._exchange, self._time
        send = exchange.send_unchanged
        count = 0
        try:
            async for event in events:
                if not count:
                    exchange.first_event_at = time.perf_counter()
                count += 1
                if self._comment is not None:
                    await self._comment
                    self._comment = None
                self._wrote_at = clock()
                self._is_writing = True
                try:
                    await send({"type": "http.response.body", "body": frame_of(event), "more_body": True})
                except OSError:
                    self._note("gone")
                    raise ClientGone from None
                self._is_writing = False
                if event.type in _TERMINAL:
                    self._is_whole = True
                if not count % _EVENTS_AT_ONCE:
                    # Neither the generator nor the write need have waited for anything since the last time.
                    await asyncio.sleep(0)
                if self.cut is not None:
                    break  # the generator kept the cancellation for itself, and there is nobody to write to
        finally:
            exchange.events = count

    def _note(self, why: Cut) -> None:
        if why == "gone" and self._is_whole:
            return
        self.cut = why
        self._exchange.is_cut = True

    def _cut_off(self, why: Cut) -> None:
        if self._task is not None and self.cut is None:
            self._note(why)
            self._was_cancelled = True
            self._task.cancel()

    async def _wait_for_leaving(self) -> None:
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        # Behind the last piece the server says "disconnect" as well.
        if not self._is_whole:
            self._cut_off("gone")

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # Whether a write is under way changes without telling the timer, so it looks as often as either needs.
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
        elif self.has_comments and idle_s >= self._keep_alive_s:
            self._wrote_at = now
            self._comment = self._loop.create_task(self._send_comment())
        if now < self._deadline:
            self._arm()
        elif self._is_ending:
            self._cut_off("late")
        else:
            self.end_soon()

    async def _send_comment(self) -> None:
        try:
            await self._exchange.send_unchanged({"type": "http.response.body", "body": _COMMENT, "more_body": True})
        except OSError:
            self._cut_off("gone")


async def send_stream(
    exchange: Exchange, watch: Watch, stream: AsyncGenerator[StreamEvent, None], *, has_done: bool
) -> None:
    """Send the events of a generation, inside its watch. `has_done` adds `[DONE]`."""
    await exchange.start(200, _HEADERS)
    watch.has_comments = True
    async with aclosing(stream) as events:
        await watch.write_events(events)
    watch.note_whole()
    if has_done:
        await watch.write(_DONE)
    await watch.write(b"", is_last=True)


async def send_whole(
    exchange: Exchange, watch: Watch, data: bytes, status: int = 200, headers: RawHeaders = JSON_HEADERS
) -> None:
    """Send an answer in pieces, so that a slow reader is seen before all of it waits in a buffer."""
    await exchange.start(status, (*headers, (b"content-length", b"%d" % len(data))))
    for start in range(0, len(data), PIECE_BYTES):
        await watch.write(data[start : start + PIECE_BYTES])
    watch.note_whole()
    await watch.write(b"", is_last=True)


async def send_fault(exchange: Exchange, error: BaseException, *, is_named: bool) -> None:
    """The end of a stream that broke off: an event that says so, in the form of both dialects, or in that of Chat
    Completions, whose events have no names."""
    told = api_error_of(error).to_dict()
    if is_named:
        data = {"sequence_number": exchange.events, **told, "type": "error", "error": told}
        event = StreamEvent(msgspec.json.encode(data), "error")
    else:
        event = StreamEvent(msgspec.json.encode({"error": told}))
    await exchange.send_unchanged({"type": "http.response.body", "body": frame_of(event)})


def out_of_time() -> EngineError:
    """What a client is told whose answer did not end in time, where it can still be told."""
    return EngineError(ErrorCode.ENGINE_STALLED, "the answer did not end within the time of a request")


def stopping() -> InputError:
    """What a client is told whose request came too late, or whose answer was not whole when the server stopped."""
    return InputError(ErrorCode.SERVE_STOPPING, "the server is about to stop; send the request again")


def frame_of(event: StreamEvent) -> bytes:
    """An event on the wire."""
    head = _heads.get(event.type)
    if head is None:
        head = _heads[event.type] = f"event: {event.type}\ndata: ".encode()
    return head + event.data + b"\n\n"
