"""Files of every version, from an empty one to a newer one than ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.base import StoredTurn
from harmonia.serve.store.sqlite import SqliteStore
from harmonia.serve.store.sqlite.migrations import MIGRATIONS, check_version, migrate
from tests.support.paths import ROOT
from tests.support.strategies.stored_responses import a_response, an_item, bytes_of_files, with_store

# What each version wrote, as SQL; a released one is never changed. Each has the same conversation in it.
VERSIONS = sorted((ROOT / "tests" / "data" / "store").glob("version-*.sql"))

FIRST = StoredTurn(
    a_response("resp_first", status="completed", text="one"),
    (an_item("What is 2 + 2?", "msg_question"),),
    (an_item("", "rs_thought", b"\x00sampled\xff"), an_item("4", "msg_answer", b"sampled")),
)
SECOND = StoredTurn(
    a_response("resp_second", previous_id="resp_first", created_at=2000, text="two"), (an_item("And 3 + 3?", "m"),), ()
)


def schema_of(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    finally:
        connection.close()


def fill(connection: sqlite3.Connection, dump: Path) -> None:
    connection.executescript(dump.read_text())
    connection.commit()


def test_there_is_a_file_of_every_version() -> None:
    assert [path.stem for path in VERSIONS] == [f"version-{number}" for number in range(1, len(MIGRATIONS) + 1)]


@pytest.mark.parametrize("dump", VERSIONS, ids=lambda path: path.stem)
def test_a_file_of_an_older_version_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path, dump: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    fill(connection, dump)
    assert check_version(connection) == int(dump.stem.removeprefix("version-"))
    connection.close()

    async def use(store: SqliteStore) -> None:
        assert await store.chain("ann", "resp_second") == (FIRST, SECOND)
        assert await store.recover() == ("resp_second",)
        assert await store.delete("ann", "resp_first")
        assert await store.chain("ann", "resp_second") is None
        await store.begin(a_response(), [an_item()])

    with_store(path, use)
    with_store(tmp_path / "new.db", SqliteStore.check)
    assert schema_of(path) == schema_of(tmp_path / "new.db")


def test_an_empty_file_becomes_a_store_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    connection = sqlite3.connect(path, isolation_level=None)
    assert check_version(connection) == 0
    assert migrate(connection) == len(MIGRATIONS)
    assert migrate(connection) == 0
    assert check_version(connection) == len(MIGRATIONS)
    connection.close()
    with_store(path, SqliteStore.check)


def test_a_newer_store_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        await store.begin(a_response(), [an_item()])

    with_store(path, use)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO harmonia_migrations VALUES (?)", (len(MIGRATIONS) + 1,))
    connection.execute("PRAGMA journal_mode = DELETE")  # not even this may be changed
    connection.close()
    before = bytes_of_files(path)
    with pytest.raises(StoreError) as caught:
        with_store(path, SqliteStore.check)
    assert caught.value.code == ErrorCode.STORE_NEWER
    assert bytes_of_files(path) == before
    assert [each.name for each in tmp_path.iterdir()] == ["store.db"]


def test_a_step_that_fails_leaves_the_steps_before_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path, isolation_level=None)
    good, bad = (
        ("CREATE TABLE a (x)", "INSERT INTO a VALUES (1)"),
        ("CREATE TABLE b (x)", "INSERT INTO nowhere VALUES (1)"),
    )
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, [good, bad])
    assert [name for name, _ in schema_of(path)] == ["a", "harmonia_migrations"]
    assert check_version(connection) == 1
    assert migrate(connection, [good, ("CREATE TABLE b (x)",), ("CREATE TABLE c (x)",)]) == 2
    assert connection.execute("SELECT x FROM a").fetchall() == [(1,)]
    connection.close()
