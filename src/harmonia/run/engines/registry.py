"""The engines and providers that can be opened by a name, and what listens at an address.

    auto                  a gpt-oss in an engine on one of the usual local ports
    http://HOST:PORT      whatever engine listens there
    NAME, NAME:ARGUMENT   one of the kinds: demo, replay:FILE, vllm:URL, …

Without `:URL` an engine is expected at its usual local port. Without a model, the server is asked which it has.

Each module describes its own in `KINDS`: how they are named, opened and recognised. Opening, discovery, the kinds of
`harmonia check`, and the options of the command follow from that. To add one, write its module and add its line here.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.base import Engine, invalid_option
from harmonia.run.engines.http import Fields, Patience, Server, ServerError, count_of, objects_of, redact, text_of

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider

# In the order in which a server is recognised (newer llama.cpp servers also answer as Ollama does) and preferred.
_MODULES: Final = (
    "harmonia.run.engines.demo.engine",
    "harmonia.run.engines.recording",
    "harmonia.run.engines.transformers.engine",
    "harmonia.run.providers.responses",
    "harmonia.run.providers.chat_completions",
    "harmonia.run.engines.vllm",
    "harmonia.run.engines.llama_cpp",
    "harmonia.run.engines.ollama",
    "harmonia.run.engines.completions",
)


class Seen(msgspec.Struct, frozen=True):
    """A server that answered: what it is, its models, and `model`, the gpt-oss among them, if there is one. `error` is
    what it sent instead of the list of its models."""

    kind: str
    url: str
    models: tuple[str, ...] = ()
    model: str | None = None
    context_tokens: int | None = None
    problem: str = ""  # why its models are not known
    version: str = ""
    error: EngineError | None = None

    @property
    def name(self) -> str:
        """The name that opens it."""
        return f"{self.kind}:{self.url}"

    @property
    def speaks_tokens(self) -> bool:
        kind = find_kind(self.kind)
        return kind is not None and kind.speaks == "tokens"

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name} ({self.problem})"
        return f"{self.name} ({self.model or ', '.join(self.models) or 'no model'})"


class Answers(msgspec.Struct, frozen=True):
    """What a server answered: the models it lists, and the pages it has."""

    url: str
    listed: Sequence[Fields]
    pages: Mapping[str, Fields]

    def text(self, path: str, field: str) -> str:
        """A text in a page; empty where there is none."""
        return text_of(self.pages.get(path, {}).get(field))

    @property
    def owners(self) -> set[str]:
        return {text_of(entry.get("owned_by")) for entry in self.listed}

    def seen(self, kind: str, listed: Iterable[Fields] | None = None, *, version: str = "") -> Seen:
        """The server as one of this kind, with the models that it lists."""
        context: dict[str, int] = {}
        known: list[str] = []
        for entry in self.listed if listed is None else listed:
            name = text_of(entry.get("id"))
            context[name] = count_of(entry.get("max_model_len")) or count_of(entry.get("loaded_context_length"))
            if is_gpt_oss(name, text_of(entry.get("root")), text_of(entry.get("arch"))):
                known.append(name)
        model = choose_model(known)
        return Seen(kind, self.url, tuple(filter(None, context)), model, context.get(model or "") or None, "", version)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How a module describes its engine or provider.

    `NAME:ARGUMENT` opens it: `make` gets the argument as `argument_as`, the model as `model_as`, and the options, those
    that are `fixed` and the caller's. `options` are those that can be written in a shell. `port` is where it listens
    by default. `pages` are endpoints of its own, by which `recognise` recognises a server.
    """

    name: str
    summary: str
    make: Callable[..., Any] | None = None  # None for a server that can be recognised, but not opened
    argument: Literal["URL", "FILE", "PATH"] | None = "URL"
    argument_as: str | None = "url"
    model_as: str | None = "model"
    fixed: Mapping[str, Any] = {}
    options: Mapping[str, type] = msgspec.field(default_factory=lambda: {"context_tokens": int})
    takes_key: bool = True
    speaks: Literal["tokens", "text", "messages"] = "text"
    port: int | None = None
    pages: tuple[str, ...] = ()
    recognise: Callable[[Answers], Seen | None] | None = None

    @property
    def usage(self) -> str:
        """How it is named: `vllm:URL`."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def is_server(self) -> bool:
        """Whether it continues prompts at an address, so that a server there can be recognised as one."""
        return self.argument == "URL" and self.speaks != "messages"


@cache
def kinds() -> tuple[Kind, ...]:
    return tuple(kind for module in _MODULES for kind in importlib.import_module(module).KINDS)


def find_kind(name: str) -> Kind | None:
    return next((kind for kind in kinds() if kind.name == name), None)


def usual_ports() -> dict[str, int]:
    """Where each engine listens unless told otherwise. `transformers serve` shares vLLM's port."""
    return {kind.name: kind.port for kind in kinds() if kind.port is not None}


