"""Detects what the input of `parse` and `inspect` is: text, token ids, stripped text, or a saved stream of a server.

    tokens    [200005, 35644], [[200005], [35644]], {"tokens": […]}, or numbers separated by white space or commas
    sse       `data: {…}` lines, or one JSON object per line: see saved_streams.py
    stripped  text without special tokens that has the remains of headers
    text      everything else; if the input is one JSON string, its value

Conversations are detected in pasted_text.py.

Detection never fails. Reading the input as the kind that the caller names may fail, with an InputError. Text stays
bytes, so that invalid UTF-8 reaches the parser, which reports its position.
"""

from __future__ import annotations

import codecs
import json
import re
from itertools import takewhile
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Event
from harmonia.inspection.saved_streams import count, looks_like_a_dump, read_dump
from harmonia.messages import Role, ToolDescription, ToolNamespace
from harmonia.parser import Mode, Parsed, Parser, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parser.headers import DeclaredTool
from harmonia.parser.missing_special_tokens import looks_stripped
from harmonia.parser.parser import results_of
from harmonia.tool_definitions import read_namespace, unwrap
from harmonia.vocabulary import FIRST_SPECIAL, SPELLING_BY_ID, Vocabulary, default_vocabulary, find_spellings

Kind = Literal["text", "tokens", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
As = Literal["auto", "text", "tokens", "stripped", "sse"]

# ASCII digits only, and at most as many as fit into 64 bits.
_ID: Final = re.compile(r"-?[0-9]{1,18}")
_NOT_IN_A_LIST: Final = re.compile(r"[^\s,0-9\[\]-]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAMES_OF_LISTS: Final = ("tokens", "token_ids")
# The beginning of a block as harmonia.read_traces reads them.
_FENCE: Final = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*harmony\b", re.MULTILINE)
# Control characters that text does not contain: neither white space nor the escape character of colours.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT_FOR_CONTROLS: Final = 8192
# A header after its role: a recipient, or a control token that only headers have.
_COMPLETION: Final = re.compile(r"\s*(?:to=\S{1,200}?\s*)?<\|(?:channel|constrain|message)\|>")
_LONGEST_ADDRESS: Final = 64  # in tokens


class Input(msgspec.Struct, frozen=True):
    """The chunks to feed to the parser. `description` says in words what the input is, `notes` what is odd about it."""

    kind: Kind
    chunks: list[bytes] | list[str] | list[list[int]]
    description: str
    notes: list[str] = []
    lacks_what_was_parsed: bool = False  # the server parsed the Harmony itself, and the raw text is incomplete

    @property
    def tokens(self) -> list[int] | None:
        """All token ids, or None for text."""
        if not self.chunks or not isinstance(self.chunks[0], list):
            return None if self.kind in ("text", "stripped", "sse") else []
        return [token for chunk in cast("list[list[int]]", self.chunks) for token in chunk]

    @property
    def text(self) -> str:
        """The whole text, with characters as the parser counts them; empty for token ids."""
        return _SURROGATE.sub("\ufffd", self.characters)

    @property
    def characters(self) -> str:
        """The same with lone surrogates as they are, for feeding the parser."""
        if not self.chunks or isinstance(self.chunks[0], list):
            return ""
        if isinstance(self.chunks[0], bytes):
            return b"".join(cast("list[bytes]", self.chunks)).decode(errors="replace")
        return "".join(cast("list[str]", self.chunks))


def recognise(data: bytes, as_: As = "auto") -> Input:
    """Detect what the input is, or read it as the kind that the caller names."""
    data = without_byte_order_mark(data)
    text = data.decode(errors="replace")
    match as_:
        case "auto":
            return _recognise(data, text)
        case "tokens":
            return read_token_ids(text) or _refuse_ids(text)
        case "sse":
            return _dump(text, is_asked_for=True)
        case "stripped":
            return Input("stripped", [data] if data else [], "text whose special tokens were removed")
        case "text":
            return _text(data)


def _recognise(data: bytes, text: str) -> Input:
    # A blank input is an empty text.
    if not text.strip():
        return _text(data)
    if (tokens := read_token_ids(text)) is not None:
        return tokens
    if looks_like_a_dump(text):
        return _dump(text)
    values = read_json_values(text)
    if len(values) == 1 and isinstance(said := values[0], str):
        if not find_spellings(said) and looks_stripped(said):
            return Input("stripped", [said], "text whose special tokens were removed, in a JSON string")
        return Input("text", [said] if said else [], "the text of a JSON string")
    kind: As = "stripped" if not find_spellings(text) and looks_stripped(text) else "text"
    return msgspec.structs.replace(recognise(data, kind), notes=_notes_about(data, text, values))


def _notes_about(data: bytes, text: str, values: list[Any]) -> list[str]:
    """Reasons to doubt that a model sampled this text."""
    if any(isinstance(value, dict | list) for value in values):
        return ["the input is JSON without a known field; extract the text first, for example with jq -r"]
    beginning = data[:_LOOKED_AT_FOR_CONTROLS]
    if len(_CONTROL.findall(beginning)) > len(beginning) // 20:
        return ["the input looks like a binary file"]
    fence = _FENCE.search(text)
    # A model may write such a block too, but only after a message has begun.
    if fence is not None and not find_spellings(text[: fence.start()]):
        return ["the input looks like a collection of traces; read it with harmonia.read_traces"]
    return []


def is_completion(taken: Input) -> bool:
    """Whether the input begins inside a header, as a completion sampled after `<|start|>assistant` does."""
    tokens = taken.tokens
    if tokens is not None:
        before = list(takewhile(lambda token: 0 <= token < FIRST_SPECIAL, tokens[: _LONGEST_ADDRESS + 1]))
        text = default_vocabulary().decode(before) + "".join(
            SPELLING_BY_ID.get(token, "") for token in tokens[len(before) : len(before) + 1]
        )
    else:
        text = taken.text[:1000]
    return taken.kind != "stripped" and _COMPLETION.match(text) is not None


def without_byte_order_mark(data: bytes) -> bytes:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # written by `>` in older PowerShells
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def _text(data: bytes) -> Input:
    return Input("text", [data] if data else [], "text" if data else "an empty text")


def read_token_ids(text: str) -> Input | None:
    """Token ids, if the whole text is one or several lists of them, or an object with one, unlike a server's."""
    text = text.strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    words = [] if _NOT_IN_A_LIST.search(inner) else inner.replace(",", " ").split()
    if all(map(_ID.fullmatch, words)) and (words or not inner.strip()):
        return Input("tokens", [list(map(int, words))] if words else [], f"token ids ({len(words)})")
    lists = read_json_values(text) if text.startswith(("[", "{")) else []
    where = ""
    if len(lists) == 1 and isinstance(lists[0], dict):
        body = cast("dict[str, Any]", lists[0])
        # Unless asked for them, llama.cpp leaves `tokens` empty and puts the text into `content`.
        named = [body[name] for name in _NAMES_OF_LISTS if isinstance(body.get(name), list)]
        lists = [each for each in named if each or len(body) == 1][:1]
    else:
        lists = cast("list[Any]", lists[0]) if len(lists) == 1 and isinstance(lists[0], list) else lists
        where = f" in {count(len(lists), 'list')}"
    if not lists or not all(_is_list_of_ids(each) for each in lists):
        return None
    return Input("tokens", [each for each in lists if each], f"token ids ({sum(map(len, lists))}{where})")


def _dump(text: str, *, is_asked_for: bool = False) -> Input:
    dump = read_dump(text)
    chunks = dump.chunks
    if not chunks:
        what = "the saved stream" if dump.is_known or not is_asked_for else "the input is not a saved stream: it"
        message = "; ".join([f"{what} has no known field with text or token ids", *dump.notes])
        error = InputError(ErrorCode.PARSE_INVALID_INPUT, message)
        if is_asked_for and not dump.is_known:
            error.add_note("omit --as to let harmonia detect what the input is")
        raise error
    what = "token ids" if isinstance(chunks[0], list) else "text"
    description = f"a saved stream of {dump.api} ({what} in {count(len(chunks), 'chunk')})"
    return Input("sse", chunks, description, dump.notes, dump.lacks_what_was_parsed)


def _is_list_of_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in cast("list[Any]", value))


def read_json_values(text: str) -> list[Any]:
    """The JSON value of the text, or the values of its lines; empty if it is not JSON."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return []
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return []


def _refuse_ids(text: str) -> Input:
    stray = _NOT_IN_A_LIST.search(text)
    at = Position(character=stray.start() if stray else None)
    raise InputError(ErrorCode.PARSE_INVALID_INPUT, "the input is not a list of token ids", at)


# ── parsing an input ──


def parse_input(
    taken: Input,
    role: Role | str | None = None,
    mode: Mode = "tolerant",
    tools: Tools | None = None,
    *,
    stop_swallowed: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Parsed:
    """Feed the parser as the input was chunked. A StreamError has all the events before it."""
    is_stripped = taken.kind == "stripped"
    parser = Parser(role, mode, tools, stop_swallowed=stop_swallowed, stripped=is_stripped, vocabulary=vocabulary)
    events: list[Event] = []
    try:
        for chunk in taken.chunks:
            events += parser.feed(chunk)
        events += parser.close()
    except StreamError as error:
        error.events = [*events, *error.events]
        raise
    messages, diagnostics = results_of(events)
    return Parsed(tuple(messages), tuple(diagnostics), tuple(events))


def is_malformed(parsed: Parsed) -> bool:
    """Whether a strict parser would have raised."""
    return any(ALL_FAULTS[diagnostic.code].strict == "raises" for diagnostic in parsed.diagnostics)


def read_declared(value: Any, path: str = "$") -> list[DeclaredTool]:
    """Tools as people have them: names, definitions in any spelling, or an object that has a list of them in `tools`.

    A parser needs their names; readers of other families also use the parameters.
    """
    if isinstance(value, dict):
        value, path = cast("dict[str, Any]", value).get("tools"), f"{path}.tools"
    if not isinstance(value, list):
        what = 'tools are a list, or an object with a list in "tools"'
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, what, Position(path=path))
    found: list[DeclaredTool] = []
    for at, tool in enumerate(cast("list[Any]", value)):
        here = f"{path}[{at}]"
        if isinstance(tool, str):
            found.append(tool)
            continue
        kind, fields, _ = unwrap(tool, here, ErrorCode.PARSE_INVALID_OPTION)
        if kind == "namespace":
            name, _, tools = read_namespace(tool, here, ErrorCode.PARSE_INVALID_OPTION)
            found.append(ToolNamespace(name, tools=tuple(_describe(each, here) for each in tools)))
        elif kind == "function" or isinstance(fields.get("name"), str):
            # Tools of another type, such as web_search, are the server's own and have no name to call them by.
            found.append(_describe(tool, here))
    return found


def _describe(tool: object, path: str) -> ToolDescription:
    fields = unwrap(tool, path, ErrorCode.PARSE_INVALID_OPTION)[1]
    name, parameters = fields.get("name"), fields.get("parameters")
    if not isinstance(name, str):
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, "the tool has no name", Position(path=path))
    return ToolDescription(name, parameters=cast("Any", parameters) if isinstance(parameters, dict) else None)
