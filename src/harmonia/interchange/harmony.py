"""Harmony itself: text with special tokens spelled out, token ids, and the JSON of conversations.

Text and token ids are parsed tolerantly, and the parser's repairs are reported as losses. On export, text that spells a
special token is refused, because it would come back as the token; token ids are never ambiguous. Losses are found by
reading back what was written.

Instructions, function tools and system messages without tools are restored as the contents they were rendered from, if
those render to the same text. A declaration says less than its schema: an integer comes back as a number. Declarations
that the renderer would not write stay text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from harmonia.errors import InputError
from harmonia.interchange.conversion import (
    CallIds,
    Exported,
    Imported,
    Lossy,
    Object,
    list_at,
    refuse,
    sort_losses,
    unexpressed_losses,
    value_of,
)
from harmonia.interchange.message_defaults import differences, left_out
from harmonia.messages import (
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    ToolNamespace,
    is_forged,
)
from harmonia.parser import Parsed, parse
from harmonia.provenance import Trust
from harmonia.renderer import render
from harmonia.renderer.segments import content_said
from harmonia.schema import Loss
from harmonia.schema.declarations import read_namespaces
from harmonia.vocabulary import CHANNEL, MESSAGE, SPELLING_BY_ID

_Content = str | SystemContent | DeveloperContent
_TOOLS: Final = "# Tools\n\n## "
_INSTRUCTIONS: Final = "# Instructions\n\n"
_ABOUT: Final = re.compile(r"^(?:Knowledge cutoff: |Current date: |Reasoning: |# Valid channels: )", re.MULTILINE)
_SYSTEM: Final = re.compile(
    r"(?:Knowledge cutoff: (?P<cutoff>[^\n]*))?"
    r"(?:(?:^|\n)Current date: (?P<date>[^\n]*))?"
    r"(?:(?:^|\n\n)Reasoning: (?P<effort>low|medium|high))?"
    r"(?:(?:^|\n\n)# Valid channels: (?P<channels>[^\n .][^\n.]*)\."
    r"(?P<required> Channel must be included for every message\.)?"
    r"(?:\nCalls to these tools must go to the commentary channel: 'functions'\.)?)?"
)
_NOT_IN_IDS: Final = re.compile(r"[^\s,0-9-]")
_ID: Final = re.compile(r"-?[0-9]{1,18}")
_NAMES_OF_LISTS: Final = ("tokens", "token_ids")
_COMPLETION: Final = (SPELLING_BY_ID[CHANNEL], SPELLING_BY_ID[MESSAGE])


def read_harmony(given: str | bytes) -> Imported:
    """A conversation from Harmony text. A completion, which begins inside a header, belongs to the assistant."""
    text = given if isinstance(given, str) else given.decode(errors="replace")
    text = text.removeprefix("\ufeff")
    role = Role.ASSISTANT if text.lstrip().startswith(_COMPLETION) else None
    return imported_from(parse(text, role))


def write_harmony(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The conversation as a stored history; an InputError if a text spells a special token."""
    rendered = render(conversation, next_role=None)
    text = rendered.text
    return Exported(text, losses_of(conversation, parse(text), rendered.losses, call_ids))


def imported_from(parsed: Parsed) -> Imported:
    losses = [Lossy(str(each.at) or "$", each.code.value, each.message) for each in parsed.diagnostics]
    messages: list[Message] = []
    # Contents are restored if they render to the same text.
    contents: list[_Content] = [
        _developer_content(each.text) if each.role is Role.DEVELOPER else each.text for each in parsed
    ]
    has_functions = any(isinstance(each, DeveloperContent) and each.has_functions for each in contents)
    for message, content in zip(parsed, contents, strict=True):
        if is_forged(message):
            losses.append(Lossy("$", "message", f"the model forged a {message.role} message; it was omitted"))
            continue
        if message.role is Role.SYSTEM:
            content = _system_content(message.text, has_functions=has_functions)
        if message.role in (Role.SYSTEM, Role.DEVELOPER) and _has_tools_as_text(content):
            why = "the tools are kept as text: their schemas cannot be restored from these declarations"
            losses.append(Lossy(f"$.messages[{len(messages)}]", "tools", why, len(messages)))
        messages.append(_unsampled(message, content))
    return Imported(Conversation(messages), tuple(losses))


def _has_tools_as_text(content: _Content) -> bool:
    """Whether a text contains declarations of tools."""
    if isinstance(content, SystemContent) or (isinstance(content, DeveloperContent) and content.tools):
        return False
    text = content if isinstance(content, str) else content.instructions or ""
    return _TOOLS in text and "\nnamespace " in text


