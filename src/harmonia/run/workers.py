"""Threads for work that may take long: grammars, schemas, the checks of values against them.

1. They are few and their own: what everybody else does in threads never waits for them.
2. Each share (an API key, or whoever the caller names) has at most some of the places, and shares take turns.
3. Work whose caller is cancelled is cancelled: before it begins, or at its next `spend` (see schema/work.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

from harmonia.schema.work import WorkCancelled, cancellable

T = TypeVar("T")

PLACES: Final = 2
PLACES_PER_SHARE: Final = 1

# Whose work it is. A server sets it to the owner of the API key.
SHARE: Final[ContextVar[str]] = ContextVar("share", default="")


class _Job:
    def __init__(self, share: str, work: Callable[[], Any]) -> None:
        self.share = share
        self.future: Future[Any] = Future()
        self.cancelled = threading.Event()
        context = copy_context()
        self._work = lambda: context.run(self._cancellable, work)

    def _cancellable(self, work: Callable[[], Any]) -> Any:
        with cancellable(self.cancelled):
            return work()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._work()
        except WorkCancelled:
            self.future.set_exception(asyncio.CancelledError())
        except BaseException as error:  # it belongs to whoever waits
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Workers:
    def __init__(self, places: int = PLACES, places_per_share: int = PLACES_PER_SHARE) -> None:
        self._places = places
        self._places_per_share = places_per_share
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="harmonia-schemas")
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._running: Counter[str] = Counter()

    async def do(self, work: Callable[[], T]) -> T:
        """The result of the work, done in a thread of these."""
        job = _Job(SHARE.get(), work)
        with self._lock:
            self._waiting.setdefault(job.share, deque()).append(job)
            self._start_next()
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancelled.set()
            raise

    def _start_next(self) -> None:
        """Start what there is a place for. The lock is held."""
        for share in list(self._waiting):
            jobs = self._waiting[share]
            if self._running.total() >= self._places:
                return
            if self._running[share] >= self._places_per_share:
                continue
            job = jobs.popleft()
            del self._waiting[share]
            if jobs:
                self._waiting[share] = jobs  # behind the others
            self._running[share] += 1
            self._threads.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        try:
            job.run()
        finally:
            with self._lock:
                self._running[job.share] -= 1
                if not self._running[job.share]:
                    del self._running[job.share]
                self._start_next()


_WORKERS: Final = Workers()


async def in_worker(work: Callable[[], T]) -> T:
    """The result of work that may take long, while all others in this process go on."""
    return await _WORKERS.do(work)
