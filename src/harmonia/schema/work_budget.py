"""Limits the work on a schema, and ends it early when its result is no longer wanted.

Code that may take long on an untrusted schema calls `spend` as it goes. `bounded_work` sets how much it may spend;
another thread ends it by setting the event in `CANCELLED`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position


class WorkCancelled(Exception):
    """The work was cancelled, because its caller no longer waits for the result."""


class _Allowance:
    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)
CANCELLED: Final[ContextVar[threading.Event | None]] = ContextVar("cancelled", default=None)


def check_cancelled() -> None:
    """Raise WorkCancelled if the work was cancelled."""
    cancelled = CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise WorkCancelled


def spend(steps: int) -> None:
    """Count these steps. Raises an InputError if there were too many, and WorkCancelled if the work was cancelled."""
    check_cancelled()
    allowance = _ALLOWANCE.get()
    if allowance is not None:
        allowance.left -= steps
        if allowance.left < 0:
            raise InputError(
                ErrorCode.SCHEMA_TOO_LARGE,
                "the schemas take too much work: reduce their alternatives, patterns or combined schemas",
                Position(path="$"),
            )


@contextmanager
def bounded_work(steps: int) -> Generator[None]:
    """The work inside may spend this many steps."""
    token = _ALLOWANCE.set(_Allowance(steps))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)
