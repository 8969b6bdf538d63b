"""llama.cpp alone: reading a grammar.

It compiles nothing beforehand: the rest of its work comes with each token, and is not measured here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.cases import Case


class LlamaCpp:
    """`llama_sampler_init_grammar(…, text, "root")` of llama.cpp's own C interface, in the build that the tests run."""

    label = "llama.cpp"

    def __init__(self) -> None:
        self._library: Any = None

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("xllamacpp")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from benchmarks.grammars import demand_of
        from benchmarks.timing import timed, without_garbage_collection
        from harmonia.grammar.completion import grammar_for

        library = self._load()
        results: list[tuple[float, Any]] = []
        with without_garbage_collection():
            for messages in case.inputs(round_, quick=quick):
                text = grammar_for(demand_of(messages), "gbnf").text
                written = text.encode()
                # No vocabulary: it is needed where tokens stand by their names, and ours stand by their numbers.
                seconds, sampler = timed(lambda it=written: library.llama_sampler_init_grammar(None, it, b"root"))
                assert sampler is not None, "llama.cpp cannot read the grammar"
                library.llama_sampler_free(sampler)
                results.append((seconds, text))
        return results

    def _load(self) -> Any:
        import ctypes
        from importlib.util import find_spec
        from pathlib import Path

        if self._library is None:
            spec = find_spec("xllamacpp")
            assert spec is not None and spec.origin is not None
            (file,) = Path(spec.origin).parent.glob("xllamacpp*.so")
            self._library = ctypes.CDLL(str(file))
            self._library.llama_sampler_init_grammar.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
            self._library.llama_sampler_init_grammar.restype = ctypes.c_void_p
            self._library.llama_sampler_free.argtypes = [ctypes.c_void_p]
            self._library.llama_sampler_free.restype = None
        return self._library

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        raise NotImplementedError

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        raise NotImplementedError
