"""The values that messages are made of: roles, authors, tools, and the contents of system and developer messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from harmonia.errors import ErrorCode, InputError

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
            msgspec.structs.force_setattr(self, "role", role_named(self.role))


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


class SystemContent(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, weakref=True, tag_field="type", tag="system_content"
):
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
            msgspec.structs.force_setattr(self, "reasoning_effort", effort_named(effort))

    def with_tools(self, *namespaces: ToolNamespace) -> SystemContent:
        """The same with further namespaces, such as `BROWSER` and `PYTHON`."""
        return msgspec.structs.replace(self, tools=with_namespaces(self.tools, namespaces))

    def replace(self, **changes: Any) -> SystemContent:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class DeveloperContent(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, weakref=True, tag_field="type", tag="developer_content"
):
    """The content of a developer message: instructions (the "system prompt"), tools and response formats."""

    instructions: str | None = None
    tools: Namespaces | None = None
    response_formats: tuple[ResponseFormat, ...] | None = None

    def __post_init__(self) -> None:
        make_tuple(self, "response_formats")

    def with_functions(self, *functions: ToolDescription) -> DeveloperContent:
        """The same with the namespace `functions` holding these tools."""
        return self.with_tools(ToolNamespace("functions", tools=functions))

    def with_tools(self, *namespaces: ToolNamespace) -> DeveloperContent:
        """The same with further namespaces."""
        return msgspec.structs.replace(self, tools=with_namespaces(self.tools, namespaces))

    def with_response_formats(self, *formats: ResponseFormat) -> DeveloperContent:
        """The same with further response formats."""
        return msgspec.structs.replace(self, response_formats=(*(self.response_formats or ()), *formats))

    def replace(self, **changes: Any) -> DeveloperContent:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


Content = str | SystemContent | DeveloperContent
CONTENT_KINDS = (str, SystemContent, DeveloperContent)


def role_named(value: object) -> Role:
    try:
        return Role(value)
    except ValueError as error:
        roles = ", ".join(Role)
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, f"{value!r} is not a role; the roles are {roles}") from error


def effort_named(value: object) -> ReasoningEffort:
    try:
        return ReasoningEffort(value)
    except ValueError as error:
        raise InputError(
            ErrorCode.MESSAGES_INVALID_VALUE, f"{value!r} is not a reasoning effort; use low, medium or high"
        ) from error


def with_namespaces(present: Namespaces | None, added: Iterable[ToolNamespace]) -> Namespaces:
    return {**(present or {}), **{namespace.name: namespace for namespace in added}}
