"""xgrammar alone: compiling a grammar."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.cases import Case


class Xgrammar:
    """`GrammarCompiler(…).compile_structural_tag(text)`, without its cache, on the vocabulary of gpt-oss."""

    label = "xgrammar"

    def __init__(self) -> None:
        self._compiler: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("xgrammar")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from benchmarks.grammars import demand_of
        from benchmarks.timing import timed
        from harmonia.grammar.completion import grammar_for
        from harmonia.vocabulary import RETURN, VOCABULARY_SIZE, default_vocabulary

        if self._compiler is None:
            xgrammar: Any = __import__("xgrammar")
            tokens = list(default_vocabulary().token_bytes)
            info = xgrammar.TokenizerInfo(
                tokens, xgrammar.VocabType.RAW, vocab_size=VOCABULARY_SIZE, stop_token_ids=[RETURN]
            )
            self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        results: list[tuple[float, Any]] = []
        for messages in case.inputs(round_, quick=quick):
            text = grammar_for(demand_of(messages), "xgrammar").text
            seconds, _ = timed(lambda it=text: self._compiler.compile_structural_tag(it))
            results.append((seconds, text))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        raise NotImplementedError

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        raise NotImplementedError
