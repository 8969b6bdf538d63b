"""Opening a model by its name, and finding out what listens at an address.

    auto                  a gpt-oss in an engine on one of the usual local ports
    http://HOST:PORT      whatever engine listens there
    NAME, NAME:ARGUMENT   one of the registry: demo, replay:FILE, vllm:URL, …; see registry.py

Without `:URL` an engine is looked for at its usual local port. Without a model, the server is asked which it has.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines.base import Engine
from harmonia.run.engines.http import Fields, Patience, Server, ServerError, objects_of
from harmonia.run.engines.registry import Answers, Kind, Seen, find_kind, kinds, names, usual_ports
from harmonia.run.engines.urls import redact

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider

USUAL_HOST = "127.0.0.1"
# A person waits for the answer, and a server that works has it at once.
QUICK = Patience(connect_s=0.5, first_s=3.0, idle_s=3.0, attempts=1)

_HOW_TO_START = (
    "start one, such as `vllm serve openai/gpt-oss-20b`, `llama-server -hf ggml-org/gpt-oss-20b-GGUF` or "
    "`ollama run gpt-oss:20b`; give the address of one that runs elsewhere; or use `demo`, which needs no model"
)


# ── what listens at an address ──────────────────────────────────────────────────────────────────────────────────────


async def look_at(root: Server, api: Server, kind: str | None = None, *, models: str = "/models") -> Seen:
    """What a server is, by the list of its `models` at `api` and the pages that it has at `root`. Raises an EngineError
    where nothing answers; a server that cannot be recognised is taken for one with completions. Where the caller knows
    its `kind`, it is asked for its models only."""
    error: EngineError | None = None
    listed: object = None
    try:
        page = await api.fetch(models, dict[str, Any])
        listed = page.get("data")
        if "data" not in page or not isinstance(listed, list | None):  # an Ollama without models has null
            error = EngineError(ErrorCode.ENGINE_BAD_ANSWER, f"{api.url}{models} is not a list of models")
    except EngineError as caught:
        if caught.code is ErrorCode.ENGINE_UNREACHABLE:
            raise  # the other pages need not be asked for
        error = caught
    answers = Answers(root.url, objects_of(cast("object", listed)), {})
    seen = answers.seen(kind) if kind is not None else _recognise([each for each in kinds() if not each.pages], answers)
    if seen is None:
        paths = list(dict.fromkeys(path for each in kinds() for path in each.pages))
        pages = await asyncio.gather(*(_page(root, path) for path in paths))
        answers = msgspec.structs.replace(answers, pages=dict(zip(paths, pages, strict=True)))
        seen = _recognise(kinds(), answers) or answers.seen("completions")
    return msgspec.structs.replace(seen, error=error)


async def probe(url: str, *, api_key: str | None = None, patience: Patience = QUICK) -> Seen:
    """What listens at `url`. Raises an EngineError where nothing does, or nothing that is known."""
    server = Server(url.rstrip("/").removesuffix("/v1"), api_key=api_key, patience=patience)
    try:
        seen = await look_at(server, server, models="/v1/models")
    finally:
        await server.close()
    error = seen.error
    if error is None or seen.models or not _is_engine(seen):
        return seen
    if isinstance(error, ServerError) and error.status in (401, 403):
        return msgspec.structs.replace(seen, problem="it asks for a key")
    if error.code is ErrorCode.ENGINE_STALLED or (isinstance(error, ServerError) and error.status == 503):
        raise error  # llama.cpp answers so while it loads its model
    raise EngineError(
        ErrorCode.ENGINE_BAD_ANSWER, f"the server at {server.url} is not an engine: it lists no models at /v1/models"
    )


def _is_engine(seen: Seen) -> bool:
    kind = find_kind(seen.kind)
    return kind is not None and kind.is_server


def _recognise(kinds: Sequence[Kind], answers: Answers) -> Seen | None:
    recognised = (kind.recognise(answers) for kind in kinds if kind.recognise is not None)
    return next((seen for seen in recognised if seen is not None), None)


async def _page(server: Server, path: str) -> Fields:
    """A JSON object; empty where the server has no such page."""
    try:
        return await server.fetch(path, dict[str, Any])
    except EngineError:
        return {}


# ── auto ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Found(msgspec.Struct, frozen=True):
    """What `discover` chose, why, and what else it saw."""

    chosen: Seen
    why: str
    others: tuple[Seen, ...] = ()

    def open(self, **options: Any) -> Engine:
        """The engine that was chosen."""
        return _open_seen(self.chosen, self.chosen.model or "", options)

    def __str__(self) -> str:
        others = f"; also saw {', '.join(map(str, self.others))}" if self.others else ""
        return f"{self.chosen}: {self.why}{others}"


async def discover(
    model: str | None = None,
    *,
    hosts: Sequence[str] = (USUAL_HOST,),
    ports: Sequence[int] | None = None,
    api_key: str | None = None,
    patience: Patience = QUICK,
) -> Found:
    """A running engine with a gpt-oss model, or with `model`, on one of the ports, by default the usual ones. One that
    speaks tokens is preferred. A Harmonia server is not an engine.

    Raises an EngineError with ENGINE_NONE_FOUND, which says how to start one.
    """
    ports = tuple(usual_ports().values()) if ports is None else ports
    addresses = [f"http://{host}:{port}" for host in hosts for port in ports]
    answers = await asyncio.gather(
        *(probe(url, api_key=api_key, patience=patience) for url in addresses), return_exceptions=True
    )
    seen: list[Seen] = []
    for answer in answers:
        if isinstance(answer, Seen):
            seen += [answer] if _is_engine(answer) else []
        elif not isinstance(answer, EngineError):
            raise answer
    if model is not None:
        seen = [msgspec.structs.replace(each, model=model if model in each.models else None) for each in seen]
    usable = sorted((each for each in seen if each.model), key=lambda each: not each.speaks_tokens)
    if not usable:
        wanted = model or "a gpt-oss model"
        also = f" (saw {', '.join(map(str, seen))})" if seen else ""
        raise EngineError(
            ErrorCode.ENGINE_NONE_FOUND, f"no engine with {wanted} at {', '.join(addresses)}{also}; {_HOW_TO_START}"
        )
    chosen = usable[0]
    reasons = ["it speaks tokens" if chosen.speaks_tokens else "it speaks text only, and no engine here speaks tokens"]
    if len(usable) > 1:
        reasons.append(f"the first of {len(usable)} with such a model")
    others = tuple(each for each in seen if each.url != chosen.url)
    return Found(chosen, ", ".join(reasons), others)


# ── by name ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def open_engine(name: str, model: str | None = None, **options: Any) -> Engine:
    """An engine by its name: see the table above. `options` are those of the engine, such as `api_key`."""
    opened = await open_model(name, model, **options)
    if opened.traits.takes_messages:
        await opened.close()
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"{redact(name)!r} is a provider, not an engine; open it with `open_model`"
        )
    return opened  # pyright: ignore[reportReturnType] -- its traits say so


async def open_model(name: str, model: str | None = None, **options: Any) -> Engine | Provider:
    """An engine or a provider by its name."""
    key, _, argument = name.partition(":")
    if name == "auto":
        return (await discover(model, api_key=options.get("api_key"))).open(**options)
    if key in ("http", "https"):
        seen = await probe(name, api_key=options.get("api_key"))
        return _open_seen(seen, model or _only_model(seen), options)
    kind = find_kind(key)
    if kind is None or kind.make is None or (kind.argument in ("FILE", "PATH") and not argument):
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"{redact(name)!r} is not an engine; use one of {', '.join(names())}"
        )
    if kind.is_server:
        return await _open_server(kind, argument, model, options)
    if kind.argument == "URL" and not (argument and model):
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"{key}:URL needs an address and a model; got {redact(name)!r}, {model!r}"
        )
    return _make(kind, argument, model, options)


async def _open_server(kind: Kind, url: str, model: str | None, options: dict[str, Any]) -> Engine:
    if not url:
        if kind.port is None:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION,
                f"{kind.name} has no default port; expected {kind.name}:http://host:port",
            )
        url = f"http://{USUAL_HOST}:{kind.port}"
    if model is not None:
        return _make(kind, url, model, options)
    seen = await probe(url, api_key=options.get("api_key"))
    # The user named the kind, and may know better than the probe.
    return _open_seen(msgspec.structs.replace(seen, kind=kind.name), _only_model(seen), options)


def _only_model(seen: Seen) -> str:
    """The model of a server that a user named: its gpt-oss, or the only one that it has."""
    if seen.model is not None:
        return seen.model
    if len(seen.models) == 1:
        return seen.models[0]
    has = f"it has {', '.join(seen.models)}" if seen.models else seen.problem or "it has no models"
    raise InputError(
        ErrorCode.ENGINE_INVALID_OPTION,
        f"no model at {seen.url} looks like a gpt-oss, so name the model; {has}",
    )


def _open_seen(seen: Seen, model: str, options: dict[str, Any]) -> Engine:
    kind = find_kind(seen.kind)
    if kind is None or not kind.is_server:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{seen.url} is a {seen.kind} server, which accepts messages but cannot continue prompts; "
            f"open it as responses:{seen.url}, with the name of its model",
        )
    if seen.context_tokens is not None:
        options = {"context_tokens": seen.context_tokens, **options}
    return _make(kind, seen.url, model, options)


def _make(kind: Kind, argument: str, model: str | None, options: dict[str, Any]) -> Any:
    assert kind.make is not None
    given = {**kind.fixed, **options}
    if kind.argument_as is not None:
        given[kind.argument_as] = argument
    else:
        model = model or argument or kind.name
    if kind.model_as is not None:
        given[kind.model_as] = model
    try:
        inspect.signature(kind.make).bind(**given)
    except TypeError as error:
        raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"{kind.make.__name__}: {error}") from None
    return kind.make(**given)
