"""Statements on the tables of chats: plain functions of a connection, each run inside a transaction.

1. Every statement names the owner.
2. A chat and each of its turns have their own secrets. Rewritten content gets a new secret, so that no copy of the
   former content can be decrypted.
3. Writing a turn reads no other turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import structs

from harmonia.serve.store.base import (
    ChatChange,
    ChatLimits,
    ChatPage,
    Excerpt,
    Matcher,
    StoredChat,
    StoredChatTurn,
    TurnRefusal,
)
from harmonia.serve.store.encryption import ContentCipher, new_secret
from harmonia.serve.store.sqlite.responses import allocate_slot

_CHAT: Final = """
    SELECT c.key, c.id, c.owner, c.changed, c.created_at, c.updated_at, c.leaf, s.secret, c.content,
        (SELECT count(*) FROM chat_turns AS t WHERE t.chat = c.key)
    FROM chats AS c JOIN secrets AS s ON s.slot = c.key
"""
_TURNS: Final = """
    SELECT t.id, p.id, s.secret, t.content
    FROM chat_turns AS t JOIN secrets AS s ON s.slot = t.key LEFT JOIN chat_turns AS p ON p.key = t.parent
    WHERE t.chat = ? ORDER BY t.position
"""
_BRANCH: Final = """
    WITH RECURSIVE branch (key) AS (
        SELECT ? UNION ALL SELECT t.key FROM branch CROSS JOIN chat_turns AS t ON t.parent = branch.key
    )
