"""The models and errors of openai-harmony. Its models are pydantic's, and can be changed in place.

The fields, defaults and JSON are the reference's, because programs and stored data rely on them. Two things are
mended: `model_dump` writes the contents of a message (the reference writes `{}` for each), and validation reads them
back. The methods that begin with `with_` change the object and return it. Classes have comments in place of docstrings,
which would stand in their JSON Schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

try:
    from pydantic import BaseModel, BeforeValidator, Field, SerializeAsAny, ValidationInfo
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "harmonia.openai_harmony needs pydantic: install harmonia with its extra [dropin], or pip install pydantic",
        name=error.name,
    ) from error

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.messages import ToolNamespace
from harmonia.messages.builtin_tools import BROWSER, PYTHON

T = TypeVar("T")
Json = dict[str, Any]


# Who speaks.
class Role(str, Enum):  # noqa: UP042 -- str() of it is "Role.USER", as in the reference
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> Role:
        raise ValueError(f"Unknown role: {value!r}")


# How long the model should think.
class ReasoningEffort(str, Enum):  # noqa: UP042 -- likewise
    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


# A role and, for a tool, its name.
class Author(BaseModel):
    role: Role
    name: str | None = None

    @classmethod
    def new(cls, role: Role, name: str) -> Author:
        return cls(role=role, name=name)


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────────────


# The base of all contents.
class Content(BaseModel):
    def to_dict(self) -> Json:
        raise NotImplementedError


# Plain text.
class TextContent(Content):
    text: str

    def to_dict(self) -> Json:
        return {"type": "text", "text": self.text}


# A function that the model may call, and the JSON Schema of its argument.
class ToolDescription(BaseModel):
    name: str
    description: str
    parameters: dict | None = None  # pyright: ignore[reportMissingTypeArgument, reportUnknownVariableType] -- the reference's annotation, so that its JSON Schema is the same

    @classmethod
    def new(cls, name: str, description: str, parameters: Json | None = None) -> ToolDescription:
        return cls(name=name, description=description, parameters=parameters)


# The channels an assistant message may be on, and whether it must name one.
class ChannelConfig(BaseModel):
    valid_channels: list[str]
    channel_required: bool

    @classmethod
    def require_channels(cls, channels: list[str]) -> ChannelConfig:
        return cls(valid_channels=channels, channel_required=True)


# Tools under one name.
class ToolNamespaceConfig(BaseModel):
    name: str
    description: str | None = None
    tools: list[ToolDescription]

    @staticmethod
    def browser() -> ToolNamespaceConfig:
        """The built-in browser."""
        return _namespace(BROWSER)

    @staticmethod
    def python() -> ToolNamespaceConfig:
        """The built-in Python."""
        return _namespace(PYTHON)


def _namespace(namespace: ToolNamespace) -> ToolNamespaceConfig:
    # Copied through JSON, because the original is shared.
    tools = [
        ToolDescription.new(tool.name, tool.description or "", json.loads(json.dumps(tool.parameters)))
        for tool in namespace.tools
    ]
    return ToolNamespaceConfig(name=namespace.name, description=namespace.description, tools=tools)


# The content of a system message. None omits a part.
class SystemContent(Content):
    model_identity: str | None = "You are ChatGPT, a large language model trained by OpenAI."
    reasoning_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM
    conversation_start_date: str | None = None
    knowledge_cutoff: str | None = "2024-06"
    channel_config: ChannelConfig | None = Field(
        default_factory=lambda: ChannelConfig.require_channels(["analysis", "commentary", "final"])
    )
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> SystemContent:
        return cls()

    def with_model_identity(self, model_identity: str) -> SystemContent:
        self.model_identity = model_identity
        return self

    def with_reasoning_effort(self, reasoning_effort: ReasoningEffort) -> SystemContent:
        self.reasoning_effort = reasoning_effort
        return self

    def with_conversation_start_date(self, conversation_start_date: str) -> SystemContent:
        self.conversation_start_date = conversation_start_date
        return self

    def with_knowledge_cutoff(self, knowledge_cutoff: str) -> SystemContent:
        self.knowledge_cutoff = knowledge_cutoff
        return self

    def with_channel_config(self, channel_config: ChannelConfig) -> SystemContent:
        self.channel_config = channel_config
        return self

    def with_required_channels(self, channels: list[str]) -> SystemContent:
        self.channel_config = ChannelConfig.require_channels(channels)
        return self

    def with_tools(self, ns_config: ToolNamespaceConfig) -> SystemContent:
        self.tools = {} if self.tools is None else self.tools
        self.tools[ns_config.name] = ns_config
        return self

    def with_browser_tool(self) -> SystemContent:
        return self.with_tools(ToolNamespaceConfig.browser())

    def with_python_tool(self) -> SystemContent:
        return self.with_tools(ToolNamespaceConfig.python())

    def to_dict(self) -> Json:
        return {**self.model_dump(exclude_none=True), "type": "system_content"}

    @classmethod
    def from_dict(cls, raw: Json) -> SystemContent:
        return cls(**raw)


# The content of a developer message: instructions and tools.
class DeveloperContent(Content):
    instructions: str | None = None
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> DeveloperContent:
        return cls()

    def with_instructions(self, instructions: str) -> DeveloperContent:
        self.instructions = instructions
        return self

    def with_tools(self, ns_config: ToolNamespaceConfig) -> DeveloperContent:
        self.tools = {} if self.tools is None else self.tools
        self.tools[ns_config.name] = ns_config
        return self

    def with_function_tools(self, tools: Sequence[ToolDescription]) -> DeveloperContent:
        return self.with_tools(ToolNamespaceConfig(name="functions", description=None, tools=list(tools)))

    def to_dict(self) -> Json:
        return {**self.model_dump(exclude_none=True), "type": "developer_content"}

    @classmethod
    def from_dict(cls, raw: Json) -> DeveloperContent:
        return cls(**raw)


_KINDS: dict[str, type[Content]] = {
    "text": TextContent,
    "system_content": SystemContent,
    "developer_content": DeveloperContent,
}
_USUAL_KINDS: dict[Role, type[Content]] = {Role.SYSTEM: SystemContent, Role.DEVELOPER: DeveloperContent}


def _read_content(value: object, info: ValidationInfo) -> object:
    """A content from the output of `model_dump` or `to_dict`; anything else is left to pydantic."""
    if not isinstance(value, dict):
        return value
    fields = cast("Json", value)
    kind = _kind(fields) or _untyped_kind(fields, info.data.get("author"))
    return fields if kind is None else kind(**fields)


def _kind(fields: Json) -> type[Content] | None:
    name = fields.get("type")
    return _KINDS.get(name) if isinstance(name, str) else None


def _untyped_kind(fields: Json, author: Author | None) -> type[Content] | None:
    """`model_dump` writes no type. If its fields do not show it either, the author's role does."""
    usual = None if author is None else _USUAL_KINDS.get(author.role)
    kinds = ([usual] if usual else []) + (list(_KINDS.values()) if fields else [])
    return next((kind for kind in kinds if fields.keys() <= kind.model_fields.keys()), None)