def _unsampled(message: Message, content: _Content) -> Message:
    """The message without its tokens. A doubtful message stays doubtful: it is neither shown nor run."""
    origin = message.origin
    if origin is None or origin.trust is Trust.CERTAIN:
        # Anyone can write tokens into a file, so a call read from one is not certain.
        return message.replace(content=content)
    return message.with_origin(origin, content=content)


def _developer_content(text: str) -> str | DeveloperContent:
    rest, found, declared = text.rpartition(_TOOLS) if _TOOLS in text else (text, "", "")
    tools = _read_tools(declared) if found else None
    if tools is None:
        rest = text
    if rest and not rest.startswith(_INSTRUCTIONS):
        return text
    said = rest if tools is None else rest.removesuffix("\n\n")
    content = DeveloperContent(said.removeprefix(_INSTRUCTIONS) if rest else None, tools)
    try:
        return content if content_said(content).text == text else text
    except InputError:
        return text


def _read_tools(declared: str) -> dict[str, ToolNamespace] | None:
    namespaces = read_namespaces(f"## {declared}")
    return None if namespaces is None else {each.name: each for each in namespaces}


def _system_content(text: str, *, has_functions: bool) -> str | SystemContent:
    about = _ABOUT.search(text)
    if about is None:
        return text  # a plain text, not an identity line
    identity = text[: about.start()].rstrip("\n") or None
    found = _SYSTEM.fullmatch(text[about.start() :])
    if found is None or not (found["effort"] or found["channels"] or found["cutoff"]):
        return text
    channels = found["channels"]
    content = SystemContent(
        identity,
        found["cutoff"],
        found["date"],
        None if found["effort"] is None else ReasoningEffort(found["effort"]),
        ChannelConfig(tuple(channels.split(", ")), found["required"] is not None) if channels else None,
    )
    return content if content_said(content, has_functions=has_functions).text == text else text


def losses_of(
    conversation: Conversation, parsed: Parsed, schema_losses: Sequence[Loss], call_ids: CallIds | None
) -> tuple[Lossy, ...]:
    losses = [*unexpressed_losses(conversation, call_ids)]
    losses += [Lossy(loss.path, loss.keyword, loss.sentence) for loss in schema_losses]
    back = imported_from(parsed).conversation
    for index, message in enumerate(conversation):
        if index < len(back):
            losses += differences(index, message, back[index], "Harmony text")
        else:
            losses.append(left_out(index, "it is not restored as a message of its own"))
    return sort_losses(losses)


# ── token ids ──


def looks_like_ids(text: str) -> bool:
    words = _listed(text)
    return words is not None and any(character.isdigit() for character in words)


def read_tokens(given: Any) -> Imported:
    """A conversation from token ids: a list, `{"tokens": […]}`, or text with white space or commas between them."""
    ids = _read_ids(given)
    role = Role.ASSISTANT if ids[:1] in ([CHANNEL], [MESSAGE]) else None
    return imported_from(parse(ids, role))


def write_tokens(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    rendered = render(conversation, next_role=None)
    return Exported(rendered.tokens, losses_of(conversation, parse(rendered.tokens), rendered.losses, call_ids))


def _listed(text: str) -> str | None:
    """The inside of a list of ids, whose brackets are optional; None for any other text."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return None if _NOT_IN_IDS.search(inner) else inner


def _read_ids(given: Any) -> list[int]:
    if isinstance(given, str | bytes):
        text = given.decode(errors="replace") if isinstance(given, bytes) else given
        listed = _listed(text)
        if listed is not None:
            words = listed.replace(",", " ").split()
            if all(map(_ID.fullmatch, words)):
                return [int(word) for word in words]
        given = value_of(text)
    path = "$"
    if isinstance(given, dict):
        value = cast(Object, given)
        name = next((name for name in _NAMES_OF_LISTS if name in value), None)
        if name is None:
            refuse("expected a field `tokens` or `token_ids`", path)
        given, path = value[name], f"$.{name}"
    ids: list[int] = []
    for at, each in enumerate(list_at(given, path)):
        for id_ in cast("list[Any]", each) if isinstance(each, list) else (each,):
            if type(id_) is not int:
                refuse("expected a token id, an integer", f"{path}[{at}]")
            ids.append(id_)
    return ids


# ── JSON ──


def read_harmony_json(given: Any) -> Imported:
    """A conversation from its own JSON, which openai-harmony shares: `{"messages": […]}` or the list alone."""
    return Imported(Conversation.from_dict(value_of(given)))


def write_harmony_json(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    return Exported(conversation.to_dict(), sort_losses(unexpressed_losses(conversation, call_ids)))
