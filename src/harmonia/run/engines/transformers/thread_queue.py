"""What a worker thread makes, on its way into an event loop: bounded, in order, and stoppable from both sides.

1. `put` waits while the reader is behind by `limit` items. That is the whole of the backpressure.
2. After `stop`, the next `put` or `check` raises Stopped in the worker, also if it is waiting at that moment.
3. What was put before the worker failed is read before its failure.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")

# How often a worker that waits for its reader looks whether the reader's event loop still exists.
_LOOK_S = 1.0


class Stopped(Exception):
    """Nobody reads any more."""


class Channel(Generic[Item]):
    """Made in the event loop that reads it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._is_stopped = False
        self._failure: BaseException | None = None

    # The worker's side

    def put(self, item: Item) -> None:
        with self._changed:
            while not self._changed.wait_for(self._has_room, _LOOK_S):
                if self._loop.is_closed():
                    raise Stopped
            self.check()
            self._items.append(item)
        self._tell(self._ready)

    def check(self) -> None:
        """Raise Stopped if there is no use in going on."""
        if self._is_stopped:
            raise Stopped

    def end(self, failure: BaseException | None = None) -> None:
        """The last thing that a worker does, whatever happened."""
        if failure is not None:
            self._fail(failure)
        self._tell(self._ready, self._ended)

    def _has_room(self) -> bool:
        return self._is_stopped or len(self._items) < self._limit

    def _tell(self, *events: asyncio.Event) -> None:
        try:
            for event in events:
                self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:  # the loop is closed
            self._is_stopped = True

    # The reader's side

    async def take(self) -> list[Item]:
        """All that is there, at least one item; or the failure that ended it; or nothing if it ended without one."""
        while True:
            await self._ready.wait()
            with self._changed:
                self._ready.clear()
                items = list(self._items)
                self._items.clear()
                self._changed.notify_all()
            if items:
                if self._failure is not None or self._ended.is_set():
                    self._ready.set()  # there is something left to say
                return items
            if self._failure is not None:
                raise self._failure
            if self._ended.is_set():
                return []

    def stop(self, failure: BaseException | None = None) -> None:
        """Let the worker stop. `failure` is for the reader, where it is another who stops it."""
        if failure is not None:
            self._fail(failure)
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._tell(self._ready)

    async def wait_until_ended(self) -> None:
        await self._ended.wait()

    def _fail(self, failure: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or failure
