"""Tools as a prompt describes them: one description each, by the name that the model calls.

    ToolDescription, ToolNamespace, {"type": "function", …}  ->  ToolDescription

Deferred tools are left out: those whose definition has `defer_loading`, and those that the caller names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import Report
from harmonia.interchange.tools import read_tools
from harmonia.messages import Json, ToolDescription, ToolNamespace

_FUNCTIONS: Final = "functions"

# A tool as somebody describes it: ours, such as the namespaces of a ToolSet, or the JSON of an API's or of an MCP
# server's definition.
ToolLike = ToolDescription | ToolNamespace | Json


def described_tools(tools: Iterable[ToolLike], deferred: Collection[str] = ()) -> tuple[ToolDescription, ...]:
    """The tools that a prompt tells of, by the names that the model calls, without those that are deferred."""
    given = list(tools)
    found = [tool for index, each in enumerate(given) for tool in _descriptions(each, f"$[{index}]")]
    names: set[str] = set()
    for tool in found:
        if tool.name in names:
            raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"two tools have the name {tool.name!r}")
        names.add(tool.name)
    for name in deferred:
        if name not in names and not any(_defines(each, name) for each in given):
            near = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, names, 1))
            raise InputError(
                ErrorCode.FORMATS_INVALID_OPTION, f"cannot defer {name!r}: there is no tool with that name{near}"
            )
    return tuple(tool for tool in found if tool.name not in deferred)


def _descriptions(given: ToolLike, path: str) -> Iterator[ToolDescription]:
    match given:
        case ToolDescription():
            yield given
        case ToolNamespace():
            yield from _descriptions_of(given)
        case dict():
            loaded = _without_deferred(given)
            for namespace in () if loaded is None else _read_definition(loaded, path):
                yield from _descriptions_of(namespace)
        case _:
            raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"not a tool: {given!r}", Position(path=path))


def _read_definition(definition: Json, path: str) -> Iterable[ToolNamespace]:
    try:
        found = read_tools([definition], "$", Report()).values()
    except InputError as error:
        where = path + (error.at.path or "").removeprefix("$[0]")
        raise InputError(error.code, error.message, Position(path=where)) from None
    if not found:  # such as web_search, which its server runs
        raise InputError(
            ErrorCode.FORMATS_INVALID_OPTION,
            f"a tool of type {definition.get('type')!r} cannot be described to a model",
            Position(path=path),
        )
    return found


def _descriptions_of(namespace: ToolNamespace) -> Iterator[ToolDescription]:
    if not namespace.tools:
        yield ToolDescription(namespace.name, namespace.description, {"type": "string"})
    for tool in namespace.tools:
        yield (
            tool
            if namespace.name == _FUNCTIONS
            else ToolDescription(f"{namespace.name}.{tool.name}", tool.description, tool.parameters)
        )


def _without_deferred(definition: Json) -> Json | None:
    """The definition, without the deferred tools of a namespace; None where all of it is deferred."""
    if definition.get("defer_loading") is True or _fields_of(definition).get("defer_loading") is True:
        return None
    if definition.get("type") != "namespace" or not isinstance(definition.get("tools"), list):
        return definition
    inner = [_without_deferred(tool) for tool in _tools_in(definition)]
    loaded = [tool for tool in inner if tool is not None]
    # A namespace without tools would itself be one.
    return {**definition, "tools": loaded} if loaded or not inner else None


def _defines(given: ToolLike, name: str) -> bool:
    """Whether a definition has a tool of this name, deferred or not."""
    if not isinstance(given, dict):
        return False
    own = str(_fields_of(given).get("name", ""))
    return own == name or any(_defines(tool, name.removeprefix(f"{own}.")) for tool in _tools_in(given))


def _fields_of(definition: Json) -> Json:
    """Where a definition has its name: in an object that is called like its type, or flat."""
    nested = definition.get(str(definition.get("type", "function")))
    return cast("Json", nested) if isinstance(nested, dict) else definition


def _tools_in(definition: Json) -> list[Json]:
    inner: object = definition.get("tools")
    listed = cast("list[object]", inner) if isinstance(inner, list) else []
    return [cast("Json", tool) for tool in listed if isinstance(tool, dict)]
