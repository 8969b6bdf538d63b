"""Checks of the configured files: that they exist, can be read and written, and are private.

For a file that does not exist yet, a trial file beside it is created and removed. Existing files are not changed.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from harmonia.errors import HarmonyError
from harmonia.run.private_files import chmod_command, mode_open_to_others, trial_file
from harmonia.run.tools.mcp.configuration import StdioServer, environment_for, read_servers
from harmonia.serve.config.settings import Settings
from harmonia.serve.config.sources import Loaded
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.security.keys import read_api_keys, read_seal_keys
from harmonia.serve.store.store_urls import check_store

_OTHERS: Final = 0o077
_SQLITE: Final = b"SQLite format 3\x00"
_LEAST_FREE_BYTES: Final = 100 * 1024 * 1024
# Before the release of gpt-oss.
_EARLIEST: Final = datetime(2025, 8, 1, tzinfo=UTC)
_TOLERANCE: Final = timedelta(minutes=5)


def check_places(loaded: Loaded) -> Iterator[Finding]:
    """Check all files that the settings name, and the default ones."""
    settings = loaded.settings
    if loaded.config is not None:
        yield _guarded("config", partial(_check_config, loaded.config, settings))
    yield _guarded("api keys", partial(_check_api_keys, settings))
    try:
        store, seal_keys = settings.store_address(), settings.seal_key_path()
    except OSError as error:
        yield Finding(
            "store",
            "fail",
            f"the user's state folder cannot be created: {error.strerror}: {error.filename}",
            "set XDG_STATE_HOME to a writable folder, or use --store and --seal-key-file",
        )
    else:
        yield _guarded("store", lambda: Finding("store", *check_store(store)))
        yield _guarded("seal keys", partial(_check_seal_keys, seal_keys))
        yield _guarded("clock", partial(_check_clock, seal_keys))
    if settings.mcp is not None:
        yield _guarded("mcp", partial(_check_mcp, Path(settings.mcp)))


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """Report an unreadable folder as a finding."""
    try:
        return check()
    except OSError as error:
        return Finding(
            name,
            "fail",
            f"{error.filename}: {error.strerror}",
            "check the owner and the mode of the file and its folders",
        )


def _check_config(path: Path, settings: Settings) -> Finding:
    if settings.engine_api_key is not None and (mode := mode_open_to_others(path.stat())):
        return Finding(
            "config",
            "warn",
            f"other users can read {path} (mode {mode}), and it contains a key",
            f"{chmod_command(path)}, or move the key to HARMONIA_ENGINE_API_KEY",
        )
    return Finding("config", "ok", f"{path} is valid")


def _check_api_keys(settings: Settings) -> Finding:
    if settings.api_key_file is None:
        # Settings that expose a server without keys are refused, unless they say insecure.
        if settings.insecure:
            return Finding(
                "api keys",
                "warn",
                f"none, and --insecure: everyone who can reach {settings.host} may use the model",
                "create a key with `harmonia keys new NAME --file FILE` and add --api-key-file FILE",
            )
        return Finding("api keys", "ok", f"none: every user of this machine may use the server, at {settings.host}")
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
            with trial_file(path):
                pass
        except OSError as error:
            seen = f"{path} cannot be created: {error.strerror}"
            return Finding("seal keys", "fail", seen, "name another file with --seal-key-file")
        return Finding("seal keys", "ok", f"{path} will be created")
    try:
        keys = read_seal_keys(path)
    except HarmonyError as error:
        return failure("seal keys", error)
    return Finding("seal keys", "ok", f"{_count(len(keys), 'key')} in {path}, the newest from {keys[-1].created}")


def _check_clock(path: Path) -> Finding:
    """Seals expire by the clock: a slow clock accepts expired ones, a fast clock rejects all."""
    now = datetime.now(UTC)
    says = f"it is {now:%Y-%m-%d %H:%M} UTC"
    advice = "set the clock, such as with `timedatectl set-ntp true`"
    if now < _EARLIEST:
        return Finding("clock", "fail", f"the clock says {now:%Y-%m-%d %H:%M} UTC, which is in the past", advice)
    try:
        made = max(datetime.fromisoformat(key.created.replace("Z", "+00:00")) for key in read_seal_keys(path))
    except (HarmonyError, ValueError):
        return Finding("clock", "ok", says)
    if made > now + _TOLERANCE:
        return Finding("clock", "warn", f"{says}, but a sealing key is from {made:%Y-%m-%d %H:%M}", advice)
    return Finding("clock", "ok", says)


def _check_mcp(path: Path) -> Finding:
    try:
        servers = read_servers(path)
    except HarmonyError as error:
        where = "" if str(path) in error.message else f"{path}, {error.at}: "
        return Finding("mcp", "fail", where + error.message, "docs/guides/mcp.md describes the file")
    lost = [
        f"{server.name}: {server.command}"
        for server in servers
        if isinstance(server, StdioServer)
        and shutil.which(server.command, path=environment_for(server).get("PATH")) is None
    ]
    if lost:
        return Finding("mcp", "warn", f"commands not found: {', '.join(lost)}", "install them, or correct PATH")
    return Finding("mcp", "ok", f"{_count(len(servers), 'server')} in {path}: {', '.join(s.name for s in servers)}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
