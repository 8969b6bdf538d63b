"""Numbers between bounds, as rules for their digits.

Integers are exact. So are other numbers between whole bounds; between bounds that are not whole they are as exact as
the whole numbers around these, and the caller has to report it. Numbers with a bound are written without an exponent.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from harmonia.grammar.json_schema.json_syntax import DIGIT, INTEGER, MAX_DIGITS, MAX_FRACTION, NONZERO, NUMBER
from harmonia.grammar.rules import Chars, Literal, Node, Repeat, choice, optional, sequence
from harmonia.grammar.simplification import NEVER

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

    @property
    def are_whole(self) -> bool:
        return all(bound is None or float(bound).is_integer() for bound in (self.low, self.high))


def integer_node(bounds: Bounds) -> Node:
    """The integers within the bounds."""
    if bounds == Bounds():
        return INTEGER
    low = None if bounds.low is None else math.floor(bounds.low) + 1 if bounds.low_is_out else math.ceil(bounds.low)
    high = (
        None if bounds.high is None else math.ceil(bounds.high) - 1 if bounds.high_is_out else math.floor(bounds.high)
    )
    return _integers(low, high)


def _integers(low: int | None, high: int | None) -> Node:
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
        nodes.append(_below_zero(low, low_is_out, high, high_is_out))
    if high is None or high >= 0:
        nodes.append(_from_zero(low if low is not None and low >= 0 else None, low_is_out, high, high_is_out))
    return choice(*nodes)


def _below_zero(low: int | None, low_is_out: bool, high: int | None, high_is_out: bool) -> Node:
    """The same with the signs and the bounds exchanged. Zero is written without a sign, so it is out."""
    least, least_is_out = (0, True) if high is None or high >= 0 else (-high, high_is_out)
    return sequence("-", _magnitudes(least, least_is_out, None if low is None else -low, low_is_out))


def _from_zero(low: int | None, low_is_out: bool, high: int | None, high_is_out: bool) -> Node:
    return _magnitudes(low or 0, low is not None and low_is_out, high, high_is_out)


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
