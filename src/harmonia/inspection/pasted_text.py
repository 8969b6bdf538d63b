"""Detects what was pasted into the inspector: a model's output, or a conversation in any format.

    a model's output      text, token ids, stripped text, a saved raw stream: see inputs.py
    a conversation        harmony-json, chat, responses, markdown; several of them as JSONL, one per line
    a streamed answer     a saved stream whose server had parsed the Harmony: see saved_streams.py

1. A conversation is imported and rendered, so text that was typed in it stays text (law 1). `losses` lists what could
   not be imported, sealed reasoning among it.
2. Detection never fails, with one exception: an input that is certainly a conversation but cannot be read is an error
   that says where.
3. Of several conversations only the chosen one is read; from the others only a title is extracted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.inspection.inputs import (
    Input,
    Kind,
    read_json_values,
    read_token_ids,
    recognise,
    without_byte_order_mark,
)
from harmonia.inspection.saved_streams import Dump, assemble, count, looks_like_a_dump, read_dump, read_objects
from harmonia.interchange.conversion import Lossy
from harmonia.interchange.documents import Object
from harmonia.interchange.formats import format_named, recognise_value
from harmonia.interchange.markdown import looks_like_markdown
from harmonia.json_codec import encode_json
from harmonia.messages import Conversation
from harmonia.parser.missing_special_tokens import looks_stripped
from harmonia.renderer import Renderer
from harmonia.vocabulary import find_spellings

AsPasted = Literal["auto", "tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
ConversationKind = Literal["harmony-json", "chat", "responses", "markdown"]
Check = Callable[[Conversation], None]

# How many conversations are listed with their titles.
MOST_TITLES: Final = 1000
_LONGEST_TITLE: Final = 80
# A header ends with one of these, so only a raw stream spells them.
_STRUCTURE: Final = ("<|message|>", "<|channel|>")
# APIs whose streams are the model's raw output, whatever it looks like.
_RAW_APIS: Final = ("llama.cpp", "Completions", "token ids", "harmonia record")
_NOT_SAMPLED: Final = (
    "the server had parsed the Harmony itself: the tokens shown are rendered from its answer, not the ones that the "
    "model sampled"
)
_ITEMS: Final = (
    *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    *("mcp_call", "mcp_list_tools", "web_search_call", "code_interpreter_call"),
)
_LIKE_JSON: Final = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")
_WORDS: Final[Mapping[str, str]] = {
    "harmony-json": "a conversation as Harmony JSON",
    "chat": "Chat Completions messages",
    "responses": "Responses items",
    "markdown": "a conversation as Markdown",
    "tokens": "token ids, as JSON",
    "text": "raw Harmony text, in a JSON string",
}


class Pasted(msgspec.Struct, frozen=True):
    """What was pasted: the input of the parser and, if it was rendered from a conversation, what the import lost.

    `count` conversations were pasted, and this is number `at`; `titles` has the titles of the first thousand.
    """

    input: Input
    losses: tuple[Lossy, ...] = ()
    is_conversation: bool = False
    count: int = 1
    at: int = 0
    titles: list[str] = []


def recognise_pasted(data: bytes, as_: AsPasted = "auto", document: int = 0, *, check: Check | None = None) -> Pasted:
    """Detect what was pasted, or read it as the kind that the caller names. `check` may reject a conversation before it
    is rendered; it raises an InputError, as reading does."""
    data = without_byte_order_mark(data)
    text = data.decode(errors="replace")
    reader = _PastedReader(document, check)
    match as_:
        case "auto":
            return reader.recognise(data, text)
        case "sse":
            return reader.read_stream(data, text, is_asked_for=True)
        case "markdown":
            return reader.read(text, "markdown", _WORDS["markdown"])
        case "harmony-json" | "chat" | "responses":
            values = read_json_values(text)
            if not values:
                raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, "the input is neither JSON nor JSONL")
            return reader.read_values(_as_one(values), as_)
        case _:
            return _sampled(recognise(data, as_))


def describe_pasted(pasted: Pasted) -> dict[str, Any]:
    """What an inspection reports besides the trace: which document it shows, and what its import lost."""
    described: dict[str, Any] = {}
    if pasted.count > 1:
        described["documents"] = {"count": pasted.count, "at": pasted.at, "titles": pasted.titles}
    if pasted.is_conversation:
        described["conversion_losses"] = [str(loss) for loss in pasted.losses]
    return described


class _PastedReader:
    """Reads one paste: the conversation with this number, after a check."""

    def __init__(self, document: int, check: Check | None) -> None:
        self._document = document
        self._check = check

    def recognise(self, data: bytes, text: str) -> Pasted:
        if not text.strip() or read_token_ids(text) is not None:
            return _sampled(recognise(data))
        values = read_json_values(text)
        is_dump = looks_like_a_dump(text)
        if values and not (is_dump and _is_dump_of_a_stream(values, text)):
            found = self._recognise_values(_as_one(values))
            if found is not None:
                return found
        if is_dump:
            return self.read_stream(data, text)
        if not values and _is_markdown(text):
            return self.read(text, "markdown", _WORDS["markdown"])
        pasted = _sampled(recognise(data))
        taken = pasted.input
        fault = None if values or taken.kind != "text" or find_spellings(text) else json_fault(text)
        return pasted if fault is None else Pasted(msgspec.structs.replace(taken, notes=[*taken.notes, fault]))

    def _recognise_values(self, values: list[Any]) -> Pasted | None:
        if any(_name_of(value) is None for value in values[:MOST_TITLES]):
            return None
        try:
            return self.read_values(values, None)
        except InputError:
            if self._document >= len(values) or all(_is_certain(value) for value in values[:MOST_TITLES]):
                raise
            return None

    def read_values(self, values: list[Any], name: ConversationKind | None) -> Pasted:
        """The chosen conversation of these JSON values. Without a name, its format is detected."""
        if self._document >= len(values):
            number = count(len(values), "document")
            what = f"there is no document {self._document}: the input has {number}, counted from 0"
            raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, what, Position(path="$.document"))
        value = values[self._document]
        found = name or _name_of(value)
        if found is None:
            raise InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, "the input is JSON in an unknown format")
        words = _words_for(value, found)
        if len(values) > 1:
            words = f"{len(values):,} conversations as JSONL, showing one: {words}"
        if found == "text":
            pasted = _sampled(Input("text", [value] if value else [], words))
        elif found == "tokens":
            pasted = _sampled(recognise(encode_json(value).encode(), "tokens"))
            pasted = Pasted(msgspec.structs.replace(pasted.input, description=words))
        else:
            pasted = self.read(value, cast(ConversationKind, found), words)
        if len(values) == 1:
            return pasted
        titles = [_title(each) for each in values[:MOST_TITLES]]
        return msgspec.structs.replace(pasted, count=len(values), at=self._document, titles=titles)

    def read(
        self, value: Any, name: ConversationKind, words: str, kind: Kind | None = None, notes: list[str] | None = None
    ) -> Pasted:
        """A conversation as the tokens that a model would read."""
        try:
            imported = format_named(name).read(_as_list(value))
            if self._check is not None:
                self._check(imported.conversation)
            # Without a cache, so that one paste leaves nothing for the next.
            rendered = Renderer(cache_bytes=0).render(imported.conversation, None)
        except InputError as error:
            where = f", at {error.at.path}" if error.at.path is not None else ""
            message = f"{error.message} (read as {words}{where})"
            raise InputError(error.code, message, error.at) from error
        losses = [*imported.losses, *(Lossy(each.path, each.keyword, each.sentence) for each in rendered.losses)]
        tokens = rendered.tokens
        taken = Input(kind or name, [tokens] if tokens else [], words, notes or [])
        return Pasted(taken, tuple(losses), is_conversation=True)

    def read_stream(self, data: bytes, text: str, *, is_asked_for: bool = False) -> Pasted:
        dump = read_dump(text)
        if not _is_raw(dump):
            assembled = assemble(read_objects(text)[0])
            if assembled is not None:
                what = "item" if assembled.format == "responses" else "message"
                words = f"a stream of {dump.api}, joined to {count(assembled.number, what)}"
                try:
                    notes = [_NOT_SAMPLED, *dump.other_notes]
                    return self.read(assembled.value, assembled.format, words, "sse", notes)
                except InputError:
                    if not is_asked_for and not dump.chunks:
                        raise
        try:
            return _sampled(recognise(data, "sse"))
        except InputError:
            if is_asked_for:
                raise
            # It has no output of a model, so it is just text.
            return _sampled(recognise(data, "text"))


def _sampled(taken: Input) -> Pasted:
    """A model's output, described more precisely if it is text."""
    if taken.kind == "text" and taken.description == "text":
        words = "raw Harmony text" if find_spellings(taken.text) else "plain text"
        taken = msgspec.structs.replace(taken, description=words)
    return Pasted(taken)


