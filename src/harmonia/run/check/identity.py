"""Which engine is at an address, and which models it has, as far as it tells."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines.http import Server, ServerError
from harmonia.run.upstreams.wire import Fields, fields_of, objects_of, text_of

# Kinds that are asked for tokens in a way of their own; all others are asked at /v1/completions.
KINDS: Final = ("auto", "vllm", "llama.cpp", "ollama", "lmstudio", "sglang", "openrouter", "openai")

# Where an engine answers that no other has, and a field of the answer.
_SIGNS: Final = (
    ("llama.cpp", "/props", "default_generation_settings"),
    ("ollama", "/api/version", "version"),
    ("lmstudio", "/api/v0/models", "data"),
    ("sglang", "/get_server_info", "version"),
    ("vllm", "/version", "version"),
)
_OWNERS: Final = {"vllm": "vllm", "llamacpp": "llama.cpp", "library": "ollama", "sglang": "sglang"}


class Identity:
    """What was found out. `models` is None where the provider lists none."""

    def __init__(self, kind: str, version: str, models: tuple[str, ...] | None) -> None:
        self.kind = kind
        self.version = version
        self.models = models

    @property
    def engine(self) -> str:
        return f"{self.kind} {self.version}".strip()


async def identify(root: Server, api: Server, kind: str) -> Identity:
    """Ask a server what it is. Raises an EngineError only where nobody answers."""
    listed = await _ask(api, "/models")
    entries = objects_of((listed or {}).get("data"))
    models = tuple(id_ for entry in entries if (id_ := text_of(entry.get("id")))) if listed is not None else None
    version = ""
    if kind == "auto":
        kind, version = await _guess(root, entries)
    return Identity(kind, version, models)


async def _guess(root: Server, entries: list[Fields]) -> tuple[str, str]:
    if (urlsplit(root.url).hostname or "").endswith("openrouter.ai"):
        return "openrouter", ""
    for name, path, field in _SIGNS:
        answer = await _ask(root, path)
        if answer is not None and field in answer:
            version = text_of(answer.get("version")) or text_of(answer.get("build_info"))
            return name, version
    owners = {text_of(entry.get("owned_by")) for entry in entries}
    return next((kind for owner, kind in _OWNERS.items() if owner in owners), "openai"), ""


async def _ask(server: Server, path: str) -> Fields | None:
    """A JSON object, or None where the server has no such page."""
    try:
        return fields_of(await server.fetch(path, dict[str, Any]))
    except ServerError:
        return None
    except EngineError as error:
        if error.code is ErrorCode.ENGINE_BAD_ANSWER and "HTTP" not in error.message:
            return None
        raise


def choose_model(models: tuple[str, ...] | None) -> str | None:
    """The model to ask: a gpt-oss, if there is one."""
    if not models:
        return None
    return next((model for model in models if "gpt-oss" in model.lower()), models[0])
