"""What the text route of engines has in common: asking for it, and ending a text at a stop string. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from harmonia.errors import ErrorCode, InputError
from harmonia.run.engines.base import Engine, TextEngine


def as_text_engine(engine: Engine) -> TextEngine:
    """The engine, where it continues text; an InputError that says which ones do, where it does not."""
    if not hasattr(engine, "generate_text"):
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION,
            f"{engine.name} continues Harmony's tokens only, so it cannot run a model of another family; "
            "llama.cpp, Ollama, vLLM, transformers and any server with /v1/completions can",
        )
    return cast("TextEngine", engine)


class StopStrings:
    """A text as it comes, up to the first of some strings. What may be the beginning of one is held back.

    The first is the one that ends first, so that it does not matter in which pieces the text comes.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(word for word in stop if word)
        self._held: str = ""
        self.is_over: bool = False

    def feed(self, text: str) -> str:
        """What is certain to stand before a stop."""
        if self.is_over:
            return ""
        text = self._held + text
        found = [(at + len(word), at) for word in self._stop if (at := text.find(word)) >= 0]
        if found:
            self.is_over = True
            self._held = ""
            return text[: min(found)[1]]
        kept = len(text) - self._begun(text)
        self._held = text[kept:]
        return text[:kept]

    def close(self) -> str:
        """What was held back, and turned out to be no stop."""
        held = self._held
        self._held = ""
        return held

    def _begun(self, text: str) -> int:
        """How much of the end of the text may become a stop."""
        longest = min(len(text), max(map(len, self._stop), default=1) - 1)
        for length in range(longest, 0, -1):
            if any(word.startswith(text[-length:]) for word in self._stop):
                return length
        return 0
