"""Deletion really deletes: what is on the disk is searched.

What was written is encrypted under a secret of its response, so its text is never in the files; what has to go is the
secret. Each test first finds it there.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.sqlite import SqliteStore
from harmonia.serve.store.sqlite import responses as statements
from harmonia.serve.store.sqlite.migrations import migrate
from tests.support.strategies.stored_responses import a_response, an_item, bytes_of_files, secrets_of, with_store

MARK = "A-SENTENCE-NOBODY-ELSE-WROTE"


def test_no_text_is_in_the_files_and_after_deletion_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        response = a_response(text=MARK)
        await store.begin(response, [an_item(MARK * 500, item_id=f"msg_{MARK}")])
        await store.add_output(response.id, 0, an_item(MARK, sampled=MARK.encode() * 3000))
        await store.finish(response.id, "completed", f'"{MARK}"'.encode())
        found = await store.load("ann", response.id)
        assert found is not None and found.response.body == f'"{MARK}"'.encode()

        secret = secrets_of(path)[response.id]
        assert secret in bytes_of_files(path)
        assert MARK.encode() not in bytes_of_files(path)

        assert await store.delete("ann", response.id)
        on_disk = bytes_of_files(path)
        assert secret not in on_disk
        assert response.id.encode() not in on_disk
        assert (tmp_path / "store.db-wal").stat().st_size == 0

    with_store(path, use)


@pytest.mark.parametrize("seed", range(2))
def test_no_secret_survives_a_long_life_of_the_file(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(seed)
    secrets: dict[str, bytes] = {}
    live: list[str] = []

    async def add(store: SqliteStore, response_id: str) -> None:
        await store.begin(a_response(response_id, status="completed", created_at=chance.randint(0, 100)), [])
        await store.add_output(response_id, 0, an_item("x" * chance.randint(0, 6000)))
        await store.finish(response_id, "completed", b"x" * chance.randint(0, 3000))

    async def use(store: SqliteStore) -> None:
        for round_number in range(8):
            new = [f"resp_{round_number}_{number}" for number in range(chance.randint(5, 100))]
            await asyncio.gather(*(add(store, each) for each in new))
            live.extend(new)
            secrets.update(secrets_of(path))
            chance.shuffle(live)
            gone = [live.pop() for _ in range(chance.randint(1, len(live)))]
            await asyncio.gather(*(store.delete("ann", each) for each in gone))
            if round_number % 3 == 2:
                await store.purge(chance.randint(0, 100))
                live[:] = [each for each in live if each in secrets_of(path)]
            on_disk = bytes_of_files(path)
            assert {each for each, secret in secrets.items() if secret in on_disk} == set(live)
            assert all(on_disk.count(secrets[each]) == 1 for each in live)

    with_store(path, use)
    # A place that became free was used again: the table is as long as there ever were responses at once.
    connection = sqlite3.connect(path)
    (slots,) = connection.execute("SELECT count(*) FROM secrets").fetchone()
    (free,) = connection.execute("SELECT count(*) FROM free_slots").fetchone()
    connection.close()
    assert slots - free == len(live)
    assert slots < len(secrets)


def test_sqlite_never_moves_a_secret(tmp_path: Path) -> None:
    """It moves rows of other tables when their pages fill and empty, and leaves copies behind that outlive them."""
    path = tmp_path / "store.db"
    chance = random.Random(6)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = OFF", "secure_delete = ON", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    migrate(connection)
    live: dict[str, tuple[bytes, int | None]] = {}  # its secret, and where in the file that is

    def add(response_id: str) -> None:
        statements.begin(connection, "server", a_response(response_id), [])
        (secret,) = connection.execute(
            "SELECT secret FROM secrets JOIN responses ON slot = key WHERE id = ?", (response_id,)
        ).fetchone()
        live[response_id] = (secret, None)

    # The first page of a table is copied once, when a second is needed; SQLite clears it then.
    for number in range(400):
        add(f"resp_first_{number}")
    for round_number in range(10):
        for number in range(250):
            if not live or chance.random() < (0.75 if round_number % 2 else 0.25):
                add(f"resp_{round_number}_{number}")
            else:
                gone = chance.choice(list(live))
                assert statements.delete(connection, "ann", gone)
                del live[gone]
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        content = path.read_bytes()
        for response_id, (secret, place) in live.items():
            found = content.index(secret)
            assert place in (None, found)
            live[response_id] = (secret, found)
    connection.close()


def test_a_deletion_that_leaves_traces_because_of_another_reader_says_so_until_they_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        response = a_response()
        await store.begin(response, [])
        secret = secrets_of(path)[response.id]
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM responses").fetchone()
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await store.delete("ann", response.id)
            assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
            assert await store.load("ann", response.id) is None
            assert secret in bytes_of_files(path)
        await store.begin(other := a_response(), [])  # other writes do not mind
        assert await store.load("ann", other.id) is not None
        reader.execute("COMMIT")
        reader.close()
        assert await store.delete("ann", response.id) is False
        assert secret not in bytes_of_files(path)

    with_store(path, use, busy_timeout_s=0.05)


@pytest.mark.parametrize("then", ["another write", "another server"])
def test_traces_go_with_the_next_write_or_server(tmp_path: Path, then: str) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        response = a_response()
        await store.begin(response, [])
        secret = secrets_of(path)[response.id]
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM responses").fetchone()
        with pytest.raises(StoreError):
            await store.delete("ann", response.id)
        reader.execute("COMMIT")
        reader.close()
        assert secret in bytes_of_files(path)
        if then == "another write":
            await store.begin(a_response(), [])
            await store.check()  # the log is emptied after a write was answered, and before the next one
        else:
            await (await SqliteStore.open(path)).close()
        assert secret not in bytes_of_files(path)

    with_store(path, use, busy_timeout_s=0.05)


def test_deleting_what_is_not_there_does_not_touch_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1"), [])
        files = (path, tmp_path / "store.db-wal")
        before = [each.read_bytes() for each in files]
        assert all(before)
        assert await store.delete("ann", "resp_2") is False
        assert await store.delete("bob", "resp_1") is False
        assert await store.purge(0) == 0
        assert [each.read_bytes() for each in files] == before

    with_store(path, use)
