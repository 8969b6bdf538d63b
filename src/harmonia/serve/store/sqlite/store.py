"""The store in one SQLite file, for one machine. Several servers may share the file.

The event loop never waits for the disk: one thread writes, others read, each with its own connection. Reads do not wait
for writes. A read sees every write that had returned before it was requested.

1. Writes happen in the order in which they were requested.
2. Writes that wait together are committed together, so that many responses wait for the disk once. If one fails, it
   fails alone: the others are repeated one by one.
3. A write whose waiter was cancelled is complete or was never begun.
4. A write that deletes returns when the deleted bytes are gone from the files. SQLite copies pages through its log
   (`-wal`), so the log is emptied afterwards.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import CoroutineType
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from harmonia.errors import ErrorCode, HarmonyError, StoreError
from harmonia.serve.security.sealed_content import load_cipher
from harmonia.serve.store.base import StoredItem, StoredResponse
from harmonia.serve.store.sqlite import chats, responses
from harmonia.serve.store.sqlite.connection import MEMORY, READERS, Database

MAX_TOGETHER: Final = 64
_RETRY_S: Final = 0.005
_ATTEMPT_MS: Final = 50
_STILL_IN_LOG: Final = (
    "it was deleted, but traces of it are still in the store's log, because another program holds the file open to "
    "read or write; they go with the next write or deletion that finds the file free"
)
_BUSY_TIMEOUT_S: Final = 10.0
_PURGED_TOGETHER: Final = 256  # other writes may come in between
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

T = TypeVar("T")
P = ParamSpec("P")
Work = Callable[[sqlite3.Connection], T]
_Statement = Callable[Concatenate[sqlite3.Connection, P], T]
_Method = Callable[Concatenate["SqliteStore", P], "CoroutineType[Any, Any, T]"]


class _Job(NamedTuple):
    work: Work[Any]
    deletes: bool
    future: Future[Any]


class _Failed(NamedTuple):
    error: Exception


class Writer:
    """`submit` may be called from any thread. The work runs in a transaction, and again after a failure of other work,
    so its only effects are those in the database. Work that deletes returns whether it did."""

    def __init__(
        self, connection: sqlite3.Connection, busy_timeout_ms: int, check_file: Callable[[], None] = lambda: None
    ) -> None:
        self._connection = connection
        self._check_file = check_file
        self._busy_timeout_ms = busy_timeout_ms
        self._waiting: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="harmonia-store-writer")
        # The log may still contain what a killed server had deleted.
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
        """Wait until everything that was requested is written."""
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
            # If a deletion waited in vain, later ones do not wait: all writes would wait with them.
            patient = bool(deletions) and not self._waited_in_vain
            self._log_is_clean = self._empty_log(self._busy_timeout_ms / 1000 if patient else 0)
            self._waited_in_vain = not self._log_is_clean and (patient or self._waited_in_vain)
        for job, outcome in deletions:
            if not self._log_is_clean and not isinstance(outcome, _Failed):
                outcome = _Failed(StoreError(ErrorCode.STORE_UNAVAILABLE, _STILL_IN_LOG))
            _settle(job, outcome)

    def _commit(self, jobs: Sequence[_Job]) -> list[Any]:
        connection = self._connection
        try:
            # SQLite would go on with its memory after the file was removed.
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
        """Move all of the log into the database; whether that worked. It needs a moment without old readers."""
        connection = self._connection
        give_up_at = time.monotonic() + wait_s
        # SQLite would wait for readers while the writers of all processes wait for it, and not at all for another
        # process that empties the log. So it makes short attempts, and we wait in between.
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


def _settle(job: _Job, outcome: Any) -> None:
    if isinstance(outcome, _Failed):
        job.future.set_exception(store_error(outcome.error))
    else:
        job.future.set_result(outcome)


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _reads(statement: _Statement[P, T]) -> _Method[P, T]:
    """A method that runs a statement on a connection that reads."""

    async def method(store: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.read(_bind(statement, *args, **kwargs))

    return method


def _writes(statement: _Statement[P, T], *, deletes: bool = False) -> _Method[P, T]:
    """A method that runs a statement on the connection that writes."""

    async def method(store: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.write(_bind(statement, *args, **kwargs), deletes=deletes)

    return method


def _bind(statement: _Statement[P, T], *args: P.args, **kwargs: P.kwargs) -> Work[T]:
    safe = [_encodable(each) for each in args]
    named = {name: _encodable(each) for name, each in kwargs.items()}
    return lambda connection: statement(connection, *safe, **named)  # type: ignore[arg-type] -- same types as before


def _encodable(value: object) -> object:
    """The value; for an id that contains half of a surrogate pair, one that nothing has."""
    return "" if isinstance(value, str) and _SURROGATE.search(value) else value


class SqliteStore:
    """A `Store`; base.py describes the methods."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database.writer, database.busy_timeout_ms, database.check_file)
        self._free_readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for connection in database.readers:
            self._free_readers.put(connection)
        self._reading = ThreadPoolExecutor(READERS, thread_name_prefix="harmonia-store-reader")

    @classmethod
    async def open(
        cls, path: Path | str | None, *, busy_timeout_s: float = _BUSY_TIMEOUT_S, max_bytes: int | None = None
    ) -> Self:
        """Open the store in a file, and migrate it; None is a store in memory. `max_bytes` limits the file's size,
        `busy_timeout_s` how long a write waits for another process."""

        def work() -> Self:
            load_cipher()
            place = None if path is None else Path(path)
            try:
                return cls(Database(place, busy_timeout_s=busy_timeout_s, max_bytes=max_bytes))
            except (sqlite3.Error, OSError, StoreError) as error:
                found = store_error(error)
                # Only the operator sees this error, and needs the path.
                raise StoreError(found.code, f"{place or MEMORY}: {found.message}", found.at) from error

        def close_unwanted(opening: Future[Self]) -> None:
            if not opening.cancelled() and opening.exception() is None:
                opening.result()._close()

        opener = ThreadPoolExecutor(1, thread_name_prefix="harmonia-store-opener")
        opening = opener.submit(work)
        opener.shutdown(wait=False)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(close_unwanted)
            raise

    add_output = _writes(responses.add_output)
    finish = _writes(responses.finish)
    load = _reads(responses.load)
    chain = _reads(responses.chain)
    items = _reads(responses.items)
    input_items = _reads(responses.input_items)
    delete = _writes(responses.delete, deletes=True)
    decide = _writes(responses.decide)
    check = _writes(responses.check)

    add_chats = _writes(chats.add)
    load_chat = _reads(chats.load)
    chat_place = _reads(chats.place)
    list_chats = _reads(chats.list_)
    change_chat = _writes(chats.change)
    put_turn = _writes(chats.put_turn)
    delete_turn = _writes(chats.delete_turn, deletes=True)
    delete_chat = _writes(chats.delete, deletes=True)

    async def begin(self, response: StoredResponse, inputs: Sequence[StoredItem]) -> None:
        server_id = self._database.server_id
        await self.write(lambda connection: responses.begin(connection, server_id, response, inputs))

    async def purge(self, older_than: int) -> int:
        count = 0
        while True:
            deleted = await self.write(
                lambda connection: responses.purge(connection, older_than, _PURGED_TOGETHER), deletes=True
            )
            count += deleted
            if deleted < _PURGED_TOGETHER:
                return count

    async def recover(self) -> tuple[str, ...]:
        return await self.write(lambda connection: responses.recover(connection, self._database.dead_among))

    async def close(self) -> None:
        """Wait for pending work, then close. Closing twice is allowed."""
        await asyncio.to_thread(self._close)

    async def write(self, work: Work[T], *, deletes: bool = False) -> T:
        return await asyncio.wrap_future(self._writer.submit(work, deletes=deletes))

    async def read(self, work: Work[T]) -> T:
        if not self._database.readers:
            return await self.write(work)
        try:
            reading = self._reading.submit(self._run_read, work)
        except RuntimeError:  # the pool was shut down
            raise StoreError(ErrorCode.STORE_UNAVAILABLE, "the store is closed") from None
        return await asyncio.wrap_future(reading)

    def _run_read(self, work: Work[T]) -> T:
        """Run a read in one transaction, so that its statements see the same state."""
        connection = self._free_readers.get()
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                # The log can only be emptied once the transaction has ended.
                with suppress(sqlite3.Error):
                    connection.execute("COMMIT")
        except Exception as error:
            failure = store_error(error)
            raise failure from failure.__cause__
        finally:
            self._free_readers.put(connection)

    def _close(self) -> None:
        self._reading.shutdown(wait=True)
        self._writer.close()
        self._database.close()


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# SQLITE_ERROR: a statement does not match the tables, because another program changed them.
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
# Only a bug of ours causes these: an id that exists, a text that is not Unicode, a value that is too large.
_BUGS: Final = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_TOOBIG,
}
_PRIMARY_CODE: Final = 0xFF  # the other bits distinguish kinds of one code


def store_error(error: Exception) -> HarmonyError:
    """An error of SQLite or the disk as a HarmonyError, whose message never contains stored data."""
    if isinstance(error, HarmonyError):
        return error
    found = StoreError(*_describe(error))
    if not isinstance(error, UnicodeError):  # it contains the whole text
        found.__cause__ = error
    return found


def _describe(error: Exception) -> tuple[ErrorCode, str]:
    if isinstance(error, OSError):
        return ErrorCode.STORE_UNAVAILABLE, f"the store cannot be used: {error.strerror or type(error).__name__}"
    if isinstance(error, msgspec.MsgspecError):
        return ErrorCode.STORE_DAMAGED, "a stored item cannot be decoded"
    # Errors of the Python module itself, such as use of a closed connection, have no code.
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & _PRIMARY_CODE
    if code in _DAMAGED:
        return ErrorCode.STORE_DAMAGED, f"the store's file is damaged, or is not a store ({name})"
    if code in _BUGS:
        return ErrorCode.SERVE_BUG, f"the store was given an invalid value ({name})"
    return ErrorCode.STORE_UNAVAILABLE, f"the store is unavailable ({name})"
