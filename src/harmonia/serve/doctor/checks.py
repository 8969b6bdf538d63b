"""Checks of what `harmonia serve` would start, in order: the installation, the settings, files, the port, the engine.

For a file that does not exist yet, a trial file beside it is created and removed. Existing files are not changed.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sized
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harmonia.errors import HarmonyError
from harmonia.run.engines.grammar_mask import why_unusable
from harmonia.run.private_files import chmod_command, mode_open_to_others, trial_file
from harmonia.run.tools.mcp.configuration import StdioServer, environment_for, read_servers
from harmonia.serve.config.settings import Settings
from harmonia.serve.config.sources import Loaded
from harmonia.serve.doctor.engine import check_model
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.http.ports import PortTaken, address_for_clients, check_port
from harmonia.serve.security.keys import read_api_keys, read_seal_keys
from harmonia.serve.store.store_urls import check_store
from harmonia.vocabulary.ranks import read_shipped

_OLDEST: Final = (3, 11)
_CORE: Final = ("harmonia", "msgspec", "tiktoken", "click")
# The modules of each extra, and optional ones that make it faster.
_SERVER: Final = ("starlette", "uvicorn", "cryptography", "prometheus_client", "httpx2", "jsonschema")
_FASTER: Final = ("httptools", "uvloop")
_TRANSFORMERS: Final = ("transformers", "torch", "accelerate")
# Before the release of gpt-oss.
_EARLIEST: Final = datetime(2025, 8, 1, tzinfo=UTC)
_TOLERANCE: Final = timedelta(minutes=5)


async def examine(load: Callable[[], Loaded], *, timeout_s: float = 30.0) -> AsyncGenerator[Finding]:
    """Check everything. `load` returns the settings, or raises their error."""
    for finding in _check_installation():
        yield finding
    try:
        loaded = load()
    except HarmonyError as error:
        yield failure("settings", error)
        yield Finding("others", "skip", "not checked until the settings are correct")
        return
    settings = loaded.settings
    changed = sorted(name for name, source in loaded.sources.items() if source.kind != "default")
    seen = f"changed from the defaults: {', '.join(changed)}" if changed else "all settings have their defaults"
    yield Finding("settings", "ok", seen)
    for note in loaded.notes:
        yield Finding("settings", "warn", note, "correct its name, or unset it")
    if settings.mcp is not None or settings.allow_client_mcp:
        yield _check_extra("mcp", ("mcp",))
    if settings.engine.startswith("transformers:"):
        yield _check_extra("transformers", _TRANSFORMERS)
    for finding in _check_files(loaded):
        yield finding
    yield await _check_port(settings)
    async with aclosing(check_model(settings, timeout_s)) as findings:
        async for finding in findings:
            yield finding


# ── the installation ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_installation() -> Iterator[Finding]:
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}, {sys.executable}"
    is_new = sys.version_info >= _OLDEST
    yield Finding("python", "ok" if is_new else "fail", found, "" if is_new else "install Python 3.11 or newer")
    yield Finding("packages", "ok", ", ".join(f"{name} {_version_of(name)}" for name in _CORE))
    yield _check_extra("server", _SERVER, _FASTER)
    yield _check_grammar()
    try:
        read_shipped()
        yield Finding("vocabulary", "ok", "complete; its digest is correct")
    except HarmonyError as error:
        yield failure("vocabulary", error, "reinstall harmonia")


def _check_extra(extra: str, modules: tuple[str, ...], faster: tuple[str, ...] = ()) -> Finding:
    name = f"extra {extra}"
    missing = [module for module in modules if find_spec(module) is None]
    install = f"pip install 'harmonia[{extra}]', or in a clone pip install '.[{extra}]'"
    if missing:
        return Finding(name, "fail", f"not installed: {', '.join(missing)}", install)
    there = ", ".join(f"{module} {_version_of(module)}" for module in modules)
    slower = [module for module in faster if find_spec(module) is None]
    if slower and sys.platform != "win32":
        return Finding(name, "warn", f"{there}; the server is slower without {', '.join(slower)}", install)
    return Finding(name, "ok", there)


def _check_grammar() -> Finding:
    """A missing grammar extra is a warning: constraints are then validated as far as possible, not enforced."""
    found = _check_extra("grammar", ("llguidance",))
    if found.verdict == "fail":
        seen = f"{found.seen}; transformers cannot be constrained, and inputs of custom tools are not validated"
        return Finding(found.name, "warn", seen, found.advice)
    wrong = why_unusable()
    return found if wrong is None else Finding(found.name, "warn", wrong, "reinstall it")


def _version_of(module: str) -> str:
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return "(unknown version)"


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_files(loaded: Loaded) -> Iterator[Finding]:
    """Check all files that the settings name, and the default ones."""
    settings, config = loaded.settings, loaded.config
    if config is not None:
        yield _guarded("config", lambda: _check_config(config, settings))
    yield _guarded("api keys", lambda: _check_api_keys(settings))
    try:
        store, seal_keys = settings.store_address(), settings.seal_key_path()
    except OSError as error:
        seen = f"the user's state folder cannot be created: {error.strerror}: {error.filename}"
        advice = "set XDG_STATE_HOME to a writable folder, or use --store and --seal-key-file"
        yield Finding("store", "fail", seen, advice)
    else:
        yield _guarded("store", lambda: Finding("store", *check_store(store)))
        yield _guarded("seal keys", lambda: _check_seal_keys(seal_keys))
        yield _guarded("clock", lambda: _check_clock(seal_keys))
    if settings.mcp is not None:
        servers = Path(settings.mcp)
        yield _guarded("mcp", lambda: _check_mcp(servers))


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """Report an unreadable folder as a finding."""
    try:
        return check()
    except HarmonyError as error:
        return failure(name, error)
    except OSError as error:
        advice = "check the owner and the mode of the file and its folders"
        return Finding(name, "fail", f"{error.filename}: {error.strerror}", advice)


def _check_config(path: Path, settings: Settings) -> Finding:
    if settings.engine_api_key is not None and (mode := mode_open_to_others(path.stat())):
        seen = f"other users can read {path} (mode {mode}), and it contains a key"
        return Finding("config", "warn", seen, f"{chmod_command(path)}, or move the key to HARMONIA_ENGINE_API_KEY")
    return Finding("config", "ok", f"{path} is valid")


def _check_api_keys(settings: Settings) -> Finding:
    path = settings.api_key_file
    # Settings that expose a server without keys are refused, unless they say insecure.
    if path is None and settings.insecure:
        seen = f"none, and --insecure: everyone who can reach {settings.host} may use the model"
        advice = "create a key with `harmonia keys new NAME --file FILE` and add --api-key-file FILE"
        return Finding("api keys", "warn", seen, advice)
    if path is None:
        return Finding("api keys", "ok", f"none: every user of this machine may use the server, at {settings.host}")
    if not (keys := read_api_keys(Path(path))):
        return Finding("api keys", "fail", f"{path} has no key", f"harmonia keys new NAME --file {shlex.quote(path)}")
    return Finding("api keys", "ok", f"{_count(keys, 'key')} in {path}")


def _check_seal_keys(path: Path) -> Finding:
    if path.exists():
        keys = read_seal_keys(path)
        return Finding("seal keys", "ok", f"{_count(keys, 'key')} in {path}, the newest from {keys[-1].created}")
    try:
        with trial_file(path):
            return Finding("seal keys", "ok", f"{path} will be created")
    except OSError as error:
        seen = f"{path} cannot be created: {error.strerror}"
        return Finding("seal keys", "fail", seen, "name another file with --seal-key-file")


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
    return Finding("mcp", "ok", f"{_count(servers, 'server')} in {path}: {', '.join(s.name for s in servers)}")


def _count(things: Sized, what: str) -> str:
    return f"{len(things)} {what}" if len(things) == 1 else f"{len(things)} {what}s"


# ── the port ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _check_port(settings: Settings) -> Finding:
    place = f"{settings.host} port {settings.port}"
    try:
        await check_port(settings)
    except HarmonyError as error:
        if isinstance(error, PortTaken) and error.is_ours:
            url = address_for_clients(settings.host, settings.port)
            advice = f"check it with `harmonia doctor --server {url}`; to start another, stop it or use --port"
            return Finding("port", "fail", f"{place} is used by a running Harmonia server", advice)
        return failure("port", error)
    return Finding("port", "ok", "any free port" if settings.port == 0 else f"{place} is free")
