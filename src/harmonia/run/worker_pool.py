"""A thread pool for work that may take long: writing grammars, compiling schemas, checking values against them.

1. The pool has a few threads of its own, so nothing else that runs in threads waits for this work.
2. A share (the owner of an API key, or any name that the caller sets) runs in a limited number of these threads, and
   shares take turns.
3. When its caller is cancelled, the work ends: before it begins, or at its next `spend` (see schema/work_budget.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

from harmonia.schema.work_budget import CANCELLED, WorkCancelled

T = TypeVar("T")

PLACES: Final = 2
PLACES_PER_SHARE: Final = 1

# Whose work it is. The server sets it to the owner of the API key.
SHARE: Final[ContextVar[str]] = ContextVar("share", default="")


class _Job:
    def __init__(self, share: str, work: Callable[[], Any]) -> None:
        self.share = share
        self.future: Future[Any] = Future()
        self.cancelled = threading.Event()
        self._context = copy_context()
        self._context.run(CANCELLED.set, self.cancelled)
        self._work = work

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._work)
        except WorkCancelled:
            self.future.set_exception(asyncio.CancelledError())
        except BaseException as error:  # the caller of `do` raises it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class WorkerPool:
    """A few threads, and the work that waits for them, by share."""

    def __init__(self, places: int = PLACES, places_per_share: int = PLACES_PER_SHARE) -> None:
        self._places = places
        self._places_per_share = places_per_share
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="harmonia-schemas")
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._running: Counter[str] = Counter()

    async def do(self, work: Callable[[], T]) -> T:
        """Run the work in one of the threads and return its result."""
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
        """Start as many jobs as there are free places. The caller holds the lock."""
        for share in list(self._waiting):
            jobs = self._waiting[share]
            if self._running.total() >= self._places:
                return
            if self._running[share] >= self._places_per_share:
                continue
            job = jobs.popleft()
            del self._waiting[share]
            if jobs:
                self._waiting[share] = jobs  # after the others
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


_POOL: Final = WorkerPool()


async def in_worker(work: Callable[[], T]) -> T:
    """Run work that may take long in the pool, so that it does not block the event loop."""
    return await _POOL.do(work)
