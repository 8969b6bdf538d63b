"""What a user may see: only text that is known to be for the user (law 7).

That is the assistant's text on `final`, and preambles: text on `commentary` without a recipient or a content type that
did not end with `<|call|>`. Everything else is hidden: reasoning, unknown and missing channels, calls, other roles. The
rule itself is in parser/headers.py.

A header is read before the text, so `is_visible_header` cannot know how the message will end. If only its final
`<|call|>` shows that a preamble was a call without a recipient, the text was already streamed; `is_visible` is false
for the message.

An operator may also show guesses: text under a guessed header, and text without a channel, which counts as `final`.
Calls are never shown that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import ErrorCode
from harmonia.events import (
    ArgumentsDelta,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    Repaired,
    TextDelta,
    TurnEnded,
)
from harmonia.messages import Author, Message
from harmonia.parser import headers
from harmonia.provenance import Trust

# hidden  text with a guessed channel, or without a channel, is not shown
# shown   it is shown if it may be the answer
Guessed = Literal["hidden", "shown"]

_ANSWER: Final = "final"
# This text is in the place of a call, so it is not an answer.
_NEVER_SHOWN: Final = frozenset((ErrorCode.FAMILY_UNREADABLE_CALL, ErrorCode.BODY_CALL_WITHOUT_RECIPIENT))


def is_visible(message: Message, *, show_guessed: bool = False) -> bool:
    """Whether a user may see the text of a message; with `show_guessed`, also if its header is a guess.

    A message without an origin was written by a person or a program, so its header is certain.
    """
    origin = message.origin
    if origin is None:
        return headers.is_visible(
            message.author, message.channel, message.recipient, message.content_type, Trust.CERTAIN
        )
    if origin.forged:
        return False
    trust = Trust.GUESSED if origin.source == "stripped" else origin.trust
    if headers.is_visible(message.author, message.channel, message.recipient, message.content_type, trust, origin.stop):
        return True
    if not (show_guessed or origin.shown):
        return False
    is_call = origin.stop == "call" or not _NEVER_SHOWN.isdisjoint(origin.faults)
    return not is_call and _may_be_answer(message.author, message.channel, message.recipient, message.content_type)


def is_visible_header(header: Header, *, show_guessed: bool = False) -> bool:
    """The same from the header alone, for streaming."""
    if header.is_forged or not show_guessed:
        return header.is_visible and not header.is_forged
    return _may_be_answer(header.author, header.channel, header.recipient, header.content_type)


def _may_be_answer(author: Author, channel: str | None, recipient: str | None, content_type: str | None) -> bool:
    """Whether guessed text may be the answer. With a content type and no channel, it may as well be a call."""
    if channel is None and content_type is not None:
        return False
    return headers.is_visible(author, channel or _ANSWER, recipient, content_type, Trust.CERTAIN)


class GuessedAsFinal:
    """Shows the guesses of one parser: feed it every event, in order, and use the events it returns.

    A guess that may be the answer becomes visible in its header and its message, and text without a channel is put on
    `final`. Everything else, including calls, stays unchanged.
    """

    def __init__(self) -> None:
        self._header: Header | None = None  # the header of the events, and the one shown instead
        self._shown: Header | None = None
        self._is_no_answer = False  # a fault of the next message says so
        self._shows_something = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """The same events, with the guesses shown."""
        return [self._show(event) for event in events]

    def _show(self, event: Event) -> Event:
        match event:
            case HeaderCompleted() | TextDelta() | ArgumentsDelta():
                header = self._show_header(event.header)
                return event if header is event.header else _replace(event, header=header)
            case Repaired():
                self._is_no_answer |= event.diagnostic.code in _NEVER_SHOWN
                return event
            case MessageEnded():
                self._is_no_answer = False
                message = shown_message(event.message)
                self._shows_something |= is_visible(message) and not message.text.isspace() and bool(message.text)
                return event if message is event.message else _replace(event, message=message)
            case TurnEnded():
                shows, self._shows_something = self._shows_something, False
                return _replace(event, hidden_because=None) if shows else event
            case _:
                return event

    def _show_header(self, header: Header) -> Header:
        if header is not self._header:
            self._header = self._shown = header
            may_show = not (header.is_visible or self._is_no_answer)
            if may_show and is_visible_header(header, show_guessed=True):
                self._shown = _replace(header, channel=header.channel or _ANSWER, is_visible=True)
        assert self._shown is not None
        return self._shown


def shown_message(message: Message) -> Message:
    """The message; if it is a guess that may be the answer, a copy that is shown."""
    origin = message.origin
    if origin is None or is_visible(message) or not is_visible(message, show_guessed=True):
        return message
    is_changed = message.channel is None  # it is no longer what was sampled
    return Message.parsed(
        message.author,
        message.text,
        message.channel or _ANSWER,
        message.recipient,
        message.content_type,
        _replace(origin, shown=True),
        None if is_changed else message.sampled,
    )


def _replace(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)


def is_call_without_recipient(message: Message) -> bool:
    """Whether a message is a call that does not name its tool, so that it is neither run nor shown."""
    stop = None if message.origin is None else message.origin.stop
    return headers.lacks_recipient(message.author, message.channel, message.recipient, message.content_type, stop)


def visible_text(messages: Iterable[Message], *, show_guessed: bool = False) -> str:
    """The texts that a user may see, verbatim, separated by empty lines."""
    visible = (message.text for message in messages if is_visible(message, show_guessed=show_guessed))
    return "\n\n".join(text for text in visible if text.strip())
