"""Renders the drop-in's messages with the one renderer.

The reference passes the whole conversation to its renderer in Rust as JSON, every time, and that refuses invalid
values. Here the fields are read from the objects, with the same refusals, and a message is rendered only if no equal
message was rendered before; since the objects can be changed in place, their contents are compared every time. Only
unusual values go through JSON; subclasses with their own `to_dict` are read from its result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import msgspec

import harmonia.messages as native
from harmonia.errors import ErrorCode, InputError
from harmonia.history.preparation import first_final
from harmonia.openai_harmony.models import (
    Content,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    TextContent,
    refused,
)
from harmonia.renderer import Form, Renderer
from harmonia.renderer.renderer import Memory
from harmonia.vocabulary import RETURN


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str

    def to_native(self) -> str:
        return self.text


class _Tool(msgspec.Struct):
    name: str
    description: str
    parameters: Any = None


class _Namespace(msgspec.Struct):
    name: str
    tools: list[_Tool]
    description: str | None = None

    def to_native(self) -> native.ToolNamespace:
        tools = tuple(native.ToolDescription(tool.name, tool.description, tool.parameters) for tool in self.tools)
        return native.ToolNamespace(self.name, self.description, tools)


_Namespaces = dict[str, _Namespace]


def _namespaces(namespaces: _Namespaces | None) -> dict[str, native.ToolNamespace] | None:
    return None if namespaces is None else {name: found.to_native() for name, found in namespaces.items()}


class _Channels(msgspec.Struct):
    valid_channels: list[str]
    channel_required: bool


class System(msgspec.Struct):
    model_identity: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    conversation_start_date: str | None = None
    knowledge_cutoff: str | None = None
    channel_config: _Channels | None = None
    tools: _Namespaces | None = None

    def to_native(self) -> native.SystemContent:
        channels = self.channel_config
        return native.SystemContent(
            self.model_identity,
            self.knowledge_cutoff,
            self.conversation_start_date,
            None if self.reasoning_effort is None else native.ReasoningEffort(self.reasoning_effort.value),
            channels and native.ChannelConfig(tuple(channels.valid_channels), channels.channel_required),
            _namespaces(self.tools),
        )


class Developer(msgspec.Struct):
    instructions: str | None = None
    tools: _Namespaces | None = None

    def to_native(self) -> native.DeveloperContent:
        return native.DeveloperContent(self.instructions, _namespaces(self.tools))


# The same in JSON, with a type field. Objects have no such field, and adding one to them takes time.
class _SystemJson(System, tag_field="type", tag="system_content"): ...


class _DeveloperJson(Developer, tag_field="type", tag="developer_content"): ...


class _Message(msgspec.Struct):
    role: native.Role
    content: str | list[_Text | _SystemJson | _DeveloperJson]
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None

    def to_native(self) -> native.Message:
        contents = self.content if isinstance(self.content, str) else [content.to_native() for content in self.content]
        author = native.Author(self.role, self.name)
        return native.Message(author, contents, self.channel, self.recipient, self.content_type)


_DECODERS: Final = {kind: msgspec.json.Decoder(kind) for kind in (System, Developer)}
_MESSAGE: Final = msgspec.json.Decoder(_Message)


def read_fields(content: Content) -> System | Developer | None:
    """The validated fields of a content; None if one of them has the wrong type."""
    try:
        return msgspec.convert(
            content, System if isinstance(content, SystemContent) else Developer, from_attributes=True
        )
    except msgspec.ValidationError:
        return None


def pack(read: System | Developer) -> bytes | None:
    """Everything that the text of a content depends on; None for values that cannot be packed."""
    try:
        return (b"s" if read.__class__ is System else b"d") + msgspec.msgpack.encode(read)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def as_native(read: System | Developer) -> native.SystemContent | native.DeveloperContent | None:
    """The content as Harmonia's; None if its JSON would differ or fail, as that of a date or a number as a key."""
    if read.tools:
        try:
            written = _DECODERS[read.__class__].decode(msgspec.json.encode(read))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            return None
        if written != read:
            return None
        read = written
    return read.to_native()


def read_message(written: str) -> native.Message:
    """A message as JSON."""
    return _MESSAGE.decode(written).to_native()


_EXACT: Final = Form(exact_reference=True)
_RENDERER: Final = Renderer(cache_bytes=0)
_MEMORY: Final[Memory[list[int]]] = Memory(64_000_000)
_BYTES_PER_TOKEN: Final = 36
_BYTES_PER_MESSAGE: Final = 600

_UNNAMED: Final = {role.value: native.Author(role) for role in native.Role}
_PLAIN_CONTENTS: Final[frozenset[type[Content]]] = frozenset((TextContent, SystemContent, DeveloperContent))
_NATIVE_CONTENTS: Final = (str, native.SystemContent, native.DeveloperContent)
_TEXT_OR_NOTHING: Final = {str, type(None)}

Subject = Literal["message", "conversation"]


