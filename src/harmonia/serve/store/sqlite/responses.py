"""Statements on the tables of responses: plain functions of a connection, each run inside a transaction.

1. Every read names the owner. Writes to a response in progress come from the server that began it, and name its id,
   which cannot be guessed.
2. The number of statements does not depend on the length of a chain or the number of items, and their work is linear.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import structs

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.base import Decision, Order, Page, StoredItem, StoredResponse, StoredTurn
from harmonia.serve.store.encryption import ContentCipher, new_secret

Side = Literal["input", "output"]

# Decisions are kept longer than requests can be decided, because the clocks of servers may differ.
_KEPT_LONGER_S: Final = 86_400

_MOST_ITEMS: Final = 2**63 - 1
IN_PROGRESS: Final = "in_progress"
FAILED: Final = "failed"
STOPPED: Final = {"code": "server_error", "message": "the server stopped before the response ended"}

_COLUMNS: Final = "r.key, r.id, r.owner, r.previous_id, r.model, r.status, r.created_at, s.secret"
_RESPONSE: Final = f"SELECT {_COLUMNS}, r.body FROM responses AS r JOIN secrets AS s ON s.slot = r.key"
# UNION drops duplicates, so that a cycle ends. CROSS JOIN makes SQLite read the tables in that order.
_CHAIN: Final = """
    WITH RECURSIVE chain (key, previous_id) AS (
        SELECT key, previous_id FROM responses WHERE id = :id AND owner = :owner
        UNION
        SELECT r.key, r.previous_id FROM chain CROSS JOIN responses AS r
        WHERE r.id = chain.previous_id AND r.owner = :owner
    )
"""
_CHAIN_RESPONSES: Final = f"""
    {_CHAIN}
    SELECT {_COLUMNS}, r.body
    FROM chain CROSS JOIN responses AS r ON r.key = chain.key JOIN secrets AS s ON s.slot = r.key
"""
_CHAIN_ITEMS: Final = f"""
    {_CHAIN}
    SELECT i.response, i.side, i.position, i.content FROM chain CROSS JOIN items AS i ON i.response = chain.key
"""
_ADD_ITEM: Final = """
    INSERT INTO items (response, side, position, name, content) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (response, side, position) DO UPDATE SET name = excluded.name, content = excluded.content
"""
_ADD_OUTPUT: Final = "INSERT OR REPLACE INTO outputs (id, response, position) VALUES (?, ?, ?)"
_OUTPUTS: Final = f"""
    SELECT {_COLUMNS}, x'', i.position, i.content
    FROM json_each(?) AS wanted
    CROSS JOIN outputs AS o ON o.id = wanted.value
    JOIN responses AS r ON r.key = o.response AND r.owner = ?
    JOIN secrets AS s ON s.slot = r.key
    JOIN items AS i ON i.response = r.key AND i.side = 'output' AND i.position = o.position
