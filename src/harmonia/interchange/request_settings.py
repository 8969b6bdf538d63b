"""Tools, the reasoning effort and the form of the answer, which a request has beside its messages.

In a conversation these are in the system message and in the first developer message. Reading puts the effort into a
system message at the very front, and the rest into the first message, if that has developer instructions; otherwise
into a new developer message in front of it. Writing collects them from all messages, and reports what will come back
elsewhere.

The APIs declare tools like this. Their lists have no place for the description of a namespace that has tools.

    functions.get_weather   {"name": "get_weather", "parameters": …}
    browser.search          {"name": "browser.search", …}: other namespaces stay in front of the name
    python                  a custom tool: it takes text, and has no schema
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from harmonia.errors import ErrorCode
from harmonia.interchange import message_defaults
from harmonia.interchange.conversion import Object, Report, list_at, object_at, refuse
from harmonia.interchange.message_defaults import bare_name, full_name
from harmonia.messages import (
    Conversation,
    DeveloperContent,
    Json,
    Message,
    Namespaces,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.tool_definitions import (
    SCHEMA_FIELDS,
    ToolDefinition,
    read_definition,
    read_namespace,
    read_response_format,
    unwrap,
    unwrap_format,
)

_CODE: Final = ErrorCode.INTERCHANGE_INVALID_VALUE
_DESCRIBED: Final = ("type", "name", "description")
_NOT_KEPT: Final = "not part of a tool's description"


def chat_tools(namespaces: Iterable[ToolNamespace]) -> list[Json]:
    """The `tools` of a Chat Completions request."""
    return [{"type": kind, kind: definition} for kind, definition in _definitions(namespaces)]


def responses_tools(namespaces: Iterable[ToolNamespace]) -> list[Json]:
    """The `tools` of a Responses request."""
    return [{"type": kind, **definition} for kind, definition in _definitions(namespaces)]


def _definitions(namespaces: Iterable[ToolNamespace]) -> Iterable[tuple[str, Json]]:
    for namespace in namespaces:
        for tool in namespace.tools:
            name = bare_name(f"{namespace.name}.{tool.name}")
            yield "function", _given(name=name, description=tool.description, parameters=tool.parameters)
        if not namespace.tools:
            yield "custom", _given(name=namespace.name, description=namespace.description)


def _given(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def read_tools(value: object, path: str, report: Report) -> Namespaces:
    """Namespaces from a list of definitions in any spelling, or just names; none for null.

    Tools that the server runs itself, such as `web_search`, have no definition to keep, and are reported.
    """
    found: dict[str, ToolNamespace] = {}
    for at, given in enumerate([] if value is None else list_at(value, path)):
        namespace = _read_tool(given, f"{path}[{at}]", report)
        if namespace is not None:
            _add(found, namespace)
    return found


def _read_tool(given: object, path: str, report: Report) -> ToolNamespace | None:
    if isinstance(given, str):
        given = {"type": "function", "name": given}
    kind, fields, where = unwrap(object_at(given, path), path, _CODE)
    match kind:
        case "function":
            namespace, _, name = full_name(_name_in(fields, where)).partition(".")
            if name:
                tool = _read_description(given, path, report)
                return ToolNamespace(namespace, tools=(ToolDescription(name, tool.description, tool.parameters),))
            why = "a tool without a namespace has no schema"  # python, declared as a function
        case "custom":
            why = _NOT_KEPT
        case "namespace":
            name, description, tools = read_namespace(given, path, _CODE)
            described = (_read_description(each, f"{path}.tools[{at}]", report) for at, each in enumerate(tools))
            return ToolNamespace(name, description, tuple(described))
        case _:
            report.lose(path, "tool", f"{kind}: the server's own tool, which has no definition to keep")
            return None
    tool = _read_definition(given, _DESCRIBED, why, path, report)
    return ToolNamespace(tool.name, tool.description)


def _read_description(given: object, path: str, report: Report) -> ToolDescription:
    tool = _read_definition(given, (*_DESCRIBED, *SCHEMA_FIELDS), _NOT_KEPT, path, report)
    return ToolDescription(tool.name, tool.description, tool.parameters)


def _read_definition(given: object, kept: Collection[str], why: str, path: str, report: Report) -> ToolDefinition:
    """A definition; what of its fields is not kept is reported."""
    kind, fields, where = unwrap(object_at(given, path), path, _CODE)
    _name_in(fields, where)
    if where != path:
        report.lose_others(cast("Object", given), ("type", kind), path, _NOT_KEPT)
    report.lose_others(fields, kept, where, why)
    return read_definition(given, path, code=_CODE)


def _name_in(fields: Object, path: str) -> str:
    if fields.get("name") is None:
        refuse("a tool needs a name", path)
    return str(fields["name"])


def _add(found: dict[str, ToolNamespace], added: ToolNamespace) -> None:
    present = found.get(added.name)
    if present is not None:
        description = present.description if added.description is None else added.description
        added = ToolNamespace(added.name, description, (*present.tools, *added.tools))
    found[added.name] = added


@dataclass(frozen=True, slots=True)
class Settings:
    """What stands beside the messages."""

    effort: ReasoningEffort | None = None
    namespaces: Namespaces | None = None
    response_format: ResponseFormat | None = None


NO_SETTINGS = Settings()


def gather(conversation: Conversation) -> Settings:
    """The settings of a conversation: the effort of a system message in front, the tools of all messages."""
    found: dict[str, ToolNamespace] = {}
    response_format = None
    for message in conversation:
        for content in message.contents:
            if isinstance(content, str):
                continue
            for namespace in (content.tools or {}).values():
                _add(found, namespace)
            if isinstance(content, DeveloperContent) and content.response_formats and response_format is None:
                response_format = content.response_formats[0]
    first = leading_system(conversation)
    return Settings(first.reasoning_effort if first else None, found or None, response_format)


def leading_system(conversation: Conversation) -> SystemContent | None:
    content = conversation[0].content if len(conversation) else None
    return content if isinstance(content, SystemContent) and conversation[0].role is Role.SYSTEM else None


def instructions_of(message: Message) -> message_defaults.Texts | None:
    """What a developer message says beside its settings; None where it says nothing."""
    contents = [each.instructions if isinstance(each, DeveloperContent) else each for each in message.contents]
    texts = tuple(each for each in contents if isinstance(each, str))
    return texts[0] if len(texts) == 1 else texts or None


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_effort(value: object, path: str, report: Report) -> ReasoningEffort | None:
    """low, medium or high. Others, such as minimal, are not Harmony's."""
    if value is None:
        return None
    try:
        return ReasoningEffort(value)
    except ValueError:
        report.lose(path, "reasoning_effort", f"Harmony has the efforts low, medium and high, not {value}")
        return None


def read_format(value: object, path: str, report: Report) -> ResponseFormat | None:
    """A response format: `{"type": "json_schema", …}`, nested under `json_schema` or flat."""
    if value is None:
        return None
    given = object_at(value, path)
    kind = given.get("type", "text")
    if kind != "json_schema":
        if kind != "text":
            report.lose(path, "response_format", f"a format of type {kind} has no schema to keep")
        return None
    fields, where = unwrap_format(given, path)
    report.lose_others(fields, ("type", "name", "schema", "description"), where, "not part of a response format")
    return read_response_format(given, path, code=ErrorCode.INTERCHANGE_INVALID_VALUE, defaults={"schema": {}})


def write_format(response_format: ResponseFormat) -> Json:
    """The flat form, without its type."""
    format_ = response_format
    return _given(name=format_.name, schema=format_.schema, description=format_.description)
