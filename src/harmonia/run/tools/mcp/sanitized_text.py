"""Text that a server wrote, for people and models to read: nothing in it is invisible or moves a cursor.

Control tokens are no danger here, because the renderer encodes every description as ordinary text. What is left is what
a reader cannot see: escape sequences of a terminal, marks that reverse the order of letters, letters of no width, tags.
Each is spelled out, as ⟨U+202E⟩. Line breaks and tabs stay.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final, cast

# Joiners, and the two selectors that choose between an emoji and its outline: ordinary writing needs them.
_KEPT: Final = frozenset("\n\t\u200c\u200d\ufe0e\ufe0f")
# Controls, formats, surrogates, and the two separators that some programs read as line breaks.
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# The keys of a JSON Schema that hold prose.
_PROSE: Final = frozenset(("description", "title", "$comment"))


def readable(text: str) -> str:
    """The text with what would not be seen spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_spell, text.replace("\r\n", "\n")))


def readable_line(text: str) -> str:
    """The same on one line."""
    return " ".join(readable(text).split())


def readable_schema(schema: Any) -> Any:
    """A JSON Schema with its prose made readable. Names, patterns and literals stay as they are: calls need them."""
    if isinstance(schema, list):
        return [readable_schema(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: readable(value) if key in _PROSE and isinstance(value, str) else readable_schema(value)
        for key, value in cast("dict[str, Any]", schema).items()
    }


def _spell(character: str) -> str:
    if character in _KEPT:
        return character
    code = ord(character)
    is_unseen = unicodedata.category(character) in _UNSEEN or any(code in selectors for selectors in _SELECTORS)
    return f"⟨U+{code:04X}⟩" if is_unseen else character
