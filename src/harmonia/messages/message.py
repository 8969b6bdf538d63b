"""A message, and messages as JSON: the reference's fields; unknown fields are refused, and errors name a JSON path."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json, split_validation_error
from harmonia.messages.contents import (
    CONTENT_KINDS,
    Author,
    Content,
    DeveloperContent,
    Json,
    ResponseFormat,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
    role_named,
)
from harmonia.provenance import Origin, Sampled, Span


class WireText(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


class WireMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: Role
    content: str | list[WireText | SystemContent | DeveloperContent]
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None


class WireConversation(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[WireMessage]


JSON_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
MESSAGE_DECODER = msgspec.json.Decoder(WireMessage)

T = TypeVar("T")


def content_to_dict(content: Content) -> Json:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    # A field that is None is written only if omitting it would mean the default.
    silent = {info.encode_name for info in msgspec.structs.fields(type(content)) if info.default is None}
    values: Json = _to_builtins(content)
    return {name: value for name, value in values.items() if value is not None or name not in silent}


def _to_builtins(value: object) -> Any:
    try:
        return msgspec.to_builtins(value)
    except (TypeError, RecursionError) as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"not a JSON value: {error}") from error


def convert(value: object, type_: type[T]) -> T:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise _invalid_value(error) from error
    except RecursionError as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, "the values are nested too deeply") from error


def decode(text: str | bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _invalid_value(error) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(
            ErrorCode.MESSAGES_INVALID_JSON, f"not valid JSON: {error}", _position_of(error, text)
        ) from error


def _invalid_value(error: msgspec.ValidationError) -> InputError:
    message, path = split_validation_error(error)
    return InputError(ErrorCode.MESSAGES_INVALID_VALUE, message, Position(path=path))


def _position_of(error: Exception, text: str | bytes) -> Position:
    # msgspec ends its message with "(byte 12)".
    _, _, tail = str(error).rpartition("(byte ")
    if not tail[:-1].isdigit():
        return Position()
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return Position(character=len(data[: int(tail[:-1])].decode(errors="replace")))


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """One message. `Message("user", "Hi")` works for every role; the constructors below add what a role usually has.

    `content` is text, a SystemContent, a DeveloperContent, or a tuple of several. A parser sets `origin` and `sampled`;
    every edited copy loses them: `message.replace(channel="final")`. `answers` is the call that a tool result answers,
    if known. Harmony has no field for it, so it is not part of the prompt, of the JSON, or of equality.
    """

    author: Author
    content: Content | tuple[Content, ...]
    channel: str | None
    recipient: str | None
    content_type: str | None
    origin: Origin | None = field(init=False, repr=False, compare=False)
    sampled: Sampled | None = field(init=False, repr=False, compare=False)
    answers: Message | None = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        author: Author | Role | str,
        content: Content | Sequence[Content],
        channel: str | None = None,
        recipient: str | None = None,
        content_type: str | None = None,
    ) -> None:
        if not isinstance(content, CONTENT_KINDS):
            contents = tuple(content) if isinstance(content, Iterable) else (content,)  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            for part in contents:
                if not isinstance(part, CONTENT_KINDS):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                    raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"{part!r} is not a content of a message")
            content = contents[0] if len(contents) == 1 else contents
        for name, value in (("channel", channel), ("recipient", recipient), ("content_type", content_type)):
            if value is not None and not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"{name} is {value!r}, which is not a string")
        put = object.__setattr__
        put(self, "author", author if isinstance(author, Author) else Author(role_named(author)))
        put(self, "content", content)
        put(self, "channel", channel)
        put(self, "recipient", recipient)
        put(self, "content_type", content_type)
        put(self, "origin", None)
        put(self, "sampled", None)
        put(self, "answers", None)

    # ── constructors ────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def system(cls, content: SystemContent | str | None = None) -> Message:
        """A system message; with no content, the defaults."""
        return cls(_SYSTEM, SystemContent() if content is None else content)

    @classmethod
    def developer(
        cls,
        instructions: str | None = None,
        *,
        functions: Sequence[ToolDescription] = (),
        namespaces: Sequence[ToolNamespace] = (),
        response_formats: Sequence[ResponseFormat] = (),
    ) -> Message:
        """A developer message with instructions, function tools, further namespaces and response formats."""
        content = DeveloperContent(instructions)
        if functions:
            content = content.with_functions(*functions)
        if namespaces:
            if functions and any(namespace.name == "functions" for namespace in namespaces):
                raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, "the namespace functions is declared twice")
            content = content.with_tools(*namespaces)
        if response_formats:
            content = content.with_response_formats(*response_formats)
        return cls(_DEVELOPER, content)

    @classmethod
    def user(cls, text: str, *, name: str | None = None) -> Message:
        """What a person said."""
        return cls(Author(Role.USER, name), text)

    @classmethod
    def assistant(cls, text: str, *, channel: str | None = "final") -> Message:
        """What the model said: to the user on `final`, to itself on `analysis`."""
        return cls(_ASSISTANT, text, channel)

    @classmethod
    def call(
        cls,
        recipient: str,
        arguments: str,
        *,
        channel: str | None = "commentary",
        content_type: str | None = "<|constrain|>json",
    ) -> Message:
        """A tool call: `recipient` is the tool's whole name, `arguments` the text sent to it."""
        return cls(_ASSISTANT, arguments, channel, recipient, content_type)

    @classmethod
    def tool(
        cls,
        name: str,
        result: str,
        *,
        channel: str | None = "commentary",
        recipient: str | None = "assistant",
    ) -> Message:
        """What a tool answered; `name` is its whole name, such as `functions.get_weather`."""
        return cls(Author(Role.TOOL, name), result, channel, recipient)

    @classmethod
    def parsed(
        cls,
        author: Author,
        content: Content,
        channel: str | None,
        recipient: str | None,
        content_type: str | None,
        origin: Origin,
        sampled: Sampled | None,
    ) -> Message:
        """A message that a parser read. Nothing is checked, because a model may write anything."""
        message = object.__new__(cls)
        _set_author(message, author)
        _set_content(message, content)
        _set_channel(message, channel)
        _set_recipient(message, recipient)
        _set_content_type(message, content_type)
        _set_origin(message, origin)
        _set_sampled(message, sampled)
        _set_answers(message, None)
        return message

    def replace(self, **changes: Any) -> Message:
        """A copy with some fields changed. It is no longer what was sampled, so it renders canonically."""
        copy = dataclasses.replace(self, **changes)
        _set_answers(copy, self.answers)
        return copy

    def answering(self, call: Message) -> Message:
        """A copy that answers this call, for the result of a tool."""
        copy = dataclasses.replace(self)
        _set_answers(copy, call)
        return copy

    def with_sampled(self, sampled: Sampled) -> Message:
        """A copy that renders as exactly these tokens. Only for parsers and stores; see `Sampled`."""
        copy = dataclasses.replace(self)
        object.__setattr__(copy, "sampled", sampled)
        return copy

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def role(self) -> Role:
        return self.author.role

    @property
    def name(self) -> str | None:
        return self.author.name

    @property
    def spans(self) -> tuple[Span, Span] | None:
        """Where the header and the body were in the parsed input; None for a message that was not parsed."""
        return None if self.origin is None else (self.origin.header, self.origin.body)

    @property
    def contents(self) -> tuple[Content, ...]:
        """The content as a tuple, however many there are."""
        return self.content if isinstance(self.content, tuple) else (self.content,)

    @property
    def text(self) -> str:
        """The text of the message; system and developer contents have none."""
        return "".join(content for content in self.contents if isinstance(content, str))

    # ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

    def to_dict(self) -> Json:
        """The message as JSON values."""
        out: Json = {"role": self.role.value}
        if self.name is not None:
            out["name"] = self.name
        content = self.content
        out["content"] = content if isinstance(content, str) else [content_to_dict(part) for part in self.contents]
        for name in ("channel", "recipient", "content_type"):
            value = getattr(self, name)
            if value is not None:
                out[name] = value
        return out

    def to_json(self) -> str:
        """The message as JSON."""
        return encode_json(self.to_dict())

    @classmethod
    def from_dict(cls, value: object) -> Message:
        """A message from JSON values; an InputError has the path of the fault."""
        return from_wire(convert(value, WireMessage))

    @classmethod
    def from_json(cls, text: str | bytes) -> Message:
        return from_wire(decode(text, MESSAGE_DECODER))


# Setters of the slots of a frozen message, for messages that are still under construction.
(
    _set_author,
    _set_content,
    _set_channel,
    _set_recipient,
    _set_content_type,
    _set_origin,
    _set_sampled,
    _set_answers,
) = (getattr(Message, field.name).__set__ for field in dataclasses.fields(Message))

_SYSTEM = Author(Role.SYSTEM)
_DEVELOPER = Author(Role.DEVELOPER)
_ASSISTANT = Author(Role.ASSISTANT)


def from_wire(wire: WireMessage) -> Message:
    content = wire.content
    if not isinstance(content, str):
        content = tuple(part.text if isinstance(part, WireText) else part for part in content)
    return Message(Author(wire.role, wire.name), content, wire.channel, wire.recipient, wire.content_type)
