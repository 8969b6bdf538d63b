"""Parsing through the reference's API, by the one parser: StreamableParser, and which parsed messages it returns.

Strict is the parser's mode `reference`: it raises what openai-harmony raises. Otherwise its tolerant mode is used,
which never raises. Each token is fed once, and the properties return what was recorded then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pydantic import BaseModel

import harmonia.messages as native
from harmonia.errors import StreamError
from harmonia.events import (
    ArgumentsDelta,
    Diagnostic,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    Repaired,
    TextDelta,
)
from harmonia.openai_harmony.models import Author, Message, Role, TextContent, refused
from harmonia.parser import Limits, Parser
from harmonia.parser.parser import Chunk
from harmonia.provenance import Trust
from harmonia.vocabulary import START, Vocabulary

if TYPE_CHECKING:
    from harmonia.openai_harmony.encoding import HarmonyEncoding


ROLES: Final = {role.value: role for role in Role}
# The reference uses the role as the name of a tool that the header does not name.
UNNAMED_TOOL: Final = native.Author(native.Role.TOOL, native.Role.TOOL.value)

# Setters of a pydantic model's slots, which bypass its `__setattr__`.
_set_dict, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class ParsedMessages(list[Message]):
    """The messages of a completion, as a list that also has the diagnostics.

    `diagnostics` are the faults that were found, with code and position. `parsed` are the messages as Harmonia's own
    values, with their origin and trust.
    """

    __slots__ = ("diagnostics", "parsed")

    def __init__(
        self,
        shown: Iterable[native.Message],
        parsed: Sequence[native.Message],
        diagnostics: Sequence[Diagnostic],
        role: Role | None,
    ) -> None:
        super().__init__(as_messages(shown, role))
        self.parsed = tuple(parsed)
        self.diagnostics = tuple(diagnostics)


def is_withheld(header: Header, previous: native.Message | None) -> bool:
    """Whether a strict program must not see this message, which follows `previous`.

    After a body without an end, the reference reads everything as text. Here the next message is read instead; but a
    program that only checks roles and recipients must not get a user or system message that the model wrote, or a
    repaired call.
    """
    is_swallowed = previous is not None and previous.origin is not None and previous.origin.stop is None
    return is_swallowed and (header.is_forged or (header.is_call and header.trust is not Trust.CERTAIN))


def without_withheld(events: Iterable[Event]) -> list[native.Message]:
    """The messages among these events that a strict program sees."""
    shown: list[native.Message] = []
    previous: native.Message | None = None
    withheld = False
    for event in events:
        if isinstance(event, HeaderCompleted):
            withheld = is_withheld(event.header, previous)
        elif isinstance(event, MessageEnded):
            previous = event.message
            if not withheld:
                shown.append(previous)
    return shown


def as_messages(messages: Iterable[native.Message], role: Role | None) -> list[Message]:
    """Messages of the drop-in; `role` is the given role of the first one."""
    made = [_as_message(message) for message in messages]
    if role == Role.TOOL and made and made[0].author.name == UNNAMED_TOOL.name:
        made[0].author.name = None  # neither its role nor its name was read
    return made


def _as_message(message: native.Message) -> Message:
    """A message without validation, which would take most of the time: `model_construct` for three models at once."""
    role, name = ROLES[message.author.role], message.author.name
    author, content, made = Author.__new__(Author), TextContent.__new__(TextContent), Message.__new__(Message)
    _set_dict(author, {"role": role, "name": UNNAMED_TOOL.name if name is None and role is Role.TOOL else name})
    _set_fields_set(author, {"role", "name"})
    _set_dict(content, {"text": message.content})  # a parsed message has one content, which is text
    _set_fields_set(content, {"text"})
    _set_dict(
        made,
        {
            "author": author,
            "content": [content],
            "channel": message.channel,
            "recipient": message.recipient,
            "content_type": message.content_type,
        },
    )
    _set_fields_set(made, {"author", "content", "channel", "recipient", "content_type"})
    for model in (author, content, made):
        _set_extra(model, None)
        _set_private(model, None)
    return made


_LOG: Final = logging.getLogger("harmonia.openai_harmony")
# Makes programs tolerant without editing them. It is read once, when the module is imported.
TOLERANT_VARIABLE: Final = "HARMONIA_TOLERANT"
STRICT_BY_DEFAULT: Final = os.environ.get(TOLERANT_VARIABLE, "").strip().lower() not in ("1", "true", "yes", "on")

# The reference has no limits, and callers keep all tokens anyway.
_UNLIMITED: Final = Limits(header_chars=2**62, unmarked_chars=2**62, body_chars=2**62)
_WITHHELD: Final = Header(native.Author(native.Role.ASSISTANT), trust=Trust.GUESSED)
_NATIVE_ROLES: Final = {role.value: role for role in native.Role}
_TOO_LARGE: Final = 2**32


class StreamState(Enum):
    """The state of a StreamableParser."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"


