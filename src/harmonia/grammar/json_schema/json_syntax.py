"""The rules of JSON itself, for values of which a schema says nothing.

They are JSON as models write it, a little narrower than what readers take: white space is bounded, or a sampler could
stay in it for ever, and numbers are no longer than every reader reads exactly.
"""

from __future__ import annotations

from typing import Final

from harmonia.grammar.characters import ALL, of, without
from harmonia.grammar.rules import Chars, Literal, Name, Node, Repeat, choice, optional, sequence

# One blank, or a line end and its indentation.
MAX_INDENT: Final = 40
# More digits than this, and readers that take numbers for floats or 64-bit integers differ.
MAX_DIGITS: Final = 18
MAX_FRACTION: Final = 15
MAX_EXPONENT: Final = 2

SPACE: Final = Name("json-space")
VALUE: Final = Name("json-value")
OBJECT: Final = Name("json-object")
ARRAY: Final = Name("json-array")
STRING: Final = Name("json-string")
CHARACTER: Final = Name("json-character")
NUMBER: Final = Name("json-number")
INTEGER: Final = Name("json-integer")
BOOLEAN: Final[Node] = choice(Literal("true"), Literal("false"))
NULL: Final = Literal("null")

DIGIT: Final = Chars(((ord("0"), ord("9")),))
NONZERO: Final = Chars(((ord("1"), ord("9")),))
RAW: Final = without(ALL, ((0, 0x1F), *of('"\\')))

_HEX: Final = Chars(of("0123456789abcdefABCDEF"))
_HIGH: Final = sequence(Chars(of("dD")), Chars(of("89abAB")), _HEX, _HEX)
_LOW: Final = sequence(Chars(of("dD")), Chars(of("cdefCDEF")), _HEX, _HEX)
# Four digits that are no half of a surrogate pair.
_UNIT: Final = choice(
    sequence(Chars(of("0123456789abcefABCEF")), _HEX, _HEX, _HEX),
    sequence(Chars(of("dD")), Chars(of("01234567")), _HEX, _HEX),
)
_PAIR: Final = Name("json-pair")


def members(pair: Node) -> Node:
    """One pair or more, with commas between them."""
    return sequence(pair, Repeat(sequence(",", SPACE, pair)))


GENERIC: Final[dict[str, Node]] = {
    "json-space": optional(choice(Literal(" "), sequence("\n", Repeat(Chars(of(" \t")), 0, MAX_INDENT)))),
    "json-value": choice(OBJECT, ARRAY, STRING, NUMBER, BOOLEAN, NULL),
    "json-object": sequence("{", SPACE, optional(sequence(members(_PAIR), SPACE)), "}"),
    "json-pair": sequence(STRING, ":", SPACE, VALUE),
    "json-array": sequence("[", SPACE, optional(sequence(members(VALUE), SPACE)), "]"),
    "json-string": sequence('"', Repeat(CHARACTER), '"'),
    "json-character": choice(
        Chars(RAW),
        sequence("\\", choice(Chars(of('"\\/bfnrt')), sequence("u", choice(_UNIT, sequence(_HIGH, "\\u", _LOW))))),
    ),
    "json-integer": choice(Literal("0"), sequence(optional("-"), NONZERO, Repeat(DIGIT, 0, MAX_DIGITS - 1))),
    "json-number": sequence(
        optional("-"),
        choice(Literal("0"), sequence(NONZERO, Repeat(DIGIT, 0, MAX_DIGITS - 1))),
        optional(sequence(".", Repeat(DIGIT, 1, MAX_FRACTION))),
        optional(sequence(Chars(of("eE")), optional(Chars(of("+-"))), Repeat(DIGIT, 1, MAX_EXPONENT))),
    ),
}
