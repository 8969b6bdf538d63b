"""The open file of a store: its connections, its permissions, and the lock that marks this server as alive.

1. The file and SQLite's `-wal` and `-shm` files beside it have mode 0600. Folders created for it have 0700.
2. A commit is on the disk when it returns (`synchronous=FULL` in WAL mode), so that a power failure loses nothing. The
   writer joins waiting writes in one commit, which makes up for the cost.
3. A refused file (newer, damaged, of another program) is left unchanged.
4. A file that is removed, replaced, truncated or overwritten while it is open is noticed before the next commit. SQLite
   would continue with its memory, and acknowledged data would be lost with the process.

Everything here blocks; it runs in the store's own threads.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.store.sqlite.migrations import check_version, migrate
from harmonia.serve.store.sqlite.process_locks import ServerLock

MEMORY: Final = ":memory:"
READERS: Final = 2

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_RETRY_S: Final = 0.01
# The header of a SQLite file (sqlite.org/fileformat.html): its first bytes never change while the file is open.
_HEADER_BYTES: Final = 100
_FORM_BYTES: Final = 24  # magic, page size, format versions, fractions
_PAGE_BYTES_AT: Final = 16
_PAGE_COUNT_AT: Final = 28


class Database:
    """One connection that writes, some that read, and the id of this server. A database in memory has no readers."""

    def __init__(self, path: Path | None, *, busy_timeout_s: float, max_bytes: int | None) -> None:
        self.busy_timeout_ms: Final = round(busy_timeout_s * 1000)
        self.readers: list[sqlite3.Connection] = []
        self._path = path and Path(os.path.realpath(path))
        self._server_lock: ServerLock | None = None
        self.server_id = MEMORY
        if self._path is None:
            self.writer = _connect(MEMORY, self.busy_timeout_ms)
            _prepare_writer(self.writer, max_bytes)
            migrate(self.writer)
            return
        _make_private(self._path)
        self._log_identity: tuple[int, int] | None = None
        # Stays open until SQLite has closed the file: closing it earlier would drop SQLite's locks (POSIX).
        self._file: BinaryIO = cast("BinaryIO", open(self._path, "rb", buffering=0))  # noqa: SIM115 -- closed with the database
        self._identity = _identity_of(self._file.fileno())
        # With mode=rw, a file that vanishes now is an error and not an empty store.
        address = f"{self._path.as_uri()}?mode=rw"
        self.writer = _connect(address, self.busy_timeout_ms)
        try:
            check_version(self.writer)
            _use_wal(self.writer, busy_timeout_s)
            _prepare_writer(self.writer, max_bytes)
            migrate(self.writer)
            for _ in range(READERS):
                self.readers.append(_connect(address, self.busy_timeout_ms))
                self.readers[-1].execute("PRAGMA query_only = ON")
            self._form = self._read_header()[:_FORM_BYTES]
            self._server_lock = ServerLock(self._path.with_name(f"{self._path.name}-servers"))
            self.server_id = self._server_lock.id
        except BaseException:
            self.close()
            raise

    def dead_among(self, server_ids: set[str]) -> set[str]:
        """Those of these servers that are certainly dead."""
        return self._server_lock.dead_among(server_ids) if self._server_lock else set()

    def check_file(self) -> None:
        """Raise a StoreError if the open file is no longer the one at its path, or is damaged."""
        if self._path is None:
            return
        if _identity_of(self._path) != self._identity:
            raise _lost("removed or replaced")
        log_identity = _identity_of(self._path.with_name(f"{self._path.name}-wal"))
        if self._log_identity is not None and log_identity != self._log_identity:
            raise _lost("separated from its log, which was removed or replaced")
        self._log_identity = log_identity
        if not self._is_whole():
            time.sleep(_RETRY_S)  # another server may be writing the log into it, beginning with the header
            if not self._is_whole():
                raise _lost("truncated or overwritten")

    def _is_whole(self) -> bool:
        header = self._read_header()
        if header[:_FORM_BYTES] != self._form:
            return False
        pages = int.from_bytes(header[_PAGE_COUNT_AT : _PAGE_COUNT_AT + 4], "big")
        page_bytes = int.from_bytes(header[_PAGE_BYTES_AT : _PAGE_BYTES_AT + 2], "big")
        return os.fstat(self._file.fileno()).st_size >= pages * (65536 if page_bytes == 1 else page_bytes)

    def _read_header(self) -> bytes:
        self._file.seek(0)
        return self._file.read(_HEADER_BYTES)

    def close(self) -> None:
        for connection in (*self.readers, self.writer):
            connection.close()
        if self._path is not None:
            self._file.close()
        if self._server_lock:
            self._server_lock.close()


def _identity_of(file: Path | int) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _lost(how: str) -> StoreError:
    return StoreError(ErrorCode.STORE_UNAVAILABLE, f"the store's file was {how} since the server opened it")


def _connect(address: str, busy_timeout_ms: int) -> sqlite3.Connection:
    # One thread at a time uses a connection, but not always the same one.
    connection = sqlite3.connect(address, uri=address != MEMORY, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
    return connection


def _prepare_writer(connection: sqlite3.Connection, max_bytes: int | None) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # no content in temporary files
    if max_bytes is not None:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page_bytes)}")


def _use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch to WAL mode. This needs exclusive access, for which SQLite does not wait if two servers start at once."""
    give_up_at = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_S)


def _make_private(path: Path) -> None:
    """Create the file and its folders if missing, and make the file private."""
    for folder in reversed(path.parents):
        # Another server may create them at the same time; existing folders keep their mode.
        with suppress(FileExistsError):
            if not folder.exists():
                folder.mkdir(mode=_FOLDER_MODE)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError, PermissionError):  # the mode of another user's file cannot be changed
            path.with_name(name).chmod(_FILE_MODE)
