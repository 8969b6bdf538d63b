"""Sets of characters as ordered, disjoint ranges of code points, both ends included.

No set contains surrogates, and neither does its complement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from harmonia.grammar.rules import Chars

Ranges: TypeAlias = tuple[tuple[int, int], ...]

HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """These ranges, in order, with those that touch made one."""
    made: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if made and low <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], high))
        else:
            made.append((low, high))
    return tuple(made)


def common(one: Ranges, other: Ranges) -> Ranges:
    """What both have."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return joined((low, high) for low, high in pairs if low <= high)


def without(one: Ranges, other: Ranges) -> Ranges:
    """What only the first has."""
    left: list[tuple[int, int]] = []
    taken = joined(other)
    for low, high in one:
        for begin, end in taken:
            if end < low or begin > high:
                continue
            if begin > low:
                left.append((low, begin - 1))
            low = end + 1
        if low <= high:
            left.append((low, high))
    return tuple(left)


def of(text: str) -> Ranges:
    """The characters of a text."""
    return joined((ord(character), ord(character)) for character in text)


@lru_cache(maxsize=1_000)
def ranges_of(chars: Chars) -> Ranges:
    """What a node admits."""
    ranges = joined(chars.ranges)
    return without(ALL, ranges) if chars.is_negated else common(ALL, ranges)
