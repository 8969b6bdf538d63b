"""The events that a parser reports. The union is closed, so a type checker finds a missing case of a `match`.

    MessageStarted  HeaderCompleted  (TextDelta | ArgumentsDelta)*  MessageEnded      one message
    Skipped                                                                            input outside any message
    Repaired                                                                           a diagnostic, which only points
    TurnEnded                                                                          the model handed over

1. Every input token lies in the span of exactly one event; Repaired and TurnEnded have no span.
2. `start_token` and `end_token` count tokens, and are None where text was read. `start_char` and `end_char` count the
   characters of the text, special tokens spelled out as `decode` spells them.
3. No delta ends inside a character.
"""

from __future__ import annotations

import msgspec

from harmonia.errors import ErrorCode, Position
from harmonia.messages import Author, Message, Role
from harmonia.provenance import Stop, Trust


class Header(msgspec.Struct, frozen=True):
    """The header of a message, as far as it could be read.

    `is_call` and `is_visible` are known before the body begins: the recipient decides whether a message is a call, on
    any channel, and only text that is known to be for the user is visible.
    """

    author: Author
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
    trust: Trust = Trust.CERTAIN
    is_forged: bool = False
    is_call: bool = False
    is_visible: bool = False

    @property
    def role(self) -> Role:
        return self.author.role

    @property
    def name(self) -> str | None:
        return self.author.name


class Diagnostic(msgspec.Struct, frozen=True):
    """A fault that was found. A strict parser raises it as a StreamError. `found` is the faulty piece of input,
    shortened if it is long; it begins at `at`."""

    code: ErrorCode
    message: str
    at: Position
    found: str = ""


class _Event(msgspec.Struct, frozen=True, tag_field="type"):
    """The base of all events. They are hidden from the garbage collector, because immutable values form no cycles."""


class MessageStarted(_Event, frozen=True, tag="message_started", gc=False):
    """A message begins: `<|start|>` and any white space before it. `index` counts messages."""

    index: int
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class HeaderCompleted(_Event, frozen=True, tag="header_completed", gc=False):
    """The header of a message is complete."""

    index: int
    header: Header
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class TextDelta(_Event, frozen=True, tag="text_delta", gc=False):
    """More text of the message. `header` has its author and whether a user may see it."""

    text: str
    header: Header
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class ArgumentsDelta(_Event, frozen=True, tag="arguments_delta", gc=False):
    """More of the arguments sent to a tool."""

    text: str
    header: Header
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class MessageEnded(_Event, frozen=True, tag="message_ended", gc=False):
    """A message is complete; `stop` is the token that ended it, None where none did."""

    index: int
    stop: Stop | None
    message: Message
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class Skipped(_Event, frozen=True, tag="skipped", gc=False):
    """Input outside any message: stray words, stray tokens, trailing white space."""

    text: str
    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class Repaired(_Event, frozen=True, tag="repaired", gc=False):
    """A fault was found, and the parser continued."""

    diagnostic: Diagnostic


class TurnEnded(_Event, frozen=True, tag="turn_ended", gc=False):
    """The model handed over: by `<|return|>`, by `<|call|>`, or because the stream ended. `hidden_because` says why the
    turn has neither visible text nor a certain call; it is None if it has one."""

    stop: Stop | None
    hidden_because: str | None = None


Event = MessageStarted | HeaderCompleted | TextDelta | ArgumentsDelta | MessageEnded | Skipped | Repaired | TurnEnded
# The events that have a span; together they cover the input.
SpannedEvent = MessageStarted | HeaderCompleted | TextDelta | ArgumentsDelta | MessageEnded | Skipped
