"""Which MCP servers there are and how they are reached: frozen values, and the JSON that people keep them in.

1. Every fault in the JSON is an InputError with the JSON path of the value that is wrong.
2. A tool's name for the model, `server___tool`, splits into the two names again, whatever the tool is called.
3. A server that is started gets the variables in `_BASICS`, the locale, and what its own configuration names; nothing
   else of our environment, so no key that happens to be in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import json_path, json_problem, split_validation_error
from harmonia.tool_definitions import SERVER_SEPARATOR

T = TypeVar("T")

# What programs need to find others, their home, their files, and the terminal's kind. None of it is a secret.
_BASICS: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ")
_BASICS_FOR_FILES: Final = ("TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT", "COMSPEC")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KEY_OF_TYPE: Final = {"stdio": "command"} | dict.fromkeys(
    ("http", "streamable-http", "streamable_http", "streamableHttp"), "url"
)
# Keys of other clients that mean nothing here, or less than they do there: ignoring them gives no tool more rights.
_FOREIGN: Final = ("type", "disabled", "description", "autoApprove", "alwaysAllow", "trust")
# Where `${NAME}` stands for a variable.
_FILLED: Final = ("args", "env", "url", "headers")
# Not for a file to set.
_OURS: Final = ("name", "private_hosts")


class Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the client waits, in seconds: for the handshake, for the whole list of tools, for one call."""

    connect_s: float = 30.0
    list_s: float = 30.0
    call_s: float = 120.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise _invalid(f"a timeout must be a positive number of seconds, not {value}", f"$.timeouts.{name}")


