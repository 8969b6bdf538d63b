"""A grammar as an engine takes it, and what of a demand the engine cannot be held to."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

# llguidance  Lark, with true special tokens; for the engines of this process, and vLLM's `guidance`
# gbnf        llama.cpp
# xgrammar    a structural tag, as JSON; vLLM and SGLang
GrammarKind = Literal["llguidance", "gbnf", "xgrammar"]
GRAMMAR_KINDS: Final[tuple[GrammarKind, ...]] = get_args(GrammarKind)


class Loss(msgspec.Struct, frozen=True):
    """Something that the grammar does not hold the model to. What is lost is admitted, never forbidden: whoever needs
    it checks the value. `about` is the tool's whole name or `response_format`, `path` where in its schema."""

    about: str
    path: str
    feature: str
    message: str


class WrittenGrammar(msgspec.Struct, frozen=True):
    """A grammar's text for one kind of engine. It is for what follows `<|start|>assistant`.

    Those that have `ends_by_engine` leave the stop token out: the engine samples one behind the end of the grammar, and
    which it has to be follows from the message.
    """

    kind: GrammarKind
    text: str
    losses: tuple[Loss, ...] = ()
    ends_by_engine: bool = False
