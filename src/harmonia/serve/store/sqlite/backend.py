"""SQLite as a backend of the store.

sqlite:///responses.db       a file in the working directory
sqlite:////var/lib/h/r.db    an absolute path
sqlite://:memory:            lost when the process ends
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from harmonia.run.private_files import chmod_command, mode_open_to_others, trial_file
from harmonia.serve.store.base import Store
from harmonia.serve.store.sqlite.connection import MEMORY
from harmonia.serve.store.sqlite.store import SqliteStore
from harmonia.serve.store.store_urls import StoreCheck, invalid_address

_SCHEME: Final = "sqlite://"
_MAGIC: Final = b"SQLite format 3\x00"
_LEAST_FREE_BYTES: Final = 100 * 1024 * 1024


def read_address(address: str) -> Path | None:
    """The path in a URL such as `sqlite:///responses.db`; None is a store in memory."""
    rest = address.removeprefix(_SCHEME)
    path = rest.removeprefix("/")
    if path == MEMORY:
        return None
    if path == rest:
        raise invalid_address(address, "three slashes before a path, four before an absolute one")
    if not path or path.endswith("/"):
        raise invalid_address(address, "a file name at the end")
    if any(character in path for character in "?#\0"):
        raise invalid_address(address, "a path without options")
    return Path(path).expanduser()


def normalize_address(address: str) -> str:
    path = read_address(address)
    return address if path is None else f"{_SCHEME}/{path}"


async def open_address(address: str) -> Store:
    return await SqliteStore.open(read_address(address))


def check_address(address: str) -> StoreCheck:
    path = read_address(address)
    if path is None:
        return StoreCheck("warn", "in memory: responses are lost when the server stops", "name a file with --store")
    if not path.exists():
        return _check_creation(path)
    if not path.is_file():
        return StoreCheck("fail", f"{path} is not a file", "name a file: --store sqlite:///PATH")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        # SQLite writes its log beside the file.
        return StoreCheck("fail", f"{path} or its folder is not writable", "change the owner or the mode")
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
        if head and head != _MAGIC:
            return StoreCheck("fail", f"{path} is not a SQLite file", "name another file with --store")
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.execute("BEGIN IMMEDIATE")  # a server waits longer for this
            connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return StoreCheck("warn", f"another program is writing {path}", "find out which one has it open")
        return StoreCheck("fail", f"{path} cannot be used: {error}", "restore a backup, or name another file")
    if mode := mode_open_to_others(path.stat()):
        return StoreCheck("warn", f"other users can read {path} (mode {mode})", chmod_command(path))
    free = shutil.disk_usage(path.parent).free
    if free < _LEAST_FREE_BYTES:
        return StoreCheck("warn", f"the disk of {path} has {free // 1024**2} MiB left", "free some space")
    return StoreCheck("ok", f"{path}, {path.stat().st_size / 1024**2:.1f} MiB")


def _check_creation(path: Path) -> StoreCheck:
    created, removed = ("", "") if path.parent.exists() else (" and its folder", ", with the folder")
    try:
        with trial_file(path) as trial, closing(sqlite3.connect(trial, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("CREATE TABLE trial (id INTEGER)")
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        advice = "make the folder writable for the server's user, or name another file with --store"
        return StoreCheck("fail", f"{path} cannot be created: {why}", advice)
    tried = f"a trial file in {path.parent} was written and removed{removed}"
    return StoreCheck("ok", f"{path}{created} will be created; {tried}")
