"""The files of a set-up: whether they are there, can be read and written, and are nobody else's.

Where a file is to be made, another one is made beside its place and removed again, with the folders that it needed:
what a system allows is known for sure only to who tries. What is there already is not changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from harmonia.errors import HarmonyError
from harmonia.run.tools.mcp.configuration import StdioServer, environment_for, read_servers
from harmonia.serve.config.default_paths import seal_key_path, store_address
from harmonia.serve.config.settings import Settings
from harmonia.serve.config.sources import Loaded
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.security.api_keys import read_api_keys
from harmonia.serve.security.seal_keys import read_seal_keys
from harmonia.serve.store.sqlite.store import read_address

_OTHERS: Final = 0o077
_SQLITE: Final = b"SQLite format 3\x00"
_LEAST_FREE_BYTES: Final = 100 * 1024 * 1024
# No clock that is right says less than this release's own year.
_EARLIEST: Final = datetime(2025, 8, 1, tzinfo=UTC)
_TOLERANCE: Final = timedelta(minutes=5)


def check_places(loaded: Loaded) -> Iterator[Finding]:
    """All files that the settings name, or that are made where they name none."""
    settings = loaded.settings
    if loaded.config is not None:
        yield _guarded("config", partial(_check_config, loaded.config, settings))
    yield _guarded("api keys", partial(_check_api_keys, settings))
    try:
        store, seal_keys = store_address(settings), seal_key_path(settings)
    except OSError as error:
        yield Finding(
            "store",
            "fail",
            f"the user's state folder cannot be made: {error.strerror}: {error.filename}",
            "set XDG_STATE_HOME to a folder that is writable, or name other places with --store and --seal-key-file",
        )
    else:
        yield _guarded("store", partial(_check_store, store))
        yield _guarded("seal keys", partial(_check_seal_keys, seal_keys))
        yield _guarded("clock", partial(_check_clock, seal_keys))
    if settings.mcp is not None:
        yield _guarded("mcp", partial(_check_mcp, Path(settings.mcp)))


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """A folder that may not even be looked into is a finding, too."""
    try:
        return check()
    except OSError as error:
        return Finding(name, "fail", f"{error.filename}: {error.strerror}", "see who owns it, and its folders")


def _check_config(path: Path, settings: Settings) -> Finding:
    if settings.engine_api_key is not None and (mode := _open_to_others(path)):
        return Finding(
            "config",
            "warn",
            f"{path} can be read by others (its mode is {mode}), and a key is set",
            f"{_chmod(path)}, or put the key into HARMONIA_ENGINE_API_KEY",
        )
    return Finding("config", "ok", f"{path} is read and understood")


def _check_store(address: str) -> Finding:
    path = read_address(address)
    if path is None:
        return Finding(
            "store", "warn", "in memory: responses are gone when the server stops", "name a file with --store"
        )
    if not path.exists():
        try:
            with _made_beside(path) as trial, closing(sqlite3.connect(trial, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                connection.execute("CREATE TABLE trial (id INTEGER)")
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            advice = "make the folder writable for whoever runs the server, or name another place with --store"
            return Finding("store", "fail", f"{path} cannot be made: {why}", advice)
        return Finding("store", "ok", f"{path} will be made; a trial beside it was written and removed")
    if not path.is_file():
        return Finding("store", "fail", f"{path} is no file", "name a file: --store sqlite:///PATH")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        # SQLite writes its log beside the file.
        return Finding("store", "fail", f"{path} or its folder cannot be written", "chown or chmod them")
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
        if head and head != _SQLITE:
            return Finding("store", "fail", f"{path} is no SQLite file", "name another file with --store")
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.execute("BEGIN IMMEDIATE")  # a server waits for this longer than we do
            connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return Finding("store", "warn", f"{path} is being written by another program", "see which one has it open")
        return Finding("store", "fail", f"{path} cannot be used: {error}", "put a copy back, or name another file")
    if mode := _open_to_others(path):
        return Finding("store", "warn", f"{path} can be read by others (its mode is {mode})", _chmod(path))
    free = shutil.disk_usage(path.parent).free
    if free < _LEAST_FREE_BYTES:
        return Finding("store", "warn", f"the disk of {path} has {free // 1024**2} MiB left", "make room")
    return Finding("store", "ok", f"{path}, {path.stat().st_size / 1024**2:.1f} MiB")


def _check_api_keys(settings: Settings) -> Finding:
    if settings.api_key_file is None:
        # The settings were refused where others reach the server, unless somebody said that they may.
        if settings.insecure:
            return Finding(
                "api keys",
                "warn",
                f"none, and --insecure: whoever reaches {settings.host} may use the model",
                "make a key with `harmonia keys new NAME --file FILE`, and say --api-key-file FILE",
            )
        return Finding("api keys", "ok", f"none: everybody on this machine may use it, at {settings.host}")
    try:
        keys = read_api_keys(Path(settings.api_key_file))
    except HarmonyError as error:
        return failure("api keys", error)
    if not keys:
        return Finding(
            "api keys",
            "fail",
            f"{settings.api_key_file} has no key",
            f"harmonia keys new NAME --file {shlex.quote(settings.api_key_file)}",
        )
    return Finding("api keys", "ok", f"{_count(len(keys), 'key')} in {settings.api_key_file}")


def _check_seal_keys(path: Path) -> Finding:
    if not path.exists():
        try:
            with _made_beside(path):
                pass
        except OSError as error:
            seen = f"{path} cannot be made: {error.strerror}"
            return Finding("seal keys", "fail", seen, "name another place with --seal-key-file")
        return Finding("seal keys", "ok", f"{path} will be made")
    try:
        keys = read_seal_keys(path)
    except HarmonyError as error:
        return failure("seal keys", error)
    return Finding("seal keys", "ok", f"{_count(len(keys), 'key')} in {path}, the last of {keys[-1].created}")


def _check_clock(path: Path) -> Finding:
    """Seals end by the clock. One that is behind opens what has expired, and one that is ahead ends everything."""
    now = datetime.now(UTC)
    says = f"it is {now:%Y-%m-%d %H:%M} UTC"
    advice = "set the clock, such as with `timedatectl set-ntp true`"
    if now < _EARLIEST:
        return Finding("clock", "fail", f"{says}, says the clock, which cannot be", advice)
    try:
        made = max(datetime.fromisoformat(key.created.replace("Z", "+00:00")) for key in read_seal_keys(path))
    except (HarmonyError, ValueError):
        return Finding("clock", "ok", says)
    if made > now + _TOLERANCE:
        return Finding("clock", "warn", f"{says}, and a sealing key was made at {made:%Y-%m-%d %H:%M}", advice)
    return Finding("clock", "ok", says)


def _check_mcp(path: Path) -> Finding:
    try:
        servers = read_servers(path)
    except HarmonyError as error:
        where = "" if str(path) in error.message else f"{path}, {error.at}: "
        return Finding("mcp", "fail", where + error.message, "docs/guides/mcp.md says what it looks like")
    lost = [
        f"{server.name}: {server.command}"
        for server in servers
        if isinstance(server, StdioServer)
        and shutil.which(server.command, path=environment_for(server).get("PATH")) is None
    ]
    if lost:
        return Finding("mcp", "warn", f"commands that are not found: {', '.join(lost)}", "install them, or mend PATH")
    return Finding("mcp", "ok", f"{_count(len(servers), 'server')} in {path}: {', '.join(s.name for s in servers)}")


@contextmanager
def _made_beside(path: Path) -> Generator[Path]:
    """A new file next to where another one is to be, with the folders that it needs, for as long as it is looked at.
    It has a name of its own, because a server that starts just now may make the other."""
    trial = path.absolute().with_name(f"{path.name}-doctor-{os.getpid()}")
    missing = [folder for folder in trial.parents if not folder.exists()]
    made: list[Path] = []
    try:
        for folder in reversed(missing):
            with suppress(FileExistsError):  # somebody else makes them, too
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
            with suppress(OSError):  # one that is in use by now
                folder.rmdir()


def _open_to_others(path: Path) -> str:
    """The mode of a file that others may read or write; empty where they may not."""
    if os.name == "nt":
        return ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if mode & _OTHERS else ""


def _chmod(path: Path) -> str:
    return f"chmod 600 {shlex.quote(str(path))}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
