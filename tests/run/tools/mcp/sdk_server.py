"""An MCP server for the tests, made with the SDK. Arguments: `stdio`, or `http`, which prints the port that it took.

The description of `echo` is the content of the file that ECHO_DESCRIPTION names, read for every list. Lists come in
pages.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    INVALID_PARAMS,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

PAGE_TOOLS = 4
ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

bus = InMemorySubscriptionBus()
log: list[str] = []
announced: list[str] = []


def description_of_echo() -> str:
    path = os.environ.get("ECHO_DESCRIPTION")
    return Path(path).read_text() if path and Path(path).exists() else "Says it again."


def all_tools() -> list[Tool]:
    plain = ("environment", "fail", "refuse", "wait", "log", "die", "show", "sum", "lie", "pid", "announce")
    lying = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return [
        Tool(
            name="echo",
            description=description_of_echo(),
            input_schema=TEXT,
            annotations=ToolAnnotations(read_only_hint=True),
        ),
        *(
            Tool(name=name, input_schema=ANYTHING, output_schema=lying if name == "lie" else None)
            for name in (*plain, *announced)
        ),
    ]


async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    first = int(params.cursor) if params is not None and params.cursor else 0
    tools = all_tools()
    following = first + PAGE_TOOLS
    return ListToolsResult(tools=tools[first:following], next_cursor=str(following) if following < len(tools) else None)


async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return said(str(arguments["text"]))
        case "environment":
            return said(json.dumps(dict(os.environ)))
        case "fail":
            return CallToolResult(content=[TextContent(text="no such city: Atlantis")], is_error=True)
        case "refuse":
            raise MCPError(INVALID_PARAMS, "these arguments are wrong")
        case "wait":
            return await wait()
        case "log":
            return said(" ".join(log))
        case "die":
            print("out of memory, says \x1b[31mthe server", file=sys.stderr, flush=True)
            os._exit(3)
        case "show":
            return CallToolResult(content=one_of_each())
        case "sum":
            return CallToolResult(content=[TextContent(text="a sum")], structured_content={"total": 5})
        case "lie":
            return CallToolResult(content=[], structured_content={"n": "many"})
        case "pid":
            return said(str(os.getpid()))
        case "announce":
            announced.append(str(arguments["name"]))
            await bus.publish(ToolsListChanged())
            return said("announced")
        case _:
            raise MCPError(INVALID_PARAMS, f"no tool {params.name}")


async def wait() -> CallToolResult:
    log.append("started")
    # The file tells a test that the call has arrived.
    if path := os.environ.get("STARTED"):
        Path(path).touch()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        log.append("cancelled")
        raise
    raise AssertionError


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def one_of_each() -> list[ContentBlock]:
    data = base64.b64encode(b"12345").decode()
    return [
        TextContent(text="Here."),
        ImageContent(data=data, mime_type="image/png"),
        AudioContent(data=data, mime_type="audio/wav"),
        ResourceLink(uri="file:///a.txt", name="a\u202e.txt", mime_type="text/plain"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///b.txt", mime_type="text/plain", text="inside b")),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///c.bin", blob=data)),
    ]


server: Server[Any] = Server(
    "probe", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=ListenHandler(bus)
)


async def serve_stdio() -> None:
    async with stdio_server() as (reading, writing):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(reading, writing, options)


async def serve_http(port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    print(listening.getsockname()[1], flush=True)
    app = HeaderLog(server.streamable_http_app())
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listening])


class HeaderLog:
    """Notes who called, so that a test can ask for it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            log[:] = [line for line in log if not line.startswith("key=")]
            log.extend(f"key={value.decode()}" for key, value in scope["headers"] if key == b"x-key")
        await self.app(scope, receive, send)


if __name__ == "__main__":
    print("the server starts", file=sys.stderr, flush=True)
    if sys.argv[1] == "stdio":
        asyncio.run(serve_stdio())
    else:
        asyncio.run(serve_http(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
