"""Text for a terminal: what is invisible made visible, and lines as wide as they look.

Nothing that a model wrote reaches the terminal as a control character, so no trace can move the cursor or set colours.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple, TextIO

import click

from harmonia.inspection.excerpts import ELLIPSIS, cells, show

_VERDICT_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}

# Controls but for line feed and tab, marks and overrides of direction, lines and paragraphs of Unicode's, tags.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def readable(text: str, stream: TextIO | None = None) -> str:
    """The text as it may be written to the stream, or to a terminal: what controls one is spelled out."""
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATES.sub("\ufffd", text)  # of which no encoding knows
    return text if stream is not None and not stream.isatty() else _UNSAFE.sub(lambda found: show(found.group()), text)


def shorten(text: str, width: int) -> str:
    """A text made visible, cut to a number of cells."""
    shown = show(text[: width + 1])
    if cells(shown) <= width and len(text) <= width + 1:
        return shown
    kept, used = "", 1
    for character in shown:
        used += cells(character)
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


def echo_verdict(verdict: str, name: str, widths: tuple[int, int], *texts: str) -> None:
    """A verdict, what it is about, and texts; outside a terminal, one line for each text."""
    indent = sum(widths) + 4
    width = max(shutil.get_terminal_size().columns - indent, 40) if sys.stdout.isatty() else sys.maxsize
    first, *others = (line for text in texts for line in wrap_words(text, width))
    shown = click.style(f"{verdict:<{widths[0]}}", fg=_VERDICT_COLOURS.get(verdict))
    click.echo(f"{shown}  {name:<{widths[1]}}  {first}")
    for line in others:
        click.echo(" " * indent + line)


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
