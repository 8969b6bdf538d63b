"""Text for a terminal: what is invisible made visible, lines as wide as they look, and a place marked in an excerpt.

Nothing that a model wrote reaches the terminal as a control character, so no trace can move the cursor or set colours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple, TextIO

ELLIPSIS: Final = "…"

# Controls, soft hyphens, marks of direction, spaces of no width or without a break, joiners, variation selectors, tags.
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd"
    "\U00013430-\U00013440\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Controls but for line feed and tab, marks and overrides of direction, lines and paragraphs of Unicode's, tags.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SHORT: Final = {"\n": "⏎", "\t": "⇥", "\x7f": "␡", "\xa0": "⍽", "\u202f": "⍽"}


def show(text: str) -> str:
    """The text on one line, with everything that would not be seen spelled out."""
    return text if text.isprintable() and text.isascii() else _INVISIBLE.sub(_spell, text)


def readable(text: str, stream: TextIO | None = None) -> str:
    """The text as it may be written to the stream, or to a terminal: what controls one is spelled out."""
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATES.sub("\ufffd", text)  # of which no encoding knows
    return text if stream is not None and not stream.isatty() else _UNSAFE.sub(lambda found: show(found.group()), text)


def _spell(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def cells(text: str) -> int:
    """How wide a text that was made visible is, in cells of a terminal."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 0 if unicodedata.category(character) in ("Mn", "Me") else 1


def shorten(text: str, width: int) -> str:
    """A text made visible, cut to a number of cells."""
    shown = show(text[: width + 1])
    if cells(shown) <= width and len(text) <= width + 1:
        return shown
    kept, used = "", 1
    for character in shown:
        used += _cells_of(character)
        if used > width:
            break
        kept += character
    return kept + ELLIPSIS


class Line(NamedTuple):
    """A line of a body as it is shown. `goes_on` where it is not the text that breaks before it, but the window."""

    shown: str
    chars: int
    goes_on: bool


def wrap(text: str, width: int) -> Iterator[Line]:
    """The lines of a text, made visible and broken where they are wider than `width` cells; at spaces, if possible."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        is_last = number == len(lines) - 1
        pieces = list(_break(line, width))
        for at, piece in enumerate(pieces):
            ends = at == len(pieces) - 1 and not is_last
            yield Line(show(piece), len(piece) + ends, at > 0)


def wrap_words(text: str, width: int) -> list[str]:
    """A text that was made visible, in lines of whole words; only a word that is wider than a line is broken."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += _break(word, width)
    return lines or [""]


def _break(line: str, width: int) -> Iterator[str]:
    is_plain = line.isascii() and line.isprintable()
    start = 0
    while True:
        end = min(start + width, len(line)) if is_plain else _fitting(line, start, width)
        if end >= len(line):
            yield line[start:]
            return
        space = line.rfind(" ", start + (end - start) // 2, end)
        end = space + 1 if space >= 0 else end
        yield line[start:end]
        start = end


def _fitting(line: str, start: int, width: int) -> int:
    """Where the characters end that fit into the width; at least one does."""
    used, at = 0, start
    while at < len(line):
        used += cells(show(line[at]))
        if used > width and at > start:
            break
        at += 1
    return at


class Excerpt(NamedTuple):
    """A line of the input, and a line below it that marks a place in it."""

    line: str
    marker: str


def excerpt(text: str, at: int, length: int, width: int) -> Excerpt:
    """The surroundings of a place in a text, with `^` under it and `~` under the rest of what is marked."""
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
    """A marker behind the last character, which says so on the side on which there is room."""
    said = "the end of the input"
    if column > len(said) and column + len(said) + 2 > width:
        return f"{said} ^".rjust(column + 1)
    return f"{' ' * column}^ {said if column + len(said) + 2 <= width else 'the end'}"


def _last_cells(text: str, width: int) -> str:
    """The end of a text, as much of it as fits."""
    used, start = 0, len(text)
    while start > 0:
        used += cells(show(text[start - 1]))
        if used > width:
            break
        start -= 1
    return text[start:]
