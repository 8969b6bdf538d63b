"""Tools that run in the server, and the rules by which they do: MCP servers that the operator configured.

run     the call is run
ask     the client is asked first: an mcp_approval_request goes out, and the response ends there
refuse  the tool is not offered
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from harmonia.errors import ErrorCode, InputError, ToolError
from harmonia.messages import Json
from harmonia.run.tools import Tool

Approval = Literal["run", "ask", "refuse"]

_SEPARATOR: Final = "___"
_EVERY: Final = "*"
_NOT_THERE: Final = "the server could not be reached or started; the log of this server says why"


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, under the server's label and the tool's own name."""

    server: str
    name: str
    tool: Tool
    approval: Approval = "run"


def server_tools(tools: Iterable[Tool], rules: Mapping[str, object]) -> tuple[ServerTool, ...]:
    """The tools that are offered. A rule is for `server.tool`, for `server`, or for `*`; the nearest one counts, and
    where there is none, the call is run: the operator chose the server, and pinned its tools."""
    known: dict[str, Approval] = {name: _approval(name, value) for name, value in rules.items()}
    offered: list[ServerTool] = []
    for tool in tools:
        server, _, name = tool.name.partition(_SEPARATOR)
        rules_for = (f"{server}.{name}", server, _EVERY)
        rule = next((rule for rule in rules_for if rule in known), None)
        approval: Approval = "run" if rule is None else known[rule]
        if approval != "refuse":
            offered.append(ServerTool(server, name, tool, approval))
    return tuple(offered)


def describe_servers(tools: Iterable[ServerTool], failures: Mapping[str, ToolError | None]) -> list[Json]:
    """Servers for clients: their tools, and which are not there. The error itself may have commands, addresses or
    what a server complained of, which are for the operator and stand in the log."""
    servers: dict[str, Json] = {
        label: {"label": label, "tools": [], "error": None if error is None else f"{_NOT_THERE} ({error.code.value})"}
        for label, error in failures.items()
    }
    for offered in tools:
        server = servers.setdefault(offered.server, {"label": offered.server, "tools": [], "error": None})
        server["tools"].append(
            {
                "name": offered.name,
                "description": offered.tool.description,
                "parameters": offered.tool.parameters,
                "approval": offered.approval,
            }
        )
    return list(servers.values())


def _approval(name: str, value: object) -> Approval:
    if value not in get_args(Approval):
        raise InputError(
            ErrorCode.SERVE_INVALID_OPTION,
            f"mcp_approval.{name} is {value!r}; it may be {', '.join(get_args(Approval))}",
        )
    return cast("Approval", value)
