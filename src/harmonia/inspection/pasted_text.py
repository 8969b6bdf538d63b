"""Anything that somebody pastes to look at: what a model sampled, or a conversation in any of the formats.

    what a model sampled    text, token ids, stripped text, the dump of a raw stream: see inspection/inputs.py
    a conversation          harmony-json, chat, responses, markdown; several of them as JSONL, one a line
    an answer, streamed     a dump whose server had read the Harmony itself: see inspection/assembled_streams.py

1. A conversation is read by its format and rendered, so what somebody typed in it is text (law 1). What had no place is
   in `losses`; sealed reasoning is one of those things.
2. Recognising never fails, except where something is certainly a conversation and cannot be read as one: then the error
   says where.
3. Of several conversations only the chosen one is read; the others are looked at for a title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.inspection.assembled_streams import assemble
from harmonia.inspection.inputs import (
    Input,
    Kind,
    read_json_values,
    read_token_ids,
    recognise,
    without_byte_order_mark,
)
from harmonia.inspection.saved_streams import Dump, count, looks_like_a_dump, read_dump, read_objects
from harmonia.interchange.conversion import Lossy
from harmonia.interchange.documents import Object
from harmonia.interchange.formats import format_named, recognise_value
from harmonia.interchange.markdown import looks_like_markdown
from harmonia.json_codec import encode_json
from harmonia.messages import Conversation
from harmonia.parser.stripped import looks_stripped
from harmonia.renderer import Renderer
from harmonia.vocabulary import find_spellings

AsPasted = Literal["auto", "tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
ConversationKind = Literal["harmony-json", "chat", "responses", "markdown"]
Check = Callable[[Conversation], None]

# Conversations whose titles are told.
MOST_TITLES: Final = 1000
_LONGEST_TITLE: Final = 80
# What only a raw stream spells: a header ends with one of these.
_STRUCTURE: Final = ("<|message|>", "<|channel|>")
# Servers whose dumps are what the model wrote, whatever it looks like.
_RAW_DIALECTS: Final = ("llama.cpp", "Completions", "token ids", "Harmonia's own recording")
_NOT_SAMPLED: Final = (
    "the server had read the Harmony itself: these are the tokens that its answer renders as, and not those that the "
    "model sampled"
)
_LIKE_JSON: Final = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")
_WORDS: Final[Mapping[str, str]] = {
    "harmony-json": "a conversation as Harmony JSON",
    "chat": "Chat Completions messages",
    "responses": "Responses items",
    "markdown": "a conversation as Markdown",
    "tokens": "token ids, as JSON",
}


class Pasted(msgspec.Struct, frozen=True):
    """What it is: the input of the parser, and where a conversation was rendered for it, what had no place in that.

    `count` conversations were pasted, of which this is the one `at`; `titles` are those of the first thousand.
    """

    input: Input
    losses: tuple[Lossy, ...] = ()
    is_conversation: bool = False
    count: int = 1
    at: int = 0
    titles: list[str] = []


def take(data: bytes, as_: AsPasted = "auto", document: int = 0, *, check: Check | None = None) -> Pasted:
    """Tell what was pasted, or take it for what the caller says. `check` may refuse a conversation before it is
    rendered; errors of it, and of reading, are InputErrors."""
    data = without_byte_order_mark(data)
    text = data.decode(errors="replace")
    taker = _Taker(document, check)
    match as_:
        case "auto":
            return taker.recognise(data, text)
        case "sse":
            return taker.take_dump(data, text, is_told=True)
        case "markdown":
            return taker.read(text, "markdown", _WORDS["markdown"])
        case "harmony-json" | "chat" | "responses":
            values = read_json_values(text)
            if not values:
                raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, "that is neither JSON nor JSONL")
            return taker.read_values(_as_one(values), as_)
        case _:
            return _sampled(recognise(data, as_))


def describe_pasted(pasted: Pasted) -> dict[str, Any]:
    """What an inspection says of it beside the trace: which document it is, and what had no place."""
    described: dict[str, Any] = {}
    if pasted.count > 1:
        described["documents"] = {"count": pasted.count, "at": pasted.at, "titles": pasted.titles}
    if pasted.is_conversation:
        described["conversion_losses"] = [str(loss) for loss in pasted.losses]
    return described


class _Taker:
    """One paste: which of its conversations is wanted, and who checks it."""

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
            return self.take_dump(data, text)
        if not values and _is_markdown(text):
            return self.read(text, "markdown", _WORDS["markdown"])
        pasted = _sampled(recognise(data))
        fault = None if values or pasted.input.kind != "text" or find_spellings(text) else json_fault(text)
        if fault is not None:
            taken = pasted.input
            pasted = Pasted(msgspec.structs.replace(taken, notes=[*taken.notes, fault]))
        return pasted

    def _recognise_values(self, values: list[Any]) -> Pasted | None:
        if any(_name_of(value) is None for value in values[:MOST_TITLES]):
            return None
        if self._document >= len(values):
            return self.read_values(values, None)  # which says so
        try:
            return self.read_values(values, None)
        except InputError:
            if all(_is_certain(value) for value in values[:MOST_TITLES]):
                raise
            return None

    def read_values(self, values: list[Any], name: ConversationKind | None) -> Pasted:
        """The chosen one of these conversations, as JSON values. Without a name it is recognised."""
        if self._document >= len(values):
            number = count(len(values), "document")
            raise InputError(
                ErrorCode.INTERCHANGE_INVALID_VALUE,
                f"there is no document {self._document}; there are {number}, counted from 0",
                Position(path="$.document"),
            )
        value = values[self._document]
        found = name or _name_of(value)
        if found is None:
            raise InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, "it is JSON of no format that is known")
        words = _words_for(value, found)
        if len(values) > 1:
            words = f"{len(values):,} conversations as JSONL, of which this is one: {words}"
        if found == "text":
            pasted = _sampled(Input("text", [value] if value else [], words))
        elif found == "tokens":
            pasted = _sampled(recognise(encode_json(value).encode(), "tokens"))
            pasted = Pasted(msgspec.structs.replace(pasted.input, took_for=words))
        else:
            pasted = self.read(value, cast(ConversationKind, found), words)
        if len(values) == 1:
            return pasted
        titles = [_title(each) for each in values[:MOST_TITLES]]
        return msgspec.structs.replace(pasted, count=len(values), at=self._document, titles=titles)

    def read(
        self, value: Any, name: ConversationKind, words: str, kind: Kind | None = None, notes: list[str] | None = None
    ) -> Pasted:
        """A conversation, as the tokens that a model reads of it."""
        try:
            imported = format_named(name).read(_as_list(value))
            if self._check is not None:
                self._check(imported.conversation)
            # With no memory: what was pasted once is nothing that the next should find.
            rendered = Renderer(cache_bytes=0).render(imported.conversation, None)
        except InputError as error:
            where = f", at {error.at.path}" if error.at.path is not None else ""
            message = f"{error.message} (taken for {words}{where})"
            raise InputError(error.code, message, error.at) from error
        losses = [*imported.losses, *(Lossy(each.path, each.keyword, each.sentence) for each in rendered.losses)]
        tokens = rendered.tokens
        taken = Input(kind or name, [tokens] if tokens else [], words, notes or [])
        return Pasted(taken, tuple(losses), is_conversation=True)

    def take_dump(self, data: bytes, text: str, *, is_told: bool = False) -> Pasted:
        dump = read_dump(text)
        if not _is_raw(dump):
            assembled = assemble(read_objects(text)[0])
            if assembled is not None:
                what = "item" if assembled.format == "responses" else "message"
                words = f"a stream of {dump.dialect}, put together into {count(assembled.number, what)}"
                try:
                    notes = [_NOT_SAMPLED, *dump.other_notes]
                    return self.read(assembled.value, assembled.format, words, "sse", notes)
                except InputError:
                    if not is_told and not dump.chunks:
                        raise
        try:
            return _sampled(recognise(data, "sse"))
        except InputError:
            if is_told:
                raise
            # It has nothing of a model's in it, so it is the text that it is.
            return _sampled(recognise(data, "text"))


def _sampled(taken: Input) -> Pasted:
    """What a model wrote, in words that tell text from text."""
    if taken.kind == "text" and taken.took_for == "text":
        words = "raw Harmony text" if find_spellings(taken.text) else "plain text"
        taken = msgspec.structs.replace(taken, took_for=words)
    return Pasted(taken)


# ── recognising ─────────────────────────────────────────────────────────────────────────────────────────────────────


def json_fault(text: str) -> str | None:
    """Where a text that begins like JSON stops being it. Words in brackets are no such text."""
    if _LIKE_JSON.match(text) is None:
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        why = error.msg[:1].lower() + error.msg[1:]
        return f"it begins like JSON, but breaks at character {error.pos:,}: {why}"
    except (ValueError, RecursionError):
        return "it begins like JSON, but is nested too deeply to be read as that"
    return None


def _as_one(values: list[Any]) -> list[Any]:
    """Messages or items, one a line, are one conversation; anything else is several, one a line."""
    if len(values) > 1 and all(_is_one_message(value) for value in values):
        return [values]
    return values


def _is_one_message(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    item = cast(Object, value)
    kind = item.get("type")
    has_home = any(name in item for name in ("messages", "choices", "input", "output", "response"))
    is_item = isinstance(kind, str) and not kind.startswith("response.") and kind in _ITEMS
    return (
        isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item) and not has_home
    ) or is_item


_ITEMS: Final = frozenset(
    (
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
        "code_interpreter_call",
    )
)


def _as_list(value: Any) -> Any:
    return [value] if _is_one_message(value) else value


def _name_of(value: Any) -> str | None:
    """The format of a JSON value; None where it is none that is known."""
    if isinstance(value, str):
        return "text" if find_spellings(value) else None
    if isinstance(value, Mapping) and not _is_one_message(value) and not _has_home(cast(Object, value)):
        return None
    try:
        return recognise_value(_as_list(value)) if value else None
    except InputError:
        return None


def _has_home(body: Object) -> bool:
    """Whether a conversation stands where one belongs; a model may answer with JSON that has fields of these names."""
    ids = body.get("tokens", body.get("token_ids"))
    return (
        any(isinstance(body.get(name), list) for name in ("messages", "choices", "output"))
        or isinstance(body.get("input"), str | list)
        or (isinstance(ids, list) and all(type(each) is int for each in cast("list[Any]", ids)))
    )


def _is_certain(value: Any) -> bool:
    """Whether nobody would write this but for a conversation."""
    if isinstance(value, Mapping):
        body = cast(Object, value)
        listed = next((body[name] for name in ("messages", "choices", "output", "input") if name in body), None)
        if "choices" in body:
            return True
        value = listed if listed is not None else [body]
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(each, Mapping) and ("role" in each or cast(Object, each).get("type") in _ITEMS)
        for each in cast("list[Any]", value)
    )


def _is_dump_of_a_stream(values: list[Any], text: str) -> bool:
    """Whether JSON that looks like a server's is no conversation, but what a model wrote, or parts of an answer."""
    if len(values) > 1 or not isinstance(values[0], Mapping) or not _has_home(cast(Object, values[0])):
        return True
    dump = read_dump(text)
    return _is_raw(dump)


