"""Whether files can be created, and whether other users can read them."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


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


def mode_open_to_others(path: Path) -> str:
    """The mode of a file that other users may read or write; empty if they may not."""
    if os.name == "nt":
        return ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if mode & _OTHERS else ""


def chmod_command(path: Path) -> str:
    return f"chmod 600 {shlex.quote(str(path))}"
