"""A model by its name: engines, providers, and `auto`, which looks for a running engine.

    demo                  the embedded engine, which needs no model
    replay:FILE           a captured run
    auto                  a gpt-oss in an engine on one of the usual local ports
    http://HOST:PORT      whatever engine listens there
    vllm:URL              vLLM, tokens
    llama.cpp:URL         llama.cpp's server, tokens
    sglang:URL            SGLang, text
    lmstudio:URL          LM Studio, text
    ollama:URL            Ollama, text
    completions:URL       any server with /v1/completions, text
    transformers:PATH     a model in this process, tokens
    responses:URL         a provider with the Responses API
    chat:URL              a provider with Chat Completions

Without `:URL` an engine is looked for at its usual local port. Without a model, the server is asked which it has.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines.base import Engine
from harmonia.run.engines.completions import CompletionsEngine
from harmonia.run.engines.http import Patience
from harmonia.run.engines.llama_cpp import LlamaCppEngine
from harmonia.run.engines.ollama import OllamaEngine
from harmonia.run.engines.probes import QUICK, Kind, Seen, probe
from harmonia.run.engines.urls import redact
from harmonia.run.engines.vllm import VllmEngine

if TYPE_CHECKING:
    from harmonia.run.providers.base import Provider

# Where each engine listens unless told otherwise. `transformers serve` and vLLM share one; the server says which it is.
USUAL_PORTS: dict[Kind, int] = {"vllm": 8000, "llama.cpp": 8080, "ollama": 11434, "lmstudio": 1234, "sglang": 30000}
USUAL_HOST = "127.0.0.1"

_KINDS: tuple[Kind, ...] = get_args(Kind)
_PROVIDERS = ("responses", "chat")
_NAMES = (
    *("demo", "replay:FILE", "auto", "http://…", *(f"{kind}:URL" for kind in _KINDS), "transformers:PATH"),
    *(f"{kind}:URL" for kind in _PROVIDERS),
)

_HOW_TO_START = (
    "start one, such as `vllm serve openai/gpt-oss-20b`, `llama-server -hf ggml-org/gpt-oss-20b-GGUF` or "
    "`ollama run gpt-oss:20b`; give the address of one that runs elsewhere; or name `demo`, which needs no model"
)


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
    ports: Sequence[int] = tuple(USUAL_PORTS.values()),
    api_key: str | None = None,
    patience: Patience = QUICK,
) -> Found:
    """A running engine with a gpt-oss model, or with `model`, on one of the ports. One that speaks tokens is preferred.

    Raises an EngineError with ENGINE_NONE_FOUND, which says how to start one.
    """
    addresses = [f"http://{host}:{port}" for host in hosts for port in ports]
    answers = await asyncio.gather(
        *(probe(url, api_key=api_key, patience=patience) for url in addresses), return_exceptions=True
    )
    seen: list[Seen] = []
    for answer in answers:
        if isinstance(answer, Seen):
            seen.append(answer)
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
    reasons = [
        "it speaks tokens" if chosen.speaks_tokens else "it speaks text only, and none was found that speaks tokens"
    ]
    if len(usable) > 1:
        reasons.append(f"the first of {len(usable)} with such a model")
    others = tuple(each for each in seen if each.url != chosen.url)
    return Found(chosen, ", ".join(reasons), others)


async def open_engine(name: str, model: str | None = None, **options: Any) -> Engine:
    """An engine by its name: see the table above. `options` are those of the engine, such as `api_key`."""
    kind, _, rest = name.partition(":")
    match kind:
        case "demo":
            from harmonia.run.engines.demo import DemoEngine

            return _make(DemoEngine, {"model": model or rest or "demo", **options})
        case "replay" if rest:
            from harmonia.run.engines.replay import ReplayEngine

            return _make(ReplayEngine, {"path": rest, **options})
        case "transformers" if rest:
            from harmonia.run.engines.transformers.engine import TransformersEngine

            return _make(TransformersEngine, options, rest)
        case "auto" if not rest:
            found = await discover(model, api_key=options.get("api_key"))
            return found.open(**options)
        case "http" | "https":
            seen = await probe(name, api_key=options.get("api_key"))
            return _open_seen(seen, model or _only_model(seen), options)
        case _ if kind in _KINDS:
            return await _open_kind(kind, rest, model, options)
        case _:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION, f"{redact(name)!r} names no engine; there are {', '.join(_NAMES)}"
            )


async def open_model(name: str, model: str | None = None, **options: Any) -> Engine | Provider:
    """An engine or a provider by its name."""
    kind, _, url = name.partition(":")
    if kind not in _PROVIDERS:
        return await open_engine(name, model, **options)
    if not url or not model:
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"{kind}:URL needs an address and a model; got {redact(name)!r}, {model!r}"
        )
    if kind == "responses":
        from harmonia.run.providers.responses import ResponsesProvider

        return _make(ResponsesProvider, {"model": model, **options}, url)
    from harmonia.run.providers.chat_completions import ChatCompletionsProvider

    return _make(ChatCompletionsProvider, {"model": model, **options}, url)


async def _open_kind(kind: Kind, url: str, model: str | None, options: dict[str, Any]) -> Engine:
    if not url:
        if kind not in USUAL_PORTS:
            raise InputError(
                ErrorCode.ENGINE_INVALID_OPTION, f"{kind} has no usual port; expected {kind}:http://host:port"
            )
        url = f"http://{USUAL_HOST}:{USUAL_PORTS[kind]}"
    if model is not None:
        return _open_seen(Seen(kind, url), model, options)
    seen = await probe(url, api_key=options.get("api_key"))
    # It was named by its user, who may know better than the probe.
    return _open_seen(msgspec.structs.replace(seen, kind=kind), _only_model(seen), options)


def _only_model(seen: Seen) -> str:
    """The model of a server that a user named: its gpt-oss, or the only one that it has."""
    if seen.model is not None:
        return seen.model
    if len(seen.models) == 1:
        return seen.models[0]
    has = f"it has {', '.join(seen.models)}" if seen.models else seen.problem or "it has no models"
    raise InputError(
        ErrorCode.ENGINE_INVALID_OPTION, f"which model of {seen.url}? None is a gpt-oss by its name; {has}"
    )


def _open_seen(seen: Seen, model: str, options: dict[str, Any]) -> Engine:
    if seen.context_tokens is not None:
        options = {"context_tokens": seen.context_tokens, **options}
    match seen.kind:
        case "vllm":
            return _make(VllmEngine, options, seen.url, model)
        case "llama.cpp":
            return _make(LlamaCppEngine, options, seen.url, model)
        case "ollama":
            return _make(OllamaEngine, options, seen.url, model)
        case "completions" | "lmstudio" | "sglang":
            return _make(CompletionsEngine, {"name": seen.kind, **options}, seen.url, model)


def _make(make: Callable[..., Any], options: dict[str, Any], *arguments: Any) -> Any:
    try:
        inspect.signature(make).bind(*arguments, **options)
    except TypeError as error:
        raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"{make.__name__}: {error}") from None
    return make(*arguments, **options)