"""


# Id, wire and sampled.
_ITEM_DECODER: Final = msgspec.msgpack.Decoder(tuple[str, bytes, bytes | None])


_DECISION: Final = "SELECT 1 FROM decisions WHERE owner = ? AND request = ?"


class _Response(NamedTuple):
    """A row of `responses` with its secret."""

    key: int
    id: str
    owner: str
    previous_id: str | None
    model: str
    status: str
    created_at: int
    secret: bytes
    body: bytes

    def cipher(self) -> ContentCipher:
        return ContentCipher(self.secret, self.owner, self.id)


class _ItemRow(NamedTuple):
    response: int
    side: Side
    position: int
    content: bytes


def begin(
    connection: sqlite3.Connection, server_id: str, response: StoredResponse, inputs: Sequence[StoredItem]
) -> None:
    secret = new_secret()
    cipher = ContentCipher(secret, response.owner, response.id)
    key = allocate_slot(connection, secret)
    connection.execute(
        "INSERT INTO responses (key, id, owner, previous_id, server, model, status, created_at, body)"
        " VALUES (:key, :id, :owner, :previous_id, :server, :model, :status, :created_at, :hidden)",
        {**structs.asdict(response), "key": key, "server": server_id, "hidden": cipher.encrypt(response.body, "body")},
    )
    rows = (_write_item(key, cipher, "input", position, item) for position, item in enumerate(inputs))
    connection.executemany(_ADD_ITEM, rows)


def add_output(connection: sqlite3.Connection, response_id: str, index: int, item: StoredItem) -> None:
    found = _find(connection, "WHERE r.id = ?", response_id)
    if found:
        connection.execute(_ADD_ITEM, _write_item(found.key, found.cipher(), "output", index, item))
        connection.execute(_ADD_OUTPUT, (item.id, found.key, index))


def finish(connection: sqlite3.Connection, response_id: str, status: str, body: bytes) -> None:
    found = _find(connection, "WHERE r.id = ?", response_id)
    if found:
        _end(connection, found, status, body)


def load(connection: sqlite3.Connection, owner: str, response_id: str) -> StoredTurn | None:
    found = _find(connection, "WHERE r.id = ? AND r.owner = ?", response_id, owner)
    if found is None:
        return None
    rows = connection.execute("SELECT response, side, position, content FROM items WHERE response = ?", (found.key,))
    return _turn(found, [_ItemRow(*row) for row in rows])


def chain(connection: sqlite3.Connection, owner: str, response_id: str) -> tuple[StoredTurn, ...] | None:
    parameters = {"id": response_id, "owner": owner}
    rows = (_Response(*row) for row in connection.execute(_CHAIN_RESPONSES, parameters))
    responses = {response.id: response for response in rows}
    in_order: dict[str, _Response] = {}
    wanted: str | None = response_id
    while wanted is not None:
        if wanted in in_order:
            raise StoreError(ErrorCode.STORE_DAMAGED, "a chain of stored responses contains a cycle")
        if wanted not in responses:
            return None
        in_order[wanted] = responses[wanted]
        wanted = responses[wanted].previous_id
    items: dict[int, list[_ItemRow]] = defaultdict(list)
    for row in connection.execute(_CHAIN_ITEMS, parameters):
        items[row[0]].append(_ItemRow(*row))
    return tuple(_turn(response, items[response.key]) for response in reversed(in_order.values()))


def items(connection: sqlite3.Connection, owner: str, ids: Sequence[str]) -> dict[str, StoredItem]:
    found: dict[str, StoredItem] = {}
    wanted = msgspec.json.encode([id_ for id_ in ids if id_.isascii()]).decode()
    for *response, position, content in connection.execute(_OUTPUTS, (wanted, owner)):
        read = _Response(*response)
        item = _read_item(read.cipher(), _ItemRow(read.key, "output", position, content))
        found[item.id] = item
    return found


def input_items(
    connection: sqlite3.Connection,
    owner: str,
    response_id: str,
    *,
    after: str | None = None,
    limit: int = 20,
    order: Order = "desc",
) -> Page | None:
    found = _find(connection, "WHERE r.id = ? AND r.owner = ?", response_id, owner)
    if found is None:
        return None
    cipher = found.cipher()
    direction, past, last, position = ("ASC", ">", "max", -1) if order == "asc" else ("DESC", "<", "min", _MOST_ITEMS)
    if after is not None:
        # If several items have one id, the last one counts, so that paging comes to an end.
        (position,) = connection.execute(
            f"SELECT {last}(position) FROM items WHERE response = ? AND name = ? AND side = 'input'",
            (found.key, cipher.name(after)),
        ).fetchone()
        if position is None:
            return None
    rows = connection.execute(
        "SELECT response, side, position, content FROM items WHERE response = ? AND side = 'input'"
        f" AND position {past} ? ORDER BY position {direction} LIMIT ?",
        (found.key, position, limit + 1),
    ).fetchall()
    items = tuple(_read_item(cipher, _ItemRow(*row)) for row in rows[:limit])
    return Page(items, len(rows) > limit)


def delete(connection: sqlite3.Connection, owner: str, response_id: str) -> bool:
    deleted = connection.execute("DELETE FROM responses WHERE id = ? AND owner = ?", (response_id, owner))
    return deleted.rowcount > 0


def purge(connection: sqlite3.Connection, older_than: int, limit: int) -> int:
    deleted = connection.execute(
        "DELETE FROM responses WHERE key IN"
        f" (SELECT key FROM responses WHERE created_at < ? AND status != '{IN_PROGRESS}' LIMIT ?)",
        (older_than, limit),
    )
    return deleted.rowcount


def decide(connection: sqlite3.Connection, owner: str, decisions: Sequence[Decision], now: int) -> str | None:
    """See `Store.decide`. The writer holds the lock of the database, so that no other decision comes in between."""
    for each in decisions:
        known = connection.execute(_DECISION, (owner, each.request_id)).fetchone()
        if each.runs and known is not None:
            return each.request_id
    connection.executemany(
        "INSERT OR IGNORE INTO decisions (owner, request, expires_at) VALUES (?, ?, ?)",
        [(owner, each.request_id, each.expires_at) for each in decisions],
    )
    connection.execute("DELETE FROM decisions WHERE expires_at < ?", (now - _KEPT_LONGER_S,))
    return None


def recover(connection: sqlite3.Connection, dead_among: Callable[[set[str]], set[str]]) -> tuple[str, ...]:
    running = connection.execute(f"SELECT DISTINCT server FROM responses WHERE status = '{IN_PROGRESS}'")
    found: list[_Response] = []
    for server in sorted(dead_among({server for (server,) in running})):
        rows = connection.execute(
            f"{_RESPONSE} WHERE r.status = '{IN_PROGRESS}' AND r.server = ? ORDER BY r.created_at, r.key", (server,)
        )
        found += [_Response(*row) for row in rows]
    for response in found:
        _end(connection, response, FAILED, _failed_body(response))
    return tuple(response.id for response in found)


def check(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE checks SET written = written + 1")


def allocate_slot(connection: sqlite3.Connection, secret: bytes) -> int:
    """Store a secret in a free slot, or in a new one at the end; see migrations.py."""
    (free,) = connection.execute("SELECT min(slot) FROM free_slots").fetchone()
    if free is None:
        added = connection.execute("INSERT INTO secrets (secret) VALUES (?)", (secret,)).lastrowid
        assert added is not None
        return added
    connection.execute("DELETE FROM free_slots WHERE slot = ?", (free,))
    connection.execute("UPDATE secrets SET secret = ? WHERE slot = ?", (secret, free))
    return free


def _find(connection: sqlite3.Connection, where: str, *parameters: str) -> _Response | None:
    row = connection.execute(f"{_RESPONSE} {where}", parameters).fetchone()
    return _Response(*row) if row else None


def _end(connection: sqlite3.Connection, response: _Response, status: str, body: bytes) -> None:
    hidden = response.cipher().encrypt(body, "body")
    connection.execute("UPDATE responses SET status = ?, body = ? WHERE key = ?", (status, hidden, response.key))


def _write_item(key: int, cipher: ContentCipher, side: Side, position: int, item: StoredItem) -> tuple[object, ...]:
    content = msgspec.msgpack.encode((item.id, item.wire, item.sampled))
    return (key, side, position, cipher.name(item.id), cipher.encrypt(content, side, position))


def _read_item(cipher: ContentCipher, row: _ItemRow) -> StoredItem:
    return StoredItem(*_ITEM_DECODER.decode(cipher.decrypt(row.content, row.side, row.position)))


def _turn(response: _Response, rows: list[_ItemRow]) -> StoredTurn:
    cipher = response.cipher()
    rows.sort(key=lambda row: row.position)
    inputs = tuple(_read_item(cipher, row) for row in rows if row.side == "input")
    outputs = tuple(_read_item(cipher, row) for row in rows if row.side == "output")
    body = cipher.decrypt(response.body, "body")
    _, id_, owner, previous_id, model, status, created_at, *_ = response
    return StoredTurn(StoredResponse(id_, owner, model, status, created_at, body, previous_id), inputs, outputs)


def _failed_body(response: _Response) -> bytes:
    """The stored resource, marked as failed. An unreadable one is replaced: it must not keep a server from starting."""
    try:
        body = msgspec.json.decode(response.cipher().decrypt(response.body, "body"), type=dict[str, Any])
    except (StoreError, msgspec.DecodeError):
        body = dict[str, Any](id=response.id, object="response", created_at=response.created_at)
        body |= {"model": response.model, "output": []}
    return msgspec.json.encode({**body, "status": FAILED, "error": STOPPED})
