"""Tools that run in the server, and their rules: tools of the MCP servers that the operator configured.

run     the call is run
ask     the client is asked first: the response ends with an mcp_approval_request
refuse  the tool is not offered
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from harmonia.errors import ToolError
from harmonia.messages import Json
from harmonia.run.tools import Tool
from harmonia.serve.config.settings import Approval
from harmonia.tool_definitions import SERVER_SEPARATOR


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, under the server's label and the tool's own name."""

    server: str
    name: str
    tool: Tool
    approval: Approval = "run"


def server_tools(tools: Iterable[Tool], rules: Mapping[str, object]) -> tuple[ServerTool, ...]:
    """The tools that are offered. A rule is for `server.tool`, for `server`, or for `*`, and the most specific one
    counts. Without a rule the call is run: the operator chose the server and pinned its tools."""
    known: dict[str, Approval] = msgspec.convert(rules, dict[str, Approval])
    offered: list[ServerTool] = []
    for tool in tools:
        server, _, name = tool.name.partition(SERVER_SEPARATOR)
        rule = next((rule for rule in (f"{server}.{name}", server, "*") if rule in known), None)
        approval = "run" if rule is None else known[rule]
        if approval != "refuse":
            offered.append(ServerTool(server, name, tool, approval))
    return tuple(offered)


def describe_servers(tools: Iterable[ServerTool], failures: Mapping[str, ToolError | None]) -> list[Json]:
    """Servers for clients: their tools, and which are unavailable. The error itself may contain commands, addresses or
    the output of a server; it is for the operator, in the log."""
    servers: dict[str, Json] = {label: {"label": label, "tools": [], "error": None} for label in failures}
    for label, error in failures.items():
        if error is not None:
            why = "the server could not be reached or started; the log of this server says why"
            servers[label]["error"] = f"{why} ({error.code.value})"
    for offered in tools:
        server = servers.setdefault(offered.server, {"label": offered.server, "tools": [], "error": None})
        tool, approval = offered.tool, offered.approval
        described = {"name": offered.name, "description": tool.description, "parameters": tool.parameters}
        server["tools"].append(described | {"approval": approval})
    return list(servers.values())
