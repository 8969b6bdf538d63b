"""How many requests may work at once, how the server stops them, and how a complete answer is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import JSON_HEADERS, Exchange, RawHeaders
from harmonia.serve.http.stream_guard import StreamGuard, stopping

_PIECE_BYTES: Final = 64 * 1024


class Admission:
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

    @contextmanager
    def guard(self, exchange: Exchange) -> Generator[StreamGuard]:
        """A guard that `stop` reaches."""
        guard = StreamGuard(exchange, self._limits)
        self._guards.add(guard)
        try:
            yield guard
        finally:
            self._guards.discard(guard)

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
        with self.guard(exchange) as guard:
            async with guard:
                await send_whole(exchange, guard, data, status, headers)
        if guard.cut in ("slow", "late"):
            exchange.error_code = ErrorCode.SERVE_TOO_SLOW.value
            await exchange.cut()


async def send_whole(
    exchange: Exchange, guard: StreamGuard, data: bytes, status: int = 200, headers: RawHeaders = JSON_HEADERS
) -> None:
    """Send an answer in pieces, so that a slow reader is noticed before all of it waits in a buffer."""
    await exchange.start(status, (*headers, (b"content-length", b"%d" % len(data))))
    for start in range(0, len(data), _PIECE_BYTES):
        await guard.write(exchange.send_piece(data[start : start + _PIECE_BYTES]))
    guard.note_complete()
    await guard.write(exchange.send_piece(b"", is_last=True))
