"""Messages as the parts of a user interface: thoughts, calls and text, whole or while the model still writes.

    analysis, unknown and missing channels, guessed headers    Think, which is hidden or collapsed
    a call, on any channel                                     ToolCall
    final, commentary without a recipient (a preamble)         Text

Parts without text are omitted, and text is trimmed for display; the messages stay verbatim. Messages of other roles and
forged messages give no parts.

`PartStream` turns events into updates: `PartStarted PartDelta* PartEnded` for each part.

1. The parts of all PartEnded updates equal `parts_of(messages)` for any chunking. One exception: text beyond the
   parser's limit `body_chars` is cut from the message but still sent as deltas.
2. The deltas of a part, joined, are its text; for a call they are `raw`, verbatim.
3. White space at the start of a text is dropped, and at its end it is held back until more text follows, so nothing
   shown has to be withdrawn. Text of only white space starts no part; a call always does.
4. A part that began as text ends as a thought if only its end shows that it is one: a closing mark in other families,
   or the `<|call|>` of a call without a recipient (see parts/visibility.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, assert_never

import msgspec

from harmonia.events import (
    ArgumentsDelta,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    TextDelta,
    TurnEnded,
)
from harmonia.messages import Message, Role, call_id
from harmonia.parser.tools import DeclaredTool, ToolKind, Tools, is_tool_address
from harmonia.parts.calls import CallStatus, as_tools, call_of, split_name
from harmonia.parts.visibility import GuessedAsFinal, is_visible, is_visible_header


class Think(msgspec.Struct, frozen=True, tag_field="type", tag="think"):
    """Text that is not for the user, or not known to be."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A tool call. `raw` is what the model wrote, `arguments` its JSON value, or `{"_raw": text}` if it is not JSON.

    `id` is made from the message's index, so the same messages always give the same ids.
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
    """The parts of messages, or of a `Parsed`. With `show_guessed`, text under a guessed header is shown."""
    known = as_tools(tools)
    parts: list[Part] = []
    for index, message in enumerate(messages):
        kind = kind_of_message(message, show_guessed=show_guessed)
        if kind is not None and (kind == "tool_call" or message.text.strip()):
            parts.append(part_of(message, index, kind, known))
    return parts


def part_of(message: Message, index: int, kind: PartKind, tools: Tools) -> Part:
    """The message at this index as a part of this kind."""
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
    """The kind of part that a message is; None if it is not part of the assistant's answer."""
    is_forged = message.origin is not None and message.origin.forged
    if message.role is not Role.ASSISTANT or is_forged:
        return None
    if is_tool_address(message.recipient):
        return "tool_call"
    return "text" if is_visible(message, show_guessed=show_guessed) else "think"


def kind_of_header(header: Header) -> PartKind | None:
    """The kind of part, known from the header alone."""
    if header.role is not Role.ASSISTANT or header.is_forged:
        return None
    if header.is_call:
        return "tool_call"
    return "text" if is_visible_header(header) else "think"


def ended_as_thought(message: Message) -> bool:
    """Whether a message whose header announced text turned out not to be for the user at its end: by the closing mark
    of a thought in other families (see `TextReader`), or by the `<|call|>` of a call without a recipient or under a
    guessed header."""
    return not is_visible(message)


class PartStarted(msgspec.Struct, frozen=True, tag_field="type", tag="part_started"):
    """A part begins. `index` counts parts; `server`, `name` and `id` are those of a call."""

    index: int
    kind: PartKind
    server: str | None = None
    name: str | None = None
    id: str | None = None


class PartDelta(msgspec.Struct, frozen=True, tag_field="type", tag="part_delta"):
    """More text of a part: of a call, more of its arguments."""

    index: int
    text: str


class PartEnded(msgspec.Struct, frozen=True, tag_field="type", tag="part_ended"):
    """A part is complete."""

    index: int
    part: Part


PartUpdate = PartStarted | PartDelta | PartEnded


class PartStream:
    """Follows one parser. Feed it every event, in order."""

    def __init__(self, tools: Tools | Iterable[DeclaredTool] | None = None, *, show_guessed: bool = False) -> None:
        self._tools = as_tools(tools)
        self._guesses = GuessedAsFinal() if show_guessed else None
        self._index = 0
        self._kind: PartKind | None = None  # of the message that is being read
        self._is_started = False
        self._held: list[str] = []  # white space at the end of the text so far
        self._updates: list[PartUpdate] = []

    def feed(self, events: Iterable[Event]) -> list[PartUpdate]:
        """The updates for these events."""
        self._updates = []
        for event in events if self._guesses is None else self._guesses.feed(events):
            match event:
                case TextDelta() | ArgumentsDelta():
                    self._add_text(event.text)
                case HeaderCompleted():
                    self._start_message(event.index, event.header)
                case MessageEnded():
                    self._end_message(event.index, event.message)
                case MessageStarted() | Skipped() | Repaired() | TurnEnded():
                    pass
                case _:
                    assert_never(event)
        return self._updates

    def _start_message(self, index: int, header: Header) -> None:
        # A header is reported twice if a content type is at the beginning of the body; the recipient stays the same.
        if self._kind is not None:
            return
        self._kind = kind_of_header(header)
        if self._kind == "tool_call":
            server, name = split_name(header.recipient or "")
            self._start_part(PartStarted(self._index, "tool_call", server, name, call_id(index)))

    def _start_part(self, started: PartStarted) -> None:
        self._updates.append(started)
        self._is_started = True

    def _add_text(self, text: str) -> None:
        if self._kind is None or not text:
            return
        if self._kind == "tool_call":
            self._updates.append(PartDelta(self._index, text))
            return
        if not self._is_started:
            text = text.lstrip()
            if not text:
                return
            self._start_part(PartStarted(self._index, self._kind))
        shown = text.rstrip()
        if shown:
            self._updates.append(PartDelta(self._index, "".join([*self._held, shown])))
            self._held = []
        if len(shown) < len(text):
            self._held.append(text[len(shown) :])

    def _end_message(self, index: int, message: Message) -> None:
        if self._is_started and self._kind is not None:
            kind = "think" if self._kind == "text" and ended_as_thought(message) else self._kind
            self._updates.append(PartEnded(self._index, part_of(message, index, kind, self._tools)))
            self._index += 1
        self._kind = None
        self._is_started = False
        self._held = []
