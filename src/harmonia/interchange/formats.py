"""All conversation formats by name, and detection of the format of an input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.api_messages import SystemAs
from harmonia.interchange.chat_completions import read_chat, to_chat_body
from harmonia.interchange.conversion import ConversationFormat, Object
from harmonia.interchange.harmony import (
    looks_like_ids,
    read_harmony,
    read_harmony_json,
    read_tokens,
    write_harmony,
    write_harmony_json,
    write_tokens,
)
from harmonia.interchange.markdown import looks_like_markdown, read_markdown, write_markdown
from harmonia.interchange.responses import read_responses, to_responses_body
from harmonia.json_codec import read_json
from harmonia.vocabulary import find_spellings

_JSON: Final = "The JSON of a conversation in Harmonia and openai-harmony; complete but for sampled tokens"
_CHAT: Final = "Chat Completions: a list of messages, a request body, or an answer; writes a request body"
_RESPONSES: Final = "Responses: a list of items, a request body, or a response; writes a request body"
_MARKDOWN: Final = "Markdown: a heading and a text for each message; reads what it writes"
_HARMONY: Final = "Harmony text with special tokens spelled out: what a model reads and writes"
_TOKENS: Final = "Token ids: a JSON list, or numbers with white space between them"
_ALL: Final = (
    ConversationFormat("harmony-json", _JSON, read_harmony_json, write_harmony_json),
    ConversationFormat("chat", _CHAT, read_chat, to_chat_body, keeps_call_ids=True),
    ConversationFormat("responses", _RESPONSES, read_responses, to_responses_body, keeps_call_ids=True),
    ConversationFormat("markdown", _MARKDOWN, read_markdown, write_markdown),
    ConversationFormat("harmony", _HARMONY, read_harmony, write_harmony),
    ConversationFormat("tokens", _TOKENS, read_tokens, write_tokens),
)
FORMATS: Final[Mapping[str, ConversationFormat]] = {each.name: each for each in _ALL}

_CHAT_FIELDS: Final = frozenset(
    ("tool_calls", "tool_call_id", "function_call", "reasoning", "reasoning_content", "thinking", "refusal")
)
_HARMONY_FIELDS: Final = frozenset(("channel", "recipient", "content_type"))
_HARMONY_PARTS: Final = frozenset(("system_content", "developer_content"))
_RESPONSES_PARTS: Final = frozenset(("input_text", "output_text", "input_image", "input_file"))


def format_named(name: str, *, system: SystemAs = "developer") -> ConversationFormat:
    """The format with this name. `system` says what system messages of the APIs become; see chat_completions.py."""
    found = FORMATS.get(name)
    if found is None:
        names = ", ".join(FORMATS)
        raise InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, f"unknown format {name!r}; choose one of {names}")
    if system == "developer" or found.name not in ("chat", "responses"):
        return found
    read: Any = partial(cast("Any", found.read), system=system)
    return ConversationFormat(found.name, found.description, read, found.write, found.keeps_call_ids)


def recognise(text: str) -> str:
    """The name of the format that a text most likely has; an InputError if it has none."""
    text = text.removeprefix("\ufeff")
    if looks_like_ids(text):
        return "tokens"
    beginning = text.lstrip()
    fault: ValueError | None = None
    if beginning.startswith(("{", "[")):
        try:
            return recognise_value(read_json(text))
        except ValueError as error:
            fault = error  # Harmony text and Markdown may begin with a bracket too
    if beginning.startswith("<|"):
        return "harmony"
    if looks_like_markdown(text):
        return "markdown"
    if find_spellings(text):
        return "harmony"
    if fault is not None:
        what, at = getattr(fault, "msg", fault), Position(character=getattr(fault, "pos", None))
        what = f"the input begins like JSON, but is not valid JSON: {what}"
        invalid = InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, what, at)
        invalid.add_note("correct the JSON")
        raise invalid
    raise _unknown("not JSON, not Markdown with headings such as `## user`, and without special tokens")


def recognise_value(value: object) -> str:
    """The same for a JSON value."""
    if isinstance(value, list):
        return _recognise_list(cast("list[Any]", value))
    if isinstance(value, Mapping):
        body = cast(Object, value)
        if "choices" in body:
            return "chat"
        if isinstance(body.get("messages"), list):
            name = _recognise_list(body["messages"])
            # Only a request has tools beside its messages.
            return "chat" if name == "harmony-json" and "tools" in body else name
        if "input" in body or "output" in body:
            return "responses"
        if "tokens" in body or "token_ids" in body:
            return "tokens"
    raise _unknown("JSON without messages, input, output, choices or tokens")


def _recognise_list(items: list[Any]) -> str:
    if items and all(type(item) is int or isinstance(item, list) for item in items):
        return "tokens"
    objects = [cast(Object, item) for item in items if isinstance(item, Mapping)]
    if any("role" not in item and "type" in item for item in objects):
        return "responses"
    contents = [cast("list[Any]", content) for item in objects if isinstance(content := item.get("content"), list)]
    parts = [cast(Object, part) for content in contents for part in content if isinstance(part, Mapping)]
    kinds = {kind for part in parts if isinstance(kind := part.get("type"), str)}
    if any(_HARMONY_FIELDS & item.keys() for item in objects) or kinds & _HARMONY_PARTS:
        return "harmony-json"
    if any(_CHAT_FIELDS & item.keys() for item in objects):
        return "chat"
    if kinds & _RESPONSES_PARTS or any(item.get("type") == "message" for item in objects):
        return "responses"
    if len(objects) < len(items):
        raise _unknown("a list, but not of messages, items or token ids")
    return "chat"


def _unknown(why: str) -> InputError:
    what = f"cannot tell the format of the input: {why}. Name one of {', '.join(FORMATS)}"
    return InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, what)