_STATES: Final = {"wait": StreamState.EXPECT_START, "header": StreamState.HEADER, "body": StreamState.CONTENT}


class StreamableParser:
    """Reads a completion token by token.

    Besides the reference's properties there are `diagnostics`, the faults found so far; `last_events`, the events of
    the last token; and `current_header`, which says whether a user may see the text being read.
    """

    last_content_delta: str | None = None

    def __init__(self, encoding: HarmonyEncoding, role: Role | None, *, strict: bool = STRICT_BY_DEFAULT) -> None:
        self._vocabulary = encoding.vocabulary
        self._strict = strict
        self._role = self._next_role = role
        self._parser = make_parser(self._next_role, self._vocabulary, strict=strict)
        self._feed = self._parser.feed
        self._tokens: list[int] = []
        self._parsed: list[native.Message] = []
        self._messages: list[native.Message] = []  # those that are shown
        self._previous: native.Message | None = None  # the last one of this stream
        self._header: Header | None = None
        self._header_from: int | None = None if role is None else 0
        # The text of the message being read, and how many of its parts are joined and encoded again.
        self._parts: list[str] = []
        self._content, self._joined_parts = "", 0
        self._content_tokens: list[int] = []
        self._encoded_parts = 0
        self.diagnostics: list[Diagnostic] = []
        self.last_events: list[Event] = []

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, token: int) -> StreamableParser:
        """Process the next token."""
        if token.__class__ is not int or not 0 <= token < _TOO_LARGE:
            token = self._as_token(token)
        self._tokens.append(token)
        try:
            events = self._feed(token)
        except StreamError as error:
            # Refused input is not a message.
            self._note([], token)
            self.last_events = cast("list[Event]", error.events)
            raise refused(error) from error
        # Nearly every token is just more text of a body.
        if len(events) == 1:
            event = events[0]
            if event.__class__ is TextDelta or event.__class__ is ArgumentsDelta:
                delta: TextDelta = event  # pyright: ignore[reportAssignmentType, reportUnknownVariableType] -- or the other one
                self.last_content_delta = text = delta.text
                self._parts.append(text)
                self.last_events = events
                return self
        self._note(events, token)
        return self

    def process_eos(self) -> StreamableParser:
        """End the stream, and with it an open message. More tokens may follow as another stream, whose positions start
        at 0 again."""
        if self._strict and self._parser.state == "wait":
            return self  # nothing is being read; a given role still counts if its header was refused
        try:
            self._feed([])  # even an empty stream is a stream of tokens
            events = self._parser.close()
        except StreamError as error:
            raise refused(error) from error
        if self._header_from is not None:
            self._next_role = None  # its header was abandoned
        self._parser = make_parser(None, self._vocabulary, strict=self._strict)
        self._feed = self._parser.feed
        self._note(events, START)
        self._previous = None
        return self

    def _as_token(self, token: object) -> int:
        try:
            number = index(token)  # pyright: ignore[reportArgumentType]
        except TypeError:
            name = type(token).__name__
            raise TypeError(f"argument 'token': {name!r} object cannot be interpreted as an integer") from None
        if self._strict and not 0 <= number < _TOO_LARGE:
            raise OverflowError("out of range integral type conversion attempted")
        return number

    def _note(self, events: list[Event], token: int) -> None:
        delta = ""
        for event in events:
            match event:
                case HeaderCompleted(header=header):
                    self._begin_message(header)
                case TextDelta(text=text) | ArgumentsDelta(text=text):
                    delta += text
                    self._parts.append(text)
                case MessageEnded(message=message):
                    self._parsed.append(message)
                    self._previous = message
                    if self._header is not _WITHHELD:
                        self._messages.append(message)
                    self._header = None
                    self._feed = self._parser.feed
                    self._forget_content()
                    delta = ""
                case Repaired(diagnostic=diagnostic):
                    self.diagnostics.append(diagnostic)
                    report(diagnostic)
                case _:
                    pass
        self.last_events = events
        self.last_content_delta = delta or None
        if self._parser.state == "header":
            if self._header_from is None:
                self._header_from = len(self._tokens) - (token != START)
        else:
            self._header_from = None

    def _begin_message(self, header: Header) -> None:
        """Begin a message. A tool without a name is named after its role, as in the reference."""
        if header.author.role is native.Role.TOOL and header.author.name is None and self._next_role is None:
            header = msgspec.structs.replace(header, author=UNNAMED_TOOL)
        if self._strict and is_withheld(header, self._previous):
            header = _WITHHELD
            self._feed = self._feed_unseen
        self._header = header
        self._next_role = None
        self._forget_content()

    def _feed_unseen(self, token: Chunk) -> list[Event]:
        """Feed a token of a withheld message and drop its text."""
        return [event for event in self._parser.feed(token) if not isinstance(event, TextDelta | ArgumentsDelta)]

    def _forget_content(self) -> None:
        self._parts = []
        self._content, self._joined_parts = "", 0
        self._content_tokens, self._encoded_parts = [], 0

    # ── what was read ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> list[Message]:
        return as_messages(self._messages, self._role)

    @property
    def parsed_messages(self) -> tuple[native.Message, ...]:
        """As Harmonia's own values, with their origin."""
        return tuple(self._parsed)

    @property
    def tokens(self) -> list[int]:
        return self._tokens.copy()

    @property
    def current_header(self) -> Header | None:
        return self._header

    @property
    def current_content(self) -> str:
        """The text so far of the message being read."""
        if self._joined_parts < len(self._parts):
            self._content += "".join(self._parts[self._joined_parts :])
            self._joined_parts = len(self._parts)
        return self._content

    @property
    def current_role(self) -> Role | None:
        return self._next_role if self._header is None else ROLES[self._header.author.role]

    @property
    def current_channel(self) -> str | None:
        return None if self._header is None else self._header.channel

    @property
    def current_recipient(self) -> str | None:
        return None if self._header is None else self._header.recipient

    @property
    def current_content_type(self) -> str | None:
        return None if self._header is None else self._header.content_type

    @property
    def state(self) -> StreamState:
        return _STATES[self._parser.state]

    @property
    def state_data(self) -> dict[str, Any]:
        """The state as JSON values, with the tokens of the header or of the content so far."""
        state = self.state
        if state is StreamState.HEADER:
            return {"state": state.value, "header_tokens": self._tokens[self._header_from or 0 :]}
        header = self._header
        if state is StreamState.EXPECT_START or header is None:
            return {"state": state.value}
        # The reference encodes the text of each token again.
        for text in islice(self._parts, self._encoded_parts, None):
            self._content_tokens += self._vocabulary.encode(text)
        self._encoded_parts = len(self._parts)
        author = {"role": header.author.role.value}
        if header.author.name is not None:
            author["name"] = header.author.name
        return {
            "state": state.value,
            "header": {
                "author": author,
                "recipient": header.recipient,
                "channel": header.channel,
                "content_type": header.content_type,
            },
            "content_tokens": self._content_tokens.copy(),
        }


def make_parser(role: Role | None, vocabulary: Vocabulary, *, strict: bool) -> Parser:
    given = None if role is None else _NATIVE_ROLES.get(role.value)
    if given is None and role is not None:
        raise ValueError(f"unknown role: {role.value}")
    return Parser(given, "reference" if strict else "tolerant", limits=_UNLIMITED, vocabulary=vocabulary)


def report(diagnostic: Diagnostic) -> None:
    """Log a repair for programs that do not look at diagnostics, without the text, which may be reasoning."""
    _LOG.info("repaired %s at token %s of the completion", diagnostic.code.value, diagnostic.at.token)
