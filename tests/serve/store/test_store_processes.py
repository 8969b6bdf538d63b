"""Several processes on one file, and processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from harmonia.serve.store.base import StoredTurn
from harmonia.serve.store.sqlite import SqliteStore
from tests.support.strategies.stored_responses import a_response, an_item, with_store
from tests.support.watchdog import WATCHDOG_S

SCRIPT = Path(__file__).parent / "store_process.py"
NOBODY = 65534  # the number of the user without rights


@contextmanager
def process(*arguments: object) -> Generator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout
    return started.stdout.readline().strip()


def tell(started: subprocess.Popen[str]) -> None:
    assert started.stdin
    started.stdin.write("go\n")
    started.stdin.flush()


@pytest.mark.parametrize("lines", [1, 7, 60, 200])
def test_every_item_whose_write_returned_survives_kill_minus_nine(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "store.db"
    with process("write_items", path) as writer:
        for _ in range(lines):
            line_of(writer)
        writer.kill()
        writer.wait(WATCHDOG_S)
        assert writer.stdout
        rest = writer.stdout.read().split("\n")[:-1]  # the last line may be cut
    returned = lines + len(rest)

    async def use(store: SqliteStore) -> StoredTurn | None:
        assert await store.recover() == ("resp_endless",)
        return await store.load("ann", "resp_endless")

    found = with_store(path, use)
    assert found is not None
    assert [item.id for item in found.inputs] == ["msg_in"]
    # One more may have been written before its return was heard of.
    assert len(found.outputs) in (returned, returned + 1)
    expected = [an_item("x" * (index % 50) * 100, f"msg_{index}") for index in range(len(found.outputs))]
    assert list(found.outputs) == expected
    body = msgspec.json.decode(found.response.body)
    assert found.response.status == body["status"] == "failed"
    assert body["error"] == {"code": "server_error", "message": "the server stopped before the response ended"}
    assert body["id"] == "resp_endless"


def test_only_what_a_dead_server_left_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        mine = a_response()
        await store.begin(mine, [])
        with process("hold", path) as alive, process("hold", tmp_path / "elsewhere.db") as elsewhere:
            assert line_of(alive) == line_of(elsewhere) == "ready"
            assert await store.recover() == ()
            alive.send_signal(signal.SIGSTOP)  # it does not move, but it is not dead
            assert await store.recover() == ()
            alive.send_signal(signal.SIGCONT)
            alive.kill()
            alive.wait(WATCHDOG_S)
            assert await store.recover() == ("resp_held",)
            assert await store.recover() == ()
        found = await store.load("ann", mine.id)
        assert found is not None and found.response.status == "in_progress"
        assert len(list((tmp_path / "store.db-servers").iterdir())) == 1  # what the dead one left is removed

    with_store(path, use)
    assert not (tmp_path / "store.db-servers").exists()


def test_a_server_that_ends_well_leaves_nothing_to_recover(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process("hold", path) as server:
        assert line_of(server) == "ready"
        tell(server)
        assert server.wait(WATCHDOG_S) == 0

    async def use(store: SqliteStore) -> None:
        assert await store.recover() == ()
        found = await store.load("ann", "resp_held")
        assert found is not None and found.response.status == "completed"

    with_store(path, use)


def test_two_stores_of_one_process_know_that_both_are_alive(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        other = await SqliteStore.open(tmp_path / "store.db")
        response = a_response()
        await other.begin(response, [])
        assert await store.recover() == ()
        await other.close()
        assert await store.recover() == (response.id,)

    with_store(tmp_path / "store.db", use)


def test_a_copy_of_a_file_is_recovered_where_its_servers_are_unknown(tmp_path: Path) -> None:
    async def leave(store: SqliteStore) -> None:
        await store.begin(a_response("resp_left"), [])

    with_store(tmp_path / "store.db", leave)
    (tmp_path / "copy.db").write_bytes((tmp_path / "store.db").read_bytes())
    assert with_store(tmp_path / "copy.db", SqliteStore.recover) == ("resp_left",)


def test_servers_that_start_together_on_no_file_all_work(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    names = ["a", "b", "c", "d"]
    with (
        process("write_many", path, "a") as a,
        process("write_many", path, "b") as b,
        process("write_many", path, "c") as c,
        process("write_many", path, "d") as d,
    ):
        servers = [a, b, c, d]
        assert [line_of(server) for server in servers] == ["ready"] * 4
        for server in servers:
            tell(server)
        assert [line_of(server) for server in servers] == ["done"] * 4

    async def use(store: SqliteStore) -> None:
        for name in names:
            for number in range(20):
                found = await store.load(name, f"resp_{name}_{number}")
                assert (found is None) == (number % 5 == 0)
                assert found is None or len(found.inputs) == len(found.outputs) == 1

    with_store(path, use)


def test_processes_that_migrate_together_make_each_step_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process("migrate", path) as first, process("migrate", path) as second:
        assert line_of(first) == line_of(second) == "ready"
        tell(first)
        tell(second)
        assert int(line_of(first)) + int(line_of(second)) == 40


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere; the next test gives root up")
def test_a_folder_that_cannot_be_written_makes_the_store_unavailable(tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir(mode=0o555)
    with process("open_as", tmp_path / "sealed" / "store.db", os.geteuid()) as opener:
        assert line_of(opener) == "store.unavailable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_of_somebody_else_makes_the_store_unavailable() -> None:
    # Not below tmp_path, whose parents are closed to others: here the folder itself is to be the reason.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with_store(folder / "store.db", SqliteStore.check)
        (folder / "readable.db").write_bytes((folder / "store.db").read_bytes())
        (folder / "readable.db").chmod(0o444)
        folder.chmod(0o555)
        for file in ("new.db", "folder/new.db", "store.db", "readable.db"):
            with process("open_as", folder / file, NOBODY) as opener:
                assert line_of(opener) == "store.unavailable"
        with process("open_as", folder / "store.db", 0) as opener:
            assert line_of(opener) == "opened"
