"""Which engine is at an address, and which models it has, as far as it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.http import Fields, Server, ServerError, fields_of, objects_of, text_of

# Kinds that are asked for tokens in a way of their own; all others are asked at /v1/completions.
KINDS: Final = ("auto", "vllm", "llama.cpp", "ollama", "lmstudio", "sglang", "openrouter", "openai")


def _has_version(answer: Fields) -> bool:
    return bool(text_of(answer.get("version")))


def _has_states(answer: Fields) -> bool:
    """Whether it is LM Studio's own list. Many a server answers below any path with the list of OpenAI's API."""
    return any("state" in entry or "compatibility_type" in entry for entry in objects_of(answer.get("data")))


# Where an engine answers that no other has, and what is in that answer.
_SIGNS: Final[tuple[tuple[str, str, Callable[[Fields], bool]], ...]] = (
    ("llama.cpp", "/props", lambda answer: "default_generation_settings" in answer),
    ("ollama", "/api/version", _has_version),
    ("lmstudio", "/api/v0/models", _has_states),
    ("sglang", "/get_server_info", _has_version),
    ("vllm", "/version", _has_version),
    ("harmonia", "/health", lambda answer: answer.get("server") == "harmonia"),
)
_OWNERS: Final = {"vllm": "vllm", "llamacpp": "llama.cpp", "library": "ollama", "sglang": "sglang"}


class Identity:
    """What was found out. `models` is None where the provider lists none, `refusal` what it says instead."""

    def __init__(
        self, kind: str, version: str, models: tuple[str, ...] | None, refusal: ServerError | None = None
    ) -> None:
        self.kind = kind
        self.version = version
        self.models = models
        self.refusal = refusal

    @property
    def engine(self) -> str:
        return f"{self.kind} {self.version}".strip()


async def identify(root: Server, api: Server, kind: str) -> Identity:
    """Ask a server what it is. Raises an EngineError only where nobody answers."""
    listed: Fields | None = None
    refusal: ServerError | None = None
    try:
        listed = await _fetch(api, "/models")
    except ServerError as error:
        refusal = error
    entries = objects_of((listed or {}).get("data"))
    models = tuple(id_ for entry in entries if (id_ := text_of(entry.get("id")))) if listed is not None else None
    version = ""
    if kind == "auto":
        kind, version = await _guess(root, entries)
    return Identity(kind, version, models, refusal)


async def _guess(root: Server, entries: list[Fields]) -> tuple[str, str]:
    if (urlsplit(root.url).hostname or "").endswith("openrouter.ai"):
        return "openrouter", ""
    for name, path, is_sign in _SIGNS:
        answer = await _ask(root, path)
        if answer is not None and is_sign(answer):
            version = text_of(answer.get("version")) or text_of(answer.get("build_info"))
            return name, version
    owners = {text_of(entry.get("owned_by")) for entry in entries}
    return next((kind for owner, kind in _OWNERS.items() if owner in owners), "openai"), ""


async def _ask(server: Server, path: str) -> Fields | None:
    """A JSON object, or None where the server has no such page."""
    try:
        return await _fetch(server, path)
    except ServerError:
        return None


async def _fetch(server: Server, path: str) -> Fields | None:
    """A JSON object, or None where the answer is none."""
    try:
        return fields_of(await server.fetch(path, dict[str, Any]))
    except ServerError:
        raise
    except EngineError as error:
        if error.code is ErrorCode.ENGINE_BAD_ANSWER and "HTTP" not in error.message:
            return None
        raise


def choose_model(models: tuple[str, ...] | None) -> str | None:
    """The model to ask: a gpt-oss, if there is one."""
    if not models:
        return None
    return next((model for model in models if "gpt-oss" in model.lower()), models[0])
