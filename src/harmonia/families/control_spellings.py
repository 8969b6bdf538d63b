"""Breaks spellings that a model's tokenizer would read as control tokens (law 1, for engines that take text).

In a prompt that is sent as text, the template's own `<|im_end|>` and one that a user typed become the same token. So in
typed text and results of tools, each such spelling is broken by a backslash after its first character, as in the text
of a Harmony prompt (`<\\|im_end|>`): people can still read it, the tokenizer does not recognise it. In JSON, where a
backslash has a meaning, the first character is written as `\\u003c`, which is the same JSON value.

No spelling contains a backslash, so a broken text contains no spelling, even where two of them overlapped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

# All that a model may take for the end of a line.
_LINE_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"


class ControlSpellings:
    """A list of spellings, patterns of spellings, and words that mean something at the start of a line only."""

    __slots__ = ("_found",)

    def __init__(
        self, spellings: Iterable[str] = (), patterns: Iterable[str] = (), line_starts: Iterable[str] = ()
    ) -> None:
        written = [re.escape(spelling) for spelling in sorted(set(spellings), key=len, reverse=True)]
        # A line may be indented: models read an indented role as one, too.
        starts = [
            rf"(?<![^{_LINE_BREAKS}])[ \t]*{re.escape(word)}"
            for word in sorted(set(line_starts), key=len, reverse=True)
        ]
        either = "|".join([*written, *patterns, *starts])
        # Looked ahead at, so that spellings that overlap are all found.
        self._found = re.compile(f"(?={either})") if either else None

    def places(self, text: str) -> list[int]:
        """Where a spelling begins, in order."""
        return [] if self._found is None else [match.start() for match in self._found.finditer(text)]

    def broken(self, text: str) -> str:
        """The text with a backslash in every spelling."""
        return _rewritten(text, self.places(text), _with_backslash)

    def broken_in_json(self, text: str) -> str:
        """JSON text whose value is the same and which spells nothing; see the module."""
        return _rewritten(text, self.places(text), lambda character: f"\\u{ord(character):04x}")

    def broken_in_value(self, value: Any) -> Any:
        """A JSON value in which every text, names of members included, is broken."""
        match value:
            case str():
                return self.broken(value)
            case list():
                return [self.broken_in_value(item) for item in cast("list[Any]", value)]
            case dict():
                members = cast("Mapping[str, Any]", value).items()
                return {self.broken(name): self.broken_in_value(item) for name, item in members}
            case _:
                return value


def _with_backslash(character: str) -> str:
    # Behind an opening mark; in front of a word, whose place at the start of the line is what makes it one.
    return f"{character}\\" if character in "<[`" else f"\\{character}"


def _rewritten(text: str, places: Iterable[int], rewrite: Callable[[str], str]) -> str:
    pieces: list[str] = []
    shown = 0
    for place in places:
        pieces += (text[shown:place], rewrite(text[place]))
        shown = place + 1
    pieces.append(text[shown:])
    return "".join(pieces)
