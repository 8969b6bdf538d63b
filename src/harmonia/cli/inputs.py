"""What the input of `parse` and `inspect` is: text, token ids, stripped text, or the dump of a server's stream.

    tokens    [200005, 35644], {"tokens": […]}, or numbers with white space or commas between them
    sse       `data: {…}` lines, or JSON objects, one a line: see cli/dumps.py
    stripped  no special token is spelled anywhere, and there are the remains of headers
    text      everything else

Recognising looks at the input only and never fails; what it was told to take it for may fail, with an InputError.
Text stays bytes, so that what is no UTF-8 reaches the parser, which says where it stands.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.cli.dumps import looks_like_a_dump, read_dump
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.parser.stripped import looks_stripped
from harmonia.vocabulary import find_spellings

Kind = Literal["text", "tokens", "stripped", "sse"]
As = Literal["auto", "text", "tokens", "stripped", "sse"]

# ASCII digits only, and no more of them than a number of 64 bits has.
_ID: Final = re.compile(r"-?[0-9]{1,18}")
_NOT_IN_A_LIST: Final = re.compile(r"[^\s,0-9\[\]-]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAMES_OF_LISTS: Final = ("tokens", "token_ids")


class Input(msgspec.Struct, frozen=True):
    """What the parser is fed, chunk by chunk. `took_for` says in words what the input was taken for."""

    kind: Kind
    chunks: list[bytes] | list[str] | list[list[int]]
    took_for: str
    notes: list[str] = []

    @property
    def tokens(self) -> list[int] | None:
        """All token ids; None where text is read."""
        if not self.chunks or not isinstance(self.chunks[0], list):
            return [] if self.kind == "tokens" else None
        return [token for chunk in cast("list[list[int]]", self.chunks) for token in chunk]

    @property
    def text(self) -> str:
        """All of the text, as the parser counts its characters; empty where token ids are read."""
        if not self.chunks or isinstance(self.chunks[0], list):
            return ""
        if isinstance(self.chunks[0], bytes):
            return b"".join(cast("list[bytes]", self.chunks)).decode(errors="replace")
        return _SURROGATE.sub("\ufffd", "".join(cast("list[str]", self.chunks)))


def recognise(data: bytes, as_: As = "auto") -> Input:
    """Tell what the input is, or take it for what the caller says."""
    data = _without_byte_order_mark(data)
    text = data.decode(errors="replace")
    match as_:
        case "auto":
            return _recognise(data, text)
        case "tokens":
            ids = _read_ids(text)
            return _tokens(_refuse_ids(text) if ids is None else ids)
        case "sse":
            return _dump(text)
        case "stripped":
            return Input("stripped", [data] if data else [], "text whose special tokens were removed")
        case "text":
            return _text(data)


def _recognise(data: bytes, text: str) -> Input:
    # Only an input that says nothing at all is not looked at: it is an empty text.
    if not text.strip():
        return _text(data)
    if (ids := _read_ids(text)) is not None:
        return _tokens(ids)
    if looks_like_a_dump(text):
        return _dump(text)
    if not find_spellings(text) and looks_stripped(text):
        return recognise(data, "stripped")
    return _text(data)


def _without_byte_order_mark(data: bytes) -> bytes:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what `>` writes in older PowerShells
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def _text(data: bytes) -> Input:
    return Input("text", [data] if data else [], "text" if data else "an empty text")


def _tokens(ids: list[int]) -> Input:
    return Input("tokens", [ids] if ids else [], f"token ids ({len(ids)})")


def _dump(text: str) -> Input:
    dump = read_dump(text)
    chunks = dump.chunks
    if not chunks:
        raise InputError(
            ErrorCode.PARSE_INVALID_INPUT,
            "; ".join(["the dump has neither text nor token ids in a field that is known", *dump.notes]),
        )
    what = "token ids" if isinstance(chunks[0], list) else "text"
    return Input("sse", chunks, f"a dump of {dump.dialect} ({what} in {len(chunks)} chunks)", dump.notes)


def _read_ids(text: str) -> list[int] | None:
    """The ids, if the whole text is a list of them."""
    text = text.strip()
    if text.startswith("{"):
        return _read_named_ids(text)
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if _NOT_IN_A_LIST.search(text):
        return None
    words = text.replace(",", " ").split()
    return [int(word) for word in words] if all(map(_ID.fullmatch, words)) else None


def _read_named_ids(text: str) -> list[int] | None:
    """{"tokens": […]} and nothing else that a server would say."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for name in _NAMES_OF_LISTS:
        listed = value.get(name)
        # llama.cpp leaves `tokens` empty, unless it is asked for them, and has the text in `content`.
        if isinstance(listed, list) and (listed or len(value) == 1):
            ids = cast("list[Any]", listed)
            return ids if all(type(each) is int for each in ids) else None
    return None


def _refuse_ids(text: str) -> list[int]:
    stray = _NOT_IN_A_LIST.search(text)
    raise InputError(
        ErrorCode.PARSE_INVALID_INPUT,
        "that is not a list of token ids",
        Position(character=stray.start() if stray else None),
    )
