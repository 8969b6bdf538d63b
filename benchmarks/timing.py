"""The clock. All rivals are timed by these lines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """How many seconds the call took, and what it gave."""
    start = perf_counter()
    result = call()
    return perf_counter() - start, result


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Collect before, and not at all while something is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
