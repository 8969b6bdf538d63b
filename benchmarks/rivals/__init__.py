"""One adapter per rival, each with `label`, `version` and `run(case)`.

Their modules import nothing when they are imported, the rival included: a fresh process starts its clock after that,
and whatever was loaded before would not be counted.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from benchmarks.cases import Case

    class Rival(Protocol):
        """What is measured. `run` gives, for each input of the round, the seconds it took and the result: tokens, or
        for parsing `{"messages": [...], "text": ...}`, where `text` is all deltas joined."""

        @property
        def label(self) -> str: ...
        @property
        def version(self) -> str: ...
        def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]: ...
        def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]: ...


NAMES = ("openai-harmony", "tiktoken", "core", "fast")


def load_rival(name: str) -> Rival:
    """The rival of that name; `core` and `fast` are Harmonia with its two tokenizers."""
    if name == "openai-harmony":
        from benchmarks.rivals.openai_harmony import OpenAIHarmony

        return OpenAIHarmony()
    if name == "tiktoken":
        from benchmarks.rivals.tiktoken import Tiktoken

        return Tiktoken()
    from benchmarks.rivals.harmonia import Harmonia

    return Harmonia("exact" if name == "core" else "fast")
