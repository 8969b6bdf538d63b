"""What every engine that takes a grammar has to do about it, whatever its kind."""

from __future__ import annotations

from typing import Final

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import GrammarKind, WrittenGrammar
from harmonia.run.engines.base import Request
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN

# Behind the end of a grammar that leaves the stop token to the engine, it samples one of these. Which of them says
# nothing: the turn puts back the one that belongs to the message.
ENDS_OF_GENERATION: Final = frozenset({RETURN, CALL, END_OF_TEXT})


def grammar_of(request: Request, kind: GrammarKind | None, engine: str) -> WrittenGrammar | None:
    """The grammar of a request. One of another kind than the engine takes is refused: it would hold nothing."""
    grammar = request.grammar
    if grammar is not None and grammar.kind != kind:
        takes = f"one of {kind}'s" if kind else "none"
        raise InputError(
            ErrorCode.ENGINE_INVALID_OPTION, f"{engine} was given a grammar for {grammar.kind}; it takes {takes}"
        )
    return grammar
