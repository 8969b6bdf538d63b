"""All conversation formats by name, and detection of the format of an input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError
from harmonia.interchange.api_messages import SystemAs
from harmonia.interchange.chat_completions import CHAT
from harmonia.interchange.conversion import ConversationFormat, Object
from harmonia.interchange.harmony import HARMONY, HARMONY_JSON, TOKENS, looks_like_ids
from harmonia.interchange.markdown import MARKDOWN, looks_like_markdown
from harmonia.interchange.responses import RESPONSES
from harmonia.json_codec import read_json
from harmonia.vocabulary import find_spellings

FORMATS: Final[Mapping[str, ConversationFormat]] = {
    each.name: each for each in (HARMONY_JSON, CHAT, RESPONSES, MARKDOWN, HARMONY, TOKENS)
}

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
    if system == "developer" or found.name not in (CHAT.name, RESPONSES.name):
        return found
    read: Any = partial(cast("Any", found.read), system=system)
    return ConversationFormat(found.name, found.description, read, found.write, found.keeps_call_ids)


def recognise(text: str) -> str:
    """The name of the format that a text most likely has; an InputError if it has none."""
    text = text.removeprefix("\ufeff")
    if looks_like_ids(text):
        return TOKENS.name
    beginning = text.lstrip()
    if beginning.startswith(("{", "[")):
        try:
            return recognise_value(read_json(text))
        except ValueError:
            pass  # Harmony text and Markdown may begin with a bracket too
    if beginning.startswith("<|"):
        return HARMONY.name
    if looks_like_markdown(text):
        return MARKDOWN.name
    if find_spellings(text):
        return HARMONY.name
    raise _unknown("not JSON, not Markdown with headings such as `## user`, and without special tokens")


def recognise_value(value: object) -> str:
    """The same for a JSON value."""
    if isinstance(value, list):
        return _recognise_list(cast("list[Any]", value))
    if isinstance(value, Mapping):
        body = cast(Object, value)
        if "choices" in body:
            return CHAT.name
        if isinstance(body.get("messages"), list):
            name = _recognise_list(body["messages"])
            # Only a request has tools beside its messages.
            return CHAT.name if name == HARMONY_JSON.name and "tools" in body else name
        if "input" in body or "output" in body:
            return RESPONSES.name
        if "tokens" in body or "token_ids" in body:
            return TOKENS.name
    raise _unknown("JSON without messages, input, output, choices or tokens")


def _recognise_list(items: list[Any]) -> str:
    if items and all(type(item) is int or isinstance(item, list) for item in items):
        return TOKENS.name
    objects = [cast(Object, item) for item in items if isinstance(item, Mapping)]
    if any("role" not in item and "type" in item for item in objects):
        return RESPONSES.name
    contents = [cast("list[Any]", content) for item in objects if isinstance(content := item.get("content"), list)]
    parts = [cast(Object, part) for content in contents for part in content if isinstance(part, Mapping)]
    kinds = {kind for part in parts if isinstance(kind := part.get("type"), str)}
    if any(_HARMONY_FIELDS & item.keys() for item in objects) or kinds & _HARMONY_PARTS:
        return HARMONY_JSON.name
    if any(_CHAT_FIELDS & item.keys() for item in objects):
        return CHAT.name
    if kinds & _RESPONSES_PARTS or any(item.get("type") == "message" for item in objects):
        return RESPONSES.name
    if len(objects) < len(items):
        raise _unknown("a list, but not of messages, items or token ids")
    return CHAT.name


def _unknown(why: str) -> InputError:
    what = f"cannot tell the format of the input: {why}. Name one of {', '.join(FORMATS)}"
    return InputError(ErrorCode.INTERCHANGE_UNKNOWN_FORMAT, what)
