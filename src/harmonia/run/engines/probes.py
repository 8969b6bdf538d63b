"""Which engine listens at an address, and which of its models is a gpt-oss: asked of the server itself.

Each engine has an endpoint of its own: llama.cpp `/props`, vLLM `/version`, LM Studio `/api/v0/models`, Ollama
`/api/tags`. A server that has only `/v1/models` is taken for one with completions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.http import Patience, Server, ServerError
from harmonia.vocabulary import VOCABULARY_SIZE

T = TypeVar("T")

Kind = Literal["vllm", "llama.cpp", "sglang", "lmstudio", "ollama", "completions"]

# The kinds that speak tokens, which are preferred.
TOKEN_KINDS: tuple[Kind, ...] = ("vllm", "llama.cpp")

# Somebody waits for the answer, and a server that works has it at once.
QUICK = Patience(connect_s=0.5, first_s=3.0, idle_s=3.0, attempts=1)

_SPELLINGS = ("gpt-oss", "gpt_oss", "gptoss")


class Seen(msgspec.Struct, frozen=True):
    """A server that answered: what it is, its models, and `model`, the gpt-oss among them, if there is one."""

    kind: Kind
    url: str
    models: tuple[str, ...] = ()
    model: str | None = None
    context_tokens: int | None = None
    problem: str = ""  # why its models are not known

    @property
    def name(self) -> str:
        """The name with which `open_engine` opens it."""
        return f"{self.kind}:{self.url}"

    @property
    def speaks_tokens(self) -> bool:
        return self.kind in TOKEN_KINDS

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name} ({self.problem})"
        return f"{self.name} ({self.model or ', '.join(self.models) or 'no model'})"


class _Settings(msgspec.Struct):
    n_ctx: int | None = None


class _Props(msgspec.Struct):
    default_generation_settings: _Settings
    model_alias: str | None = None
    model_path: str | None = None


class _Meta(msgspec.Struct):
    n_vocab: int | None = None


class _Model(msgspec.Struct):
    id: str
    owned_by: str | None = None
    root: str | None = None  # vLLM: what it was loaded from
    max_model_len: int | None = None  # vLLM, SGLang
    meta: _Meta | None = None  # llama.cpp
    type: str | None = None  # LM Studio
    arch: str | None = None  # LM Studio
    max_context_length: int | None = None  # LM Studio
    loaded_context_length: int | None = None  # LM Studio


class _Models(msgspec.Struct):
    data: list[_Model]


class _Details(msgspec.Struct):
    family: str | None = None


class _Tag(msgspec.Struct):
    name: str
    details: _Details | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag]


class _Version(msgspec.Struct):
    version: str


async def probe(url: str, *, api_key: str | None = None, patience: Patience = QUICK) -> Seen:
    """What listens at `url`. Raises an EngineError where nothing does, or nothing that is known."""
    server = Server(url.rstrip("/").removesuffix("/v1"), api_key=api_key, patience=patience)
    try:
        # This one first: where nobody listens, the others need not be asked.
        models = await _ask(server, "/v1/models", _Models)
        if isinstance(models, EngineError) and models.code is ErrorCode.ENGINE_UNREACHABLE:
            raise models
        props, version, lm_studio, tags = await asyncio.gather(
            _ask(server, "/props", _Props),
            _ask(server, "/version", _Version),
            _ask(server, "/api/v0/models", _Models),
            _ask(server, "/api/tags", _Tags),
        )
    finally:
        await server.close()
    listed = models.data if isinstance(models, _Models) else []
    owners = {model.owned_by for model in listed}
    if isinstance(props, _Props):
        return _see_llama_cpp(server.url, props, listed)
    if "sglang" in owners:
        return _see_listed("sglang", server.url, listed)
    if "vllm" in owners or (isinstance(version, _Version) and listed):
        return _see_listed("vllm", server.url, listed)
    if isinstance(lm_studio, _Models):
        return _see_listed("lmstudio", server.url, [model for model in lm_studio.data if model.type != "embeddings"])
    if isinstance(tags, _Tags):
        names = [tag.name for tag in tags.models]
        known = [tag.name for tag in tags.models if is_gpt_oss(tag.name, tag.details and tag.details.family)]
        return Seen("ollama", server.url, tuple(names), _choose(known))
    if isinstance(models, _Models):
        return _see_listed("completions", server.url, listed)
    if isinstance(models, ServerError) and models.status in (401, 403):
        return Seen("completions", server.url, problem="it asks for a key")
    if models.code is ErrorCode.ENGINE_STALLED or (isinstance(models, ServerError) and models.status == 503):
        raise models  # llama.cpp says so while it loads its model
    raise EngineError(
        ErrorCode.ENGINE_BAD_ANSWER, f"what listens at {server.url} is no engine: it lists no models at /v1/models"
    )


def is_gpt_oss(*names: str | None) -> bool:
    """Whether a model is a gpt-oss by one of its names."""
    return any(spelling in name.lower() for name in names if name for spelling in _SPELLINGS)


async def _ask(server: Server, path: str, type_: type[T]) -> T | EngineError:
    """An answer, or the error that came instead."""
    try:
        return await server.fetch(path, type_)
    except EngineError as error:
        return error


def _see_llama_cpp(url: str, props: _Props, listed: list[_Model]) -> Seen:
    # A server has the one model that it was started with, and goes by any name. Its file may be called anything; a
    # vocabulary of that size belongs to no other family.
    context_tokens = props.default_generation_settings.n_ctx
    named = [name for name in (props.model_alias, props.model_path) if name]
    names = [model.id for model in listed] or named[:1]
    sizes = {model.meta.n_vocab for model in listed if model.meta is not None}
    known = [name for name in names if is_gpt_oss(name)]
    if not known and (is_gpt_oss(*named) or VOCABULARY_SIZE in sizes):
        known = names
    return Seen("llama.cpp", url, tuple(names), _choose(known), context_tokens)


def _see_listed(kind: Kind, url: str, listed: list[_Model]) -> Seen:
    model = _choose(each.id for each in listed if is_gpt_oss(each.id, each.root, each.arch))
    lengths = {each.id: each.max_model_len or each.loaded_context_length for each in listed}
    return Seen(kind, url, tuple(each.id for each in listed), model, lengths.get(model) if model else None)


def _choose(names: Iterable[str]) -> str | None:
    """The first one; a model that judges others, or that runs elsewhere, only where there is no other."""
    return min(names, key=lambda name: ("safeguard" in name.lower(), name.lower().endswith("cloud")), default=None)
