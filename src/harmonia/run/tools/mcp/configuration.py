"""Which MCP servers there are and how they are reached: frozen values, and the JSON that people keep them in.

1. Every fault in the JSON is an InputError with the JSON path of the value that is wrong.
2. A tool's name for the model, `server___tool`, splits into the two names again, whatever the tool is called.
3. A server that is started gets the variables in `BASICS`, the locale, and what its own configuration names; nothing
   else of our environment, so no key that happens to be in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import json_path, split_validation_error

T = TypeVar("T")

SEPARATOR: Final = "___"

# What programs need to find others, their home, and the terminal's kind. None of it is a secret.
BASICS: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ")
BASICS_FOR_FILES: Final = ("TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT", "COMSPEC")
_LOCALE: Final = "LC_"

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KNOWN_TYPES: Final = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the client waits, in seconds: for the handshake, for the whole list of tools, for one call."""

    connect_s: float = 30.0
    list_s: float = 30.0
    call_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("connect_s", "list_s", "call_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise _invalid(f"a timeout must be a positive number of seconds, not {value}", f"$.timeouts.{name}")


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a program and spoken to over its standard input and output.

    `env` holds variables with their values, `pass_env` the names of those of our own environment that are passed on.
    `allowed_tools` of None offers every tool that the server has.
    """

    name: str
    command: str
    # What `${NAME}` may have filled in can be secret, so no log has it.
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    pass_env: tuple[str, ...] = ()
    cwd: str | None = None
    allowed_tools: frozenset[str] | None = None
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.command:
            raise _invalid("the command that starts the server is empty", "$.command")


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that is reached over streamable HTTP. `headers` are sent with every request. Where a stranger named it,
    `private_hosts` are the only hosts that it may have without a public address; None trusts every address."""

    name: str
    url: str = field(repr=False)  # its query may have a key
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    allowed_tools: frozenset[str] | None = None
    timeouts: Timeouts = Timeouts()
    private_hosts: frozenset[str] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        try:
            parts = urlsplit(self.url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise _invalid("expected an address that begins with http:// or https:// and names a host", "$.url")
        for name, value in self.headers.items():
            # Said without the value, which may be secret; the HTTP client would show it.
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise _invalid("a header contains characters that are not allowed in HTTP headers", f"$.headers.{name}")


McpServer = StdioServer | HttpServer


def check_name(name: str) -> None:
    """Refuses a name of a server with which `server___tool` would not split into the same two names again."""
    # A name that ends in an underscore would give one to the tool. `mcp__` and `functions.` have a meaning of their
    # own in front of a name, and with the separator `mcp` begins like the one.
    is_clear = name.isprintable() and SEPARATOR not in name and not name.startswith("_") and not name.endswith("_")
    if not name or not is_clear or name == "mcp" or name.startswith(("mcp__", "functions.")):
        raise _invalid(
            f"{name!r} cannot be the name of a server: it must be printable, must not contain {SEPARATOR!r}, must not "
            "begin or end with an underscore, must not be 'mcp', and must not begin with 'mcp__' or 'functions.'",
            "$",
        )


def environment_for(server: StdioServer, ours: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that the server is started with."""
    source = os.environ if ours is None else ours
    wanted = {*BASICS, *BASICS_FOR_FILES, *server.pass_env}
    # Exported shell functions begin with "()"; whoever names one gets it, but no basic is one.
    inherited = {
        name: value
        for name, value in source.items()
        if (name in wanted or name.startswith(_LOCALE)) and (name in server.pass_env or not value.startswith("()"))
    }
    return {**inherited, **server.env}


def read_servers(
    source: str | bytes | Mapping[str, Any] | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> tuple[McpServer, ...]:
    """The servers in `{"mcpServers": {name: {"command": …} | {"url": …}}}`: JSON, its value, or the path of a file.

    `${NAME}` and `${NAME:-otherwise}` in a value of `env` or `headers`, in `args` or in `url` stand for a variable of
    our environment, so that a file need not hold secrets. A server with `"disabled": true` is left out.
    """
    if isinstance(source, os.PathLike):
        try:
            source = Path(source).read_bytes()
        except OSError as error:
            raise _invalid(f"{os.fspath(cast('Any', source))} cannot be read: {error.strerror}", "$") from error
    if isinstance(source, str | bytes):
        try:
            value: Any = msgspec.json.decode(source)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _invalid(f"not JSON: {error}", "$") from error
    else:
        value = source
    document = _convert(value, _Document, "$")
    variables = os.environ if environment is None else environment
    servers: list[McpServer] = []
    for name, entry in document.mcp_servers.items():
        server = _server_of(name, entry, json_path(("mcpServers", name)), variables)
        if server is not None:
            servers.append(server)
    return tuple(servers)


# Keys of other clients that mean nothing here, or less than they do there: ignoring them gives no tool more rights.
class _Foreign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: str | None = None
    disabled: bool = False
    description: str | None = None
    auto_approve: Any = msgspec.field(default=None, name="autoApprove")
    always_allow: Any = msgspec.field(default=None, name="alwaysAllow")
    trust: Any = None


class _Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connect_s: float = Timeouts().connect_s
    list_s: float = Timeouts().list_s
    call_s: float = Timeouts().call_s


class _Stdio(_Foreign, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str | None = None
    allowed_tools: frozenset[str] | None = None
    timeouts: _Timeouts = _Timeouts()


class _Http(_Foreign, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    headers: dict[str, str] = {}
    allowed_tools: frozenset[str] | None = None
    timeouts: _Timeouts = _Timeouts()


class _Document(msgspec.Struct, frozen=True):
    mcp_servers: dict[str, dict[str, Any]] = msgspec.field(name="mcpServers")


def _server_of(name: str, entry: dict[str, Any], path: str, variables: Mapping[str, str]) -> McpServer | None:
    kind = _kind_of(entry, path)
    try:
        if kind == "command":
            stdio = _convert(entry, _Stdio, path)
            if stdio.disabled:
                return None
            return StdioServer(
                name,
                stdio.command,
                tuple(_fill(text, f"{path}.args[{at}]", variables) for at, text in enumerate(stdio.args)),
                {key: _fill(text, f"{path}.env.{key}", variables) for key, text in stdio.env.items()},
                stdio.pass_env,
                stdio.cwd,
                stdio.allowed_tools,
                _timeouts_of(stdio.timeouts),
            )
        http = _convert(entry, _Http, path)
        if http.disabled:
            return None
        return HttpServer(
            name,
            _fill(http.url, f"{path}.url", variables),
            {key: _fill(text, f"{path}.headers.{key}", variables) for key, text in http.headers.items()},
            http.allowed_tools,
            _timeouts_of(http.timeouts),
        )
    except InputError as error:
        # The values above know their own place only; what came through `_convert` and `_fill` has the whole path.
        inner = error.at.path or "$"
        if inner.startswith(path):
            raise
        raise _invalid(error.message, path + inner.removeprefix("$")) from error


def _kind_of(entry: dict[str, Any], path: str) -> Literal["command", "url"]:
    given = entry.get("type")
    if given == "sse":
        raise _invalid('MCP no longer has the transport "sse"; use streamable HTTP', f"{path}.type")
    if isinstance(given, str) and given not in _KNOWN_TYPES:
        raise _invalid(f"unknown type {given!r}; use one of {', '.join(_KNOWN_TYPES)}", f"{path}.type")
    has_command, has_url = "command" in entry, "url" in entry
    if has_command == has_url:
        found = "both" if has_command else "neither"
        raise _invalid(f'a server must have either "command" or "url"; this one has {found}', path)
    kind: Literal["command", "url"] = "command" if has_command else "url"
    if isinstance(given, str) and _KNOWN_TYPES[given] != kind:
        raise _invalid(f'type {given!r} needs "{_KNOWN_TYPES[given]}", but this server has "{kind}"', f"{path}.type")
    return kind


def _timeouts_of(timeouts: _Timeouts) -> Timeouts:
    return Timeouts(timeouts.connect_s, timeouts.list_s, timeouts.call_s)


def _fill(text: str, path: str, variables: Mapping[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        value: str | None = variables.get(match[1], cast("str | None", match[2]))
        if value is None:
            raise _invalid(f"the environment variable {match[1]} is not set", path)
        return value

    return _VARIABLE.sub(value_of, text)


def _convert(value: object, type_: type[T], path: str) -> T:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        sentence, inner = split_validation_error(error)
        raise _invalid(sentence, path + inner.removeprefix("$").replace("[...]", ".*")) from error


def _invalid(message: str, path: str) -> InputError:
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, Position(path=path))


def check_unique(servers: Iterable[McpServer]) -> None:
    """Refuses two servers of one name."""
    seen: set[str] = set()
    for server in servers:
        if server.name in seen:
            raise InputError(ErrorCode.TOOL_REPEATED_NAME, f"two servers are called {server.name!r}")
        seen.add(server.name)
