"""Breaking into a wait, from a timer or from somebody who has had enough, at no cost for each token.

A timeout around every token would cost more than parsing it. So there is one timer for the whole run, and it cancels
the task only while that task waits in the run; at any other time a flag is set, which the run looks at next.
"""

from __future__ import annotations

import asyncio
from types import AsyncGeneratorType
from typing import Any, Final, Literal

Interrupt = Literal["time", "stopped"]


class Interruption:
    """At most one interruption, and why.

    `waiting` is the task that waits for an engine, a tool or a person. It need not be taken back for each event that is
    handed out: while whoever consumes `interrupts` has the event, that generator does not run.
    """

    __slots__ = ("_cancelled", "_timer", "interrupts", "reason", "waiting")

    def __init__(self) -> None:
        self.reason: Interrupt | None = None
        self.waiting: asyncio.Task[object] | None = None
        self.interrupts: AsyncGeneratorType[Any, None] | None = None
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    def start_timer(self, time_s: float | None) -> None:
        """Interrupt after this time."""
        if time_s is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(time_s, self.interrupt, "time")

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self, reason: Interrupt) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self.waiting is not None and self.interrupts is not None and self.interrupts.ag_running:
            self._cancelled = True
            self.waiting.cancel()

    def caught(self) -> bool:
        """Whether the cancellation that just arrived was this one, and only this one."""
        task: Final = self.waiting
        self.waiting = None
        if not self._cancelled or task is None:
            return False
        self._cancelled = False
        return task.uncancel() == 0
