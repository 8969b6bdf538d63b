"""Tools as Chat Completions and Responses declare them.

    functions.get_weather   {"name": "get_weather", "parameters": …}
    browser.search          {"name": "browser.search", …}: other namespaces stay in front of the name
    python                  a custom tool: it takes text, and has no schema

A list of tools has no place for the description of a namespace that has tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from harmonia.interchange.documents import Object, Report, list_at, object_at, optional_text, refuse
from harmonia.interchange.message_defaults import bare_name, full_name
from harmonia.messages import Json, Namespaces, ToolDescription, ToolNamespace

_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")
_DEFINITION: Final = ("type", "name", "description", *_SCHEMAS)


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
    """Namespaces from a list of definitions: nested under `function` or flat, MCP's `inputSchema`, or just names.

    Tools that the server runs itself, such as `web_search`, have no definition to keep, and are reported.
    """
    found: dict[str, ToolNamespace] = {}
    for at, given in enumerate(list_at(value, path)):
        _read_tool(given, f"{path}[{at}]", report, found)
    return found


def _read_tool(given: object, path: str, report: Report, found: dict[str, ToolNamespace]) -> None:
    if isinstance(given, str):
        given = {"type": "function", "name": given}
    tool = object_at(given, path)
    kind = tool.get("type", "function")
    match kind:
        case "function" | "custom":
            _read_definition(tool, str(kind), path, report, found)
        case "namespace":
            name = _name_of(tool, path)
            tools = [
                _read_description(object_at(each, f"{path}.tools[{at}]"), None, f"{path}.tools[{at}]", report)
                for at, each in enumerate(list_at(tool.get("tools") or [], f"{path}.tools"))
            ]
            _add(found, ToolNamespace(name, _description(tool, path), tuple(tools)))
        case _:
            report.lose(path, "tool", f"{kind}: the server's own tool, which has no definition to keep")


def _read_definition(tool: Object, kind: str, path: str, report: Report, found: dict[str, ToolNamespace]) -> None:
    nested = tool.get(kind)
    if nested is not None:
        report.lose_others(tool, ("type", kind), path, "no part of a tool's description")
        tool, path = object_at(nested, f"{path}.{kind}"), f"{path}.{kind}"
    if kind == "custom":
        report.lose_others(tool, ("type", "name", "description"), path, "no part of a tool's description")
        name = _name_of(tool, path)
        _add(found, ToolNamespace(name, _description(tool, path)))
        return
    namespace, _, name = full_name(_name_of(tool, path)).partition(".")
    if not name:  # python, declared as a function
        report.lose_others(tool, ("type", "name", "description"), path, "a tool without a namespace has no schema")
        _add(found, ToolNamespace(namespace, _description(tool, path)))
        return
    _add(found, ToolNamespace(namespace, tools=(_read_description(tool, name, path, report),)))


def _read_description(tool: Object, name: str | None, path: str, report: Report) -> ToolDescription:
    report.lose_others(tool, _DEFINITION, path, "no part of a tool's description")
    schema: Any = next((tool[name] for name in _SCHEMAS if tool.get(name) is not None), None)
    if schema is not None and not isinstance(schema, bool):
        schema = dict(object_at(schema, f"{path}.parameters"))
    return ToolDescription(
        _name_of(tool, path) if name is None else name, _description(tool, path), cast("Json | bool | None", schema)
    )


def _add(found: dict[str, ToolNamespace], added: ToolNamespace) -> None:
    present = found.get(added.name)
    if present is not None:
        description = present.description if added.description is None else added.description
        added = ToolNamespace(added.name, description, (*present.tools, *added.tools))
    found[added.name] = added


def _name_of(tool: Object, path: str) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        refuse("a tool needs a name", path if name is None else f"{path}.name")
    return name


def _description(tool: Object, path: str) -> str | None:
    # An empty description is one, and comes back as it was.
    return "" if tool.get("description") == "" else optional_text(tool, "description", path)
