"""The engines and providers that can be opened by a name.

Each module describes its own in `KINDS`: how they are named, opened and recognised. Opening, discovery, the kinds of
`harmonia check`, and the options of the command follow from that. To add one, write its module and add its line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import EngineError
from harmonia.run.engines.http import Fields, count_of, text_of

# In the order in which a server is recognised (newer llama.cpp servers also answer as Ollama does) and preferred.
_MODULES: Final = (
    "harmonia.run.engines.demo.engine",
    "harmonia.run.engines.replay",
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
    """What a module says of its engine or provider.

    `NAME:ARGUMENT` opens it: `make` gets the argument as `argument_as`, the model as `model_as`, and the options, those
    that are `fixed` and the caller's. `options` are those that can be written in a shell. `port` is where it listens
    by default. `pages` are endpoints of its own, from which `recognise` tells whether a server is one.
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
    """All of them."""
    return tuple(kind for module in _MODULES for kind in importlib.import_module(module).KINDS)


def find_kind(name: str) -> Kind | None:
    """The one of this name."""
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
    from harmonia.families import ToolFormat  # loaded where a name has to be judged
    from harmonia.families.profiles import resolve_profile

    return any(resolve_profile(name).format is ToolFormat.HARMONY for name in names if name)


def choose_model(names: Iterable[str]) -> str | None:
    """The first one; a model that judges others, or that runs elsewhere, only where there is no other."""
    return min(names, key=lambda name: ("safeguard" in name.lower(), name.lower().endswith("cloud")), default=None)
