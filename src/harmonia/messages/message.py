"""A message and what it is made of: role, author, tools, and the contents of system and developer messages.

In JSON a message has the reference's fields; unknown fields are refused, and errors name a JSON path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_json, json_problem, split_validation_error
from harmonia.provenance import Origin, Sampled

Json = dict[str, Any]


def make_tuple(value: msgspec.Struct, name: str) -> None:
    """Turn a list into a tuple, so that the value equals the one read back from its JSON."""
    given = getattr(value, name)
    if isinstance(given, str):
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"{name} must be a tuple, not the string {given!r}")
    if isinstance(given, list):
        msgspec.structs.force_setattr(value, name, tuple(given))  # pyright: ignore[reportUnknownArgumentType] -- checked by the renderer


class Role(StrEnum):
    """The author's role, in order of authority: if instructions conflict, the earlier role wins."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    # str's own hash, in C: messages are looked up by role.
    __hash__ = str.__hash__

    @property
    def authority(self) -> int:
        """How much the role's instructions weigh: 4 for system down to 0 for tool."""
        return len(INSTRUCTION_ORDER) - 1 - INSTRUCTION_ORDER.index(self)

    def outranks(self, other: Role) -> bool:
        """Whether this role's instructions win over the other's."""
        return self.authority > other.authority


INSTRUCTION_ORDER = tuple(Role)


class ReasoningEffort(StrEnum):
    """How long the model should think."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @classmethod
    def _missing_(cls, value: object) -> ReasoningEffort | None:
        # The reference writes "Low" in its JSON.
        found = value.lower() if isinstance(value, str) else None
        return next((effort for effort in cls if effort.value == found), None)


class Author(msgspec.Struct, frozen=True):
    """A role and, for a tool, its name (`functions.get_weather`); other roles may have a name too."""

    role: Role
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.role, Role):  # pyright: ignore[reportUnnecessaryIsInstance] -- Author("user") is allowed
            msgspec.structs.force_setattr(self, "role", _named(Role, self.role, "role"))


class ToolDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that the model may call: its name inside its namespace, and the JSON Schema of its argument."""

    name: str
    description: str | None = None
    parameters: Json | bool | None = None


class ToolNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tools under one name. Without tools, the model sees only the description."""

    name: str
    description: str | None = None
    tools: tuple[ToolDescription, ...] = ()

    def __post_init__(self) -> None:
        make_tuple(self, "tools")


class ChannelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The channels an assistant message may be on, and whether it must name one."""

    valid_channels: tuple[str, ...] = ("analysis", "commentary", "final")
    channel_required: bool = True

    def __post_init__(self) -> None:
        make_tuple(self, "valid_channels")


class ResponseFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A format for the answer. The prompt has its name and JSON Schema; a run enforces them."""

    name: str
    schema: Json | bool
    description: str | None = None


Namespaces = Mapping[str, ToolNamespace]


class _StructuredContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, weakref=True, tag_field="type"):
    def with_tools(self, *namespaces: ToolNamespace) -> Self:
        """The same with further namespaces, such as `BROWSER` and `PYTHON`."""
        present: Namespaces | None = getattr(self, "tools", None)
        added = {namespace.name: namespace for namespace in namespaces}
        return msgspec.structs.replace(self, tools={**(present or {}), **added})

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class SystemContent(_StructuredContent, frozen=True, tag="system_content"):
    """The content of a system message. None omits a part; a date is written only if given."""

    model_identity: str | None = "You are ChatGPT, a large language model trained by OpenAI."
    knowledge_cutoff: str | None = "2024-06"
    conversation_start_date: str | None = None
    reasoning_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM
    channel_config: ChannelConfig | None = ChannelConfig()
    tools: Namespaces | None = None

    def __post_init__(self) -> None:
        effort = self.reasoning_effort
        if effort is not None and not isinstance(effort, ReasoningEffort):  # pyright: ignore[reportUnnecessaryIsInstance] -- "high" is allowed
            effort = _named(ReasoningEffort, effort, "reasoning effort")
            msgspec.structs.force_setattr(self, "reasoning_effort", effort)


class DeveloperContent(_StructuredContent, frozen=True, tag="developer_content"):
    """The content of a developer message: instructions (the "system prompt"), tools and response formats."""

    instructions: str | None = None
    tools: Namespaces | None = None
    response_formats: tuple[ResponseFormat, ...] | None = None

    def __post_init__(self) -> None:
        make_tuple(self, "response_formats")

    @property
    def has_functions(self) -> bool:
        """Whether it declares function tools; then the system message has to say where calls to them go."""
        functions = (self.tools or {}).get("functions")
        return functions is not None and bool(functions.tools)

    def with_functions(self, *functions: ToolDescription) -> DeveloperContent:
        """The same with the namespace `functions` holding these tools."""
        return self.with_tools(ToolNamespace("functions", tools=functions))

    def with_response_formats(self, *formats: ResponseFormat) -> DeveloperContent:
        """The same with further response formats."""
        return msgspec.structs.replace(self, response_formats=(*(self.response_formats or ()), *formats))


Content = str | SystemContent | DeveloperContent
CONTENT_KINDS = (str, SystemContent, DeveloperContent)


_Named = TypeVar("_Named", Role, ReasoningEffort)


def _named(kind: type[_Named], value: object, what: str) -> _Named:
    try:
        return kind(value)
    except ValueError as error:
        problem = f"{value!r} is not a {what}; use one of {', '.join(kind)}"
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, problem) from error


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


T = TypeVar("T")


def content_to_dict(content: Content) -> Json:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    # A field that is None is written only if omitting it would mean the default.
    silent = {info.encode_name for info in msgspec.structs.fields(type(content)) if info.default is None}
    try:
        values: Json = msgspec.to_builtins(content)
    except (TypeError, RecursionError) as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"not a JSON value: {error}") from error
    return {name: value for name, value in values.items() if value is not None or name not in silent}


def convert(value: object, type_: type[T]) -> T:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        message, path = split_validation_error(error)
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, message, Position(path=path)) from error
    except RecursionError as error:
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, "the values are nested too deeply") from error


def decode(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(
            ErrorCode.MESSAGES_INVALID_JSON, json_problem(error, text), _position_of(error, text)
        ) from error


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
        put(self, "author", author if isinstance(author, Author) else Author(_named(Role, author, "role")))
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
        copy = self.replace()
        _set_answers(copy, call)
        return copy

    def with_origin(self, origin: Origin | None, sampled: Sampled | None = None, **changes: Any) -> Message:
        """A copy with this origin and changed fields; only a parser or a store may give the tokens it renders as."""
        copy = dataclasses.replace(self, **changes)
        _set_origin(copy, origin)
        _set_sampled(copy, sampled)
        return copy

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def role(self) -> Role:
        return self.author.role

    @property
    def name(self) -> str | None:
        return self.author.name

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
        return cls.from_dict(decode(text))


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
