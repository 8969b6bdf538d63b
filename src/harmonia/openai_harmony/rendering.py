"""From the drop-in's messages to tokens, by the one renderer.

The reference hands a conversation to its renderer as JSON, each time anew. Here a message is written out only if no
message that says the same was rendered before; since the objects can be changed in place, what they say is looked at
every time. Classes of the caller's with a `to_dict` of their own are taken by what they give.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any, Final, Literal

import msgspec

import harmonia.messages as native
from harmonia.errors import ErrorCode, InputError
from harmonia.openai_harmony.errors import refused
from harmonia.openai_harmony.models import Content, DeveloperContent, Message, Role, SystemContent, TextContent
from harmonia.renderer import Form, Renderer
from harmonia.renderer.memory import Memory
from harmonia.vocabulary import RETURN

_EXACT: Final = Form(exact_reference=True)
_RENDERER: Final = Renderer(cache_bytes=0)
_MEMORY: Final[Memory[list[int]]] = Memory(64_000_000)
_BYTES_PER_TOKEN: Final = 36
_BYTES_PER_MESSAGE: Final = 600

_NATIVE_ROLES: Final = {role.value: role for role in native.Role}
_PLAIN_CONTENTS: Final[frozenset[type[Content]]] = frozenset((TextContent, SystemContent, DeveloperContent))
_SAID: Final = (str, tuple)
_TEXT_OR_NOTHING: Final = (str, type(None))

# What a message says: its text, or its contents as JSON and whether functions are declared.
_Said = str | tuple[str, bool]
_Key = tuple[_Said, *tuple[Hashable, ...]]

Subject = Literal["message", "conversation"]


def render_conversation(
    messages: Sequence[Message], *, auto_drop_analysis: bool, is_training: bool = False
) -> list[int]:
    """The tokens of these messages, one after the other. In training, a last answer ends with `<|return|>`."""
    plain = [_as_plain(message, "conversation") for message in messages]
    has_functions = _declare_functions(plain)
    skip_until = _first_final(plain) if auto_drop_analysis else 0
    tokens: list[int] = []
    for index, message in enumerate(plain):
        if index >= skip_until or message.channel != "analysis":
            tokens += _message_tokens(message, has_functions=has_functions, subject="conversation")
    if is_training and plain and plain[-1].author.role == Role.ASSISTANT and plain[-1].channel == "final":
        tokens[-1] = RETURN
    return tokens


def render_message(message: Message, *, has_functions: bool) -> list[int]:
    """The tokens of one message."""
    return _message_tokens(_as_plain(message, "message"), has_functions=has_functions, subject="message").copy()


def _as_plain(message: Message, subject: Subject) -> Message:
    """The message itself; one of a class of the caller's is read again from the JSON that it gives."""
    if type(message) is Message and _PLAIN_CONTENTS.issuperset(map(type, message.content)):
        return message
    written = message.to_json()
    try:
        return Message.from_dict(json.loads(written))
    except (KeyError, ValueError) as error:
        raise ValueError(f"invalid {subject} JSON: {error}") from error


def _declare_functions(messages: Sequence[Message]) -> bool:
    for message in messages:
        for content in message.content:
            if isinstance(content, DeveloperContent) and content.tools:
                functions = content.tools.get("functions")
                if functions is not None and functions.tools:
                    return True
    return False


def _first_final(messages: Sequence[Message]) -> int:
    """Analysis before this message is dropped. The reference's rule: it looks at the first answer, not at the last."""
    for message in reversed(messages):
        if message.author.role == Role.ASSISTANT:
            if message.channel == "final":
                break
            return 0
    else:
        return 0
    return next(index for index, message in enumerate(messages) if message.channel == "final")


def _message_tokens(message: Message, *, has_functions: bool, subject: Subject) -> list[int]:
    key = _what_it_says(message, has_functions)
    try:
        tokens = _MEMORY.get(key)
    except TypeError:  # somebody assigned a list; the reference finds it in the JSON
        tokens = None
    if tokens is None:
        said = key[0]
        tokens = _render_new(message, said, has_functions=has_functions, subject=subject)
        length = len(said) if isinstance(said, str) else len(said[0])
        _MEMORY.put(key, tokens, _BYTES_PER_TOKEN * len(tokens) + length + _BYTES_PER_MESSAGE)
    return tokens


def _what_it_says(message: Message, has_functions: bool) -> _Key:
    contents, author = message.content, message.author
    if len(contents) == 1 and type(contents[0]) is TextContent:
        said: _Said = contents[0].text
    else:
        said = json.dumps([content.to_dict() for content in contents]), has_functions
    return said, author.role, author.name, message.channel, message.recipient, message.content_type


def _render_new(message: Message, said: _Said, *, has_functions: bool, subject: Subject) -> list[int]:
    try:
        author = message.author
        name = author.name
        role = _NATIVE_ROLES.get(author.role) if isinstance(author.role, str) else None  # pyright: ignore[reportUnnecessaryIsInstance] -- anything can be assigned
        header = message.channel, message.recipient, message.content_type
        if role is None or type(said) not in _SAID or any(type(it) not in _TEXT_OR_NOTHING for it in (name, *header)):
            # Something was assigned that does not belong there, or is more than it looks like.
            read = msgspec.json.decode(message.to_json(), type=_Message).to_native()
        else:
            contents = said if isinstance(said, str) else [it.to_native() for it in _CONTENTS.decode(said[0])]
            read = native.Message(native.Author(role, name), contents, *header)
        return _RENDERER.message_tokens(read, _EXACT, has_functions=has_functions)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"invalid {subject} JSON: {error}") from error
    except InputError as error:
        raise _as_reference(error, message, subject) from error


def _as_reference(error: InputError, message: Message, subject: Subject) -> Exception:
    if error.code is ErrorCode.RENDER_UNNAMED_TOOL:
        return refused(error, "Tools should have a name!")
    if error.code is ErrorCode.RENDER_MISPLACED_CONTENT:
        kind = "SystemContent" if error.message.startswith("SystemContent") else "DeveloperContent"
        role = kind.removesuffix("Content").lower()
        found = Role(message.author.role).name.capitalize()
        return refused(error, f"{kind} may only appear in {role} messages, found in {found}")
    if error.code is ErrorCode.VOCABULARY_LONE_SURROGATE:
        return ValueError(f"invalid {subject} JSON: {error.message}")
    return refused(error)


# ── what the reference's renderer takes ─────────────────────────────────────────────────────────────────────────────


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


class _System(msgspec.Struct, tag_field="type", tag="system_content"):
    model_identity: str | None = None
    reasoning_effort: Literal["Low", "Medium", "High"] | None = None
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
            None if self.reasoning_effort is None else native.ReasoningEffort(self.reasoning_effort),
            channels and native.ChannelConfig(tuple(channels.valid_channels), channels.channel_required),
            _namespaces(self.tools),
        )


class _Developer(msgspec.Struct, tag_field="type", tag="developer_content"):
    instructions: str | None = None
    tools: _Namespaces | None = None

    def to_native(self) -> native.DeveloperContent:
        return native.DeveloperContent(self.instructions, _namespaces(self.tools))


_CONTENTS: Final = msgspec.json.Decoder(list[_Text | _System | _Developer])


class _Message(msgspec.Struct):
    role: native.Role
    content: str | list[_Text | _System | _Developer]
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None

    def to_native(self) -> native.Message:
        contents = self.content if isinstance(self.content, str) else [content.to_native() for content in self.content]
        author = native.Author(self.role, self.name)
        return native.Message(author, contents, self.channel, self.recipient, self.content_type)
