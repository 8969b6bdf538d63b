"""Checks the text form of a custom tool, as a client wrote it, before any engine compiles it.

A client's Lark becomes part of a larger grammar, so nothing in it may reach beyond its own rules: no special token, no
other grammar, no option of the engine, no brace that would end it early. It is also bounded, because a hostile form
could keep an engine's compiler busy forever, or crash it.
"""

from __future__ import annotations

import re
from typing import Final

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.characters import HALF_PAIR
from harmonia.tool_definitions import TextForm

MAX_FORM_CHARS: Final = 32_768
# Each rule that leads to another costs the engine's compiler a part of its stack. Codex's apply_patch has 15.
MAX_FORM_RULES: Final = 300
MAX_REPETITIONS: Final = 1_000
# llguidance gives up at 30 nested groups.
MAX_FORM_DEPTH: Final = 25

_TOKEN: Final = re.compile(
    r"""
      (?P<comment> //[^\n]* | \#[^\n]* )
    | (?P<string> "(?:\\.|[^"\\\n])*+"i? )
    | (?P<regex> /(?!/)(?:\\.|[^/\\\n])++/[imslux]* )
    | (?P<directive> %[A-Za-z_]* )
    | (?P<definition> [!?]?[A-Za-z_][A-Za-z0-9_-]*(?=[ \t]*+(?:\.-?\d++[ \t]*+)?+:) )
    | (?P<priority> \.-?\d+(?=[ \t]*:) )
    | (?P<name> [A-Za-z_][A-Za-z0-9_-]* )
    | (?P<arrow> -> )
    | (?P<repetition> \{\s*+\d++\s*+(?:,\s*+\d*+\s*+)?+\} | ~\s*\d+(?:\.\.\d+)? )
    | (?P<sign> \.\. | [:|()\[\]?*+,.] )
    | (?P<space> \s+ )
    """,
    re.VERBOSE,
)
_DIRECTIVES: Final = frozenset(("%import", "%ignore"))
_REPEATED: Final = re.compile(r"\{\s*+\d++\s*+(?:,\s*+\d*+\s*+)?+\}")
_NUMBER: Final = re.compile(r"\d+")


def checked_form(form: TextForm, about: str) -> TextForm:
    """The form, if it can be part of a grammar. `about` is the tool's whole name, for the error."""
    if len(form.definition) > MAX_FORM_CHARS:
        raise InputError(
            ErrorCode.GRAMMAR_TOO_LARGE, f"the form of {about} has more than {MAX_FORM_CHARS:,} characters"
        )
    half = HALF_PAIR.search(form.definition)
    if half is not None:
        raise _refusal(about, "a lone surrogate, which is not valid text", half.start())
    if form.syntax == "lark":
        return TextForm("lark", _checked_lark(form.definition, about))
    if "\0" in form.definition or not form.definition:
        raise _refusal(about, "the regular expression is empty or has a NUL character", 0)
    _check_repetitions(form.definition, 0, about)
    return form


def _checked_lark(definition: str, about: str) -> str:
    """The definition without priorities: they choose between readings, not between texts, and not every engine has
    them."""
    kept: list[str] = []
    position = rules = depth = 0
    has_start = False
    while position < len(definition):
        found = _TOKEN.match(definition, position)
        if found is None:
            raise _refusal(about, _unexpected(definition, position), position)
        if found.lastgroup == "directive" and found[0] not in _DIRECTIVES:
            raise _refusal(about, f"{found[0]} is not supported; only %import and %ignore are", position)
        if found.lastgroup == "regex":
            _check_repetitions(found[0], position, about)
        elif found.lastgroup == "repetition":
            _check_numbers(found[0], position, about)
        rules += found[0] == ":"
        depth += (found[0] in ("(", "[")) - (found[0] in (")", "]"))
        if depth > MAX_FORM_DEPTH:
            raise InputError(
                ErrorCode.GRAMMAR_TOO_LARGE,
                f"the form of {about} has more than {MAX_FORM_DEPTH} nested groups",
                Position(character=position),
            )
        if found.lastgroup == "definition":
            has_start = has_start or found[0].lstrip("!?") == "start"
        kept.append(" " * len(found[0]) if found.lastgroup == "priority" else found[0])
        position = found.end()
    if rules > MAX_FORM_RULES:
        raise InputError(ErrorCode.GRAMMAR_TOO_LARGE, f"the form of {about} has more than {MAX_FORM_RULES} rules")
    if not has_start:
        raise _refusal(about, "the rule `start` is missing", 0)
    return "".join(kept)


def _check_repetitions(expression: str, position: int, about: str) -> None:
    """The numbers of repetitions in a regular expression, which begins at a position."""
    for found in _REPEATED.finditer(expression):
        _check_numbers(found[0], position + found.start(), about)


def _check_numbers(repetition: str, position: int, about: str) -> None:
    if any(len(number) > 9 or int(number) > MAX_REPETITIONS for number in _NUMBER.findall(repetition)):
        raise InputError(
            ErrorCode.GRAMMAR_TOO_LARGE,
            f"the form of {about} repeats something more than {MAX_REPETITIONS:,} times",
            Position(character=position),
        )


def _unexpected(definition: str, position: int) -> str:
    sign = definition[position]
    if sign == "<":
        return "special tokens are not allowed here"
    if sign in "{}":
        return "a brace that is not a repetition count"
    if sign in '"/':
        return "a string or regular expression that does not end on its line"
    return f"unexpected {sign!r}"


def _refusal(about: str, message: str, position: int) -> InputError:
    return InputError(
        ErrorCode.GRAMMAR_INVALID_TEXT_FORM, f"the form of {about}: {message}", Position(character=position)
    )
