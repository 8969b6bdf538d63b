"""The settings of a server: what there is to set, and what it may be set to.

`configuration.py` reads them from flags, the environment and a file; see docs/reference/settings.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from harmonia.parts import Guessed
from harmonia.run.constraints.demand import GrammarUse
from harmonia.serve.security.identity import Dialect

# hidden  reasoning is sealed, and no text of it leaves the server
# shown   it is part of the answers
Analysis = Literal["hidden", "shown"]
# certain     only what was certainly called (token ids say so) is handed to clients and run
# unverified  also what was read from text, where nobody can tell a call from an echo
Calls = Literal["certain", "unverified"]

# No engine listens here unless told to: 8000, 8080, 1234, 11434 and 30000 are theirs, and `auto` looks there.
DEFAULT_PORT: Final = 8765

Count = Annotated[int, Meta(ge=1)]
Days = Annotated[float, Meta(gt=0, le=36_500)]
Port = Annotated[int, Meta(ge=0, le=65535)]  # 0 takes any that is free
Wait = Annotated[float, Meta(ge=0, le=31_536_000)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]  # a year; timers have their limits


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one request may use."""

    body_bytes: Count = 32 * 1024 * 1024
    depth: Count = 64
    tools: Count = 512
    schema_bytes: Count = 256 * 1024
    items: Count = 10_000
    choices: Count = 8
    output_tokens: Count | None = None
    request_s: Seconds = 3600.0  # from the first byte of the request to the last of the answer
    head_s: Seconds = 20.0  # until the head of a request is there
    receive_s: Seconds = 60.0  # until the body is there
    send_s: Seconds = 60.0  # one write to a client that does not read
    keep_alive_s: Seconds = 15.0  # of silence in a stream, until a comment is sent
    drain_s: Wait = 20.0  # for what runs when the server is to stop, before it is cancelled
    concurrent: Count = 256  # requests with work for a model or a processor, at once
    address_connections: Count | None = None  # from one address; behind a proxy, all clients have the same
    stored_days: Days | None = 30.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; see docs/reference/settings.md. Flags win over the environment, and that over the file."""

    host: str = "127.0.0.1"
    port: Port = DEFAULT_PORT
    engine: str = "auto"
    model: str | None = None
    profile: str | None = None  # how the model writes, where it is no gpt-oss; or auto
    profiles: str | None = None  # a file of profiles; None is that of the configuration folder
    engine_api_key: str | None = None
    engine_options: dict[str, Any] = {}
    aliases: tuple[str, ...] = ()  # further names under which the model is served
    store: str | None = None  # sqlite:///PATH; None is a file in the user's state folder
    dialect: Dialect = "openai"
    analysis: Analysis = "hidden"
    guessed: Guessed = "hidden"
    calls: Calls = "certain"
    grammar: GrammarUse = "demanded"  # when an engine that takes a grammar is held to one
    retry_malformed: bool = True  # an answer of which nothing can be shown or run is sampled again, once
    api_key_file: str | None = None
    seal_key_file: str | None = None
    seal_days: Days = 30.0
    insecure: bool = False
    hosts: tuple[str, ...] = ()  # further names under which clients may reach the server
    origins: tuple[str, ...] = ()  # web pages that may call it
    mcp: str | None = None  # a file of MCP servers
    mcp_approval: dict[str, Any] = {}  # by server, or server.tool: run, ask, refuse
    allow_client_mcp: bool = False
    client_mcp_hosts: tuple[str, ...] = ()  # hosts without a public address that clients may name
    page: bool = True  # the chat and the inspector, at `/`
    page_folder: str | None = None  # a page that was built elsewhere; None is the package's own
    log_content: bool = False
    log_format: Literal["text", "json"] = "text"
    limits: Limits = Limits()

    def __repr__(self) -> str:
        # The options of an engine may have a header with a key, and its address a password.
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _NOT_SHOWN)
        return f"Settings({', '.join(shown)}, …)"


_NOT_SHOWN: Final = ("engine", "engine_api_key", "engine_options")
