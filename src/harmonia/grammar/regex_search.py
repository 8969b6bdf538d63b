"""Searches a text with an untrusted regular expression in bounded work.

Python's `re` may take exponential time over an expression such as `(a+)+$`, and nothing can stop it once it has begun.
Here a node of the expression maps the set of places where it may begin to the set of places where it may end, so that
no place is tried twice by the same node; and what takes too many steps all the same is given up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from harmonia.grammar.regex_rules import Alternative, UnreadableRegexError, regex_alternatives
from harmonia.grammar.rules import Chars, Choice, Literal, Node, Repeat, Sequence

MAX_STEPS: Final = 200_000
_REMEMBERED: Final = 4096


def is_found(expression: str, text: str) -> bool | None:
    """Whether the expression is found in the text. None where nobody can say: it is not a regular expression that all
    regex flavours read alike, or the search takes too long."""
    alternatives = _alternatives(expression)
    if alternatives is None:
        return None
    search = _Search(text)
    try:
        return any(search.finds(each) for each in alternatives)
    except _TooLong:
        return None


@lru_cache(_REMEMBERED)
def _alternatives(expression: str) -> tuple[Alternative, ...] | None:
    try:
        return regex_alternatives(expression)
    except UnreadableRegexError:
        return None


class _TooLong(Exception):
    pass


class _Search:
    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MAX_STEPS

    def finds(self, alternative: Alternative) -> bool:
        size = len(self._text)
        ends = self._ends(alternative.node, {0} if alternative.at_start else set(range(size + 1)))
        return size in ends if alternative.at_end else bool(ends)

    def _ends(self, node: Node, starts: set[int]) -> set[int]:
        self._left -= 1 + len(starts)
        if self._left < 0:
            raise _TooLong
        text = self._text
        match node:
            case Literal(said):
                return {at + len(said) for at in starts if text.startswith(said, at)}
            case Chars(ranges, is_negated):
                fits = (at for at in starts if at < len(text) and _is_in(ord(text[at]), ranges) != is_negated)
                return {at + 1 for at in fits}
            case Sequence(nodes):
                for each in nodes:
                    starts = self._ends(each, starts)
                return starts
            case Choice(nodes):
                return set[int]().union(*(self._ends(each, starts) for each in nodes))
            case Repeat(inner, least, most):
                return self._repeat(inner, least, most, starts)
            case _:
                raise AssertionError(node)  # no expression has others

    def _repeat(self, inner: Node, least: int, most: int | None, starts: set[int]) -> set[int]:
        for _ in range(least):
            starts = self._ends(inner, starts)
        found, fresh, times = set(starts), starts, least
        while fresh and (most is None or times < most):
            fresh = self._ends(inner, fresh) - found
            found |= fresh
            times += 1
        return found


def _is_in(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)
