"""Choose the engine or provider of a server; say why, and what its operator should know of it.

1. An engine that is named is used, or is an error. Only `auto`, with no model named, falls back to `demo`, with a note.
2. A server never takes itself or another Harmonia for an engine: a Harmonia accepts messages but continues no prompts.
3. A note about a weakness says what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError
from harmonia.run.engines.http import Patience, Server, api_address
from harmonia.run.engines.registry import (
    QUICK,
    USUAL_HOST,
    Seen,
    discover,
    find_kind,
    is_gpt_oss,
    open_model,
    probe,
    usual_ports,
)
from harmonia.run.family_models import ProfiledEngine, with_profile
from harmonia.run.sampling import Model
from harmonia.serve.config.settings import Settings

HOW_TO_SERVE_A_MODEL: Final = (
    "to serve a model, start one such as `vllm serve openai/gpt-oss-20b`, `llama-server -hf ggml-org/gpt-oss-20b-GGUF` "
    "or `ollama run gpt-oss:20b`, and restart this server; or give the address of one with --engine"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """An open engine or provider, why it was chosen, and what to know of it."""

    model: Model
    why: str
    notes: tuple[str, ...] = ()


async def choose_model(settings: Settings, *, ports: Sequence[int] | None = None, patience: Patience = QUICK) -> Chosen:
    """The model that the settings name. `auto` looks at `ports` of this machine, by default the usual ones."""
    if settings.engine == "auto":
        return await _find(settings, ports, patience)
    kind, url = _read_name(settings.engine)
    seen: Seen | None = None
    if url is not None:
        _refuse_ourselves(url, settings)
        seen = await _reach(kind, url, settings, patience)
    try:
        model = await open_model(settings.engine, settings.model, **_options_for(kind, settings))
    except HarmonyError as error:
        if settings.engine_api_key is None and "asks for a key" in error.message:
            error.add_note("put its API key into HARMONIA_ENGINE_API_KEY")
        raise
    model = with_profile(model, settings.profile, settings.profiles)
    return Chosen(model, "chosen by the setting engine", tuple(_notes_on(model, settings, seen)))


async def is_harmonia(url: str, patience: Patience = QUICK, *, api_key: str | None = None) -> bool:
    """Whether the server at an address is a Harmonia server, as far as it reports."""
    try:
        return (await probe(url, api_key=api_key, patience=patience)).kind == "harmonia"
    except EngineError:
        return False


# ── auto ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _find(settings: Settings, ports: Sequence[int] | None, patience: Patience) -> Chosen:
    ports = tuple(usual_ports().values()) if ports is None else ports
    others = [port for port in ports if not _is_own_address(USUAL_HOST, port, settings)]
    try:
        found = await discover(settings.model, ports=others, api_key=settings.engine_api_key, patience=patience)
    except EngineError as error:
        if error.code is not ErrorCode.ENGINE_NONE_FOUND or settings.model is not None:
            raise
        looked = error.message.partition("; start one")[0]
        model = await open_model("demo")
        note = f"{looked}, so demo answers: it speaks Harmony from a script and is not a model"
        return Chosen(model, "no other engine was found", (note, HOW_TO_SERVE_A_MODEL))
    model = with_profile(found.open(**_options_for("auto", settings)), settings.profile, settings.profiles)
    also = f"; also saw {', '.join(map(str, found.others))}" if found.others else ""
    seen = found.chosen
    why = f"found at {seen.url}: {found.why}{also}"
    if settings.model is not None:
        # It was taken because it was named; whether it is a gpt-oss was not checked.
        seen = await _reach(seen.kind, seen.url, settings, patience)
    return Chosen(model, why, tuple(_notes_on(model, settings, seen)))


# ── one that was named ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_name(engine: str) -> tuple[str, str | None]:
    """The kind of an engine, and its address if it has one: the one where `open_model` looks for it."""
    name, _, rest = engine.partition(":")
    if name in ("http", "https"):
        return name, engine
    kind = find_kind(name)
    if kind is None or kind.argument != "URL":
        return name, None
    return name, rest or (f"http://{USUAL_HOST}:{kind.port}" if kind.port is not None else None)


async def _reach(kind: str, url: str, settings: Settings, patience: Patience) -> Seen | None:
    """The engine at an address; None if it does not say what it is. Raises an EngineError if nothing responds."""
    known = find_kind(kind)
    if known is not None and known.speaks == "messages":
        # A provider may have no list of models, or need a key for it. Any answer is enough.
        server = Server(api_address(url), api_key=settings.engine_api_key, patience=patience)
        try:
            await server.fetch("/models", msgspec.Raw)
        except EngineError as error:
            if error.code is ErrorCode.ENGINE_UNREACHABLE:
                raise
        finally:
            await server.close()
        return None
    try:
        seen = await probe(url, api_key=settings.engine_api_key, patience=patience)
    except EngineError as error:
        if error.code is ErrorCode.ENGINE_UNREACHABLE or kind in ("http", "https"):
            raise
        return None  # it was named by its user, who may know better
    if seen.kind == "harmonia":
        why = f"{seen.url} is a Harmonia server, which accepts messages but cannot continue prompts"
        advice = f"to put this server in front of it, use --engine responses:{seen.url} and --model"
        raise InputError(ErrorCode.SERVE_INVALID_OPTION, f"{why}; {advice}")
    return seen


def _refuse_ourselves(url: str, settings: Settings) -> None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return  # reported when it is opened
    if _is_own_address(host, port, settings):
        why = f"the address of the engine, {host}:{port}, is the one where this server listens"
        raise InputError(ErrorCode.SERVE_INVALID_OPTION, f"{why}; change one of the ports")


def _is_own_address(host: str, port: int, settings: Settings) -> bool:
    ours, theirs = (
        USUAL_HOST if name.lower() in ("localhost", "0.0.0.0", "::", "::1") else name.lower()
        for name in (settings.host, host)
    )
    return port == settings.port and ours == theirs


def _options_for(kind: str, settings: Settings) -> dict[str, Any]:
    key, known = settings.engine_api_key, find_kind(kind)
    given: dict[str, Any] = {"api_key": key} if key is not None and (known is None or known.takes_key) else {}
    return given | settings.engine_options


# ── what to know of it ──────────────────────────────────────────────────────────────────────────────────────────────


def _notes_on(model: Model, settings: Settings, seen: Seen | None) -> list[str]:
    traits = model.traits
    if traits.takes_messages:
        return [f"{model.name} is a provider that accepts messages: it handles Harmony, and this server sees no tokens"]
    notes: list[str] = []
    if seen is not None:
        if seen.models and model.model not in seen.models and seen.kind != "llama.cpp":
            notes.append(f"{model.model} is not among the models of {seen.url}: {', '.join(seen.models[:5])}")
        if isinstance(model, ProfiledEngine):
            notes.append(f"{model.model} is not a gpt-oss; it runs as text, with the profile {model.profile.name}")
        elif seen.model != model.model and not is_gpt_oss(model.model):
            notes.append(
                f"{model.model} does not look like a gpt-oss; other models do not speak Harmony, so answers will be "
                "misread; choose another with --model, or add --profile auto to run it in its own format"
            )
    if not traits.gives_tokens:
        because = "in text, a real call looks the same as an echo of typed text"
        so = f"so tool calls are withheld: {because}. Use an engine that speaks tokens, such as vLLM or llama.cpp; or "
        so += "--calls unverified, if you trust everything in the prompts"
        if settings.calls == "unverified":
            so = f"but --calls unverified delivers tool calls anyway: {because}"
        notes.append(f"{model.name} returns text, not token ids, {so}")
    return notes
