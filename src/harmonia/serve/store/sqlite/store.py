"""The store in one SQLite file, for one machine. Several servers may share the file.

The event loop never waits for the disk: one thread writes (writer.py), others read, each with its own connection.
Reads do not wait for writes. A read sees every write that had returned before it was requested.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal, Self, TypeVar

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
from harmonia.serve.store.sqlite.writer import Work, Writer

T = TypeVar("T")

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
