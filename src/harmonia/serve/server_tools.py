"""Tools that run in the server, and the rules by which they do: MCP servers that the operator configured.

run     the call is run
ask     the client is asked first: an mcp_approval_request goes out, and the response ends there
refuse  the tool is not offered
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from harmonia.errors import ErrorCode, InputError
from harmonia.run.tools import Tool

Approval = Literal["run", "ask", "refuse"]

_SEPARATOR: Final = "___"
_EVERY: Final = "*"


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


def _approval(name: str, value: object) -> Approval:
    if value not in get_args(Approval):
        raise InputError(
            ErrorCode.SERVE_INVALID_OPTION,
            f"mcp_approval.{name} is {value!r}; it may be {', '.join(get_args(Approval))}",
        )
    return cast("Approval", value)