# ── recognising ─────────────────────────────────────────────────────────────────────────────────────────────────────


def json_fault(text: str) -> str | None:
    """Where a text that begins like JSON stops being valid. Words in brackets do not count as JSON."""
    if _LIKE_JSON.match(text) is None:
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        why = error.msg[:1].lower() + error.msg[1:]
        return f"the input begins like JSON but is invalid at character {error.pos:,}: {why}"
    except (ValueError, RecursionError):
        return "the input begins like JSON but is nested too deeply"
    return None


def _object(value: Any) -> Object:
    return cast(Object, value) if isinstance(value, Mapping) else {}


def _as_one(values: list[Any]) -> list[Any]:
    """Messages or items, one per line, are one conversation; anything else is one conversation per line."""
    if len(values) > 1 and all(_is_one_message(value) for value in values):
        return [values]
    return values


def _is_one_message(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    item = cast(Object, value)
    has_home = any(name in item for name in ("messages", "choices", "input", "output", "response"))
    is_message = isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item)
    return (is_message and not has_home) or item.get("type") in _ITEMS


def _as_list(value: Any) -> Any:
    return [value] if _is_one_message(value) else value


def _name_of(value: Any) -> str | None:
    """The format of a JSON value, or None if it is unknown."""
    if isinstance(value, str):
        return "text" if find_spellings(value) else None
    if isinstance(value, Mapping) and not _is_one_message(value) and not _has_home(cast(Object, value)):
        return None
    try:
        return recognise_value(_as_list(value)) if value else None
    except InputError:
        return None


