"""Chats in the store: the tree stays a tree, everybody sees their own, and what is deleted is gone from the files."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.base import ChatChange, ChatLimits, Excerpt, StoredChatTurn
from harmonia.serve.store.sqlite import SqliteStore
from tests.support.paths import ROOT
from tests.support.strategies.stored_chats import LIMITS, a_chat, a_stored_turn, secrets_of_chats
from tests.support.strategies.stored_responses import a_response, an_item, bytes_of_files, with_store

MARK = "A-SENTENCE-NOBODY-ELSE-WROTE"
DATA = ROOT / "tests" / "data" / "store"


async def chats_of(store: SqliteStore, owner: str = "ann") -> list[str]:
    return [chat.id for chat, _ in (await store.list_chats(owner, limit=100)).chats]


def test_a_chat_is_kept_with_its_turns_in_their_order(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chat = a_chat(title="Tea", settings=b'{"effort":"low"}')
        assert await store.add_chats([(chat, [])], 10)
        turns = [
            a_stored_turn("turn_1"),
            a_stored_turn("turn_2", "turn_1"),
            a_stored_turn("turn_0", "turn_1"),  # another branch
            a_stored_turn("turn_3"),  # another beginning
        ]
        for number, turn in enumerate(turns, 1):
            written = await store.put_turn("ann", chat.id, turn, "", 1000 + number, LIMITS)
            expected = msgspec.structs.replace(chat, leaf=turn.id, turns=number, updated_at=1000 + number)
            assert written == expected
            assert await store.load_chat("ann", chat.id) == (expected, tuple(turns[:number]))
        # Written anew, a turn keeps its place, and what is shown stays.
        turns[0] = a_stored_turn("turn_1", None, "Bye")
        written = await store.put_turn("ann", chat.id, turns[0], "no title is needed", 2000, LIMITS)
        assert written == msgspec.structs.replace(chat, leaf="turn_3", turns=4, updated_at=2000)
        assert await store.load_chat("ann", chat.id) == (written, tuple(turns))

    with_store(tmp_path / "store.db", use)


def test_a_turn_needs_its_parent_and_keeps_it(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chat, other = a_chat(), a_chat()
        await store.add_chats([(chat, [a_stored_turn("turn_1")]), (other, [a_stored_turn("turn_9")])], 10)

        async def put(turn_id: str, parent: str | None, limits: ChatLimits = LIMITS) -> object:
            return await store.put_turn("ann", chat.id, a_stored_turn(turn_id, parent), "", 1, limits)

        assert await put("turn_2", "turn_9") == "no_parent"
        assert await put("turn_2", "turn_2") == "no_parent"
        assert await put("turn_1", "turn_1") == "other_parent"
        await put("turn_2", "turn_1")
        assert await put("turn_1", "turn_2") == "other_parent"
        assert await put("turn_2", None) == "other_parent"
        assert await put("turn_3", None, ChatLimits(2, 10**6)) == "too_many"
        assert await put("turn_2", "turn_1", ChatLimits(2, 600)) != "too_large"
        assert await put("turn_2", "turn_1", ChatLimits(2, 300)) == "too_large"
        found = await store.load_chat("ann", chat.id)
        assert found is not None and [turn.id for turn in found[1]] == ["turn_1", "turn_2"]

    with_store(tmp_path / "store.db", use)


def test_the_first_title_stays_until_it_is_changed(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chat = a_chat()
        await store.add_chats([(chat, [])], 10)
        for title, expected in (("", ""), ("Tea", "Tea"), ("Coffee", "Tea")):
            written = await store.put_turn("ann", chat.id, a_stored_turn("turn_1"), title, 1, LIMITS)
            assert written is not None and not isinstance(written, str) and written.title == expected
        changed = await store.change_chat("ann", chat.id, ChatChange(title="Milk"), 2)
        assert changed is not None and changed != "no_leaf" and changed.title == "Milk"
        assert await store.change_chat("ann", chat.id, ChatChange(leaf="turn_9"), 3) == "no_leaf"

    with_store(tmp_path / "store.db", use)


def test_the_list_has_what_changed_last_first_and_pages(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        ids = [f"chat_{number}" for number in range(5)]
        for chat_id in ids:
            await store.add_chats([(a_chat(chat_id), [])], 10)
        await store.add_chats([(a_chat("chat_bob", "bob"), [])], 10)
        assert await chats_of(store) == ids[::-1]
        await store.put_turn("ann", "chat_1", a_stored_turn("turn_1"), "", 2, LIMITS)
        await store.change_chat("ann", "chat_3", ChatChange(settings=b"{}"), 2)
        await store.change_chat("ann", "chat_0", ChatChange(title="x"), 2)  # another name is nothing new in it
        await store.change_chat("ann", "chat_1", ChatChange(leaf=None), 2)  # nothing changed but what is shown
        order = ["chat_3", "chat_1", "chat_4", "chat_2", "chat_0"]
        assert await chats_of(store) == order
        before, seen = None, list[str]()
        while True:
            page = await store.list_chats("ann", before=before, limit=2)
            seen += [chat.id for chat, _ in page.chats]
            before = page.before
            if before is None:
                break
            assert page.last_id == seen[-1]
            assert await store.chat_place("ann", seen[-1]) == before
        assert seen == order
        assert await store.chat_place("bob", "chat_1") is None
        assert await store.delete_chat("ann", "chat_3")
        assert await chats_of(store) == order[1:]

    with_store(tmp_path / "store.db", use)


def test_chats_of_a_file_are_added_in_its_order_all_or_none(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chats = [(a_chat(f"chat_{number}"), [a_stored_turn("turn_1")]) for number in range(4)]
        assert not await store.add_chats(chats, 3)
        assert await chats_of(store) == []
        assert await store.add_chats(chats, 4)
        assert await chats_of(store) == ["chat_0", "chat_1", "chat_2", "chat_3"]
        assert await store.add_chats([(a_chat(owner="bob"), [])], 4)

    with_store(tmp_path / "store.db", use)


def test_a_look_reads_no_more_than_it_may(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        for number in range(4):
            turns = [a_stored_turn(f"turn_{at}", None, "x" * 1000) for at in range(3)]
            await store.add_chats([(a_chat(f"chat_{number}"), turns)], 10)

        def find(chat: object, turns: object) -> Excerpt | None:
            return Excerpt(None, "") if sum(1 for _ in turns) == 3 else None  # type: ignore[attr-defined]

        page = await store.list_chats("ann", limit=100, matches=find, most_bytes=5000)
        assert [chat.id for chat, _ in page.chats] == ["chat_3", "chat_2"]
        assert 5000 <= page.read_bytes < 9000 and page.last_id == "chat_2"
        page = await store.list_chats("ann", before=page.before, limit=100, matches=find, most_bytes=10**6)
        assert [chat.id for chat, _ in page.chats] == ["chat_1", "chat_0"] and page.before is None

    with_store(tmp_path / "store.db", use)


def test_what_belongs_to_another_is_not_there(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chat = a_chat(title="mine")
        await store.add_chats([(chat, [a_stored_turn("turn_1")])], 10)
        before = await store.load_chat("ann", chat.id)
        for owner in ("bob", "", "ann ", "\ud800"):
            assert await store.load_chat(owner, chat.id) is None
            assert await store.chat_place(owner, chat.id) is None
            assert (await store.list_chats(owner)).chats == ()
            assert await store.change_chat(owner, chat.id, ChatChange(title="yours"), 1) is None
            assert await store.put_turn(owner, chat.id, a_stored_turn("turn_2"), "", 1, LIMITS) is None
            assert await store.delete_turn(owner, chat.id, "turn_1", 1) is None
            assert not await store.delete_chat(owner, chat.id)
        assert await store.load_chat("ann", chat.id) == before

    with_store(tmp_path / "store.db", use)


def test_chats_are_not_purged_and_share_nothing_with_responses(tmp_path: Path) -> None:
    async def use(store: SqliteStore) -> None:
        chat = a_chat()
        await store.add_chats([(chat, [a_stored_turn("turn_1")])], 10)
        response = a_response(status="completed")
        await store.begin(response, [an_item()])
        assert await store.purge(10**9) == 1
        assert await store.load_chat("ann", chat.id) is not None
        # The place that became free is used again.
        await store.put_turn("ann", chat.id, a_stored_turn("turn_2", "turn_1"), "", 1, LIMITS)
        await store.begin(a_response("resp_1"), [])
        assert await store.delete_chat("ann", chat.id)
        assert await store.load("ann", "resp_1") is not None

    with_store(tmp_path / "store.db", use)


# ── deletion ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_of_a_deleted_chat_is_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        chat = a_chat(title=MARK, settings=f'{{"instructions":"{MARK}"}}'.encode())
        await store.add_chats([(chat, [a_stored_turn("turn_1", None, MARK * 500)])], 10)
        await store.put_turn("ann", chat.id, a_stored_turn("turn_2", "turn_1", MARK), "", 1, LIMITS)
        secrets = secrets_of_chats(path)
        assert set(secrets) == {chat.id, "turn_1", "turn_2"}
        on_disk = bytes_of_files(path)
        assert all(secret in on_disk for secret in secrets.values())
        assert MARK.encode() not in on_disk
        assert await store.delete_chat("ann", chat.id)
        on_disk = bytes_of_files(path)
        assert not any(secret in on_disk for secret in secrets.values())
        assert chat.id.encode() not in on_disk
        assert (tmp_path / "store.db-wal").stat().st_size == 0
        assert not await store.delete_chat("ann", chat.id)

    with_store(path, use)


def test_a_deleted_turn_and_those_behind_it_are_gone_and_the_others_are_there(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        chat = a_chat()
        pairs = [
            ("turn_1", None),
            ("turn_2", "turn_1"),
            ("turn_3", "turn_2"),
            ("turn_4", "turn_3"),
            ("turn_5", "turn_2"),
        ]
        await store.add_chats([(chat, [a_stored_turn(*pair) for pair in pairs])], 10)
        for leaf, expected in (("turn_4", "turn_2"), ("turn_5", "turn_5")):
            await store.put_turn("ann", chat.id, a_stored_turn("turn_3", "turn_2"), "", 1, LIMITS)
            await store.put_turn("ann", chat.id, a_stored_turn("turn_4", "turn_3"), "", 1, LIMITS)
            await store.change_chat("ann", chat.id, ChatChange(leaf=leaf), 1)
            secrets = secrets_of_chats(path)
            left = await store.delete_turn("ann", chat.id, "turn_3", 2)
            assert left is not None and (left.leaf, left.turns) == (expected, 3)
            on_disk = bytes_of_files(path)
            gone = {each for each, secret in secrets.items() if secret not in on_disk}
            assert gone == {"turn_3", "turn_4"}
        assert await store.delete_turn("ann", chat.id, "turn_3", 2) is None
        left = await store.delete_turn("ann", chat.id, "turn_1", 2)
        assert left is not None and (left.leaf, left.turns) == (None, 0)

    with_store(path, use)


def test_what_was_written_before_is_gone_with_the_next_deletion(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        chat = a_chat(title="before")
        await store.add_chats([(chat, [a_stored_turn("turn_1"), a_stored_turn("turn_2")])], 10)
        before = secrets_of_chats(path)
        await store.put_turn("ann", chat.id, a_stored_turn("turn_1", None, "after"), "", 1, LIMITS)
        await store.change_chat("ann", chat.id, ChatChange(title="after"), 1)
        await store.delete_turn("ann", chat.id, "turn_2", 1)
        on_disk = bytes_of_files(path)
        assert not any(secret in on_disk for secret in before.values())
        found = await store.load_chat("ann", chat.id)
        assert found is not None and found[0].title == "after" and b"after" in found[1][0].body

    with_store(path, use)


def test_a_chat_as_deep_as_any_is_deleted_from_any_turn(tmp_path: Path) -> None:
    """SQLite's own cascades end after a thousand levels."""
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        turns = [a_stored_turn(f"turn_{at}", f"turn_{at - 1}" if at else None) for at in range(2000)]
        await store.add_chats([(a_chat("chat_1"), turns), (a_chat("chat_2"), turns)], 10)
        secrets = secrets_of_chats(path)
        left = await store.delete_turn("ann", "chat_1", "turn_1", 1)
        assert left is not None and left.turns == 1
        assert await store.delete_chat("ann", "chat_2")
        on_disk = bytes_of_files(path)
        assert secrets["turn_1999"] not in on_disk

    with_store(path, use)


