"""Tools as Chat Completions and Responses declare them.

    functions.get_weather   {"name": "get_weather", "parameters": …}
    browser.search          {"name": "browser.search", …}: other namespaces stay in front of the name
    python                  a custom tool: it takes text, and has no schema

A list of tools has no place for the description of a namespace that has tools.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, cast

from harmonia.errors import ErrorCode
from harmonia.interchange.conversion import Report
from harmonia.interchange.documents import Object, list_at, object_at, refuse
from harmonia.interchange.message_defaults import bare_name, full_name
from harmonia.messages import Json, Namespaces, ToolDescription, ToolNamespace
from harmonia.tool_definitions import ToolDefinition, read_definition, read_namespace, unwrap
from harmonia.tool_definitions.reader import SCHEMA_FIELDS

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
            definition: Json = {"name": bare_name(f"{namespace.name}.{tool.name}")}
            if tool.description is not None:
                definition["description"] = tool.description
            if tool.parameters is not None:
                definition["parameters"] = tool.parameters
            yield "function", definition
        if not namespace.tools:
            definition = {"name": namespace.name}
            if namespace.description is not None:
                definition["description"] = namespace.description
            yield "custom", definition


def read_tools(value: object, path: str, report: Report) -> Namespaces:
    """Namespaces from a list of definitions in any spelling, or just names.

    Tools that the server runs itself, such as `web_search`, have no definition to keep, and are reported.
    """
    found: dict[str, ToolNamespace] = {}
    for at, given in enumerate(list_at(value, path)):
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