def _has_home(body: Object) -> bool:
    """Whether the fields of a conversation have the right types; a model's JSON answer may use the same names."""
    ids = body.get("tokens", body.get("token_ids"))
    return (
        any(isinstance(body.get(name), list) for name in ("messages", "choices", "output"))
        or isinstance(body.get("input"), str | list)
        or (isinstance(ids, list) and all(type(each) is int for each in cast("list[Any]", ids)))
    )


def _is_certain(value: Any) -> bool:
    """Whether this can only be a conversation."""
    if isinstance(value, Mapping):
        body = cast(Object, value)
        if "choices" in body:
            return True
        listed = next((body[name] for name in ("messages", "output", "input") if name in body), None)
        value = listed if listed is not None else [body]
    objects = [_object(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []
    return bool(objects) and all("role" in each or each.get("type") in _ITEMS for each in objects)


def _is_dump_of_a_stream(values: list[Any], text: str) -> bool:
    """Whether JSON that looks like a server's is raw output or parts of an answer, and not a conversation."""
    if len(values) > 1 or not isinstance(values[0], Mapping) or not _has_home(cast(Object, values[0])):
        return True
    return _is_raw(read_dump(text))


def _is_raw(dump: Dump) -> bool:
    """Whether a stream has the model's raw output, and not what a server parsed from it."""
    if dump.has_tokens or dump.api in _RAW_APIS:
        return True
    text = "".join(piece.text for piece in dump.pieces)
    return any(spelling in text for spelling in _STRUCTURE) or (
        not dump.lacks_what_was_parsed and not find_spellings(text) and looks_stripped(text)
    )


def _is_markdown(text: str) -> bool:
    beginning = text.lstrip()
    if beginning.startswith("<|") or not looks_like_markdown(text):
        return False
    # A model writes headings too, but only after a message has begun.
    return not find_spellings(text[: text.index("## ")])


# ── in words ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _words_for(value: Any, name: str) -> str:
    body = _object(value)
    if name == "chat" and "choices" in body:
        return "a Chat Completions answer"
    if name == "chat" and len(body) > 1 and "messages" in body:
        return "a Chat Completions request"
    if name == "responses" and "output" in body:
        return "a Responses response"
    return "a Responses request" if name == "responses" and "input" in body else _WORDS[name]


def _title(value: Any) -> str:
    """A label for a conversation: its title, or the first words of its user."""
    if isinstance(value, Mapping):
        body = cast(Object, value)
        title = body.get("title")
        if not isinstance(title, str) or not title:
            title = next((body[name] for name in ("messages", "input") if name in body), None)
        value = title
    if isinstance(value, list):
        objects = map(_object, cast("list[Any]", value))
        value = next((each.get("content") for each in objects if each.get("role") == "user"), None)
    if isinstance(value, list):
        value = next(iter(cast("list[Any]", value)), "")
    if isinstance(value, Mapping):
        value = cast(Object, value).get("text")
    said = " ".join(value[: 4 * _LONGEST_TITLE].split()) if isinstance(value, str) else ""
    return said if len(said) <= _LONGEST_TITLE else said[: _LONGEST_TITLE - 1] + "…"