class _Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str

    def __post_init__(self) -> None:
        # The name must split from that of a tool again. One that ends in an underscore would give one to the tool;
        # `mcp__` and `functions.` have a meaning of their own before a name, and `mcp___tool` begins with the former.
        name = self.name
        is_clear = name.isprintable() and SERVER_SEPARATOR not in name and name.strip("_") == name != "mcp"
        if not name or not is_clear or name.startswith(("mcp__", "functions.")):
            raise _invalid(
                f"{name!r} cannot be the name of a server: it must be printable, without {SERVER_SEPARATOR!r}, not "
                "begin or end with an underscore, be 'mcp', or begin with 'mcp__' or 'functions.'",
                "$",
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"  # all else may contain a secret that `${NAME}` filled in


class StdioServer(_Server, frozen=True, forbid_unknown_fields=True):
    """A server that is started as a program and spoken to over its standard input and output.

    `env` holds variables with their values, `pass_env` the names of those of our own environment that are passed on.
    `allowed_tools` of None offers every tool that the server has.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    pass_env: tuple[str, ...] = ()
    cwd: str | None = None
    allowed_tools: frozenset[str] | None = None
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command:
            raise _invalid("the command that starts the server is empty", "$.command")


class HttpServer(_Server, frozen=True, forbid_unknown_fields=True):
    """A server that is reached over streamable HTTP. `headers` are sent with every request. If a client names it,
    `private_hosts` are the only hosts that it may have without a public address; None trusts every address."""

    url: str
    headers: Mapping[str, str] = {}
    allowed_tools: frozenset[str] | None = None
    timeouts: Timeouts = Timeouts()
    private_hosts: frozenset[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parts = urlsplit(self.url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise _invalid("expected a URL that begins with http:// or https:// and names a host", "$.url")
        for name, value in self.headers.items():
            # Without the value, which may be secret; the HTTP client would show it.
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise _invalid("a header contains characters that are not allowed in HTTP headers", f"$.headers.{name}")


McpServer = StdioServer | HttpServer


def environment_for(server: StdioServer, ours: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that the server is started with."""
    basics = (*_BASICS, *_BASICS_FOR_FILES)
    # Exported shell functions begin with "()"; whoever names one gets it, but no basic variable is one.
    inherited = {
        name: value
        for name, value in (os.environ if ours is None else ours).items()
        if name in server.pass_env or ((name in basics or name.startswith("LC_")) and not value.startswith("()"))
    }
    return {**inherited, **server.env}


def read_servers(
    source: str | bytes | Mapping[str, Any] | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> tuple[McpServer, ...]:
    """The servers in `{"mcpServers": {name: {"command": …} | {"url": …}}}`: JSON, its value, or the path of a file.

    `${NAME}` and `${NAME:-otherwise}` in a value of `env` or `headers`, in `args` or in `url` stand for a variable of
    our environment, so that a file need not hold secrets. A server with `"disabled": true` is left out.
    """
    name = "the input"
    if isinstance(source, os.PathLike):
        name = os.fspath(source)
        try:
            source = Path(source).read_bytes()
        except OSError as error:
            raise _invalid(f"{name} cannot be read: {error.strerror}", "$") from error
    value: Any = source
    if isinstance(source, str | bytes):
        try:
            value = msgspec.json.decode(source)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _invalid(json_problem(error, source, name), "$") from error
    variables = os.environ if environment is None else environment
    servers = (
        _server_of(name, entry, json_path(("mcpServers", name)), variables)
        for name, entry in _convert(value, _Document, "$").mcp_servers.items()
    )
    return tuple(server for server in servers if server is not None)


class _Document(msgspec.Struct, frozen=True):
    mcp_servers: dict[str, dict[str, Any]] = msgspec.field(name="mcpServers")


def _server_of(name: str, entry: dict[str, Any], path: str, variables: Mapping[str, str]) -> McpServer | None:
    kind = _kind_of(entry, path)
    if _convert(entry.get("disabled", False), bool, f"{path}.disabled"):
        return None
    fields = {key: value for key, value in entry.items() if key not in _FOREIGN}
    if ours := [key for key in _OURS if key in fields]:
        raise _invalid(f"unknown field {ours[0]!r}", path)
    fields |= {key: _fill(fields[key], f"{path}.{key}", variables) for key in _FILLED if key in fields}
    try:
        return _convert({"name": name, **fields}, kind, path)
    except InputError as error:
        # The values know only their own place; what came through `_convert` has the whole path.
        inner = error.at.path or "$"
        if inner.startswith(path):
            raise
        raise _invalid(error.message, path + inner.removeprefix("$")) from error


def _kind_of(entry: dict[str, Any], path: str) -> type[McpServer]:
    given = entry.get("type")
    if given == "sse":
        raise _invalid('MCP no longer has the transport "sse"; use streamable HTTP', f"{path}.type")
    if given is not None and (not isinstance(given, str) or given not in _KEY_OF_TYPE):
        raise _invalid(f"unknown type {given!r}; use one of {', '.join(_KEY_OF_TYPE)}", f"{path}.type")
    found = [key for key in ("command", "url") if key in entry]
    if len(found) != 1:
        many = "both" if found else "neither"
        raise _invalid(f'a server must have either "command" or "url"; this one has {many}', path)
    if given is not None and _KEY_OF_TYPE[given] != found[0]:
        raise _invalid(f'type {given!r} does not go with "{found[0]}"', f"{path}.type")
    return StdioServer if found == ["command"] else HttpServer


def _fill(value: Any, path: str, variables: Mapping[str, str]) -> Any:
    """The value with variables filled into its texts. What is not a text is left for `_convert` to judge."""

    def value_of(match: re.Match[str]) -> str:
        found: str | None = variables.get(match[1], cast("str | None", match[2]))
        if found is None:
            raise _invalid(f"the environment variable {match[1]} is not set", path)
        return found

    match value:
        case str():
            return _VARIABLE.sub(value_of, value)
        case list():
            return [_fill(each, f"{path}[{at}]", variables) for at, each in enumerate(cast("list[Any]", value))]
        case dict():
            given = cast("dict[str, Any]", value)
            return {key: _fill(each, f"{path}.{key}", variables) for key, each in given.items()}
        case _:
            return value


def _convert(value: object, type_: type[T], path: str) -> T:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        sentence, inner = split_validation_error(error)
        raise _invalid(sentence, path + inner.removeprefix("$").replace("[...]", ".*")) from error


def _invalid(message: str, path: str) -> InputError:
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, Position(path=path))
