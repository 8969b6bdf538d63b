"""llguidance alone: compiling a grammar, and its masks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from benchmarks.cases import Case


class Llguidance:
    """`LLMatcher(tokenizer, text)`, `compute_bitmask()` and `consume_token(token)`, on Harmonia's own vocabulary."""

    label = "llguidance"

    @property
    def version(self) -> str:
        from importlib.metadata import version

        return version("llguidance")

    def run(self, case: Case, round_: int, *, quick: bool) -> list[tuple[float, Any]]:
        from benchmarks.grammars import completion_of, counted, demand_of, walk
        from benchmarks.timing import timed, without_garbage_collection
        from harmonia.grammar.completion import grammar_for
        from harmonia.run.engines import grammar_mask as masking

        llguidance: Any = __import__("llguidance")
        # The tokenizer and the limits that Harmonia gives it, so that both do the same work.
        tokenizer: Any = getattr(masking, "_tokenizer")()  # noqa: B009 -- it is nobody's API
        limits: Any = llguidance.LLParserLimits(
            max_items_in_row=masking.MAX_ITEMS_IN_ROW,
            step_max_items=masking.MAX_ITEMS_FOR_MASK,
            max_lexer_states=masking.MAX_LEXER_STATES,
            max_grammar_size=masking.MAX_GRAMMAR_SYMBOLS,
            verbose_errors=False,
        )
        results: list[tuple[float, Any]] = []
        with without_garbage_collection():
            for messages in case.inputs(round_, quick=quick):
                demand = demand_of(messages)
                text = grammar_for(demand, "llguidance").text
                seconds, matcher = timed(
                    lambda it=text: llguidance.LLMatcher(tokenizer, it, log_level=0, limits=limits)
                )
                if case.action == "build":
                    results.append((seconds, text))
                    continue
                tokens = completion_of(demand)
                seconds, masks = timed(lambda it=matcher, them=tokens: walk(it.compute_bitmask, it.consume_token, them))
                results.append((seconds, counted(masks)))
        return results

    def first_render(self, messages: list[dict[str, Any]], *, engine_loaded: bool) -> list[int]:
        raise NotImplementedError

    def first_parse(self, completion: list[int]) -> list[dict[str, Any]]:
        raise NotImplementedError