"""


_MOST_CHANGES: Final = 2**63 - 1
# Title and settings.
_CONTENT_DECODER: Final = msgspec.msgpack.Decoder(tuple[str, bytes])


class _Chat(NamedTuple):
    """A row of `chats` with its secret, and how many turns it has."""

    key: int
    id: str
    owner: str
    changed: int
    created_at: int
    updated_at: int
    leaf: str | None
    secret: bytes
    content: bytes
    turns: int

    def read(self) -> StoredChat:
        cipher = ContentCipher(self.secret, self.owner, self.id)
        title, settings = _CONTENT_DECODER.decode(cipher.decrypt(self.content, "chat"))
        return StoredChat(self.id, self.owner, self.created_at, self.updated_at, title, settings, self.leaf, self.turns)


def add(
    connection: sqlite3.Connection, chats: Sequence[tuple[StoredChat, Sequence[StoredChatTurn]]], most: int
) -> bool:
    if not chats:
        return True
    owner = chats[0][0].owner
    (count,) = connection.execute("SELECT count(*) FROM chats WHERE owner = ?", (owner,)).fetchone()
    if count + len(chats) > most:
        return False
    # The first chat of a file becomes the first of the list.
    for chat, turns in reversed(chats):
        key = _add_chat(connection, chat)
        keys: dict[str, int] = {}
        for position, turn in enumerate(turns):
            parent = None if turn.parent is None else keys[turn.parent]
            keys[turn.id] = _add_turn(connection, chat, key, turn, parent, position)
    return True


def load(
    connection: sqlite3.Connection, owner: str, chat_id: str
) -> tuple[StoredChat, tuple[StoredChatTurn, ...]] | None:
    found = _find(connection, owner, chat_id)
    return None if found is None else (found.read(), tuple(_turns(connection, found, [])))


def place(connection: sqlite3.Connection, owner: str, chat_id: str) -> int | None:
    row = connection.execute("SELECT changed FROM chats WHERE id = ? AND owner = ?", (chat_id, owner)).fetchone()
    return row[0] if row else None


def list_(
    connection: sqlite3.Connection,
    owner: str,
    *,
    before: int | None = None,
    limit: int = 20,
    matches: Matcher | None = None,
    most_bytes: int | None = None,
) -> ChatPage:
    parameters = (owner, _MOST_CHANGES if before is None else before)
    rows = connection.execute(f"{_CHAT} WHERE c.owner = ? AND c.changed < ? ORDER BY c.changed DESC", parameters)
    found: list[tuple[StoredChat, Excerpt | None]] = []
    read_bytes = 0
    try:
        for row in rows:
            last = _Chat(*row)
            chat = last.read()
            if matches is None:
                found.append((chat, None))
            else:
                sizes = [len(last.content)]
                excerpt = matches(chat, _turns(connection, last, sizes))
                read_bytes += sum(sizes)
                if excerpt is not None:
                    found.append((chat, excerpt))
            if len(found) >= limit or (most_bytes is not None and read_bytes >= most_bytes):
                has_more = rows.fetchone() is not None
                return ChatPage(
                    tuple(found), last.changed if has_more else None, last.id if has_more else None, read_bytes
                )
    finally:
        rows.close()
    return ChatPage(tuple(found), read_bytes=read_bytes)


def change(
    connection: sqlite3.Connection, owner: str, chat_id: str, change: ChatChange, now: int
) -> StoredChat | Literal["no_leaf"] | None:
    found = _find(connection, owner, chat_id)
    if found is None:
        return None
    chat = found.read()
    if change.leaf is not msgspec.UNSET:
        if change.leaf is not None and _turn_key(connection, found, change.leaf) is None:
            return "no_leaf"
        chat = structs.replace(chat, leaf=change.leaf)
        _show(connection, found, change.leaf)
    if change.title is not None or change.settings is not None:
        chat = structs.replace(
            chat,
            title=chat.title if change.title is None else change.title,
            settings=chat.settings if change.settings is None else change.settings,
        )
        _write_chat(connection, found.key, chat)
    if change.settings is not None:  # a new title does not count as a change of the chat
        chat = _touch(connection, found, chat, now)
    return chat


def put_turn(
    connection: sqlite3.Connection,
    owner: str,
    chat_id: str,
    turn: StoredChatTurn,
    title: str,
    now: int,
    limits: ChatLimits,
) -> StoredChat | TurnRefusal | None:
    found = _find(connection, owner, chat_id)
    if found is None:
        return None
    parent = None
    if turn.parent is not None:
        parent = _turn_key(connection, found, turn.parent)
        if parent is None:
            return "no_parent"
    row = connection.execute(
        "SELECT key, parent, length(content) FROM chat_turns WHERE chat = ? AND id = ?", (found.key, turn.id)
    ).fetchone()
    # The length of a blob is known without reading it.
    (used, last) = connection.execute(
        "SELECT coalesce(sum(length(content)), 0), coalesce(max(position), -1) FROM chat_turns WHERE chat = ?",
        (found.key,),
    ).fetchone()
    if used - (row[2] if row else 0) + len(turn.body) > limits.bytes:
        return "too_large"
    chat = found.read()
    if row is None:
        if found.turns >= limits.turns:
            return "too_many"
        _add_turn(connection, chat, found.key, turn, parent, last + 1)
        _show(connection, found, turn.id)
        chat = structs.replace(chat, leaf=turn.id, turns=chat.turns + 1)
    elif row[1] != parent:
        return "other_parent"
    else:
        hidden = _encrypt_turn(_renew(connection, row[0]), chat, turn)
        connection.execute("UPDATE chat_turns SET content = ? WHERE key = ?", (hidden, row[0]))
    if title and not chat.title:
        chat = structs.replace(chat, title=title)
        _write_chat(connection, found.key, chat)
    return _touch(connection, found, chat, now)


def delete_turn(connection: sqlite3.Connection, owner: str, chat_id: str, turn_id: str, now: int) -> StoredChat | None:
    found = _find(connection, owner, chat_id)
    if found is None:
        return None
    row = connection.execute(
        "SELECT t.key, p.id FROM chat_turns AS t LEFT JOIN chat_turns AS p ON p.key = t.parent"
        " WHERE t.chat = ? AND t.id = ?",
        (found.key, turn_id),
    ).fetchone()
    if row is None:
        return None
    key, parent = row
    deleted = connection.execute(f"DELETE FROM chat_turns WHERE key IN ({_BRANCH} SELECT key FROM branch)", (key,))
    chat = found.read()
    chat = structs.replace(chat, turns=chat.turns - deleted.rowcount)
    if chat.leaf is not None and _turn_key(connection, found, chat.leaf) is None:
        _show(connection, found, parent)
        chat = structs.replace(chat, leaf=parent)
    return _touch(connection, found, chat, now)


def delete(connection: sqlite3.Connection, owner: str, chat_id: str) -> bool:
    return connection.execute("DELETE FROM chats WHERE id = ? AND owner = ?", (chat_id, owner)).rowcount > 0


def _find(connection: sqlite3.Connection, owner: str, chat_id: str) -> _Chat | None:
    row = connection.execute(f"{_CHAT} WHERE c.id = ? AND c.owner = ?", (chat_id, owner)).fetchone()
    return _Chat(*row) if row else None


def _turn_key(connection: sqlite3.Connection, chat: _Chat, turn_id: str) -> int | None:
    row = connection.execute("SELECT key FROM chat_turns WHERE chat = ? AND id = ?", (chat.key, turn_id)).fetchone()
    return row[0] if row else None


def _turns(connection: sqlite3.Connection, chat: _Chat, sizes: list[int]) -> Iterator[StoredChatTurn]:
    """The turns of a chat; the size of each one that is read goes to `sizes`."""
    rows = connection.execute(_TURNS, (chat.key,))
    try:
        for turn_id, parent, secret, content in rows:
            body = ContentCipher(secret, chat.owner, chat.id).decrypt(content, "turn", turn_id)
            sizes.append(len(body))
            yield StoredChatTurn(turn_id, parent, body)
    finally:
        rows.close()


def _add_chat(connection: sqlite3.Connection, chat: StoredChat) -> int:
    secret = new_secret()
    key = allocate_slot(connection, secret)
    connection.execute(
        "INSERT INTO chats (key, id, owner, changed, created_at, updated_at, leaf, content) VALUES (:key, :id, :owner,"
        " (SELECT coalesce(max(changed), 0) + 1 FROM chats WHERE owner = :owner),"
        " :created_at, :updated_at, :leaf, :content)",
        {**structs.asdict(chat), "key": key, "content": _encrypt_chat(secret, chat)},
    )
    return key


def _add_turn(
    connection: sqlite3.Connection,
    chat: StoredChat,
    chat_key: int,
    turn: StoredChatTurn,
    parent: int | None,
    position: int,
) -> int:
    secret = new_secret()
    key = allocate_slot(connection, secret)
    hidden = _encrypt_turn(secret, chat, turn)
    connection.execute(
        "INSERT INTO chat_turns (key, chat, id, parent, position, content) VALUES (?, ?, ?, ?, ?, ?)",
        (key, chat_key, turn.id, parent, position, hidden),
    )
    return key


def _write_chat(connection: sqlite3.Connection, key: int, chat: StoredChat) -> None:
    secret = _renew(connection, key)
    connection.execute("UPDATE chats SET content = ? WHERE key = ?", (_encrypt_chat(secret, chat), key))


def _encrypt_chat(secret: bytes, chat: StoredChat) -> bytes:
    content = msgspec.msgpack.encode((chat.title, chat.settings))
    return ContentCipher(secret, chat.owner, chat.id).encrypt(content, "chat")


def _encrypt_turn(secret: bytes, chat: StoredChat, turn: StoredChatTurn) -> bytes:
    return ContentCipher(secret, chat.owner, chat.id).encrypt(turn.body, "turn", turn.id)


def _renew(connection: sqlite3.Connection, key: int) -> bytes:
    """Replace a secret, for rewritten content."""
    secret = new_secret()
    connection.execute("UPDATE secrets SET secret = ? WHERE slot = ?", (secret, key))
    return secret


def _show(connection: sqlite3.Connection, chat: _Chat, leaf: str | None) -> None:
    connection.execute("UPDATE chats SET leaf = ? WHERE key = ?", (leaf, chat.key))


def _touch(connection: sqlite3.Connection, found: _Chat, chat: StoredChat, now: int) -> StoredChat:
    """Move a chat to the front of the list."""
    newest = connection.execute("SELECT max(changed) FROM chats WHERE owner = ?", (found.owner,)).fetchone()[0]
    changed = found.changed if newest == found.changed else newest + 1
    connection.execute("UPDATE chats SET changed = ?, updated_at = ? WHERE key = ?", (changed, now, found.key))
    return structs.replace(chat, updated_at=now)
