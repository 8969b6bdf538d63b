"""Marks: spellings that open and close passages of a model's text, found even if a chunk ends inside one.

A mark is a sequence of atoms, each a regular expression for one character or a bounded number of them, so every prefix
of a mark has an expression too. Text that may still become a mark is held back, at most the length of the longest mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

# anywhere  wherever it is spelled
# line      at the beginning of a line, behind a few blanks at most
Where = Literal["anywhere", "line"]

_LINE_START: Final = r"(?<![^\n])"
_BLANKS: Final = r"[ \t]{0,4}"
_HALVES: Final = "[\\ud800-\\udfff]"


class Mark(msgspec.Struct, frozen=True):
    """A mark as atoms. The first and the last are exactly one character each.

    By the first one a mark is looked for, also behind the blanks of a line; and where it ends may not depend on what
    follows.
    """

    atoms: tuple[str, ...]
    at: Where = "anywhere"

    def whole(self) -> str:
        """A regular expression of the whole mark."""
        return self._before() + "".join(self.atoms)

    def beginning(self) -> str | None:
        """A regular expression of everything that may still become the mark, up to the end of the text."""
        nested = ""
        for atom in reversed(self.atoms[:-1]):
            nested = f"(?:{atom}{nested})?"
        return f"{self._before()}{nested}\\Z" if nested or self.at == "line" else None

    def _before(self) -> str:
        return "" if self.at == "anywhere" else _LINE_START + _BLANKS


def literal(text: str, at: Where = "anywhere") -> Mark:
    """A mark that is spelled like this and no other way."""
    return Mark(tuple(re.escape(character) for character in text), at)


def label(words: str, around: str = "") -> Mark:
    """A word with a colon at the beginning of a line, as in `Action:` or `action 2 :`, and `**Action:**` with `**`.

    Models count their labels, and write them in large and small letters.
    """
    atoms = [re.escape(character) for character in around]
    for word in words.split():
        atoms += (f"[{letter.upper()}{letter.lower()}]" for letter in word)
        atoms += (_BLANKS, r"\d{0,3}", _BLANKS)
    return Mark((*atoms, ":", *(re.escape(character) for character in around)), "line")


class Finder:
    """Finds the first of several marks, or the place from which on one may have begun."""

    __slots__ = ("_candidate", "_has_lines", "_last", "_open")

    def __init__(self, marks: Sequence[Mark]) -> None:
        # Where several fit, the longer one is meant: the caller's order decides between those of one length.
        by_length = sorted(range(len(marks)), key=lambda at: -len(marks[at].atoms))
        wholes = [f"(?P<m{at}>{marks[at].whole()})" for at in by_length]
        # Half of a surrogate pair is no character. It is found like a mark, so that it is reported in its place.
        wholes.append(f"(?P<half>{_HALVES})")
        beginnings = _different(mark.beginning() for mark in marks)
        self._last = re.compile("|".join(wholes))
        self._open = re.compile("|".join([*(f"(?:{beginning})" for beginning in beginnings), *wholes]))
        # Most characters begin nothing, and most lines. Those that may are found much faster than marks are.
        firsts = _different([*(mark.atoms[0] for mark in marks if mark.at == "anywhere"), _HALVES])
        in_lines = _different(mark.atoms[0] for mark in marks if mark.at == "line")
        self._has_lines = bool(in_lines)
        if in_lines:
            firsts.append(f"\n(?={_BLANKS}(?:{'|'.join(in_lines)}|\\Z))")
        self._candidate = re.compile("|".join(firsts))

    def search(self, text: str, at: int, *, is_end: bool) -> Found | None:
        """The first mark from here on; `which` is None for the beginning of one, which more text may complete."""
        if self._has_lines and text[at - 1 : at] == "\n" and (found := self.match(text, at, is_end=is_end)) is not None:
            return found
        while (candidate := self._candidate.search(text, at)) is not None:
            start, at = candidate.span()
            found = self.match(text, start, is_end=is_end)
            if found is None and self._has_lines and text[start] == "\n":
                found = self.match(text, at, is_end=is_end)
            if found is not None:
                return found
        return None

    def match(self, text: str, at: int, *, is_end: bool) -> Found | None:
        """The mark that stands exactly here, or its beginning."""
        match = (self._last if is_end else self._open).match(text, at)
        if match is None or match.end() == at:
            return None
        name = match.lastgroup
        which = None if name is None else HALF if name == "half" else int(name[1:])
        return Found(at, match.end(), which)


HALF: Final = -1


class Found(msgspec.Struct, frozen=True, gc=False):
    """A mark in a text: which one of those that were looked for, HALF for half of a surrogate pair."""

    start: int
    end: int
    which: int | None


def _different(patterns: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(pattern for pattern in patterns if pattern is not None))
