"""The thread that writes: what waits together is committed together, and what fails fails alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator
from concurrent.futures import CancelledError, wait
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.sqlite.store import MAX_TOGETHER, Writer
from tests.support.watchdog import WATCHDOG_S


class Bench:
    """A writer on a table of numbers, the statements it ran, and a first write that waits until it is let go."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        self.statements: list[str] = []
        self.connection.set_trace_callback(self.statements.append)
        self.writer = Writer(self.connection, 1000)
        self._begun, self._go = threading.Event(), threading.Event()

    def hold(self) -> None:
        def work(_: sqlite3.Connection) -> None:
            self._begun.set()
            assert self._go.wait(WATCHDOG_S)

        self.writer.submit(work)
        assert self._begun.wait(WATCHDOG_S)

    def go(self) -> None:
        self._go.set()

    def numbers(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT n FROM numbers ORDER BY n")]


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    made = Bench(tmp_path / "numbers.db")
    yield made
    made.writer.close()
    made.connection.close()


def put(number: int):
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return work


def test_what_waits_together_is_committed_together(bench: Bench) -> None:
    bench.hold()
    futures = [bench.writer.submit(put(number)) for number in range(MAX_TOGETHER + 1)]
    bench.go()
    assert [future.result(WATCHDOG_S) for future in futures] == list(range(MAX_TOGETHER + 1))
    bench.writer.close()
    assert bench.statements.count("COMMIT") == 3  # the one that was held, a full group, and the one left over
    assert bench.statements.count("BEGIN IMMEDIATE") == 3


def test_a_write_that_fails_fails_alone(bench: Bench) -> None:
    bench.hold()
    futures = [bench.writer.submit(put(number)) for number in (1, 2, 2, 3)]
    bench.go()
    wait(futures, WATCHDOG_S)
    errors = [future.exception() for future in futures]
    assert [error is None for error in errors] == [True, True, False, True]
    assert isinstance(errors[2], StoreError) and errors[2].code == ErrorCode.SERVE_BUG
    assert bench.numbers() == [1, 2, 3]


def test_a_write_that_was_cancelled_before_it_began_never_begins(bench: Bench) -> None:
    bench.hold()
    futures = [bench.writer.submit(put(number)) for number in (1, 2, 3)]
    assert futures[1].cancel()
    bench.go()
    assert futures[0].result(WATCHDOG_S) == 1 and futures[2].result(WATCHDOG_S) == 3
    with pytest.raises(CancelledError):
        futures[1].result(WATCHDOG_S)
    assert bench.numbers() == [1, 3]


def test_a_write_that_began_cannot_be_cancelled(bench: Bench) -> None:
    begun, go = threading.Event(), threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        put(1)(connection)
        begun.set()
        assert go.wait(WATCHDOG_S)
        put(2)(connection)

    future = bench.writer.submit(work)
    assert begun.wait(WATCHDOG_S)
    assert not future.cancel()
    go.set()
    future.result(WATCHDOG_S)
    assert bench.numbers() == [1, 2]


def test_closing_waits_for_what_was_asked_for(bench: Bench) -> None:
    bench.hold()
    futures = [bench.writer.submit(put(number)) for number in range(3)]
    bench.go()
    bench.writer.close()
    assert all(future.done() for future in futures)
    with pytest.raises(StoreError) as caught:
        bench.writer.submit(put(9))
    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
    assert bench.numbers() == [0, 1, 2]
