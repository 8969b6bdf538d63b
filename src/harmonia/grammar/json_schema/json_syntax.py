"""How JSON spells values, as rules: any value, strings and numbers within the bounds of a schema.

The rules admit JSON as models write it, a little narrower than parsers accept: white space is bounded, or a sampler
could stay in it forever, and numbers have no more digits than every parser reads exactly.

Strings have the characters themselves, with short or numeric escapes where JSON requires them. A `<` that could begin
the spelling of a control token is escaped too: the value stays the same, and nothing can mistake it for the token.

Integers within bounds are exact, and so are other numbers between whole bounds. Between other bounds they are as exact
as the nearest whole numbers, and the caller has to report that. Bounded numbers are written without an exponent.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.regex_rules import Alternative, regex_alternatives
from harmonia.grammar.rules import (
    ALL,
    HALF_PAIR,
    Chars,
    Choice,
    Literal,
    Name,
    Node,
    Ranges,
    Repeat,
    choice,
    common,
    of,
    optional,
    ranges_of,
    rebuilt,
    sequence,
    without,
)
from harmonia.grammar.simplification import NEVER

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


# ── strings ──

ESCAPED_LESS_THAN: Final = "\\u003c"
# What stands for itself in a string, as much of it as there is, or one character that may not.
_ALIKE: Final = re.compile(r'[^"\\<\x00-\x1f]+|["\\<\x00-\x1f]')
_TOKEN_BEGINS: Final = re.compile(r"<(?=\|[a-z])")
# After a backslash: what stands for a character.
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
        raise InputError(ErrorCode.SCHEMA_INVALID, f"A lone surrogate is not valid text: {text!a}.")
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
        before, after = ([] if is_tied else [Repeat(CHARACTER)] for is_tied in (at_start, at_end))
        nodes.append(sequence(*before, spelled(node), *after))
    return sequence('"', choice(*nodes), '"')


def spelled(node: Node) -> Node:
    """The text that a node admits, as it stands between the quotes of a JSON string."""
    match node:
        case Literal(text):
            alike = _ALIKE.findall(text)
            return sequence(*(spelled_characters(of(each)) if len(each) == 1 else each for each in alike or [""]))
        case Chars():
            return spelled_characters(ranges_of(node))
        case _:
            return rebuilt(node, spelled)


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


# ── numbers ──

# A float has this many digits that count: with more, a number just below a bound would be read as the bound.
_EXACT_DIGITS: Final = 15


class Bounds(msgspec.Struct, frozen=True):
    """The least and the greatest value, and whether each is itself left out."""

    low: float | None = None
    high: float | None = None
    low_is_out: bool = False
    high_is_out: bool = False

    def narrowed(self, low: float | None, low_is_out: bool, high: float | None, high_is_out: bool) -> Bounds:
        """These bounds and others."""
        made = self
        if low is not None and (made.low is None or (low, low_is_out) > (made.low, made.low_is_out)):
            made = msgspec.structs.replace(made, low=low, low_is_out=low_is_out)
        if high is not None and (made.high is None or (-high, high_is_out) > (-made.high, made.high_is_out)):
            made = msgspec.structs.replace(made, high=high, high_is_out=high_is_out)
        return made

    def admit(self, value: float) -> bool:
        """Whether the value is within the bounds."""
        low, high = self.low, self.high
        is_high_enough = low is None or value > low or (value == low and not self.low_is_out)
        return is_high_enough and (high is None or value < high or (value == high and not self.high_is_out))

    @property
    def are_whole(self) -> bool:
        return all(bound is None or float(bound).is_integer() for bound in (self.low, self.high))


def integer_node(bounds: Bounds) -> Node:
    """The integers within the bounds."""
    if bounds == Bounds():
        return INTEGER
    low, high = bounds.low, bounds.high
    if low is not None:
        low = math.floor(low) + 1 if bounds.low_is_out else math.ceil(low)
    if high is not None:
        high = math.ceil(high) - 1 if bounds.high_is_out else math.floor(high)
    nodes: list[Node] = []
    if low is None or low < 0:
        largest = None if low is None else -low
        smallest = 1 if high is None or high >= 0 else -high
        nodes.append(sequence("-", _naturals(smallest, largest)))
    if high is None or high >= 0:
        nodes.append(_naturals(max(0, low or 0), high))
    return choice(*nodes)


def _naturals(low: int, high: int | None) -> Node:
    """Natural numbers without zeros in front; without an upper bound up to MAX_DIGITS digits, or as many as `low`."""
    if high is not None and high < low:
        return NEVER
    nodes: list[Node] = []
    most = max(MAX_DIGITS, len(str(low))) if high is None else len(str(high))
    for length in range(len(str(low)), most + 1):
        smallest = max(low, 10 ** (length - 1) if length > 1 else 0)
        largest = 10**length - 1
        if high is None and smallest == 10 ** (length - 1):
            # From here on every number of digits is free.
            nodes.append(sequence(NONZERO, Repeat(DIGIT, length - 1, most - 1)))
            break
        largest = largest if high is None else min(largest, high)
        nodes.append(_of_length(str(smallest), str(largest)))
    return choice(*nodes)


def _of_length(low: str, high: str) -> Node:
    """The numbers between two with equally many digits."""
    if low == high:
        return Literal(low)
    if len(low) == 1:
        return _digits(low, high)
    if low[0] == high[0]:
        return sequence(low[0], _of_length(low[1:], high[1:]))
    rest = len(low) - 1
    nodes: list[Node] = []
    first, last = int(low[0]), int(high[0])
    if low[1:] != "0" * rest:
        nodes.append(sequence(low[0], _of_length(low[1:], "9" * rest)))
        first += 1
    if high[1:] != "9" * rest:
        last -= 1
    if first <= last:
        nodes.append(sequence(_digits(str(first), str(last)), Repeat(DIGIT, rest, rest)))
    if high[1:] != "9" * rest:
        nodes.append(sequence(high[0], _of_length("0" * rest, high[1:])))
    return choice(*nodes)


def _digits(low: str, high: str) -> Node:
    return Literal(low) if low == high else Chars(((ord(low), ord(high)),))


def number_node(bounds: Bounds) -> Node:
    """The numbers within the bounds; where these are not whole, within the whole ones around them."""
    if bounds == Bounds():
        return NUMBER
    low = None if bounds.low is None else math.floor(bounds.low)
    high = None if bounds.high is None else math.ceil(bounds.high)
    low_is_out = bounds.low_is_out and low == bounds.low
    high_is_out = bounds.high_is_out and high == bounds.high
    nodes: list[Node] = []
    if low is None or low < 0:
        # The same with the signs and the bounds exchanged. Zero is written without a sign, so it is out.
        least, least_is_out = (0, True) if high is None or high >= 0 else (-high, high_is_out)
        nodes.append(sequence("-", _magnitudes(least, least_is_out, None if low is None else -low, low_is_out)))
    if high is None or high >= 0:
        is_positive = low is not None and low >= 0
        nodes.append(_magnitudes(low or 0 if is_positive else 0, is_positive and low_is_out, high, high_is_out))
    return choice(*nodes)


def _magnitudes(low: int, low_is_out: bool, high: int | None, high_is_out: bool) -> Node:
    if high is not None and (high < low or (high == low and (low_is_out or high_is_out))):
        return NEVER
    digits = len(str(max(low, high or 0)))
    fraction_digits = max(1, _EXACT_DIGITS - digits) if high is not None else MAX_FRACTION - min(digits, 10)
    fraction = optional(sequence(".", Repeat(DIGIT, 1, fraction_digits)))
    zeros = optional(sequence(".", Repeat(Literal("0"), 1, fraction_digits)))
    nodes: list[Node] = []
    if high is not None and high == low:
        return sequence(str(low), zeros)
    begin = low
    if low_is_out:
        nonzero = sequence(Repeat(Literal("0"), 0, fraction_digits - 1), NONZERO)
        nodes.append(sequence(str(low), ".", nonzero, Repeat(DIGIT, 0, 2)))
        begin += 1
    last = None if high is None else high - 1
    if last is None or begin <= last:
        nodes.append(sequence(_naturals(begin, last), fraction))
    if high is not None and not high_is_out:
        nodes.append(sequence(str(high), zeros))
    return choice(*nodes) if nodes else NEVER
