"""The settings of a server: what there is to set, and where it comes from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harmonia.serve.identity import Dialect

# hidden  reasoning is sealed, and no text of it leaves the server
# shown   it is part of the answers
Analysis = Literal["hidden", "shown"]
# certain     only what was certainly called (token ids say so) is handed to clients and run
# unverified  also what was read from text, where nobody can tell a call from an echo
Calls = Literal["certain", "unverified"]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one request may use."""

    body_bytes: int = 32 * 1024 * 1024
    depth: int = 64
    tools: int = 512
    schema_bytes: int = 256 * 1024
    items: int = 10_000
    choices: int = 8
    output_tokens: int | None = None
    request_s: float = 3600.0  # from the first byte of the request to the last of the answer
    receive_s: float = 60.0  # until the body is there
    send_s: float = 60.0  # one write to a client that does not read
    concurrent: int = 256
    stored_days: float | None = 30.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; see docs/server.md. Flags win over the environment, and that over the file."""

    host: str = "127.0.0.1"
    port: int = 8080
    engine: str = "auto"
    model: str | None = None
    engine_api_key: str | None = None
    engine_options: dict[str, Any] = {}
    aliases: tuple[str, ...] = ()  # further names under which the model is served
    store: str | None = None  # sqlite:///PATH; None is a file in the user's state folder
    dialect: Dialect = "openai"
    analysis: Analysis = "hidden"
    calls: Calls = "certain"
    api_key_file: str | None = None
    seal_key_file: str | None = None
    seal_days: float = 30.0
    insecure: bool = False
    hosts: tuple[str, ...] = ()  # further names under which clients may reach the server
    origins: tuple[str, ...] = ()  # web pages that may call it
    mcp: str | None = None  # a file of MCP servers
    mcp_approval: dict[str, Any] = {}  # by server, or server.tool: run, ask, refuse
    allow_client_mcp: bool = False
    log_content: bool = False
    log_format: Literal["text", "json"] = "text"
    limits: Limits = Limits()
