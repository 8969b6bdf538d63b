"""The way from a worker thread into the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.run.engines.transformers.engine import Channel, Stopped
from tests.run.engines.real.real_engines import run_watched, until


class Worker:
    """Puts numbers until somebody stops it, and remembers how far it came."""

    def __init__(self, channel: Channel[int], count: int, failure: BaseException | None = None) -> None:
        self.done = 0
        self.was_stopped = False
        self._channel, self._count, self._failure = channel, count, failure
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            for number in range(self._count):
                self._channel.put(number)
                self.done = number + 1
        except Stopped:
            self.was_stopped = True
        finally:
            self._channel.end(self._failure)


@given(limit=st.integers(1, 5), count=st.integers(0, 40))
def test_everything_arrives_in_order_and_then_the_failure(limit: int, count: int) -> None:
    async def check() -> None:
        channel = Channel[int](limit)
        worker = Worker(channel, count, KeyError("at the end"))
        taken: list[int] = []
        while len(taken) < count:
            items = await channel.take()
            assert 1 <= len(items) <= limit
            taken += items
        with pytest.raises(KeyError):
            await channel.take()
        assert taken == list(range(count))
        await channel.ended.wait()
        worker.thread.join()

    run_watched(check())


def test_a_channel_that_ended_without_a_failure_gives_nothing_more() -> None:
    async def check() -> None:
        channel = Channel[int](8)
        Worker(channel, 3)
        await channel.ended.wait()
        assert await channel.take() == [0, 1, 2]
        assert await channel.take() == []

    run_watched(check())


def test_a_worker_is_never_further_ahead_than_the_limit() -> None:
    async def check() -> None:
        channel = Channel[int](4)
        worker = Worker(channel, 100)
        await until(lambda: worker.done == 4)
        taken = await channel.take()
        assert taken == [0, 1, 2, 3]
        await until(lambda: worker.done == 8)
        assert await channel.take() == [4, 5, 6, 7]
        channel.stop()
        await channel.ended.wait()
        assert worker.done <= 12

    run_watched(check())


def test_stopping_wakes_a_worker_that_waits_for_room() -> None:
    async def check() -> None:
        channel = Channel[int](1)
        worker = Worker(channel, 100)
        await until(lambda: worker.done == 1)
        channel.stop()
        await channel.ended.wait()
        worker.thread.join()
        assert worker.was_stopped and worker.done == 1

    run_watched(check())


def test_who_stops_it_may_tell_the_reader_why() -> None:
    async def check() -> None:
        channel = Channel[int](1)
        reader = asyncio.ensure_future(channel.take())
        await asyncio.sleep(0)
        channel.stop(KeyError("closed"))
        with pytest.raises(KeyError):
            await reader

    run_watched(check())


def test_a_worker_whose_event_loop_is_gone_stops() -> None:
    async def begin() -> Worker:
        return Worker(Channel[int](1), 100)

    worker = run_watched(begin())
    worker.thread.join(60)
    assert not worker.thread.is_alive()
    assert worker.was_stopped