def _is_raw(dump: Dump) -> bool:
    """Whether a dump has what the model wrote, and not what a server made of it."""
    if dump.has_tokens or dump.dialect in _RAW_DIALECTS:
        return True
    text = "".join(piece.text for piece in dump.pieces)
    return any(spelling in text for spelling in _STRUCTURE) or (
        not dump.lacks_what_was_parsed and not find_spellings(text) and looks_stripped(text)
    )


def _is_markdown(text: str) -> bool:
    beginning = text.lstrip()
    if beginning.startswith("<|") or not looks_like_markdown(text):
        return False
    # A model writes headings, too, and then says before them that it begins to speak.
    return not find_spellings(text[: text.index("## ")])


# ── in words ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _words_for(value: Any, name: str) -> str:
    if name == "text":
        return "raw Harmony text, in a JSON string"
    if isinstance(value, Mapping):
        body = cast(Object, value)
        if name == "chat" and "choices" in body:
            return "a Chat Completions answer"
        if name == "chat" and len(body) > 1 and "messages" in body:
            return "a Chat Completions request"
        if name == "responses" and "output" in body:
            return "a response of Responses"
        if name == "responses" and "input" in body:
            return "a Responses request"
    return _WORDS[name]


def _title(value: Any) -> str:
    """What a conversation is about, as far as one can see from outside: its title, or what its user first said."""
    if isinstance(value, str):
        return _shortened(value)
    if isinstance(value, Mapping):
        body = cast(Object, value)
        title = body.get("title")
        if isinstance(title, str) and title:
            return _shortened(title)
        value = next((body[name] for name in ("messages", "input") if name in body), None)
        if isinstance(value, str):
            return _shortened(value)
    if not isinstance(value, list):
        return ""
    for each in cast("list[Any]", value):
        if isinstance(each, Mapping) and cast(Object, each).get("role") == "user":
            return _shortened(_first_text(cast(Object, each).get("content")))
    return ""


def _first_text(content: Any) -> str:
    if isinstance(content, list):
        content = next((each for each in cast("list[Any]", content)), "")
    if isinstance(content, Mapping):
        content = cast(Object, content).get("text")
    return content if isinstance(content, str) else ""


def _shortened(text: str) -> str:
    said = " ".join(text[: 4 * _LONGEST_TITLE].split())
    return said if len(said) <= _LONGEST_TITLE else said[: _LONGEST_TITLE - 1] + "…"
