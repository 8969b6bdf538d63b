"""The title of a chat as the first line of its Markdown, and back. It is shown as text, whatever it says."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"# (.*?)\n\s*\n?")
_MEANING: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$-])")
_ESCAPED: Final = re.compile(r"\\([\\`*_{}\[\]<>()#+!|~&$-])")


def write_title(title: str) -> str:
    """The line, with an empty one behind it; nothing where there is no title."""
    shown = _MEANING.sub(r"\\\1", title)
    return f"# {shown}\n\n" if title else ""


def split_title(text: str) -> tuple[str, str]:
    """The title that a Markdown file begins with, and the rest."""
    found = _LINE.match(text)
    return ("", text) if found is None else (_ESCAPED.sub(r"\1", found[1]), text[found.end() :])
