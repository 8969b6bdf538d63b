"""The tables of the store, as numbered steps from an empty file to what this version of Harmonia reads.

1. Each step is one transaction and records its number in the table `harmonia_migrations`. After a crash, each step is
   complete or was never begun.
2. The number is read again once the write lock is held, so that of two processes that start together, one makes a step
   and the other finds it made.
3. A file with a higher number than ours is refused and left unchanged. So is a database that has tables but no number:
   it belongs to another program.
4. A released step is never edited; another one is added after it. There is no way back.

    responses --key--> secrets      one slot each; a slot is never deleted, only overwritten and used again
        ^
        +-- items                   inputs and outputs; deleted with their response
        +-- outputs                 the ids of outputs; the same

    chats --key--> secrets          a slot each, as above
        ^
        +-- chat_turns --key--> secrets     a slot each: a turn may be deleted or rewritten without the others

    decisions                       on approval requests; they outlive the response that asked

Why there are secrets. `secure_delete` overwrites what is deleted, but not the copies that SQLite leaves when it moves
rows from page to page (measured: of a thousand deleted rows, one or two were still in the file). So what people and
models wrote is encrypted with a secret of its response, and deleting the response overwrites that secret. SQLite never
moves the rows of `secrets`: all have one size, they are appended, and none is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from harmonia.errors import ErrorCode, StoreError

Migration = tuple[str, ...]

_VERSION_TABLE: Final = "CREATE TABLE IF NOT EXISTS harmonia_migrations (version INTEGER PRIMARY KEY)"


def _forgetting(name: str, table: str) -> str:
    return f"""
    CREATE TRIGGER {name} AFTER DELETE ON {table} BEGIN
        UPDATE secrets SET secret = zeroblob(32) WHERE slot = OLD.key;
        INSERT INTO free_slots (slot) VALUES (OLD.key);
    END
    """


_RESPONSES_AND_ITEMS: Final[Migration] = (
    "CREATE TABLE secrets (slot INTEGER PRIMARY KEY, secret BLOB NOT NULL CHECK (length(secret) = 32))",
    "CREATE TABLE free_slots (slot INTEGER PRIMARY KEY REFERENCES secrets (slot))",
    # The small columns come before the body, so that following a chain does not read the bodies.
    """
    CREATE TABLE responses (
        key INTEGER PRIMARY KEY REFERENCES secrets (slot),
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        previous_id TEXT,  -- no reference: when the previous one is deleted, the chain must be seen to be broken
        server TEXT NOT NULL,
        model TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        body BLOB NOT NULL
    )
    """,
    "CREATE INDEX responses_by_age ON responses (created_at)",
    "CREATE INDEX responses_in_progress ON responses (server) WHERE status = 'in_progress'",
    # `name` is a keyed hash of the item's id, which a client may have chosen.
    """
    CREATE TABLE items (
        key INTEGER PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (key) ON DELETE CASCADE,
        side TEXT NOT NULL CHECK (side IN ('input', 'output')),
        position INTEGER NOT NULL,
        name BLOB NOT NULL,
        content BLOB NOT NULL,
        UNIQUE (response, side, position)
    )
    """,
    "CREATE INDEX items_by_name ON items (response, name)",
    _forgetting("forget_the_secret", "responses"),
    "CREATE TABLE checks (one INTEGER PRIMARY KEY CHECK (one = 1), written INTEGER NOT NULL)",
    "INSERT INTO checks (one, written) VALUES (1, 0)",
)

# Output items by their ids, for clients that refer to them. The ids are random, so they need no encryption.
_OUTPUTS: Final[Migration] = (
    """
    CREATE TABLE outputs (
        id TEXT PRIMARY KEY,
        response INTEGER NOT NULL REFERENCES responses (key) ON DELETE CASCADE,
        position INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX outputs_by_response ON outputs (response)",
)

# The conversations of people. `changed` counts the changes of an owner's chats: the order of their list.
_CHATS: Final[Migration] = (
    """
    CREATE TABLE chats (
        key INTEGER PRIMARY KEY REFERENCES secrets (slot),
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        changed INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        leaf TEXT,
        content BLOB NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX chats_by_change ON chats (owner, changed)",
    # A parent is not deleted with its turns by a cascade: SQLite's go a thousand levels deep, and a chat may go deeper.
    """
    CREATE TABLE chat_turns (
        key INTEGER PRIMARY KEY REFERENCES secrets (slot),
        chat INTEGER NOT NULL REFERENCES chats (key) ON DELETE CASCADE,
        id TEXT NOT NULL,
        parent INTEGER REFERENCES chat_turns (key),
        position INTEGER NOT NULL,
        content BLOB NOT NULL,
        UNIQUE (chat, id),
        UNIQUE (chat, position)
    )
    """,
    "CREATE INDEX chat_turns_by_parent ON chat_turns (parent)",
    _forgetting("forget_the_secret_of_a_chat", "chats"),
    _forgetting("forget_the_secret_of_a_turn", "chat_turns"),
)

# Which approval requests were decided, until they expire. Their ids are random, so they need no encryption.
_DECISIONS: Final[Migration] = (
    """
    CREATE TABLE decisions (
        owner TEXT NOT NULL,
        request TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (owner, request)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX decisions_by_expiry ON decisions (expires_at)",
)

MIGRATIONS: Final[tuple[Migration, ...]] = (_RESPONSES_AND_ITEMS, _OUTPUTS, _CHATS, _DECISIONS)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Bring the file to the newest version; return how many steps this call made. Each is committed."""
    made = 0
    while check_version(connection, migrations) < len(migrations):
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = check_version(connection, migrations)
            if version < len(migrations):
                connection.execute(_VERSION_TABLE)
                for statement in migrations[version]:
                    connection.execute(statement)
                connection.execute("INSERT INTO harmonia_migrations (version) VALUES (?)", (version + 1,))
                made += 1
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return made


def check_version(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The number of the file's last step. Raises a StoreError if we cannot use the file."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "harmonia_migrations" not in tables:
        if tables:
            raise StoreError(ErrorCode.STORE_DAMAGED, "the file is the database of another program, not a store")
        return 0
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM harmonia_migrations").fetchone()
    if version > len(migrations):
        message = f"the store has version {version}, but this Harmonia reads up to {len(migrations)}"
        raise StoreError(ErrorCode.STORE_NEWER, f"{message}; nothing was changed")
    return version
