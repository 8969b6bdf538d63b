"""Bounds the work on a schema, and ends it early when nobody waits for it any more.

Code that may take long on a stranger's schema calls `spend` as it goes. `bounded_work` says how much may be spent;
`cancellable` says who may end it, from another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from harmonia.errors import ErrorCode, InputError, Position


class WorkCancelled(Exception):
    """Whoever wanted the result has left."""


class _Allowance:
    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)
_CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


def spend(steps: int) -> None:
    """Count so many steps. Raises an InputError where there were too many, and WorkCancelled where the work was."""
    cancelled = _CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise WorkCancelled
    allowance = _ALLOWANCE.get()
    if allowance is not None:
        allowance.left -= steps
        if allowance.left < 0:
            raise InputError(
                ErrorCode.SCHEMA_TOO_LARGE,
                "the schemas take too much work: they have too many alternatives, patterns or combined schemas",
                Position(path="$"),
            )


@contextmanager
def bounded_work(steps: int) -> Generator[None]:
    """What is done within may spend so many steps."""
    token = _ALLOWANCE.set(_Allowance(steps))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


@contextmanager
def cancellable(cancelled: threading.Event) -> Generator[None]:
    """What is done within ends when the event is set."""
    token = _CANCELLED.set(cancelled)
    try:
        yield
    finally:
        _CANCELLED.reset(token)
