"""Strings: how JSON spells a text, and the rules for strings that a schema bounds.

A text is spelled as models do it, with the characters themselves; what JSON demands to be escaped has its short escape,
or its number. Where a `<` could begin the spelling of a control token it is escaped, too: the value stays the same, and
no engine or reader can take it for the token.
"""

from __future__ import annotations

import json
import re
from typing import Final

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.characters import HALF_PAIR, Ranges, common, of, ranges_of, without
from harmonia.grammar.json_schema.json_syntax import CHARACTER, RAW, STRING
from harmonia.grammar.regex_rules import Alternative, regex_alternatives
from harmonia.grammar.rules import Chars, Choice, Literal, Node, Repeat, Sequence, choice, sequence

ESCAPED_LESS_THAN: Final = "\\u003c"
# What stands for itself in a string, as much of it as there is, or one character that may not.
_ALIKE: Final = re.compile(r'[^"\\<\x00-\x1f]+|["\\<\x00-\x1f]')
_TOKEN_BEGINS: Final = re.compile(r"<(?=\|[a-z])")
# Behind a backslash: what stands for a character.
_SHORT: Final = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_LONG: Final = without(((0, 0x1F),), of("\b\f\n\r\t"))

# Formats whose texts are all alike, as expressions for the whole text. Others are reported.
_DAY: Final = (
    r"(?:[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    r"|(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)"
)
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
FORMATS: Final = {
    "date": _DAY,
    "time": _TIME,
    "date-time": f"{_DAY}T{_TIME}",
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "ipv4": rf"(?:{_BYTE}\.){{3}}{_BYTE}",
}


def string_text(text: str) -> str:
    """A text as a JSON string, in the one spelling that the rules admit for it."""
    if not text.isascii() and HALF_PAIR.search(text):
        raise InputError(ErrorCode.SCHEMA_INVALID, f"Half of a surrogate pair is no text: {text!a}.")
    return _TOKEN_BEGINS.sub(lambda _: ESCAPED_LESS_THAN, json.dumps(text, ensure_ascii=False))


def bounded(least: int, most: int | None) -> Node:
    """Strings of so many characters."""
    return STRING if (least, most) == (0, None) else sequence('"', Repeat(CHARACTER, least, most), '"')


def formatted(name: str) -> Node:
    """Strings of one of the FORMATS."""
    return sequence('"', spelled(choice(*(each.node for each in regex_alternatives(FORMATS[name])))), '"')


def matching(alternatives: tuple[Alternative, ...]) -> Node:
    """Strings in which an expression is found."""
    nodes: list[Node] = []
    for node, at_start, at_end in alternatives:
        before = [] if at_start else [Repeat(CHARACTER)]
        behind = [] if at_end else [Repeat(CHARACTER)]
        nodes.append(sequence(*before, spelled(node), *behind))
    return sequence('"', choice(*nodes), '"')


def spelled(node: Node) -> Node:
    """The text that a node admits, as it stands between the quotes of a JSON string."""
    match node:
        case Literal(text):
            return sequence(*(_spelled_text(part) for part in _ALIKE.findall(text))) if text else node
        case Chars():
            return spelled_characters(ranges_of(node))
        case Sequence(nodes):
            return Sequence(tuple(spelled(each) for each in nodes))
        case Choice(nodes):
            return Choice(tuple(spelled(each) for each in nodes))
        case Repeat(inner, least, most):
            return Repeat(spelled(inner), least, most)
        case _:
            raise AssertionError(node)  # no expression has others


def _spelled_text(text: str) -> Node:
    return spelled_characters(of(text)) if len(text) == 1 else Literal(text)


def spelled_characters(ranges: Ranges) -> Node:
    """One of these characters, as it stands in a JSON string."""
    nodes: list[Node] = []
    raw = common(ranges, RAW)
    if raw:
        is_one = len(raw) == 1 and raw[0][0] == raw[0][1]
        nodes.append(Literal(chr(raw[0][0])) if is_one else Chars(raw))
    short = "".join(escape for character, escape in _SHORT.items() if common(ranges, of(character)))
    if short:
        nodes.append(sequence("\\", Chars(of(short))))
    if common(ranges, of("<")):
        nodes.append(Literal(ESCAPED_LESS_THAN))
    for row in (0x00, 0x10):
        codes = common(ranges, common(_LONG, ((row, row + 0xF),)))
        digits = "".join(f"{code - row:x}" for low, high in codes for code in range(low, high + 1))
        if digits:
            nodes.append(sequence(f"\\u00{row // 16}", Chars(of(digits))))
    return choice(*nodes) if nodes else Choice(())
