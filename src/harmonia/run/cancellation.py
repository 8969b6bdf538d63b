"""Waits and work that can be cancelled: a run's wait for others, and long work in threads.

`Cancellation` ends a wait, by a timer or by `stop`, at no cost for each token. A timeout around every token would cost
more than parsing it. So there is one timer for the whole run, and it cancels the task only while that task waits inside
the run. At any other time it sets a flag, which the run looks at next.

`in_worker` is for work that may take long: writing grammars, compiling schemas, checking values against them.

1. Its pool has a few threads of its own, so nothing else that runs in threads waits for this work.
2. A share (the owner of an API key, or any name that the caller sets) runs in a limited number of these threads, and
   shares take turns.
3. When its caller is cancelled, the work ends: before it begins, or at its next `spend` (see schema/work_budget.py).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from types import AsyncGeneratorType
from typing import Any, Final, Literal, TypeVar

from harmonia.schema.work_budget import CANCELLED, WorkCancelled

if sys.version_info >= (3, 12):
    find_task = asyncio.current_task
else:
    # Python 3.11 has this function in Python only, where it costs more than parsing a token; this is what it reads.
    _current: dict[asyncio.AbstractEventLoop, asyncio.Task[Any]] = vars(asyncio.tasks)["_current_tasks"]
    find_task = _current.get

CancelReason = Literal["time", "stopped"]
T = TypeVar("T")


class Cancellation:
    """Happens at most once; `reason` says why.

    `waiting` is the task that waits for an engine, a tool or a person. It is not reset for each event that the run
    yields: while the consumer has the event, `generator` does not run.
    """

    def __init__(self) -> None:
        self.reason: CancelReason | None = None
        self.waiting: asyncio.Task[object] | None = None
        self.generator: AsyncGeneratorType[Any, None] | None = None
        self._has_cancelled = False
        self._started_by: asyncio.Task[object] | None = None
        self._cancels_before = 0
        self._timer: asyncio.TimerHandle | None = None

    def start_timer(self, time_s: float | None) -> None:
        """The run starts: cancel it after this time."""
        # A task may run this while it cleans up after a cancellation of its own, which this run has nothing to do with.
        self._started_by = asyncio.current_task()
        self._cancels_before = 0 if self._started_by is None else self._started_by.cancelling()
        if time_s is not None and self._timer is None:
            method = weakref.WeakMethod(self.cancel)  # the timer must not keep an abandoned run alive

            def expire() -> None:
                if (cancel := method()) is not None:
                    cancel("time")

            self._timer = asyncio.get_running_loop().call_later(time_s, expire)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def cancel(self, reason: CancelReason) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self.waiting is None or (loop := self.waiting.get_loop()).is_closed():
            return
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is loop and asyncio.current_task() is not self.waiting:
                self._cancel_wait()
                return
        # Another thread calls this, or an engine or an approver in the waiting task itself. Cancelling a task while it
        # runs would hit whatever it waits for next, which may be outside the run.
        loop.call_soon_threadsafe(self._cancel_wait)

    def _cancel_wait(self) -> None:
        if self.waiting is not None and self.generator is not None and self.generator.ag_running:
            self._has_cancelled = True
            self.waiting.cancel()

    async def wait_for(self, awaitable: Awaitable[T]) -> T | None:
        """The result; None where this cancellation came first. Any other is raised."""
        self.waiting = asyncio.current_task()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self.caught():
                return None
            raise
        finally:
            self.end_wait()

    def end_wait(self) -> None:
        """The wait is over. A cancellation that an engine or an approver swallowed is taken back."""
        if self._has_cancelled and self.waiting is not None:
            self._has_cancelled = False
            self.waiting.uncancel()
        self.waiting = None

    def caught(self) -> bool:
        """Whether the CancelledError that just arrived was this one, and only this one."""
        task: Final = self.waiting
        self.waiting = None
        if not self._has_cancelled or task is None:
            return False
        self._has_cancelled = False
        return task.uncancel() <= (self._cancels_before if task is self._started_by else 0)


# Whose work it is. The server sets it to the owner of the API key.
SHARE: Final[ContextVar[str]] = ContextVar("share", default="")


class WorkerPool:
    """A few threads, and the work that waits for them, by share."""

    def __init__(self, places: int = 2, places_per_share: int = 1) -> None:
        self._places = places
        self._places_per_share = places_per_share
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="harmonia-schemas")
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._running: Counter[str] = Counter()

    async def do(self, work: Callable[[], T]) -> T:
        """Run the work in one of the threads and return its result."""
        share, outcome, cancelled = SHARE.get(), Future[T](), threading.Event()
        context = copy_context()
        context.run(CANCELLED.set, cancelled)

        def run() -> None:
            try:
                if outcome.set_running_or_notify_cancel():
                    outcome.set_result(context.run(work))
            except WorkCancelled:
                outcome.set_exception(asyncio.CancelledError())
            except BaseException as error:  # raised below
                outcome.set_exception(error)
            with self._lock:
                self._running[share] -= 1
                self._running = +self._running  # without those that are 0
                self._start_next()

        with self._lock:
            self._waiting.setdefault(share, deque()).append(run)
            self._start_next()
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _start_next(self) -> None:
        """Start as many jobs as there are free places. The caller holds the lock."""
        for share, jobs in list(self._waiting.items()):
            if self._running.total() >= self._places:
                return
            if self._running[share] < self._places_per_share:
                self._running[share] += 1
                self._threads.submit(jobs.popleft())
                self._waiting.move_to_end(share)  # after the others
                if not jobs:
                    del self._waiting[share]


_POOL: Final = WorkerPool()


async def in_worker(work: Callable[[], T]) -> T:
    """Run work that may take long in the pool, so that it does not block the event loop."""
    return await _POOL.do(work)
