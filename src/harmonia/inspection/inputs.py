"""Detects what the input of `parse` and `inspect` is: a model's output, or a conversation in any format.

    tokens            [200005, 35644], [[200005], [35644]], {"tokens": […]}, or numbers with white space or commas
    sse               `data: {…}` lines, or one JSON object per line: see saved_streams.py
    stripped          text without special tokens that has the remains of headers
    text              everything else; if the input is one JSON string, its value
    a conversation    harmony-json, chat, responses, markdown; several of them as JSONL; a stream that its server parsed

1. Detection never fails, with one exception: an input that is certainly a conversation but cannot be read is an error
   that says where. Reading the input as the kind that the caller names may fail, with an InputError.
2. Text stays bytes, so that invalid UTF-8 reaches the parser, which reports its position.
3. A conversation is imported and rendered, so text that was typed in it stays text (law 1). `losses` lists what could
   not be imported, sealed reasoning among it.
4. Of several conversations only the chosen one is read; from the others only a title is extracted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Event
from harmonia.inspection.saved_streams import Dump, assemble, count, looks_like_a_dump, read_dump, read_objects
from harmonia.interchange.conversion import Lossy, Object
from harmonia.interchange.formats import format_named, recognise_value
from harmonia.interchange.markdown import looks_like_markdown
from harmonia.json_codec import encode_json
from harmonia.messages import Conversation, Role, ToolDescription, ToolNamespace
from harmonia.parser import Mode, Parsed, Parser, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parser.headers import DeclaredTool
from harmonia.parser.missing_special_tokens import looks_stripped
from harmonia.parser.parser import results_of
from harmonia.renderer import Renderer
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
            if (tokens := read_token_ids(text)) is not None:
                return tokens
            stray = _NOT_IN_A_LIST.search(text)
            at = Position(character=stray.start() if stray else None)
            what = f"{stray[0]!r} is not part of a token id" if stray else "the input is not a list of token ids"
            message = f"{what}; expected numbers such as 13225 2375, or a JSON list"
            raise InputError(ErrorCode.PARSE_INVALID_INPUT, message, at)
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
            numbers = "number 0" if len(values) == 1 else f"numbers 0 to {len(values) - 1}"
            has = f"the input has {count(len(values), 'conversation')}, {numbers}"
            what = f"there is no document {self._document}: {has if values else 'the input is empty'}"
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
                name, value, number = assembled
                words = (
                    f"a stream of {dump.api}, joined to {count(number, 'item' if name == 'responses' else 'message')}"
                )
                try:
                    return self.read(value, name, words, "sse", [_NOT_SAMPLED, *dump.other_notes])
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
