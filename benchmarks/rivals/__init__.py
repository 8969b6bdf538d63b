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
        def first_parse(self, completion: list[int]) -> list[dict[str, Any]]: ...


# Harmonia by its own API and by that of the reference (the drop-in), and which of its tokenizers each of them runs.
ENGINES = {"core": "exact", "fast": "fast", "dropin-core": "exact", "dropin-fast": "fast"}
NAMES = ("openai-harmony", "tiktoken", "llguidance", "xgrammar", "llama.cpp", *ENGINES)
# Those that are measured where they are installed; of the others, the benchmarks need all.
EXTRAS = {
    "fast": "gigatoken",
    "dropin-fast": "gigatoken",
    "llguidance": "llguidance",
    "xgrammar": "xgrammar",
    "llama.cpp": "xllamacpp",
}


def load_rival(name: str) -> Rival:
    """The rival of that name. In the process of one that is to run the tokenizer of the core, there is no other."""
    engine = ENGINES.get(name)
    if engine == "exact":
        from benchmarks.fresh import hide

        hide("gigatoken")
    if name == "tiktoken":
        from benchmarks.rivals.tiktoken import Tiktoken

        return Tiktoken()
    if name == "llguidance":
        from benchmarks.rivals.llguidance import Llguidance

        return Llguidance()
    if name == "xgrammar":
        from benchmarks.rivals.xgrammar import Xgrammar

        return Xgrammar()
    if name == "llama.cpp":
        from benchmarks.rivals.llama_cpp import LlamaCpp

        return LlamaCpp()
    if name in ("core", "fast"):
        from benchmarks.rivals.harmonia import Harmonia

        return Harmonia(engine)
    from benchmarks.rivals.openai_harmony import OpenAIHarmony

    return OpenAIHarmony(engine)
