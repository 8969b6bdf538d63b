"""Writes the grammar of a demand for a kind of engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.completion_rules import Begun, completion_grammar
from harmonia.grammar.demand import Demand
from harmonia.grammar.gbnf_writer import write_gbnf
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.rules import GRAMMAR_KINDS, Grammar, GrammarKind, WrittenGrammar
from harmonia.grammar.xgrammar_writer import write_xgrammar
from harmonia.schema.work_budget import bounded_work

# A few seconds of work: some thousand rules, or as many steps over combined schemas.
MAX_STEPS: Final = 300_000

_WRITERS: Final[dict[GrammarKind, Callable[[Grammar], WrittenGrammar]]] = {
    "llguidance": write_llguidance,
    "gbnf": write_gbnf,
    "xgrammar": write_xgrammar,
}


def grammar_for(demand: Demand, kind: GrammarKind, begun: Begun | None = None) -> WrittenGrammar:
    """The grammar of all completions that meet the demand, for this kind of engine."""
    if kind not in _WRITERS:
        known = ", ".join(GRAMMAR_KINDS)
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"unknown kind of grammar {kind!r}; choose one of {known}")
    try:
        with bounded_work(MAX_STEPS):
            return _WRITERS[kind](completion_grammar(demand, begun))
    except RecursionError as error:
        raise InputError(ErrorCode.GRAMMAR_TOO_LARGE, "a schema or text form is too long or too deep") from error
