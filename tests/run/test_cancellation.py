"""The pool for long work: shares take turns, and work ends when its caller leaves."""

from __future__ import annotations

import asyncio
import threading

import pytest

from harmonia.run.cancellation import SHARE, WorkerPool
from harmonia.schema.work_budget import spend

_LONG_S = 60  # for a test that fails; nothing waits so long


async def _until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, _LONG_S)


def _begin(pool: WorkerPool, share: str, begun: threading.Event, gate: threading.Event) -> asyncio.Task[str]:
    def work() -> str:
        begun.set()
        while not gate.wait(0.001):
            spend(1)
        return share

    token = SHARE.set(share)
    try:
        return asyncio.create_task(pool.do(work))
    finally:
        SHARE.reset(token)


def test_one_share_cannot_take_every_place() -> None:
    async def ask() -> list[str]:
        pool, gate, free = WorkerPool(), threading.Event(), threading.Event()
        free.set()
        begun = [threading.Event() for _ in range(4)]
        greedy = [_begin(pool, "greedy", each, gate) for each in begun[:3]]
        await _until(begun[0])
        assert await _begin(pool, "other", begun[3], free) == "other"
        assert [each.is_set() for each in begun] == [True, False, False, True]
        gate.set()
        return await asyncio.gather(*greedy)

    assert asyncio.run(ask()) == ["greedy"] * 3


def test_work_ends_when_its_caller_leaves_and_what_waited_never_begins() -> None:
    async def ask() -> None:
        pool, never, free = WorkerPool(), threading.Event(), threading.Event()
        free.set()
        begun = [threading.Event() for _ in range(3)]
        first, second = (_begin(pool, "one", each, never) for each in begun[:2])
        await _until(begun[0])
        for task in (second, first):
            task.cancel()
        for task in (first, second):
            with pytest.raises(asyncio.CancelledError):
                await task
        # Only a place that was given back lets this one in.
        assert await _begin(pool, "one", begun[2], free) == "one"
        assert not begun[1].is_set()

    asyncio.run(ask())


def test_the_error_of_the_work_is_its_callers() -> None:
    def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(WorkerPool().do(work))
