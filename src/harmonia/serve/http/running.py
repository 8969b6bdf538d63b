"""What is under way: how many requests may do work at once, how all are told to end, and how a whole answer is sent."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.http.exchange import JSON_HEADERS, Exchange, RawHeaders
from harmonia.serve.http.streaming import PIECE_BYTES, Watch, send_whole, stopping
from harmonia.serve.settings import Limits


class Running:
    """The requests with work for a model or a processor."""

    def __init__(self, limits: Limits) -> None:
        self.is_stopping = False
        self._limits = limits
        self._watches: set[Watch] = set()
        self._taken = 0

    @contextmanager
    def place(self) -> Generator[None]:
        """A place for one request. It is taken before the body is read and given back when the answer is sent, so that
        bodies and answers are bounded with it."""
        if self.is_stopping:
            raise stopping()
        if self._taken >= self._limits.concurrent:
            raise InputError(
                ErrorCode.SERVE_BUSY, f"{self._limits.concurrent} requests are under way, which is the most at once"
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

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
        return self._taken

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