def render_conversation(
    messages: Sequence[Message], *, auto_drop_analysis: bool, is_training: bool = False
) -> list[int]:
    """The tokens of these messages, one after the other. In training, a last answer ends with `<|return|>`."""
    plain = [_as_plain(message, "conversation") for message in messages]
    has_functions = _declare_functions(plain)
    skip_until = first_final([(each.author.role, each.channel) for each in plain]) if auto_drop_analysis else 0
    tokens: list[int] = []
    for index, message in enumerate(plain):
        if index >= skip_until or message.channel != "analysis":
            try:
                tokens += _message_tokens(message, has_functions=has_functions, subject="conversation")
            except ValueError as error:
                raise ValueError(f"{error} (in messages[{index}])") from error
    if is_training and plain and plain[-1].author.role == Role.ASSISTANT and plain[-1].channel == "final":
        tokens[-1] = RETURN
    return tokens


def render_message(message: Message, *, has_functions: bool) -> list[int]:
    """The tokens of one message."""
    return _message_tokens(_as_plain(message, "message"), has_functions=has_functions, subject="message").copy()


def _as_plain(message: Message, subject: Subject) -> Message:
    """The message itself; a subclass is read again from its own JSON."""
    if type(message) is Message and _PLAIN_CONTENTS.issuperset(map(type, message.content)):
        return message
    written = message.to_json()
    try:
        return Message.from_dict(json.loads(written))
    except (KeyError, ValueError) as error:
        raise ValueError(f"invalid {subject} JSON: {error}") from error


def _declare_functions(messages: Sequence[Message]) -> bool:
    developers = (each for message in messages for each in message.content if isinstance(each, DeveloperContent))
    functions = (each.tools.get("functions") for each in developers if isinstance(each.tools, dict))
    return any(namespace is not None and namespace.tools for namespace in functions)


def _message_tokens(message: Message, *, has_functions: bool, subject: Subject) -> list[int]:
    said, read = _what_it_says(message)
    author = message.author
    header = author.role, author.name, message.channel, message.recipient, message.content_type
    key = said, header if isinstance(said, str) else (*header, has_functions)
    try:
        tokens = _MEMORY.get(key)
    except TypeError:  # an unhashable value was assigned; the reference finds it in the JSON
        tokens = None
    if tokens is None:
        tokens = _render_new(message, said, read, has_functions=has_functions, subject=subject)
        _MEMORY.put(key, tokens, _BYTES_PER_TOKEN * len(tokens) + len(said) + _BYTES_PER_MESSAGE)
    return tokens


def _what_it_says(message: Message) -> tuple[str | bytes, System | Developer | None]:
    """The text of a message; or its contents, packed or as JSON, and the fields read for that."""
    contents = message.content
    if len(contents) == 1:
        content = contents[0]
        if type(content) is TextContent:
            return content.text, None
        read = read_fields(content)
        packed = None if read is None else pack(read)
        if packed is not None:
            return packed, read
    return json.dumps([content.to_dict() for content in contents]).encode(), None


def _render_new(
    message: Message, said: str | bytes, read: System | Developer | None, *, has_functions: bool, subject: Subject
) -> list[int]:
    def render(message: native.Message) -> list[int]:
        return _RENDERER.message_tokens(message, _EXACT, has_functions=has_functions)

    try:
        plain = _as_plain_native(message, said if read is None else as_native(read))
        try:
            return render(plain or read_message(message.to_json()))
        except InputError as error:
            if plain is None or error.code is not ErrorCode.VOCABULARY_LONE_SURROGATE:
                raise
            return render(read_message(message.to_json()))  # in JSON, two halves of a pair are one character
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"invalid {subject} JSON: {error}") from error
    except InputError as error:
        raise _as_reference(error, message, subject) from error


def _as_plain_native(message: Message, content: object) -> native.Message | None:
    """The fast path for nearly all messages; None if only the JSON shows what the reference would see."""
    role, name = message.author.role, message.author.name
    channel, recipient, content_type = message.channel, message.recipient, message.content_type
    types = {type(name), type(channel), type(recipient), type(content_type)}
    # Any value may have been assigned.
    if type(role) is not Role or not types <= _TEXT_OR_NOTHING or type(content) not in _NATIVE_CONTENTS:
        return None
    author = _UNNAMED[role] if name is None else native.Author(_UNNAMED[role].role, name)
    return native.Message(author, cast("native.Content", content), channel, recipient, content_type)


def _as_reference(error: InputError, message: Message, subject: Subject) -> Exception:
    if error.code is ErrorCode.RENDER_UNNAMED_TOOL:
        return refused(error, "Tools should have a name!")
    if error.code is ErrorCode.RENDER_MISPLACED_CONTENT:
        spoken = message.author.role
        own = {SystemContent: Role.SYSTEM, DeveloperContent: Role.DEVELOPER}
        found = {type(content) for content in message.content}
        kind, role = next((kind, role) for kind, role in own.items() if role != spoken and kind in found)
        name = Role(spoken).name.capitalize()
        return refused(error, f"{kind.__name__} may only appear in {role.value} messages, found in {name}")
    if error.code in (ErrorCode.VOCABULARY_LONE_SURROGATE, ErrorCode.SCHEMA_TOO_DEEP, ErrorCode.SCHEMA_INVALID):
        return ValueError(f"invalid {subject} JSON: {error.message}")
    return refused(error)
