"""Validates the text form of a custom tool, and the text of a call against it."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.grammar import TextForm, WrittenGrammar
from harmonia.grammar.llguidance_writer import write_llguidance
from harmonia.grammar.rules import Grammar, Special, Text, sequence
from harmonia.run.engines.grammar_mask import Matcher, is_installed
from harmonia.vocabulary import CALL, encode

_REMEMBERED_FORMS: Final = 256
# Of this thread's own time, so that it does not matter what else the machine does.
_MOST_WORK_S: Final = 2.0
_MISSING: Final = "checking the input of a custom tool needs llguidance: pip install 'harmonia[grammar]'"


# A client sends the same tools with every request.
@lru_cache(maxsize=_REMEMBERED_FORMS)
def find_fault(form: TextForm, name: str) -> InputError | None:
    """What is wrong with the form of this tool's text; None where nothing is, or nobody can tell."""
    try:
        grammar = _grammar(form, name)
        if is_installed():
            Matcher(grammar)
    except InputError as error:
        if error.code is ErrorCode.GRAMMAR_MISSING_EXTRA:
            return None  # it cannot be imported, which is no fault of the form's
        if error.code is ErrorCode.GRAMMAR_TOO_LARGE:
            return error
        return InputError(ErrorCode.GRAMMAR_INVALID_TEXT_FORM, error.message, error.at)
    return None


def text_fits(form: TextForm, name: str, text: str) -> bool:
    """Whether the text has the form. Raises an InputError where nobody can tell. It may take seconds."""
    if not is_installed():
        raise InputError(ErrorCode.GRAMMAR_MISSING_EXTRA, _MISSING)
    tokens = [*encode(text), CALL]
    matcher = Matcher(_grammar(form, name))
    until_s = time.thread_time() + _MOST_WORK_S
    for token in tokens:
        try:
            matcher.commit(token)
        except EngineError as error:
            if error.code is ErrorCode.GRAMMAR_TOO_LARGE:
                raise InputError(error.code, error.message, error.at) from error
            return False
        if time.thread_time() > until_s:
            raise InputError(
                ErrorCode.GRAMMAR_TOO_LARGE, f"checking a text against the form of {name} takes too much work"
            )
    return True


def _grammar(form: TextForm, name: str) -> WrittenGrammar:
    # As a call has it: the text, and the token that ends it.
    return write_llguidance(Grammar(sequence(Text(form, name), Special(CALL)), {}))
