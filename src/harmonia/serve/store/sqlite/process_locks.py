"""Which servers of a store are alive: each holds the lock of a file beside it, and the system releases the lock when
the process ends, however it ends.

    PATH            the database
    PATH-servers/   one empty file for each server, named by its id

This is exact on one machine, which is as far as SQLite's WAL goes. A heartbeat would have to guess from a clock, and
would fail a response of a server that was only suspended. Locks of a whole file (flock) belong to the open file, so two
stores in one process see each other too.

A server takes its lock before it writes anything under its id. So if an id is in the database and its lock is free, or
the file is gone, that server is dead. A forked child holds the lock as well: then the server counts as alive for
longer, which does no harm.

Not filelock: if a file system has no flock, it falls back to a lock that is only a file and survives a crash, and a
dead server would count as alive forever.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


class ServerLock:
    """This server's lock, held until `close` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        # Another server that cleans up may remove the file between its creation and its locking.
        while self._descriptor < 0:
            self.id = secrets.token_hex(16)
            self._descriptor = _create_locked(folder, folder / self.id)

    def dead_among(self, server_ids: set[str]) -> set[str]:
        """Those that are certainly dead. Their files are removed."""
        alive = {self.id}
        with contextlib.suppress(FileNotFoundError):
            for name in set(os.listdir(self._folder)) - alive:
                if _is_locked(self._folder / name):
                    alive.add(name)
                else:
                    (self._folder / name).unlink(missing_ok=True)
        return server_ids - alive

    def close(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            (self._folder / self.id).unlink(missing_ok=True)
        os.close(descriptor)
        with contextlib.suppress(OSError):  # another server is there
            self._folder.rmdir()


def _create_locked(folder: Path, path: Path) -> int:
    """The descriptor of a new locked file, or -1 if it was removed meanwhile."""
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileNotFoundError:
        return -1
    if _try_lock(descriptor) and path.exists():
        return descriptor
    os.close(descriptor)
    return -1


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)