if TYPE_CHECKING:
    _AnyContent = Content
else:
    _AnyContent = Annotated[Content, BeforeValidator(_read_content), SerializeAsAny()]


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


# One message: who speaks, to whom, on which channel, and what.
class Message(BaseModel):
    author: Author
    content: list[_AnyContent] = Field(default_factory=list[Content])
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None

    @classmethod
    def from_author_and_content(cls, author: Author, content: str | Content) -> Message:
        return cls(author=author, content=[_as_content(content)])

    @classmethod
    def from_role_and_content(cls, role: Role, content: str | Content) -> Message:
        return cls.from_author_and_content(Author(role=role), content)

    @classmethod
    def from_role_and_contents(cls, role: Role, contents: Sequence[Content]) -> Message:
        return cls(author=Author(role=role), content=list(contents))

    def adding_content(self, content: str | Content) -> Message:
        self.content.append(_as_content(content))
        return self

    def with_channel(self, channel: str) -> Message:
        self.channel = channel
        return self

    def with_recipient(self, recipient: str) -> Message:
        self.recipient = recipient
        return self

    def with_content_type(self, content_type: str) -> Message:
        self.content_type = content_type
        return self

    def to_dict(self) -> Json:
        out: Json = {**self.author.model_dump(), "content": [content.to_dict() for content in self.content]}
        for name in ("channel", "recipient", "content_type"):
            value = getattr(self, name)
            if value is not None:
                out[name] = value
        return out

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Json) -> Message:
        author = Author(role=Role(data["role"]), name=data.get("name"))
        listed = data["content"]
        if isinstance(listed, str):
            listed = [{"type": "text", "text": listed}]
        message = cls(author=author, content=[_content_from_dict(raw) for raw in listed])
        message.channel = data.get("channel")
        message.recipient = data.get("recipient")
        message.content_type = data.get("content_type")
        return message


def _as_content(content: str | Content) -> Content:
    return TextContent(text=content) if isinstance(content, str) else content


def _content_from_dict(raw: Json) -> Content:
    kind = _kind(raw)
    if kind is None:
        raise ValueError(f"Unknown content variant: {raw}")
    return kind(**raw)


# Messages in order.
class Conversation(BaseModel):
    messages: list[Message] = Field(default_factory=list[Message])

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Conversation:
        return cls(messages=list(messages))

    def __iter__(self) -> Iterator[Message]:  # pyright: ignore[reportIncompatibleMethodOverride] -- as the reference does
        return iter(self.messages)

    def to_dict(self) -> Json:
        return {"messages": [message.to_dict() for message in self.messages]}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, payload: str) -> Conversation:
        return cls(messages=[Message.from_dict(message) for message in json.loads(payload)["messages"]])


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────


# How a conversation is rendered.
class RenderConversationConfig(BaseModel):
    auto_drop_analysis: bool = True


# What rendering a single message needs to know about its conversation.
class RenderOptions(BaseModel):
    conversation_has_function_tools: bool = False


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class HarmonyError(RuntimeError):
    """What openai-harmony raises, in the same words. `code` and `at` are Harmonia's, if known."""

    def __init__(self, *args: object, code: ErrorCode | None = None, at: Position | None = None) -> None:
        super().__init__(*args)
        self.code = code
        self.at = at


def refused(error: StreamError | InputError, message: str | None = None) -> HarmonyError:
    """One of our errors as the reference's error."""
    return HarmonyError(error.message if message is None else message, code=error.code, at=error.at)


def raise_disallowed_special_token(token: str) -> None:
    """Raise for text that spells a special token which is not allowed."""
    raise HarmonyError(
        f"Encountered text corresponding to disallowed special token {token!r}.\n"
        "If you want this text to be encoded as a special token, pass it to `allowed_special`, "
        f"e.g. `allowed_special={{'{token}', ...}}`.\n"
        "If you want this text to be encoded as normal text, disable the check for this token by passing "
        f"`disallowed_special=(enc.special_tokens_set - {{'{token}'}})`.\n"
        "To disable this check for all special tokens, pass `disallowed_special=()`.\n"
    )
