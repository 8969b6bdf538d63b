"""All checks in order, one finding at a time; what others depend on comes first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from harmonia.errors import HarmonyError
from harmonia.serve.config.settings import Settings
from harmonia.serve.config.sources import Loaded
from harmonia.serve.doctor.engine import check_model
from harmonia.serve.doctor.files import check_places
from harmonia.serve.doctor.findings import Finding, failure
from harmonia.serve.doctor.installation import check_installation, check_wanted_extras
from harmonia.serve.doctor.live_server import check_server
from harmonia.serve.http.ports import PortTaken, address_for_clients, check_port


async def examine(load: Callable[[], Loaded], *, timeout_s: float = 30.0) -> AsyncGenerator[Finding]:
    """Check what `harmonia serve` would start. `load` returns the settings, or raises their error."""
    for finding in check_installation():
        yield finding
    try:
        loaded = load()
    except HarmonyError as error:
        yield failure("settings", error)
        yield Finding("port", "skip", "not checked, nor were files and the engine: correct the settings first")
        return
    settings = loaded.settings
    changed = sorted(name for name, source in loaded.sources.items() if source.kind != "default")
    yield Finding("settings", "ok", f"set: {', '.join(changed)}" if changed else "all settings have their defaults")
    for note in loaded.notes:
        yield Finding("settings", "warn", note, "correct its name, or unset it")
    for finding in check_wanted_extras(settings):
        yield finding
    for finding in check_places(loaded):
        yield finding
    yield await _check_port(settings)
    async with aclosing(check_model(settings, timeout_s)) as findings:
        async for finding in findings:
            yield finding


async def examine_server(url: str, *, api_key: str | None = None, timeout_s: float = 30.0) -> AsyncGenerator[Finding]:
    """Check a running server."""
    async with aclosing(check_server(url, api_key, timeout_s)) as findings:
        async for finding in findings:
            yield finding


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
