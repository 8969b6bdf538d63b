"""Files that only their owner can read (mode 0600), written whole or not at all.

1. A file is created or replaced in one step: whoever reads it sees all of the old content or all of the new.
2. Of two processes that create a file at the same time, one does; the other leaves that file as it is.

The functions raise OSError: what to do about it depends on the file.
"""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_FOR_OTHERS: Final = 0o077
# Windows has neither modes nor folders that can be opened.
_HAS_MODES: Final = os.name != "nt"
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)


def write_private(path: Path, data: bytes) -> None:
    """Create or replace a file. A replaced one keeps its owner; of a link, the file it leads to is replaced."""
    target = path.resolve()
    part = _write_part(target, data)
    try:
        if _HAS_MODES:
            with suppress(FileNotFoundError):
                before, made = target.stat(), os.stat(part)
                if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
                    # An administrator changes the keys of a server that runs as another user.
                    os.chown(part, before.st_uid, before.st_gid)
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise
    _sync_folder(target.parent)


def create_private(path: Path, data: bytes) -> bool:
    """Create a file, and its folder with mode 0700 if missing. False if the file exists; it is then left unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = _write_part(path, data)
    try:
        # Unlike a rename, a link never replaces a file; unlike O_EXCL, it never shows half of the content.
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        return _create_in_place(path, data)
    finally:
        os.unlink(part)
    _sync_folder(path.parent)
    return True


def mode_open_to_others(status: os.stat_result) -> str:
    """The mode of a file that other users may read or write; empty if they may not."""
    mode = stat.S_IMODE(status.st_mode)
    return f"{mode:04o}" if _HAS_MODES and mode & _FOR_OTHERS else ""


def chmod_command(path: Path) -> str:
    """The command that makes a file private."""
    return f"chmod 600 {shlex.quote(str(path))}"


@contextmanager
def trial_file(path: Path) -> Generator[Path]:
    """Create a file beside `path`, with missing folders, and remove all of it again: only trying shows what the system
    allows. It has its own name, because a server that starts now may create `path`."""
    trial = path.absolute().with_name(f"{path.name}-doctor-{os.getpid()}")
    missing = [folder for folder in trial.parents if not folder.exists()]
    made: list[Path] = []
    try:
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another program creates them, too
                folder.mkdir(mode=0o700)
                made.append(folder)
        os.close(os.open(trial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            yield trial
        finally:
            for name in (trial.name, f"{trial.name}-wal", f"{trial.name}-shm"):
                trial.with_name(name).unlink(missing_ok=True)
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # in use by now
                folder.rmdir()


def _write_part(path: Path, data: bytes) -> str:
    """A complete file beside the other, on the disk. mkstemp creates it with O_EXCL and mode 0600."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    _fill(descriptor, data, part)
    return part


def _create_in_place(path: Path, data: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    except FileExistsError:
        return False
    _fill(descriptor, data, path)
    return True


def _fill(descriptor: int, data: bytes, path: str | Path) -> None:
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    if not _HAS_MODES:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
