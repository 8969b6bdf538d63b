"""The drop-in's contents as validated values, between pydantic and Harmonia's own contents.

The reference writes everything as JSON and reads it again in Rust, which refuses invalid values. Here the fields are
read from the objects, with the same refusals; only unusual values go through JSON.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

import harmonia.messages as native
from harmonia.openai_harmony.models import Content, ReasoningEffort, SystemContent


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
    """The content as Harmonia's; None if its JSON would differ or fail: a schema may contain a date, or a number as a
    key."""
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
