"""The file itself: its mode, and what becomes of one that is full, damaged, newer or something else."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.sqlite import SqliteStore
from tests.support.servers.server_processes import server_process
from tests.support.strategies.stored_responses import a_response, an_item, some_items, with_store
from tests.support.watchdog import WATCHDOG_S


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_made_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    tmp_path.chmod(0o755)
    before = os.umask(0)
    try:

        async def use(store: SqliteStore) -> None:
            await store.begin(a_response(), [])
            files = sorted(each.name for each in path.parent.iterdir() if each.is_file())
            assert files == ["store.db", "store.db-shm", "store.db-wal"]
            assert {mode_of(path.parent / name) for name in files} == {0o600}
            assert mode_of(path.parent / "store.db-servers") == 0o700
            assert {mode_of(each) for each in (path.parent / "store.db-servers").iterdir()} == {0o600}

        with_store(path, use)
    finally:
        os.umask(before)
    assert mode_of(path.parent) == mode_of(path.parent.parent) == 0o700
    assert mode_of(tmp_path) == 0o755  # it was there


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o644)
    path.chmod(0o644)
    with_store(path, SqliteStore.check)
    assert mode_of(path) == 0o600


def test_two_names_of_one_file_are_one_store(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
        await store.begin(a_response("resp_1"), [])
        other = await SqliteStore.open(tmp_path / "link.db")
        assert await other.recover() == ()
        assert await other.load("ann", "resp_1") is not None
        await other.close()

    with_store(tmp_path / "store.db", use)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.db", "store.db"]


def test_a_full_store_refuses_writes_keeps_what_it_has_and_goes_on_after_deletions(tmp_path: Path) -> None:
    async def run() -> None:
        store = await SqliteStore.open(tmp_path / "store.db", max_bytes=400_000)
        kept: list[str] = []

        async def fill() -> None:
            while True:
                response = a_response()
                await store.begin(response, [an_item("x" * 20_000)])
                kept.append(response.id)

        with pytest.raises(StoreError) as caught:
            await fill()
        assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
        assert len(kept) > 5
        for response_id in kept:
            found = await store.load("ann", response_id)
            assert found is not None and len(found.inputs) == 1
        # Of several writes that wait together only the one that does not fit fails.
        large, small = a_response(), [a_response() for _ in range(3)]
        outcomes = await asyncio.gather(
            store.begin(large, [an_item("x" * 20_000)]),
            *(store.finish(each, "completed", b"{}") for each in kept),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], StoreError) and outcomes[1:] == [None] * len(kept)
        assert await store.load("ann", large.id) is None
        assert await store.delete("ann", kept[0])
        await asyncio.gather(*(store.begin(each, []) for each in small))
        await store.close()

    asyncio.run(run())


def test_a_path_where_no_file_can_be_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "store.db", Path("/proc/nowhere/store.db")):
        with pytest.raises(StoreError) as caught:
            with_store(path, SqliteStore.check)
        assert caught.value.code == ErrorCode.STORE_UNAVAILABLE


def test_a_file_that_vanishes_or_is_replaced_shows_in_the_check(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        await store.check()
        path.rename(tmp_path / "moved.db")
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await store.check()
            assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
            path.touch()
        path.unlink()
        (tmp_path / "moved.db").rename(path)
        await store.check()

    with_store(path, use)


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"something else" * 1000)


def remove_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("damage", [remove, replace, truncate, cut_short, overwrite, remove_log])
def test_a_file_that_is_damaged_while_it_is_open_is_noticed_before_anything_is_acknowledged(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "store.db"
    with_store(path, SqliteStore.check)

    async def use(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1"), ())
        damage(path)
        with pytest.raises(StoreError) as caught:
            await store.finish("resp_1", "completed", b"{}")
        assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
        with pytest.raises(StoreError) as caught:
            await store.check()
        assert caught.value.code == ErrorCode.STORE_UNAVAILABLE

    with_store(path, use)


@pytest.mark.parametrize("damage", [remove, replace, truncate, overwrite])
def test_a_server_whose_store_is_damaged_completes_no_stored_response_and_is_not_ready(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "store.db"
    question = {"model": "demo", "input": "Hello"}
    with (
        server_process("--store", f"sqlite:///{path}", folder=tmp_path) as server,
        httpx2.Client(base_url=server.url, timeout=WATCHDOG_S) as client,
    ):
        assert client.post("/v1/responses", json=question).json()["status"] == "completed"
        damage(path)
        assert client.post("/v1/responses", json=question).status_code == 503
        assert "response.completed" not in client.post("/v1/responses", json={**question, "stream": True}).text
        assert client.get("/ready").status_code == 503
        unstored = client.post("/v1/responses", json={**question, "store": False})
        assert unstored.json()["status"] == "completed"


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be looked at" * 100, b"SQLite format 3\0" * 300]
)
def test_a_file_that_is_no_database_is_damaged_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        with_store(path, SqliteStore.check)
    assert caught.value.code == ErrorCode.STORE_DAMAGED
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["store.db"]


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        with_store(path, SqliteStore.check)
    assert caught.value.code == ErrorCode.STORE_DAMAGED
    assert path.read_bytes() == before


def test_damage_in_the_middle_of_the_file_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        await asyncio.gather(*(store.begin(a_response(f"resp_{n}"), some_items(20)) for n in range(50)))

    async def read(store: SqliteStore) -> set[str]:
        codes: set[str] = set()
        for number in range(50):
            try:
                await store.load("ann", f"resp_{number}")
            except StoreError as error:
                codes.add(error.code)
        return codes

    with_store(path, fill)
    assert with_store(path, read) == set()
    content = bytearray(path.read_bytes())
    # The first pages have the schema and the version, without which it would not open.
    content[len(content) // 2 :] = b"\xa5" * (len(content) - len(content) // 2)
    path.write_bytes(content)
    assert with_store(path, read) == {ErrorCode.STORE_DAMAGED}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET content = zeroblob(length(content))",
        "UPDATE items SET content = x''",
        "UPDATE items SET position = position + 1",
        "UPDATE items SET side = 'output'",
        "UPDATE responses SET owner = 'ann' WHERE owner = 'bob'",
        "UPDATE responses SET body = zeroblob(10)",
        "UPDATE secrets SET secret = zeroblob(32)",
        "DROP TABLE items",
    ],
)
def test_rows_that_somebody_changed_are_damage_and_not_somebody_elses_content(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1", "bob" if "bob" in statement else "ann"), some_items(1))

    with_store(path, fill)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()

    async def read(store: SqliteStore) -> None:
        with pytest.raises(StoreError) as caught:
            await store.load("ann", "resp_1")
        assert caught.value.code == ErrorCode.STORE_DAMAGED
        with pytest.raises(StoreError) as caught:
            await store.chain("ann", "resp_1")
        assert caught.value.code == ErrorCode.STORE_DAMAGED

    with_store(path, read)


def test_a_response_whose_body_is_damaged_does_not_stop_the_recovery(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1"), [])
        await store.begin(a_response("resp_2"), [])

    async def recover(store: SqliteStore) -> None:
        assert await store.recover() == ("resp_1", "resp_2")
        found = await store.load("ann", "resp_1")
        assert found is not None and b'"status":"failed"' in found.response.body

    with_store(path, fill)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE responses SET body = x'00' WHERE id = 'resp_1'")
    connection.commit()
    connection.close()
    with_store(path, recover)
