"""Responses to store, for the tests of the store and of what is built on it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from harmonia.serve.security.keys import new_id
from harmonia.serve.store.base import StoredItem, StoredResponse
from harmonia.serve.store.sqlite import SqliteStore
from tests.support.watchdog import WATCHDOG_S

T = TypeVar("T")


def a_response(
    response_id: str | None = None,
    owner: str = "ann",
    *,
    previous_id: str | None = None,
    status: str = "in_progress",
    created_at: int = 1000,
    text: str = "",
) -> StoredResponse:
    known = response_id or new_id("resp")
    body: dict[str, object] = {
        "id": known,
        "object": "response",
        "status": status,
        "error": None,
        "metadata": {"t": text},
    }
    return StoredResponse(known, owner, "gpt-oss", status, created_at, msgspec.json.encode(body), previous_id)


def an_item(text: str = "Hello!", item_id: str | None = None, sampled: bytes | None = None) -> StoredItem:
    return StoredItem(item_id or new_id("msg"), msgspec.json.encode({"type": "message", "text": text}), sampled)


def some_items(count: int) -> list[StoredItem]:
    return [an_item(f"item {index}", f"msg_{index}") for index in range(count)]


def with_store(path: Path | None, use: Callable[[SqliteStore], Awaitable[T]], *, busy_timeout_s: float = 10.0) -> T:
    """Open a store, use it and close it."""

    async def run() -> T:
        store = await SqliteStore.open(path, busy_timeout_s=busy_timeout_s)
        try:
            return await asyncio.wait_for(use(store), WATCHDOG_S)
        finally:
            await store.close()

    return asyncio.run(run())


def bytes_of_files(path: Path) -> bytes:
    """Everything that is on the disk of a store."""
    return b"\n".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")) if each.is_file())


def secrets_of(path: Path) -> dict[str, bytes]:
    """What each response in the file is encrypted under."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT id, secret FROM responses JOIN secrets ON slot = key")
        return dict(rows.fetchall())
    finally:
        connection.close()
