"""What is under way: how many requests may do work at once, how all are told to end, and how a whole answer is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import JSON_HEADERS, Exchange, RawHeaders
from harmonia.serve.http.sse import PIECE_BYTES, Watch, send_whole, stopping


class Running:
    """The requests with work for a model or a processor."""

    def __init__(self, limits: Limits) -> None:
        self.is_stopping = False
        self._limits = limits
        self._watches: set[Watch] = set()
        self._exchanges: dict[Exchange, None] = {}  # that have a place, the oldest first

    @contextmanager
    def place(self, exchange: Exchange) -> Generator[None]:
        """A place for one request. It is taken before the body is read and given back when the answer is sent, so that
        bodies and answers are bounded with it. Where all are taken, the request whose body arrives most slowly gives
        up its place: a place is for work, and one that is waiting for a client has none yet."""
        if self.is_stopping:
            raise stopping()
        if len(self._exchanges) >= self._limits.concurrent and not self._end_slowest_arrival():
            raise InputError(
                ErrorCode.SERVE_BUSY, f"{self._limits.concurrent} requests are under way, which is the most at once"
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
    def watched(self, exchange: Exchange) -> Generator[Watch]:
        """A watch that `stop` reaches."""
        watch = Watch(exchange, self._limits)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return len(self._exchanges)

    def drain(self) -> None:
        """Take no more, and let those that run come to their own end."""
        self.is_stopping = True

    def stop(self) -> None:
        """Take no more, and end what runs, in a way that nobody takes for a whole answer."""
        self.is_stopping = True
        for watch in tuple(self._watches):
            watch.stop()

    async def send(
        self, exchange: Exchange, data: bytes, status: int = 200, headers: RawHeaders = JSON_HEADERS
    ) -> None:
        """Send an answer that is there as a whole. A client that does not read a long one in time is cut."""
        if len(data) <= PIECE_BYTES:
            await exchange.answer(status, data, headers)
            return
        with self.watched(exchange) as watch:
            async with watch:
                await send_whole(exchange, watch, data, status, headers)
        if watch.cut in ("slow", "late"):
            exchange.error_code = ErrorCode.SERVE_TOO_SLOW.value
            await exchange.cut()
