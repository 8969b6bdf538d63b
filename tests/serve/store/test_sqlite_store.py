"""The store's promises, one by one: what is written comes back, to its owner only, in order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harmonia.errors import ErrorCode, InputError, Position, StoreError
from harmonia.serve.store.base import Order, Page, StoredItem, StoredTurn
from harmonia.serve.store.sqlite import SqliteStore
from harmonia.serve.store.sqlite import responses as statements
from harmonia.serve.store.sqlite.backend import read_address
from harmonia.serve.store.store_urls import open_store
from tests.support.strategies.stored_responses import a_response, an_item, some_items, with_store
from tests.support.watchdog import WATCHDOG_S


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "store.db" if request.param == "file" else None


def test_a_response_comes_back_as_it_was_written(place: Path | None) -> None:
    response, inputs = a_response(), [an_item("a"), an_item("b", sampled=b"\x00\xff")]
    outputs = [an_item("c", sampled=b"tokens"), an_item("d")]

    async def use(store: SqliteStore) -> None:
        await store.begin(response, inputs)
        assert await store.load("ann", response.id) == StoredTurn(response, tuple(inputs), ())
        for index, item in enumerate(outputs):
            await store.add_output(response.id, index, item)
        await store.finish(response.id, "completed", b'{"status":"completed"}')
        found = await store.load("ann", response.id)
        assert found is not None
        assert (found.inputs, found.outputs) == (tuple(inputs), tuple(outputs))
        assert (found.response.status, found.response.body) == ("completed", b'{"status":"completed"}')

    with_store(place, use)


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    response, item = a_response(), an_item("out", sampled=b"s")

    async def write(store: SqliteStore) -> None:
        await store.begin(response, [])
        await store.add_output(response.id, 0, item)

    async def read(store: SqliteStore) -> StoredTurn | None:
        return await store.load("ann", response.id)

    with_store(tmp_path / "store.db", write)
    assert with_store(tmp_path / "store.db", read) == StoredTurn(response, (), (item,))


def test_writing_an_output_again_replaces_it_and_outputs_are_in_the_order_of_their_index(place: Path | None) -> None:
    response, first, second, other = a_response(), an_item("1"), an_item("2"), an_item("other")

    async def use(store: SqliteStore) -> tuple[StoredItem, ...]:
        await store.begin(response, [])
        await store.add_output(response.id, 1, second)
        await store.add_output(response.id, 0, other)
        await store.add_output(response.id, 0, first)
        found = await store.load("ann", response.id)
        assert found is not None
        return found.outputs

    assert with_store(place, use) == (first, second)


def test_nothing_of_one_owner_is_there_for_another(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        mine, theirs = a_response(), a_response(owner="bob")
        await store.begin(theirs, some_items(3))
        await store.begin(mine, some_items(3))
        # A chain that leads into another owner's data is not complete for anybody.
        crossing = a_response(previous_id=theirs.id)
        await store.begin(crossing, [])
        for owner in ("bob", "", "ANN", "ann\0", "%", "nobody"):
            assert await store.load(owner, mine.id) is None
            assert await store.chain(owner, mine.id) is None
            assert await store.input_items(owner, mine.id) is None
            assert await store.delete(owner, mine.id) is False
        assert await store.chain("ann", crossing.id) is None
        assert await store.chain("bob", crossing.id) is None
        assert await store.load("ann", mine.id) is not None
        assert await store.chain("bob", theirs.id) is not None

    with_store(place, use)


def test_an_id_that_cannot_be_is_not_found(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        for odd in ("", "\ud800", "resp_\udfff", "x" * 100_000, "' OR 1=1 --"):
            assert await store.load("ann", odd) is None
            assert await store.load(odd, "resp_1") is None
            assert await store.chain("ann", odd) is None
            assert await store.input_items("ann", odd) is None
            assert await store.delete("ann", odd) is False

    with_store(place, use)


def test_a_deleted_response_stays_deleted_and_breaks_the_chains_through_it(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        first = a_response()
        second = a_response(previous_id=first.id)
        third = a_response(previous_id=second.id)
        for each in (first, second, third):
            await store.begin(each, [an_item()])
        chain = await store.chain("ann", third.id)
        assert chain is not None and [turn.response.id for turn in chain] == [first.id, second.id, third.id]

        assert await store.delete("ann", second.id) is True
        assert await store.delete("ann", second.id) is False
        await store.add_output(second.id, 0, an_item())
        await store.finish(second.id, "completed", b"{}")

        assert await store.load("ann", second.id) is None
        assert await store.chain("ann", second.id) is None
        assert await store.chain("ann", third.id) is None
        assert await store.load("ann", third.id) is not None
        assert await store.chain("ann", first.id) is not None

    with_store(place, use)


def test_a_chain_that_comes_back_to_itself_is_damage(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        await store.begin(a_response("resp_a", previous_id="resp_b"), [])
        await store.begin(a_response("resp_b", previous_id="resp_c"), [])
        await store.begin(a_response("resp_c", previous_id="resp_b"), [])
        for start in ("resp_a", "resp_b", "resp_c"):
            with pytest.raises(StoreError) as caught:
                await store.chain("ann", start)
            assert caught.value.code == ErrorCode.STORE_DAMAGED

    with_store(place, use)


def test_a_long_chain_costs_a_fixed_number_of_statements_and_linear_work(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    turns = 4000

    async def use(store: SqliteStore) -> None:
        ids = [f"resp_{index}" for index in range(turns)]
        responses = [a_response(each, previous_id=ids[index - 1] if index else None) for index, each in enumerate(ids)]
        await asyncio.gather(*(store.begin(each, some_items(2)) for each in responses))
        found = await store.chain("ann", ids[-1])
        assert found is not None and [turn.response.id for turn in found] == ids
        assert all(len(turn.inputs) == 2 for turn in found)

    with_store(path, use)
    connection = sqlite3.connect(path)
    instructions: list[int] = []
    statements_run: list[int] = []
    for length in (turns // 2, turns):
        count = [0, 0]
        connection.set_trace_callback(lambda _, count=count: count.__setitem__(0, count[0] + 1))
        # It is called every 50 instructions of SQLite's machine.
        connection.set_progress_handler(lambda count=count: count.__setitem__(1, count[1] + 1), 50)
        found = statements.chain(connection, "ann", f"resp_{length - 1}")
        assert found is not None and len(found) == length
        statements_run.append(count[0])
        instructions.append(count[1])
    connection.close()
    assert statements_run == [2, 2]
    assert instructions[1] < instructions[0] * 2.2


def test_input_items_come_in_pages_in_both_orders(place: Path | None) -> None:
    items = some_items(7)

    async def pages(store: SqliteStore, order: Order, limit: int) -> list[StoredItem]:
        got: list[StoredItem] = []
        after: str | None = None
        while True:
            page = await store.input_items("ann", "resp_1", after=after, limit=limit, order=order)
            assert page is not None and len(page.items) <= limit
            got += page.items
            if not page.has_more:
                return got
            after = page.items[-1].id

    async def use(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1"), items)
        await store.add_output("resp_1", 0, an_item(item_id="msg_out"))
        for limit in (1, 2, 3, 7, 8):
            assert await pages(store, "asc", limit) == items
            assert await pages(store, "desc", limit) == items[::-1]
        assert await store.input_items("ann", "resp_1") == Page(tuple(items[::-1]), False)
        assert await store.input_items("ann", "resp_1", after="msg_0") == Page((), False)
        assert await store.input_items("ann", "resp_1", after="msg_unknown") is None
        assert await store.input_items("ann", "resp_1", after="\ud800") is None
        assert await store.input_items("ann", "resp_1", after="msg_out") is None  # an output

    with_store(place, use)


def test_pages_come_to_an_end_where_items_share_an_id(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        await store.begin(a_response("resp_1"), [an_item(text, "same") for text in "abc"] + [an_item("d", "other")])
        page = await store.input_items("ann", "resp_1", after="same", limit=1, order="asc")
        assert page is not None and [item.id for item in page.items] == ["other"]
        page = await store.input_items("ann", "resp_1", after="same", limit=1, order="desc")
        assert page == Page((), False)

    with_store(place, use)


def test_purging_deletes_what_is_older_and_ended(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        old = [a_response(status="completed", created_at=10) for _ in range(600)]
        kept = [
            a_response(status="completed", created_at=20),
            a_response(owner="bob", status="failed", created_at=21),
            a_response(created_at=10),
        ]
        await asyncio.gather(*(store.begin(each, [an_item()]) for each in (*old, *kept)))
        assert await store.purge(10) == 0
        assert await store.purge(20) == 600
        assert await store.purge(20) == 0
        assert all([await store.load(each.owner, each.id) is None for each in old])
        assert all([await store.load(each.owner, each.id) is not None for each in kept])

    with_store(place, use)


def test_many_tasks_write_and_read_at_once(place: Path | None) -> None:
    async def one(store: SqliteStore, number: int) -> None:
        owner = f"owner{number % 3}"
        response = a_response(f"resp_{number}", owner)
        await store.begin(response, some_items(2))
        items = [an_item(f"{number}.{index}") for index in range(4)]
        for index, item in enumerate(items):
            await store.add_output(response.id, index, item)
            found = await store.load(owner, response.id)
            assert found is not None and found.outputs == tuple(items[: index + 1])
        await store.finish(response.id, "completed", b"{}")
        if number % 4 == 0:
            assert await store.delete(owner, response.id)

    async def use(store: SqliteStore) -> None:
        await asyncio.gather(*(one(store, number) for number in range(60)))
        left = [number for number in range(60) if await store.load(f"owner{number % 3}", f"resp_{number}")]
        assert left == [number for number in range(60) if number % 4]

    with_store(place, use)


def test_the_event_loop_and_reads_go_on_while_a_write_waits_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        known, waiting = a_response(), a_response()
        await store.begin(known, [])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.begin(waiting, []))
        for _ in range(20):
            assert await store.load("ann", known.id) is not None
            assert await store.load("ann", waiting.id) is None
        assert not writing.done()
        other.execute("COMMIT")
        other.close()
        await writing
        assert await store.load("ann", waiting.id) is not None

    with_store(path, use, busy_timeout_s=WATCHDOG_S)


def test_a_cancelled_write_is_whole_or_not_there_and_the_store_goes_on(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        responses = [a_response() for _ in range(40)]
        tasks = [asyncio.create_task(store.begin(each, some_items(20))) for each in responses]
        for number, task in enumerate(tasks):
            if number % 2:
                task.cancel()
            await asyncio.sleep(0)  # let some begin, and some not
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await store.begin(last := a_response(), [])
        assert await store.load("ann", last.id) is not None
        for response, outcome in zip(responses, outcomes, strict=True):
            found = await store.load("ann", response.id)
            if outcome is None:
                assert found is not None
            if found is not None:
                assert found.inputs == tuple(some_items(20))

    with_store(tmp_path / "store.db", use)


def test_a_store_that_another_process_locks_for_too_long_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for attempt in (store.begin(a_response("resp_1"), []), store.check(), store.delete("ann", "resp_1")):
            with pytest.raises(StoreError) as caught:
                await attempt
            assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
        other.execute("COMMIT")
        other.close()
        await store.begin(a_response("resp_1"), [])
        await store.check()

    with_store(path, use, busy_timeout_s=0.05)


def test_what_the_store_cannot_hold_is_refused_without_a_word_of_it(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        taken = a_response("resp_taken")
        await store.begin(taken, [an_item("kept")])
        attempts: list[Callable[[], Awaitable[None]]] = [
            lambda: store.begin(a_response("resp_taken", "bob", text="PRIVATE"), [an_item("PRIVATE")]),
            lambda: store.begin(a_response("resp_4", previous_id="PRIVATE\ud800"), []),
            lambda: store.begin(a_response("resp_2"), [an_item(item_id="PRIVATE\ud800")]),
            lambda: store.begin(a_response("resp_3", created_at=10**30), [an_item("PRIVATE")]),
        ]
        for attempt in attempts:
            with pytest.raises(StoreError) as caught:
                await attempt()
            assert caught.value.code == ErrorCode.SERVE_BUG
            error: BaseException | None = caught.value
            while error is not None:
                assert "PRIVATE" not in repr(error)
                error = error.__cause__ or error.__context__
        found = await store.load("ann", "resp_taken")
        assert found is not None and found.response == taken and len(found.inputs) == 1
        assert await store.load("bob", "resp_taken") is None
        assert await store.load("ann", "resp_2") is None

    with_store(place, use)


def test_a_closed_store_says_so_and_closes_once(place: Path | None) -> None:
    async def use(store: SqliteStore) -> None:
        late = [asyncio.create_task(store.begin(a_response(f"resp_{number}"), [])) for number in range(10)]
        await asyncio.sleep(0)  # they are asked for
        await store.close()
        await store.close()
        await asyncio.gather(*late)  # what was asked for is written
        for attempt in (store.load("ann", "resp_1"), store.begin(a_response(), []), store.check(), store.recover()):
            with pytest.raises(StoreError) as caught:
                await attempt
            assert caught.value.code == ErrorCode.STORE_UNAVAILABLE

    with_store(place, use)


def test_opening_can_be_cancelled(tmp_path: Path) -> None:
    async def run() -> None:
        opening = asyncio.create_task(SqliteStore.open(tmp_path / "store.db"))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(run())
    with_store(tmp_path / "store.db", SqliteStore.check)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("sqlite:///responses.db", Path("responses.db")),
        ("sqlite:///a/b c/r%20.db", Path("a/b c/r%20.db")),
        ("sqlite:////var/lib/r.db", Path("/var/lib/r.db")),
        ("sqlite:///~/r.db", Path("~/r.db").expanduser()),
        ("sqlite://:memory:", None),
        ("sqlite:///:memory:", None),
    ],
)
def test_an_address_names_a_path(address: str, path: Path | None) -> None:
    assert read_address(address) == path


@pytest.mark.parametrize(
    "address",
    [
        "",
        "responses.db",
        "sqlite:",
        "sqlite:/responses.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:////folder/",
        "sqlite://responses.db",
        "sqlite:///r.db?mode=ro",
        "sqlite:///r.db#x",
        "sqlite:///r\0.db",
        "postgresql://localhost/x",
        "SQLITE:///r.db",
    ],
)
def test_a_wrong_address_is_a_wrong_setting(address: str) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_store(address))
    assert caught.value.code == ErrorCode.SERVE_INVALID_OPTION
    assert caught.value.at == Position(path="$.store")


def test_an_address_opens_a_store(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_store(f"sqlite:///{tmp_path}/a%20b/ü?.db".replace("?", ""))
        await store.check()
        await store.close()

    asyncio.run(run())
    assert (tmp_path / "a%20b" / "ü.db").is_file()
