"""Titles of saved chats, the file names made from them, and the line of Markdown that holds one. Pure.

1. A title is one line: no control characters, no line breaks, and nothing that changes the direction of the text around
   it, so it reads the same in a list as alone.
2. A file name is never a path, whatever the title contains, and neither name can end or extend its header.
3. In Markdown a title is shown as text, whatever it contains.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, cast
from urllib.parse import quote

from harmonia.messages import Json
from harmonia.serve.saved_chats.request import MOST_TITLE_CHARACTERS

_MADE_CHARACTERS: Final = 60
_NAME_CHARACTERS: Final = 80
# Embeddings, overrides and isolates, which affect text beyond their own word.
_TURNING: Final = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|%;]+")
_NOT_IN_ASCII_NAMES: Final = re.compile(r"[^A-Za-z0-9._ -]+")
# Names of devices on Windows, with any ending.
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
# A file in a text, as `attachments.py` writes it: its name and type, then its text if it has one, and its end.
_FILE: Final = re.compile(r"\s*+\[file: ([^\]\n,]*+)[^\]\n]*+\][ \t]*+(?:\n|$)")
_MOST_FILES: Final = 20
_FILE_END: Final = "\n[end of file]"
_MARKDOWN_LINE: Final = re.compile(r"# (.*?)\n\s*\n?")
_MARKDOWN_SYNTAX: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$-])")
_MARKDOWN_ESCAPED: Final = re.compile(r"\\([\\`*_{}\[\]<>()#+!|~&$-])")
# How much of a text is read for a title, as a multiple of its length, because some of it is cut out.
_READ_TIMES: Final = 10


def clean_title(text: str, most: int = MOST_TITLE_CHARACTERS) -> str:
    """A title as it is stored."""
    text = _TURNING.sub("", text[: most * _READ_TIMES])
    breaks = ("Cc", "Zl", "Zp")
    spaced = "".join(" " if each.isspace() or unicodedata.category(each) in breaks else each for each in text)
    return " ".join(spaced.split())[:most].rstrip()


def made_title(items: list[Json]) -> str:
    """A title from the user's first message: its first words, or the name of a file. Empty if there is neither."""
    names: list[str] = []
    for item in items:
        if item.get("type") != "message" or item.get("role") != "user":
            continue
        content = item.get("content")
        parts: list[Any] = cast("list[Any]", content) if isinstance(content, list) else [content]
        for part in parts:
            said = cast("Json", part) if isinstance(part, dict) else {"text": part}
            text, name = said.get("text"), said.get("filename")
            if isinstance(text, str):
                said_in, files = _without_files(text)
                names += files
                if title := clean_title(said_in, _MADE_CHARACTERS + 1):
                    return _shortened(title)
            if isinstance(name, str):
                names.append(name)
    return _shortened(clean_title(names[0], _MADE_CHARACTERS + 1)) if names else ""


def _without_files(text: str) -> tuple[str, list[str]]:
    """A text without the files that it begins with, and their names."""
    names: list[str] = []
    while (found := _FILE.match(text)) is not None and len(names) < _MOST_FILES:
        names.append(found[1].strip())
        is_described = ";" in found[0] or "not fetched" in found[0]
        end = -1 if is_described else text.find(_FILE_END, found.end() - 1)
        text = text[found.end() :] if end < 0 else text[end + len(_FILE_END) :]
    return text, names


def disposition(title: str, ending: str) -> str:
    """The header that makes a browser save the answer as a file, with its name in ASCII and in full."""
    plain = unicodedata.normalize("NFKD", title)
    plain = _NOT_IN_ASCII_NAMES.sub("-", "".join(each for each in plain if not unicodedata.combining(each)))
    full = "".join(each for each in _NOT_IN_NAMES.sub("-", title) if unicodedata.category(each) not in ("Cc", "Cf"))
    return f"attachment; filename=\"{_name(plain, ending)}\"; filename*=UTF-8''{quote(_name(full, ending), safe='')}"


def write_title(title: str) -> str:
    """The title as the first line of Markdown, followed by an empty line; nothing if there is no title."""
    shown = _MARKDOWN_SYNTAX.sub(r"\\\1", title)
    return f"# {shown}\n\n" if title else ""


def split_title(text: str) -> tuple[str, str]:
    """The title at the head of a Markdown file, and the rest."""
    found = _MARKDOWN_LINE.match(text)
    return ("", text) if found is None else (_MARKDOWN_ESCAPED.sub(r"\1", found[1]), text[found.end() :])


def _name(text: str, ending: str) -> str:
    name = re.sub(r"-(?:[\s-]*-)?", "-", " ".join(text.split()))[:_NAME_CHARACTERS].strip(" .-_")
    return f"{'chat' if not name or _DEVICES.fullmatch(name) else name}{ending}"


def _shortened(title: str) -> str:
    if len(title) <= _MADE_CHARACTERS:
        return title
    head, _, _ = title[:_MADE_CHARACTERS].rpartition(" ")
    return f"{head if len(head) > _MADE_CHARACTERS // 2 else title[: _MADE_CHARACTERS - 1]}…"
