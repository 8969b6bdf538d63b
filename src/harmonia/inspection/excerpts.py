"""Excerpts of a text with a marked position, in which invisible characters are made visible."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from unicodedata import category, east_asian_width

ELLIPSIS: Final = "…"

# Controls, soft hyphens, direction marks, zero-width and no-break spaces, joiners, variation selectors, tags.
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd"
    "\U00013430-\U00013440\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SHORT: Final = {"\n": "⏎", "\t": "⇥", "\x7f": "␡", "\xa0": "⍽", "\u202f": "⍽"}


def show(text: str) -> str:
    """The text on one line, with invisible characters spelled out."""
    return text if text.isprintable() and text.isascii() else _INVISIBLE.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def cells(text: str) -> int:
    """The width of a visible text in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(each) in "WF" else category(each) not in ("Mn", "Me") for each in text)


class Excerpt(NamedTuple):
    """A line of the input, and a line below it that marks a position."""

    line: str
    marker: str


def excerpt(text: str, at: int, length: int, width: int) -> Excerpt:
    """The text around a position, with `^` under it and `~` under the rest of the marked text."""
    at = min(max(at, 0), len(text))
    right_width = cells(show(text[at : at + width]))
    left = _last_cells(text[max(at - width, 0) : at], max(width // 2, width - right_width - 1) - 1)
    shown_left = (ELLIPSIS if len(left) < at else "") + show(left)
    column = cells(shown_left)
    right, marked = "", 0
    for offset, character in enumerate(text[at : at + width]):
        piece = show(character)
        is_last = at + offset + 1 == len(text)
        if column + cells(right) + cells(piece) > width - (not is_last):
            right += ELLIPSIS
            break
        right += piece
        if offset < length:
            marked = cells(right)
    if at == len(text):
        return Excerpt(shown_left, _mark_end(column, width))
    return Excerpt(shown_left + right, " " * column + "^" + "~" * (marked - 1))


def _mark_end(column: int, width: int) -> str:
    """A marker after the last character, labelled on the side that has room."""
    said = "the end of the input"
    if column > len(said) and column + len(said) + 2 > width:
        return f"{said} ^".rjust(column + 1)
    return f"{' ' * column}^ {said if column + len(said) + 2 <= width else 'the end'}"


def _last_cells(text: str, width: int) -> str:
    """The end of a text, as much as fits."""
    used, start = 0, len(text)
    while start > 0:
        used += cells(show(text[start - 1]))
        if used > width:
            break
        start -= 1
    return text[start:]