def test_content_that_was_moved_to_another_turn_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def use(store: SqliteStore) -> None:
        await store.add_chats([(a_chat("chat_1"), [a_stored_turn("turn_1"), a_stored_turn("turn_2")])], 10)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("UPDATE chat_turns SET id = 'turn_3' WHERE id = 'turn_1'")
        connection.close()
        with pytest.raises(StoreError) as caught:
            await store.load_chat("ann", "chat_1")
        assert caught.value.code is ErrorCode.STORE_DAMAGED

    with_store(path, use)


_ENDLESS = """
import asyncio, sys
from pathlib import Path
from harmonia.serve.store.sqlite import SqliteStore
from tests.support.strategies.stored_chats import LIMITS, a_chat, a_stored_turn

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    await store.add_chats([(a_chat("chat_endless"), [])], 10)
    parent, number = None, 0
    while True:
        turn = a_stored_turn(f"turn_{number}", parent, "x" * (number % 50) * 100)
        await store.put_turn("ann", "chat_endless", turn, "", number, LIMITS)
        print(number, flush=True)
        parent, number = turn.id, number + 1

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 40])
def test_every_turn_whose_write_returned_survives_kill_minus_nine(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "store.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _ENDLESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout
        for _ in range(lines):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split("\n")[:-1]
    returned = lines + len(rest)

    async def use(store: SqliteStore) -> None:
        found = await store.load_chat("ann", "chat_endless")
        assert found is not None
        chat, turns = found
        assert len(turns) in (returned, returned + 1)
        for number, turn in enumerate(turns):
            parent = f"turn_{number - 1}" if number else None
            assert turn == a_stored_turn(f"turn_{number}", parent, "x" * (number % 50) * 100)
        assert chat.leaf == turns[-1].id

    with_store(path, use)


# ── versions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filled(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.executescript((DATA / f"version-{version}.sql").read_text())
    connection.commit()
    connection.close()


def test_a_store_of_version_2_takes_chats_and_keeps_its_responses(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _filled(path, 2)

    async def use(store: SqliteStore) -> None:
        await store.add_chats([(a_chat("chat_1"), [a_stored_turn("turn_1")])], 10)
        chain = await store.chain("ann", "resp_second")
        assert chain is not None and len(chain) == 2
        assert await store.delete("ann", "resp_first")
        assert await store.load_chat("ann", "chat_1") is not None

    with_store(path, use)


def test_chats_of_version_3_are_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _filled(path, 3)

    async def use(store: SqliteStore) -> None:
        found = await store.load_chat("ann", "chat_kept")
        chat = a_chat("chat_kept", title="Tea", settings=b'{"effort":"low"}', leaf="turn_3", turns=3)
        turns = (
            a_stored_turn("turn_1", None, "Which tea?"),
            a_stored_turn("turn_2", "turn_1", "Green."),
            a_stored_turn("turn_3", "turn_1", "Black."),
        )
        assert found == (msgspec.structs.replace(chat, updated_at=2000), turns)
        assert await store.delete_chat("ann", "chat_kept")

    with_store(path, use)


# ── the tree ────────────────────────────────────────────────────────────────────────────────────────────────────────

IDS = st.sampled_from([f"turn_{number}" for number in range(8)])


class TreeAndModel(RuleBasedStateMachine):
    """One chat against a model: whatever is written and deleted, in whatever order, both have the same tree."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.runner.run(SqliteStore.open(Path(self.folder.name) / "store.db"))
        self.runner.run(self.store.add_chats([(a_chat("chat_1"), [])], 10))
        self.turns: dict[str, StoredChatTurn] = {}
        self.leaf: str | None = None

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    @rule(turn_id=IDS, parent=st.none() | IDS, text=st.text(max_size=3))
    def put(self, turn_id: str, parent: str | None, text: str) -> None:
        turn = a_stored_turn(turn_id, parent, text)
        found = self.runner.run(self.store.put_turn("ann", "chat_1", turn, "", 1, LIMITS))
        if parent is not None and parent not in self.turns:
            assert found == "no_parent"
        elif turn_id in self.turns and self.turns[turn_id].parent != parent:
            assert found == "other_parent"
        else:
            self.leaf = self.leaf if turn_id in self.turns else turn_id
            self.turns[turn_id] = turn

    @rule(turn_id=IDS)
    def delete(self, turn_id: str) -> None:
        found = self.runner.run(self.store.delete_turn("ann", "chat_1", turn_id, 1))
        assert (found is not None) == (turn_id in self.turns)
        if found is None:
            return
        parent = self.turns[turn_id].parent
        gone = {turn_id}
        while more := {turn.id for turn in self.turns.values() if turn.parent in gone} - gone:
            gone |= more
        self.turns = {each: turn for each, turn in self.turns.items() if each not in gone}
        self.leaf = parent if self.leaf in gone else self.leaf

    @rule(turn_id=st.none() | IDS)
    def show(self, turn_id: str | None) -> None:
        found = self.runner.run(self.store.change_chat("ann", "chat_1", ChatChange(leaf=turn_id), 1))
        if turn_id is not None and turn_id not in self.turns:
            assert found == "no_leaf"
        else:
            self.leaf = turn_id

    @invariant()
    def both_are_the_same_tree(self) -> None:
        found = self.runner.run(self.store.load_chat("ann", "chat_1"))
        assert found is not None
        chat, turns = found
        assert {turn.id: turn for turn in turns} == self.turns
        assert (chat.leaf, chat.turns) == (self.leaf, len(turns))
        seen: set[str | None] = {None}
        for turn in turns:  # each behind its parent, so that there is no circle
            assert turn.parent in seen
            seen.add(turn.id)


TestTreeAndModel = TreeAndModel.TestCase
TestTreeAndModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
