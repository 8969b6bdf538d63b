"""The settings of a server, with their types and defaults; docs/reference/settings.md describes each.

`sources.py` loads them from flags, the environment and a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from harmonia.parts import Guessed
from harmonia.run.constraints.attempts import GrammarUse
from harmonia.run.default_paths import store_file
from harmonia.serve.security.keys import Dialect, default_seal_keys

# hidden  reasoning is sealed; its text never leaves the server
# shown   reasoning is part of the answers
Analysis = Literal["hidden", "shown"]
# certain     only calls that token ids confirm are returned to clients and run
# unverified  also calls that were read from text, where a call and an echo look the same
Calls = Literal["certain", "unverified"]
# What is done with a call of a tool that runs in the server; see models/server_tools.py.
Approval = Literal["run", "ask", "refuse"]

# Not a default port of an engine (8000, 8080, 1234, 11434, 30000), because `auto` looks there.
DEFAULT_PORT: Final = 8765

Count = Annotated[int, Meta(ge=1)]
Days = Annotated[float, Meta(gt=0, le=36_500)]
Port = Annotated[int, Meta(ge=0, le=65535)]  # 0 takes any free port
Wait = Annotated[float, Meta(ge=0, le=31_536_000)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]  # at most a year, because timers are limited


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one request may use. Times that end in `_s` are seconds."""

    body_bytes: Count = 32 * 1024 * 1024
    depth: Count = 64
    tools: Count = 512
    schema_bytes: Count = 256 * 1024
    items: Count = 10_000
    choices: Count = 8
    output_tokens: Count | None = None
    request_s: Seconds = 3600.0  # from the first byte of the request to the last byte of the answer
    head_s: Seconds = 20.0  # until the head of a request has arrived
    receive_s: Seconds = 60.0  # until the body has arrived
    send_s: Seconds = 60.0  # for one write to a client that does not read
    keep_alive_s: Seconds = 15.0  # of silence in a stream before a comment is sent
    drain_s: Wait = 20.0  # for running requests when the server stops, before they are cancelled
    concurrent: Count = 256  # requests that use a model or a processor at once
    address_connections: Count | None = None  # per client address; behind a proxy all clients share one
    stored_days: Days | None = 30.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings."""

    host: str = "127.0.0.1"
    port: Port = DEFAULT_PORT
    engine: str = "auto"
    model: str | None = None
    profile: str | None = None  # the format of a model that is not a gpt-oss; or auto
    profiles: str | None = None  # a file of profiles; None: the one in the configuration folder
    engine_api_key: str | None = None
    engine_options: dict[str, Any] = {}
    aliases: tuple[str, ...] = ()  # further names of the model
    store: str | None = None  # sqlite:///PATH; None: a file in the user's state folder
    dialect: Dialect = "openai"
    analysis: Analysis = "hidden"
    guessed: Guessed = "hidden"
    calls: Calls = "certain"
    grammar: GrammarUse = "demanded"  # when to constrain an engine that supports grammars
    retry_malformed: bool = True  # sample once more if nothing of an answer can be shown or run
    api_key_file: str | None = None
    seal_key_file: str | None = None
    seal_days: Days = 30.0
    insecure: bool = False
    hosts: tuple[str, ...] = ()  # further names under which clients reach the server
    origins: tuple[str, ...] = ()  # origins of web pages that may call the server
    mcp: str | None = None  # a file of MCP servers
    mcp_approval: dict[str, Any] = {}  # by server, or server.tool: run, ask, refuse
    allow_client_mcp: bool = False
    client_mcp_hosts: tuple[str, ...] = ()  # hosts without a public address that clients may use
    page: bool = True  # chat and inspector, at `/`
    page_folder: str | None = None  # a page built elsewhere; None: the package's own
    log_content: bool = False
    log_format: Literal["text", "json"] = "text"
    limits: Limits = Limits()

    def store_address(self) -> str:
        """The URL of the store."""
        return self.store or f"sqlite:///{store_file()}"

    def seal_key_path(self) -> Path:
        """The file of the keys that seal reasoning."""
        return Path(self.seal_key_file) if self.seal_key_file else default_seal_keys()

    def __repr__(self) -> str:
        # Engine options may contain a key, and the engine's URL a password.
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _NOT_SHOWN)
        return f"Settings({', '.join(shown)}, …)"


_NOT_SHOWN: Final = ("engine", "engine_api_key", "engine_options")
