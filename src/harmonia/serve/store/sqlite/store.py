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
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.base import (
    ChatChange,
    ChatLimits,
    ChatPage,
    Decision,
    Matcher,
    Order,
    Page,
    StoredChat,
    StoredChatTurn,
    StoredItem,
    StoredResponse,
    StoredTurn,
    TurnRefusal,
)
from harmonia.serve.store.encryption import load_cipher
from harmonia.serve.store.sqlite import chats as chat_statements
from harmonia.serve.store.sqlite import responses as statements
from harmonia.serve.store.sqlite.connection import MEMORY, READERS, Database
from harmonia.serve.store.sqlite.errors import store_error

MAX_TOGETHER: Final = 64
_RETRY_S: Final = 0.005
_ATTEMPT_MS: Final = 50

T = TypeVar("T")
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


_BUSY_TIMEOUT_S: Final = 10.0
_PURGED_TOGETHER: Final = 256  # other writes may come in between


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

    async def begin(self, response: StoredResponse, inputs: Sequence[StoredItem]) -> None:
        await self._write(
            partial(statements.begin, server_id=self._database.server_id, response=response, inputs=tuple(inputs))
        )

    async def add_output(self, response_id: str, index: int, item: StoredItem) -> None:
        await self._write(partial(statements.add_output, response_id=response_id, index=index, item=item))

    async def finish(self, response_id: str, status: str, body: bytes) -> None:
        await self._write(partial(statements.finish, response_id=response_id, status=status, body=body))

    async def load(self, owner: str, response_id: str) -> StoredTurn | None:
        if not _is_unicode(owner, response_id):
            return None
        return await self._read(partial(statements.load, owner=owner, response_id=response_id))

    async def chain(self, owner: str, response_id: str) -> tuple[StoredTurn, ...] | None:
        if not _is_unicode(owner, response_id):
            return None
        return await self._read(partial(statements.chain, owner=owner, response_id=response_id))

    async def items(self, owner: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        wanted = [id_ for id_ in ids if _is_unicode(id_)]
        if not wanted or not _is_unicode(owner):
            return {}
        return await self._read(partial(statements.items, owner=owner, ids=wanted))

    async def input_items(
        self, owner: str, response_id: str, *, after: str | None = None, limit: int = 20, order: Order = "desc"
    ) -> Page | None:
        if not _is_unicode(owner, response_id):
            return None
        return await self._read(
            partial(statements.input_items, owner=owner, response_id=response_id, after=after, limit=limit, order=order)
        )

    async def delete(self, owner: str, response_id: str) -> bool:
        if not _is_unicode(owner, response_id):
            return False
        return await self._write(partial(statements.delete, owner=owner, response_id=response_id), deletes=True)

    async def purge(self, older_than: int) -> int:
        count = 0
        while True:
            work = partial(statements.purge, older_than=older_than, limit=_PURGED_TOGETHER)
            deleted = await self._write(work, deletes=True)
            count += deleted
            if deleted < _PURGED_TOGETHER:
                return count

    async def decide(self, owner: str, decisions: Sequence[Decision], now: int) -> str | None:
        return await self._write(partial(statements.decide, owner=owner, decisions=tuple(decisions), now=now))

    async def recover(self) -> tuple[str, ...]:
        return await self._write(partial(statements.recover, dead_among=self._database.dead_among))

    async def check(self) -> None:
        # A real write: a full disk or a file that became read-only shows only then.
        await self._write(statements.check)

    # ── chats ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def add_chats(self, chats: Sequence[tuple[StoredChat, Sequence[StoredChatTurn]]], most: int) -> bool:
        return await self._write(partial(chat_statements.add, chats=tuple(chats), most=most))

    async def load_chat(self, owner: str, chat_id: str) -> tuple[StoredChat, tuple[StoredChatTurn, ...]] | None:
        if not _is_unicode(owner, chat_id):
            return None
        return await self._read(partial(chat_statements.load, owner=owner, chat_id=chat_id))

    async def chat_place(self, owner: str, chat_id: str) -> int | None:
        if not _is_unicode(owner, chat_id):
            return None
        return await self._read(partial(chat_statements.place, owner=owner, chat_id=chat_id))

    async def list_chats(
        self,
        owner: str,
        *,
        before: int | None = None,
        limit: int = 20,
        matches: Matcher | None = None,
        most_bytes: int | None = None,
    ) -> ChatPage:
        if not _is_unicode(owner):
            return ChatPage(())
        return await self._read(
            partial(
                chat_statements.list_, owner=owner, before=before, limit=limit, matches=matches, most_bytes=most_bytes
            )
        )

    async def change_chat(
        self, owner: str, chat_id: str, change: ChatChange, now: int
    ) -> StoredChat | Literal["no_leaf"] | None:
        if not _is_unicode(owner, chat_id):
            return None
        return await self._write(partial(chat_statements.change, owner=owner, chat_id=chat_id, change=change, now=now))

    async def put_turn(
        self, owner: str, chat_id: str, turn: StoredChatTurn, title: str, now: int, limits: ChatLimits
    ) -> StoredChat | TurnRefusal | None:
        if not _is_unicode(owner, chat_id):
            return None
        return await self._write(
            partial(
                chat_statements.put_turn,
                owner=owner,
                chat_id=chat_id,
                turn=turn,
                title=title,
                now=now,
                limits=limits,
            )
        )

    async def delete_turn(self, owner: str, chat_id: str, turn_id: str, now: int) -> StoredChat | None:
        if not _is_unicode(owner, chat_id, turn_id):
            return None
        return await self._write(
            partial(chat_statements.delete_turn, owner=owner, chat_id=chat_id, turn_id=turn_id, now=now), deletes=True
        )

    async def delete_chat(self, owner: str, chat_id: str) -> bool:
        if not _is_unicode(owner, chat_id):
            return False
        return await self._write(partial(chat_statements.delete, owner=owner, chat_id=chat_id), deletes=True)

    async def close(self) -> None:
        """Wait for pending work, then close. Closing twice is allowed."""
        await asyncio.to_thread(self._close)

    async def _write(self, work: Work[T], *, deletes: bool = False) -> T:
        return await asyncio.wrap_future(self._writer.submit(work, deletes=deletes))

    async def _read(self, work: Work[T]) -> T:
        if not self._database.readers:
            return await self._write(work)
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


def _is_unicode(*texts: str) -> bool:
    """Whether the texts can be ids: a lone surrogate cannot be encoded."""
    return all(text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text) for text in texts)
