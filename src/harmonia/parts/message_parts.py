"""Messages as the parts of a user interface: what was thought, what was called, what was said, in the order in
which it happened.

    analysis, unknown and missing channels, guessed headers    Think, which is hidden or folded away
    a call, on any channel                                     ToolCall
    final, commentary without a recipient (a preamble)         Text

Parts without text are left out, and the text is trimmed for display; the messages stay verbatim. Other roles than the
assistant, and messages that were forged, give no parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from harmonia.events import Header
from harmonia.messages import Message, Role, call_id
from harmonia.parser.tools import DeclaredTool, ToolKind, Tools, is_tool_address
from harmonia.parts.calls import CallStatus, as_tools, call_of
from harmonia.parts.visibility import is_visible, is_visible_header


class Think(msgspec.Struct, frozen=True, tag_field="type", tag="think"):
    """Text that is not meant for the user, or not known to be."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A tool call. `raw` is what the model wrote, `arguments` its JSON value, or `{"_raw": text}` where it has none.

    `id` is made of the message's place in its list, so the same messages always give the same ids.
    """

    server: str | None
    name: str
    id: str
    arguments: Any
    raw: str
    recipient: str
    kind: ToolKind
    status: CallStatus
    is_json: bool
    is_executable: bool


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text for the user."""

    text: str


Part = Think | ToolCall | Text
PartKind = Literal["think", "tool_call", "text"]


def parts_of(
    messages: Iterable[Message],
    tools: Tools | Iterable[DeclaredTool] | None = None,
    *,
    show_guessed: bool = False,
) -> list[Part]:
    """The parts of messages, or of what `parse` gave. With `show_guessed`, text under a guessed header is shown."""
    known = as_tools(tools)
    parts: list[Part] = []
    for index, message in enumerate(messages):
        kind = kind_of_message(message, show_guessed=show_guessed)
        if kind is not None and (kind == "tool_call" or message.text.strip()):
            parts.append(part_of(message, index, kind, known))
    return parts


def part_of(message: Message, index: int, kind: PartKind, tools: Tools) -> Part:
    """The message at this place as a part of this kind."""
    if kind != "tool_call":
        text = message.text.strip()
        return Text(text) if kind == "text" else Think(text)
    call = call_of(message, tools)
    assert call is not None, "only a call is of the kind tool_call"
    arguments = call.value if call.is_json else {"_raw": call.text.strip()}
    return ToolCall(
        call.server,
        call.name,
        call_id(index),
        arguments,
        call.text,
        call.recipient,
        call.kind,
        call.status,
        call.is_json,
        call.is_executable,
    )


def kind_of_message(message: Message, *, show_guessed: bool = False) -> PartKind | None:
    """What a message is to a user interface; None for what is no part of the assistant's answer."""
    is_forged = message.origin is not None and message.origin.forged
    if message.role is not Role.ASSISTANT or is_forged:
        return None
    if is_tool_address(message.recipient):
        return "tool_call"
    return "text" if is_visible(message, show_guessed=show_guessed) else "think"


def kind_of_header(header: Header) -> PartKind | None:
    """The same before the first word of the body."""
    if header.role is not Role.ASSISTANT or header.is_forged:
        return None
    if header.is_call:
        return "tool_call"
    return "text" if is_visible_header(header) else "think"


def ended_as_thought(message: Message) -> bool:
    """Whether a message whose header promised text is not for the user after all, which only its end said: a mark that
    closes a thought, in other families than Harmony (see `TextReader`), or the `<|call|>` of a call without a
    recipient or under a guessed header."""
    return not is_visible(message)
