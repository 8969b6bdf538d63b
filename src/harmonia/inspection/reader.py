"""An input through the parser, and the tools that a reader declares: what the command and the server share."""

from __future__ import annotations

from typing import Any, cast

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Event, MessageEnded, Repaired
from harmonia.inspection.inputs import Input
from harmonia.messages import Role, ToolDescription
from harmonia.parser import Mode, Parsed, Parser, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.parser.tools import DeclaredTool
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
    """Tools as people have them: names, OpenAI's definitions (with `function` or without), or an object that has them
    in `tools`."""
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
        if isinstance(tool, str):
            found.append(tool)
            continue
        definition = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        function = definition.get("function", definition)
        name = cast("dict[str, Any]", function).get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            parameters = cast("dict[str, Any]", function).get("parameters")
            schema = cast("dict[str, Any]", parameters) if isinstance(parameters, dict) else None
            found.append(ToolDescription(name, parameters=schema))
        elif not isinstance(definition.get("type"), str) or definition["type"] == "function":
            # Tools of another type, such as web_search, are the server's own and have no name to call them by.
            raise InputError(
                ErrorCode.PARSE_INVALID_OPTION, f"the tool at {at} has no name", Position(path=f"{path}[{at}]")
            )
    return found
