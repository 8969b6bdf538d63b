"""Tools of MCP servers. The SDK is loaded by the first connection, not by this import."""

from harmonia.run.tools.mcp.client import McpTools, ServerStatus, connect
from harmonia.run.tools.mcp.configuration import HttpServer, McpServer, StdioServer, Timeouts, read_servers
from harmonia.run.tools.mcp.pins import Change, Consent, Pins, Policy

__all__ = [
    "Change",
    "Consent",
    "HttpServer",
    "McpServer",
    "McpTools",
    "Pins",
    "Policy",
    "ServerStatus",
    "StdioServer",
    "Timeouts",
    "connect",
    "read_servers",
]