def names() -> dict[str, str]:
    """What can be opened: each name, and what it is."""
    return {
        "auto": "a gpt-oss in an engine on one of the usual local ports",
        "http://…": "whatever engine listens there",
        **{kind.usage: f"{kind.summary} ({kind.speaks})" for kind in kinds() if kind.make is not None},
    }


def is_gpt_oss(*names: str | None) -> bool:
    """Whether a model is a gpt-oss by one of its names. The rule is the pattern of its profile in profiles.toml."""
    from harmonia.families import ToolFormat  # loaded only where a name is judged
    from harmonia.families.profiles import resolve_profile

    return any(resolve_profile(name).format is ToolFormat.HARMONY for name in names if name)


def choose_model(names: Iterable[str]) -> str | None:
    """The first one; a model that judges others, or that runs elsewhere, only where there is no other."""
    return min(names, key=lambda name: ("safeguard" in name.lower(), name.lower().endswith("cloud")), default=None)


USUAL_HOST = "127.0.0.1"
# A person waits for the answer, and a working server has it at once.
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
        pages = await asyncio.gather(*(root.fetch(path, dict[str, Any]) for path in paths), return_exceptions=True)
        found = {path: page for path, page in zip(paths, pages, strict=True) if isinstance(page, dict)}
        answers = msgspec.structs.replace(answers, pages=found)
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
        raise invalid_option(f"{redact(name)!r} is a provider, not an engine; open it with `open_model`")
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
    if kind is None or kind.make is None:
        raise invalid_option(f"{redact(name)!r} is not an engine; use one of {', '.join(names())}")
    if kind.argument in ("FILE", "PATH") and not argument:
        raise invalid_option(f"{key} needs a {kind.argument.lower()}: {kind.usage}")
    if kind.is_server:
        return await _open_server(kind, argument, model, options)
    if kind.argument == "URL" and not argument:
        raise invalid_option(f"{key} needs a URL: {kind.usage}")
    if kind.argument == "URL" and not model:
        raise invalid_option(f"{kind.usage} needs the name of a model; add --model NAME")
    return _make(kind, argument, model, options)


async def _open_server(kind: Kind, url: str, model: str | None, options: dict[str, Any]) -> Engine:
    if not url:
        if kind.port is None:
            raise invalid_option(f"{kind.name} has no default port; expected {kind.name}:http://host:port")
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
    raise invalid_option(f"no model at {seen.url} looks like a gpt-oss, so name the model; {has}")


def _open_seen(seen: Seen, model: str, options: dict[str, Any]) -> Engine:
    kind = find_kind(seen.kind)
    if kind is None or not kind.is_server:
        raise invalid_option(
            f"{seen.url} is a {seen.kind} server, which accepts messages but cannot continue prompts; "
            f"open it as responses:{seen.url}, with the name of its model"
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
        return kind.make(**given)
    except TypeError as error:
        unknown = next((each for each in options if f"unexpected keyword argument {each!r}" in str(error)), None)
        if unknown is None:
            raise invalid_option(f"{kind.name}: {error}") from error
        has = f"its options are {', '.join(sorted(kind.options))}" if kind.options else "it has none"
        raise invalid_option(f"{kind.name} has no option {unknown!r}; {has}") from error
