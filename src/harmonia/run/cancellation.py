"""Breaking into a wait, from a timer or from somebody who has had enough, at no cost for each token.

A timeout around every token would cost more than parsing it. So there is one timer for the whole run, and it cancels
the task only while that task waits in the run; at any other time a flag is set, which the run looks at next.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable
from types import AsyncGeneratorType
from typing import Any, Final, Literal

if sys.version_info >= (3, 12):
    find_task = asyncio.current_task
else:
    # Python 3.11 has this function in Python only, where it costs more than parsing a token; this is what it looks at.
    _current: dict[asyncio.AbstractEventLoop, asyncio.Task[Any]] = vars(asyncio.tasks)["_current_tasks"]
    find_task = _current.get

Interrupt = Literal["time", "stopped"]


class Interruption:
    """At most one interruption, and why.

    `waiting` is the task that waits for an engine, a tool or a person. It need not be taken back for each event that is
    handed out: while whoever consumes `interrupts` has the event, that generator does not run.
    """

    __slots__ = (
        "__weakref__",
        "_begun_by",
        "_cancelled",
        "_cancels_before",
        "_timer",
        "interrupts",
        "reason",
        "waiting",
    )

    def __init__(self) -> None:
        self.reason: Interrupt | None = None
        self.waiting: asyncio.Task[object] | None = None
        self.interrupts: AsyncGeneratorType[Any, None] | None = None
        self._cancelled = False
        self._begun_by: asyncio.Task[object] | None = None
        self._cancels_before = 0
        self._timer: asyncio.TimerHandle | None = None

    def start_timer(self, time_s: float | None) -> None:
        """The run begins: interrupt it after this time."""
        # A task may run this while it cleans up behind a cancellation of its own, which is none of this run.
        self._begun_by = asyncio.current_task()
        self._cancels_before = 0 if self._begun_by is None else self._begun_by.cancelling()
        if time_s is not None and self._timer is None:
            # The timer must not keep a run alive that everybody has left.
            self._timer = asyncio.get_running_loop().call_later(time_s, _interrupt, weakref.ref(self))

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self, reason: Interrupt) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self.waiting is None:
            return
        loop = self.waiting.get_loop()
        if loop.is_closed():
            return
        if _running_loop() is loop and asyncio.current_task() is not self.waiting:
            self._break_in()
        else:
            # Another thread calls this, or an engine or an approver in the task that waits for it. To cancel a task
            # while it runs would hit whatever it waits for next, which may be outside of the run.
            loop.call_soon_threadsafe(self._break_in)

    def _break_in(self) -> None:
        if self.waiting is not None and self.interrupts is not None and self.interrupts.ag_running:
            self._cancelled = True
            self.waiting.cancel()

    def end_wait(self) -> None:
        """Nobody waits any more. A cancellation that an engine or an approver kept to itself is taken back."""
        if self._cancelled and self.waiting is not None:
            self._cancelled = False
            self.waiting.uncancel()
        self.waiting = None

    def caught(self) -> bool:
        """Whether the cancellation that just arrived was this one, and only this one."""
        task: Final = self.waiting
        self.waiting = None
        if not self._cancelled or task is None:
            return False
        self._cancelled = False
        return task.uncancel() <= (self._cancels_before if task is self._begun_by else 0)


def _interrupt(left: Callable[[], Interruption | None]) -> None:
    if (interruption := left()) is not None:
        interruption.interrupt("time")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
