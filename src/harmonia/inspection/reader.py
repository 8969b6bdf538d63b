"""An input through the parser, and the tools that a reader declares: what the command and the server share."""

from __future__ import annotations

from typing import Any, cast

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Event, MessageEnded, Repaired
from harmonia.inspection.inputs import Input
from harmonia.messages import Role, ToolDescription, ToolNamespace
from harmonia.parser import Mode, Parsed, Parser, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parser.tools import DeclaredTool
from harmonia.tool_definitions import read_namespace, unwrap
from harmonia.vocabulary import Vocabulary


def parse_input(
    taken: Input,
    role: Role | str | None = None,
    mode: Mode = "tolerant",
    tools: Tools | None = None,
    *,
    stop_swallowed: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Parsed:
    """Feed the parser as the input was chunked. A StreamError has all the events before it."""
    parser = Parser(
        role,
        mode,
        tools,
        stop_swallowed=stop_swallowed,
        stripped=taken.kind == "stripped",
        vocabulary=vocabulary,
    )
    events: list[Event] = []
    try:
        for chunk in taken.chunks:
            events += parser.feed(chunk)
        events += parser.close()
    except StreamError as error:
        error.events = [*events, *error.events]
        raise
    return Parsed(
        tuple(event.message for event in events if isinstance(event, MessageEnded)),
        tuple(event.diagnostic for event in events if isinstance(event, Repaired)),
        tuple(events),
    )


def is_malformed(parsed: Parsed) -> bool:
    """Whether a strict parser would have raised."""
    return any(ALL_FAULTS[diagnostic.code].strict == "raises" for diagnostic in parsed.diagnostics)


def read_declared(value: Any, path: str = "$") -> list[DeclaredTool]:
    """Tools as people have them: names, definitions in any spelling, or an object that has a list of them in `tools`.

    A parser needs their names; readers of other families also use the parameters.
    """
    if isinstance(value, dict):
        value, path = cast("dict[str, Any]", value).get("tools"), f"{path}.tools"
    if not isinstance(value, list):
        raise InputError(
            ErrorCode.PARSE_INVALID_OPTION,
            'tools are a list, or an object with a list in "tools"',
            Position(path=path),
        )
    found: list[DeclaredTool] = []
    for at, tool in enumerate(cast("list[Any]", value)):
        here = f"{path}[{at}]"
        if isinstance(tool, str):
            found.append(tool)
            continue
        kind, fields, _ = unwrap(tool, here, ErrorCode.PARSE_INVALID_OPTION)
        if kind == "namespace":
            name, _, tools = read_namespace(tool, here, ErrorCode.PARSE_INVALID_OPTION)
            found.append(ToolNamespace(name, tools=tuple(_describe(each, here) for each in tools)))
        elif kind == "function" or isinstance(fields.get("name"), str):
            # Tools of another type, such as web_search, are the server's own and have no name to call them by.
            found.append(_describe(tool, here))
    return found


def _describe(tool: object, path: str) -> ToolDescription:
    fields = unwrap(tool, path, ErrorCode.PARSE_INVALID_OPTION)[1]
    name, parameters = fields.get("name"), fields.get("parameters")
    if not isinstance(name, str):
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, "the tool has no name", Position(path=path))
    return ToolDescription(name, parameters=cast("Any", parameters) if isinstance(parameters, dict) else None)
