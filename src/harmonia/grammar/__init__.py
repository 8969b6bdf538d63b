"""Well-formed Harmony as a grammar, from tools, a tool choice and a response format, written for real engines."""

from harmonia.grammar.completion import Begun, CallableTool, Demand, callable_tools, declared_tools, grammar_for
from harmonia.grammar.rules import GRAMMAR_KINDS, GrammarKind, Loss, WrittenGrammar
from harmonia.tool_definitions import TextForm

__all__ = [
    "GRAMMAR_KINDS",
    "Begun",
    "CallableTool",
    "Demand",
    "GrammarKind",
    "Loss",
    "TextForm",
    "WrittenGrammar",
    "callable_tools",
    "declared_tools",
    "grammar_for",
]
