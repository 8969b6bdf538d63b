"""The model as clients see it: its names, what its engine can do, and the renderer that writes its prompts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Traits
from harmonia.run.engines.registry import is_gpt_oss
from harmonia.run.model_source import Model
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.cached_tokens import SentPrompts

_SAMPLINGS: Final = 4
_SAMPLINGS_WITH_TOOLS: Final = 32


class ServedModel:
    """One model in front of an engine or a provider. `sent_prompts` remembers which prompts each key has sent."""

    def __init__(self, model: Model, settings: Settings, renderer: Renderer | None = None) -> None:
        self.model = model
        self.renderer = renderer or Renderer()
        self.sent_prompts = SentPrompts(self.renderer)
        self._name = settings.model or model.model
        self._aliases = settings.aliases
        self._allows_unverified = settings.calls == "unverified"

    @property
    def traits(self) -> Traits:
        """What the model can do."""
        return self.model.traits

    @property
    def gives_logprobs(self) -> bool:
        """Whether there are log-probabilities of tokens."""
        return self.traits.gives_logprobs and self.traits.gives_tokens

    @property
    def calls_are_certain(self) -> bool:
        """Whether a call can be certain: from text none is, unless the operator allows it."""
        return self.traits.reads_calls or self._allows_unverified

    def most_samplings(self, *, has_tools: bool) -> int:
        """How often a run may ask the model: again after its tools, and after calls that are not allowed."""
        if not self.calls_are_certain:
            return 1  # no call is ever certain, so asking again does not help
        return _SAMPLINGS_WITH_TOOLS if has_tools else _SAMPLINGS

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which the model is served; answers have the first."""
        own = self._name
        if Path(own).is_absolute():
            own = Path(own).name  # where the operator keeps a model is not for clients
        return tuple(dict.fromkeys((own, *self._aliases)))

    def find(self, name: str | None) -> str:
        """The served model that a request names. Other spellings of the same model are accepted; see `_plain`."""
        names = self.names
        if name is None or name in names:
            return name or names[0]
        wanted = _plain(name)
        if any(_plain(known) == wanted for known in names):
            return names[0]
        # The engine without a model plays any gpt-oss.
        if self.model.name == "demo" and is_gpt_oss(name):
            return names[0]
        raise InputError(
            ErrorCode.SERVE_UNKNOWN_MODEL,
            f"the model {name[:100]!r} is not served here; use {' or '.join(names)}",
            Position(path="$.model"),
        )


def _plain(name: str) -> str:
    """A model's name without what engines put around it: the organisation, the file, the quantisation."""
    name = name.lower().rsplit("/", 1)[-1].removesuffix(".gguf").replace(":", "-").replace("_", "-")
    return re.sub(r"-(mxfp4|q\d.*|f16|bf16|latest|gguf|instruct)$", "", name)
