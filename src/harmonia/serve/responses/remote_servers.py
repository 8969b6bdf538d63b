"""MCP servers that a client names by their addresses, connected for one response if the operator allows it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import ServerTool, server_tools
from harmonia.serve.responses.tools import RemoteServer, check_allowed

_LOG: Final = logging.getLogger("harmonia.serve")
_MOST_SERVERS: Final = 8


async def connect_servers(
    servers: Sequence[RemoteServer], settings: Settings, stack: AsyncExitStack
) -> tuple[ServerTool, ...]:
    """The tools of these servers. The stack closes the connections."""
    if not settings.allow_client_mcp:
        raise InputError(
            ErrorCode.SERVE_FORBIDDEN,
            "this server does not connect to MCP servers that clients name; use a server that the operator configured, "
            "by its server_label and without server_url",
            Position(path=f"{servers[0].path}.server_url"),
        )
    if len(servers) > _MOST_SERVERS:
        raise InputError(
            ErrorCode.SERVE_INVALID_FIELD,
            f"a request may name at most {_MOST_SERVERS} MCP servers by URL",
            Position(path=f"{servers[_MOST_SERVERS].path}.server_url"),
        )
    from harmonia.run.tools.mcp import HttpServer, connect

    private_hosts = frozenset(settings.client_mcp_hosts)
    offered: list[ServerTool] = []
    for server in servers:
        remote = HttpServer(server.label, server.url, server.headers, private_hosts=private_hosts)
        try:
            tools = await stack.enter_async_context(connect([remote], policy="trust_first", strict=True))
        except ToolError as error:
            if error.code is not ErrorCode.TOOL_SERVER_UNREACHABLE:
                raise
            _LOG.warning("the MCP server %s of a client: %s", server.label, error)
            raise InputError(
                ErrorCode.SERVE_MCP_UNREACHABLE,
                f"the MCP server {server.label!r} at {_without_secrets(server.url)} cannot be reached, is on a private "
                "network that the operator does not allow (client_mcp_hosts), or does not speak MCP; check its URL",
                Position(path=f"{server.path}.server_url"),
            ) from error
        # Such a server checks its arguments itself. Its schemas are untrusted: a pattern that never finishes matching
        # would block every other request.
        unchecked = (replace(tool, checks_arguments=False, untrusted=True) for tool in tools.tools)
        found = server_tools(unchecked, {"*": "ask" if server.asks else "run"})
        allowed = server.allowed_tools
        check_allowed(server.label, allowed, [tool.name for tool in found], server.path)
        offered += [tool for tool in found if allowed is None or tool.name in allowed]
    return tuple(offered)


def _without_secrets(url: str) -> str:
    """An address without user name, password and query."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:200]
    except ValueError:
        return "an invalid URL"
