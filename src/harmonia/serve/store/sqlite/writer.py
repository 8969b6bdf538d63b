"""The one thread that writes. The event loop never waits for the disk.

1. Writes happen in the order in which they were asked for.
2. Those that wait together are committed together: with many responses at once, the disk is waited for once, not once
   each. A write that fails fails alone: the others are done again, one by one.
3. A write whose waiter was cancelled is done whole or never begun.
4. A write that deletes has ended when the deleted bytes are gone from the files. SQLite copies pages through its log
   (`-wal`), so the log is emptied after it.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.sqlite.errors import store_error

T = TypeVar("T")

MAX_TOGETHER: Final = 64
_RETRY_S: Final = 0.005
_ATTEMPT_MS: Final = 50

Work = Callable[[sqlite3.Connection], T]


class _Job(NamedTuple):
    work: Work[Any]
    deletes: bool
    future: Future[Any]


class _Failed(NamedTuple):
    error: Exception


class Writer:
    """`submit` may be called from any thread; the work runs inside a transaction and may be run again after a failure
    of others, so it has no effects but those in the database. Work that deletes returns whether it did."""

    def __init__(
        self, connection: sqlite3.Connection, busy_timeout_ms: int, check_file: Callable[[], None] = lambda: None
    ) -> None:
        self._connection = connection
        self._check_file = check_file
        self._busy_timeout_ms = busy_timeout_ms
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="harmonia-store-writer")
        # What a server that was killed had deleted may still be in the log.
        self._log_is_clean = self._empty_log(0)
        self._waited_in_vain = False

    def submit(self, work: Work[T], *, deletes: bool = False) -> Future[T]:
        future: Future[T] = Future()
        self._waiting.append(_Job(work, deletes, future))
        try:
            self._thread.submit(self._run)
        except RuntimeError:  # it was shut down
            future.cancel()
            raise StoreError(ErrorCode.STORE_UNAVAILABLE, "the store is closed") from None
        return future

    def close(self) -> None:
        """Ends when everything that was asked for is written."""
        self._thread.shutdown(wait=True)

    def _run(self) -> None:
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < MAX_TOGETHER:
            job = self._waiting.popleft()
            if job.future.set_running_or_notify_cancel():
                jobs.append(job)
        if not jobs:
            return
        outcomes = list(zip(jobs, self._commit(jobs), strict=True))
        deletions = [(job, outcome) for job, outcome in outcomes if job.deletes]
        for job, outcome in outcomes:
            if not job.deletes:
                _settle(job, outcome)
        if not self._log_is_clean or any(outcome for _, outcome in deletions):
            # Where a deletion waited in vain, later ones do not, for all writes wait with them.
            patient = bool(deletions) and not self._waited_in_vain
            self._log_is_clean = self._empty_log(self._busy_timeout_ms / 1000 if patient else 0)
            self._waited_in_vain = not self._log_is_clean and (patient or self._waited_in_vain)
        for job, outcome in deletions:
            _settle(job, outcome if self._log_is_clean or isinstance(outcome, _Failed) else _Failed(_still_read()))

    def _commit(self, jobs: Sequence[_Job]) -> list[Any]:
        connection = self._connection
        try:
            # What is not in the file is not kept, whatever SQLite says.
            self._check_file()
            connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError, StoreError) as error:
            return [_Failed(error)] * len(jobs)
        try:
            results: list[Any] = [job.work(connection) for job in jobs]
            connection.execute("COMMIT")
        except Exception as error:
            # SQLite has rolled back already after some errors, a full disk for one.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if len(jobs) == 1:
                return [_Failed(error)]
            return [outcome for job in jobs for outcome in self._commit([job])]
        return results

    def _empty_log(self, wait_s: float) -> bool:
        """Whether all of the log went into the database, and its file is empty. Needs a moment without old readers."""
        connection = self._connection
        give_up_at = time.monotonic() + wait_s
        # SQLite waits for readers, holding up the writers of all processes, and not at all for another process that
        # empties the log. So it is asked for short attempts, and we wait.
        connection.execute(f"PRAGMA busy_timeout = {min(_ATTEMPT_MS, round(wait_s * 1000))}")
        try:
            while True:
                with suppress(sqlite3.OperationalError):
                    (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    if not is_busy:
                        return True
                if time.monotonic() >= give_up_at:
                    return False
                time.sleep(_RETRY_S)
        except sqlite3.Error:
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")


def _still_read() -> StoreError:
    return StoreError(
        ErrorCode.STORE_UNAVAILABLE,
        "it was deleted, but traces of it are still in the store's log, because another program holds the file open to "
        "read or write; they go with the next write or deletion that finds the file free",
    )


def _settle(job: _Job, outcome: Any) -> None:
    if isinstance(outcome, _Failed):
        job.future.set_exception(store_error(outcome.error))
    else:
        job.future.set_result(outcome)
