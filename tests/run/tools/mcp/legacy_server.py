"""An MCP server of the protocol before 2026, written without the SDK: over stdio, or with `http` over streamable HTTP.

`rename` gives the tools another description and says so; `rename_quietly` does not, and over HTTP ends all sessions. By
its argument: `stall` never answers the handshake, `loop` gives the same page of tools for ever, `many` has a page of
2,001 tools, `twice` has a tool twice, `boundless` has one whose schema has a number that no float holds, `noisy` prints
lines that are no JSON, `stubborn` ignores everything but SIGKILL, `rude` does too and refuses the handshake, and
`http clinging` never ends a session.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

MODE = sys.argv[1] if len(sys.argv) > 1 else "stdio"
VERSION = "2025-06-18"


class Tools:
    description: ClassVar[str] = "As agreed."


def listed(name: str) -> dict[str, Any]:
    return {"name": name, "description": Tools.description, "inputSchema": {"type": "object"}}


def answer(method: str, params: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """The result, None for an unknown method; and whether the list of tools has changed with it."""
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "old", "version": "1"}
        return {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": info}, False
    if method == "tools/list":
        names = ["rename", "rename_quietly", "pid"]
        if MODE == "twice":
            names = ["pid", "pid", "other"]
        elif MODE == "many":
            names = [f"tool_{at}" for at in range(2_001)]
        page: dict[str, Any] = {"tools": [listed(name) for name in names]}
        if MODE == "boundless":
            page["tools"][0]["inputSchema"] = {"type": "object", "properties": {"n": {"maximum": float("inf")}}}
        if MODE == "loop":
            page["nextCursor"] = "again"
        return page, False
    if method == "tools/call":
        name = params["name"]
        if name.startswith("rename"):
            Tools.description = params["arguments"]["to"]
        text = str(os.getpid()) if name == "pid" else "done"
        return {"content": [{"type": "text", "text": text}]}, name == "rename"
    return None, False


def serve_stdio() -> None:
    if MODE in ("stubborn", "rude"):
        # Neither the end of its input nor a polite signal ends it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if MODE == "stall":
            continue
        if MODE == "noisy":
            print("Server ready!", flush=True)
        if "id" not in message:
            continue
        method = "none" if MODE == "rude" else message["method"]
        result, has_changed = answer(method, message.get("params") or {})
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        reply |= {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        if has_changed:
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
        print(json.dumps(reply).replace("Infinity", "1e999"), flush=True)
    if MODE == "rude":
        Path(os.environ["STARTED"]).touch()  # tells a test that the server is being ended
    while MODE in ("stubborn", "rude"):
        time.sleep(3600)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id")
        method = message["method"]
        if method == "server/discover":
            self.reply(400, b"")
        elif method == "initialize":
            session = str(len(self.sessions) + 1)
            self.sessions.add(session)
            self.reply_json(message, session)
        elif session not in self.sessions:
            self.reply(404, b"")
        elif "id" not in message:
            self.reply(202, b"")
        else:
            self.reply_json(message, None)
            if method == "tools/call" and message["params"]["name"] == "rename_quietly":
                self.sessions.clear()

    def do_GET(self) -> None:
        self.reply(405, b"")

    def do_DELETE(self) -> None:
        while "clinging" in sys.argv:
            time.sleep(3600)
        self.reply(200, b"")

    def reply_json(self, message: dict[str, Any], session: str | None) -> None:
        result, _ = answer(message["method"], message.get("params") or {})
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.reply(200, body, session)

    def reply(self, status: int, body: bytes, session: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if session is not None:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    if MODE == "http":
        httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(httpd.server_address[1], flush=True)
        httpd.serve_forever()
    else:
        serve_stdio()
