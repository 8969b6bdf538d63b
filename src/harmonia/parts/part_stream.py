"""The parts of a user interface while the model is still speaking: events in, changes of parts out.

    PartStarted  PartDelta*  PartEnded      one part

1. The parts of all PartEnded are those that `parts_of` gives for the messages, for any chunking. One exception: text
   that passes the parser's limit `body_chars` is cut in the message, while the deltas go on.
2. The texts of a part's deltas, joined, are its text; for a call they are `raw`, verbatim.
3. White space at the beginning of a text is left out, and at its end it is held back until more text comes, so what
   was shown never has to be taken back. Text that is nothing but white space starts no part; a call always does.
4. A part that began as text ends as a thought where only its end says that it is one: a closing mark in other
   families, or the `<|call|>` of a call without a recipient (see parts/visibility.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

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
from harmonia.messages import Message, call_id
from harmonia.parser.tools import DeclaredTool, Tools
from harmonia.parts.calls import as_tools, split_name
from harmonia.parts.message_parts import Part, PartKind, ended_as_thought, kind_of_header, part_of
from harmonia.parts.visibility import GuessedAsFinal


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
        """What changes with these events."""
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
        # A header is completed a second time where a content type stands at the head of the body; who is addressed
        # does not change with it.
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
