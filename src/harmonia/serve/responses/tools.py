"""The tools of a request: how the model is told of them, and what a call to each becomes for the client.

    function       function_call: the client runs it
    custom         custom_tool_call: the same; its input is text
    namespace      function_call with a `namespace`
    shell, local_shell, apply_patch    shell_call and so on: the client runs them; to the model they are functions
    mcp            a server that the operator configured, by its label, or, if the operator allows it, one that the
                   client names by its address, connected for one response; its calls run here
    web_search, tool_search    left out, with a warning: clients send them unasked, and a model may always choose not
                   to search

All others are a provider's own, and refused by name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, ToolError
from harmonia.messages import Json
from harmonia.run.tools import Tool, ToolSet
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.models.server_tools import ServerTool, server_tools
from harmonia.serve.responses.items.table import BUILT_IN
from harmonia.serve.wire import request_tools
from harmonia.serve.wire.request_tools import Chosen, SchemaBudget, choose, read_client_tool, refuse_repeated
from harmonia.serve.wire.validation import invalid, read_struct, refuse, too_large, unsupported
from harmonia.tool_definitions import FUNCTIONS, RESPONSES, RESPONSES_CHOICE, FlatTool, Spelling, read_namespace

_LOG: Final = logging.getLogger("harmonia.serve")
_LEFT_OUT: Final = (
    "web_search",
    "web_search_preview",
    "web_search_2025_08_26",
    "web_search_preview_2025_03_11",
    "tool_search",
)
_NO_TOOLS: Final = ToolSet()  # one, which remembers what a parser has read
_MOST_SERVERS: Final = 8
# Of a server that a client names by its address there may be any number of tools.
_MOST_NAMED: Final = 32


class _BuiltIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    environment: Json | None = None
    allowed_callers: list[str] | None = None


class _Mcp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    server_label: str
    type: Literal["mcp"] = "mcp"
    server_url: str | None = None
    server_description: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | Json | None = None
    require_approval: Literal["always", "never"] | Json | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None

    def check_allowed(self, offered: Sequence[str], path: str) -> tuple[str, ...] | None:
        """The tools that the client allows; None for all. Refuses a list of which the server has none."""
        allowed = _tool_names(self.allowed_tools, f"{path}.allowed_tools")
        if allowed and not set(allowed) & set(offered):
            known = ", ".join(sorted(offered)[:_MOST_NAMED]) or "none"
            message = f"the MCP server {self.server_label!r} has none of these tools; it has: {known}"
            invalid(message, f"{path}.allowed_tools")
        return allowed

    def wants_approval(self, name: str, path: str) -> bool:
        """Whether the client wants to be asked. Where it names tools that never ask, all others do."""
        given = self.require_approval
        if not isinstance(given, dict):
            return given == "always"
        names: dict[str, tuple[str, ...]] = {}
        for when, each in given.items():
            where = f"{path}.require_approval.{when[:100]}"
            if when not in ("always", "never") or not isinstance(each, dict | None):
                invalid("expected always and never, each with tool_names", where)
            names[when] = _tool_names(cast("Json | None", each), where) or ()
        return name in names.get("always", ()) or ("never" in names and name not in names["never"])


# The structs of tool definitions and tool choices, by type.
DEFINITIONS: Final[Spelling] = {**RESPONSES, **dict.fromkeys(BUILT_IN, _BuiltIn), "mcp": _Mcp}
CHOICES: Final[Spelling] = {**RESPONSES_CHOICE, **dict.fromkeys(BUILT_IN, FlatTool)}


def _tool_names(given: list[str] | Json | None, path: str) -> tuple[str, ...] | None:
    names: Any = given
    if isinstance(given, dict):
        if "read_only" in given:
            unsupported("read_only is not supported here; list the tools in tool_names", f"{path}.read_only")
        for name in given:
            if name != "tool_names":
                invalid(f"unknown parameter {name[:100]!r}", f"{path}.{name[:100]}")
        names = given.get("tool_names")
        listed = cast("list[object] | None", names) or ()
        if not isinstance(names, list | None) or not all(isinstance(each, str) for each in listed):
            invalid("tool_names must be a list of strings", f"{path}.tool_names")
    return None if names is None else tuple(cast("list[str]", names))


# ── servers that clients name by their addresses ────────────────────────────────────────────────────────────────────


async def connect_servers(
    definitions: Sequence[Json], settings: Settings, stack: AsyncExitStack
) -> tuple[ServerTool, ...]:
    """The tools of the MCP servers that come with an address. The stack closes the connections."""
    servers = {
        f"$.tools[{at}]": read_struct(given, _Mcp, f"$.tools[{at}]")
        for at, given in enumerate(definitions)
        if given.get("type") == "mcp" and given.get("server_url") is not None
    }
    if not servers:
        return ()
    if not settings.allow_client_mcp:
        message = (
            "this server does not connect to MCP servers that clients name; use a server that the operator configured, "
            "by its server_label and without server_url"
        )
        refuse(ErrorCode.SERVE_FORBIDDEN, message, f"{next(iter(servers))}.server_url")
    if len(servers) > _MOST_SERVERS:
        message = f"a request may name at most {_MOST_SERVERS} MCP servers by URL"
        invalid(message, f"{list(servers)[_MOST_SERVERS]}.server_url")
    offered: list[ServerTool] = []
    for path, mcp in servers.items():
        offered += await _connect(mcp, path, settings, stack)
    return tuple(offered)


async def _connect(mcp: _Mcp, path: str, settings: Settings, stack: AsyncExitStack) -> list[ServerTool]:
    from harmonia.run.tools.mcp import HttpServer, connect

    url, headers = mcp.server_url or "", dict(mcp.headers or {})
    if mcp.authorization is not None:
        headers["authorization"] = f"Bearer {mcp.authorization}"
    server = HttpServer(mcp.server_label, url, headers, private_hosts=frozenset(settings.client_mcp_hosts))
    try:
        tools = await stack.enter_async_context(connect([server], policy="trust_first", strict=True))
    except ToolError as error:
        if error.code is not ErrorCode.TOOL_SERVER_UNREACHABLE:
            raise
        _LOG.warning("the MCP server %s of a client: %s", mcp.server_label, error)
        message = (
            f"the MCP server {mcp.server_label!r} at {_without_secrets(url)} cannot be reached, is on a private "
            "network that the operator does not allow (client_mcp_hosts), or does not speak MCP; check its URL"
        )
        raise InputError(ErrorCode.SERVE_MCP_UNREACHABLE, message, Position(path=f"{path}.server_url")) from error
    # Such a server checks its arguments itself. Its schemas are untrusted: a pattern that never finishes matching
    # would block every other request.
    unchecked = (replace(tool, checks_arguments=False, untrusted=True) for tool in tools.tools)
    # Which tools ask, where only some do, is read with the tools.
    found = server_tools(unchecked, {"*": "ask" if mcp.require_approval in (None, "always") else "run"})
    allowed = mcp.check_allowed([tool.name for tool in found], path)
    return [tool for tool in found if allowed is None or tool.name in allowed]


def _without_secrets(url: str) -> str:
    """An address without user name, password and query."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:200]
    except ValueError:
        return "an invalid URL"


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tools(
    lists: Sequence[tuple[str, Sequence[Json]]],
    hosted: Sequence[ServerTool],
    limits: Limits,
    schemas: SchemaBudget,
    warnings: list[str],
) -> ToolSet:
    """The tools of a request: lists of definitions, each with its path, and those that run here. No list has a name
    twice; a later list replaces tools of an earlier one. What is left out goes to `warnings`."""
    if not hosted and not any(tools for _, tools in lists):
        return _NO_TOOLS
    reader = _Reader(hosted, limits, schemas, warnings)
    for path, tools in lists:
        reader.in_list.clear()
        for at, given in enumerate(tools):
            reader.read(given, f"{path}[{at}]")
    return ToolSet([*reader.found.values(), *reader.server_tools()], descriptions=reader.described)


def read_choice(given: str | Json | None, tools: ToolSet) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    path = "$.tool_choice"
    return choose(request_tools.read_choice(given, path, CHOICES, ErrorCode.SERVE_UNSUPPORTED), tools, path)


class _Reader:
    def __init__(
        self, hosted: Sequence[ServerTool], limits: Limits, schemas: SchemaBudget, warnings: list[str]
    ) -> None:
        self.found: dict[tuple[str | None, str], Tool] = {}
        self.in_list: set[tuple[str | None, str]] = set()
        self.described: dict[str, str | None] = {}
        self._hosted = hosted
        self._limits = limits
        self._schemas = schemas
        self._warnings = warnings
        self._servers: dict[str, tuple[_Mcp, str]] = {}
        self._count = 0

    def read(self, given: object, path: str) -> None:
        if not isinstance(given, dict):
            invalid("a tool must be a JSON object", path)
        tool = cast("Json", given)
        self._count_one(path)
        kind = tool.get("type", "function")
        match kind:
            case "function" | "custom":
                self._add_client_tool(tool, path, FUNCTIONS)
            case "namespace":
                read_struct(tool, RESPONSES["namespace"], path)
                name, description, tools = read_namespace(tool, path)
                if name != FUNCTIONS:
                    self.described[name] = description
                for at, each in enumerate(tools):
                    self._count_one(f"{path}.tools[{at}]")
                    self._add_client_tool(each, f"{path}.tools[{at}]", name)
            case str() if kind in BUILT_IN:
                built_in = read_struct(tool, _BuiltIn, path)
                if (built_in.environment or {}).get("type", "local") != "local":
                    unsupported("there are no containers here: the client runs the shell", f"{path}.environment")
                # Its arguments are checked here: the item has fields for them, not a text.
                declaration = BUILT_IN[kind].declaration
                assert declaration is not None, "the table has those that declare one"
                self._add(replace(declaration, built_in=kind), path)
            case "mcp":
                self._read_mcp(read_struct(tool, _Mcp, path), path)
            case str() if kind in _LEFT_OUT:
                self._warnings.append(f"{path.removeprefix('$.')}: this server has no {kind}; the tool was left out")
            case _:
                unsupported(
                    f"unsupported type of tool: {kind!r}; expected {', '.join((*DEFINITIONS, *_LEFT_OUT[:1]))}",
                    f"{path}.type",
                )

    def _count_one(self, path: str) -> None:
        self._count += 1
        if self._count > self._limits.tools:
            too_large(f"there are more than {self._limits.tools} tools", path)

    def _add_client_tool(self, given: Json, path: str, namespace: str) -> None:
        if "function" in given and "name" not in given:
            invalid("the fields of a function belong next to its type, not in `function`", f"{path}.function")
        if given.get("type", "function") not in ("function", "custom"):
            unsupported(f"a namespace may contain functions and custom tools, not {given['type']!r}", f"{path}.type")
        tool = read_client_tool(given, path, RESPONSES, self._limits, self._schemas)
        if tool.defer_loading:
            where = path.removeprefix("$.")
            self._warnings.append(f"{where}: {tool.name} was left out: it is deferred, and nothing here loads it later")
        else:
            self._add(replace(tool, namespace=namespace), path)

    def _add(self, tool: Tool, path: str) -> None:
        name = (tool.namespace, tool.name)
        if name in self.in_list:
            refuse_repeated(tool.name, path)
        self.in_list.add(name)
        self.found[name] = tool

    def _read_mcp(self, mcp: _Mcp, path: str) -> None:
        if mcp.connector_id is not None or mcp.tunnel_id is not None:
            unsupported("connectors are not supported; use server_label or server_url", f"{path}.connector_id")
        known = {tool.server for tool in self._hosted}
        if mcp.server_label not in known and mcp.server_url is None:
            offered = ", ".join(sorted(known)) or "none"
            invalid(f"there is no MCP server {mcp.server_label!r} here; there are: {offered}", f"{path}.server_label")
        mcp.check_allowed([tool.name for tool in self._hosted if tool.server == mcp.server_label], path)
        self._servers[mcp.server_label] = (mcp, path)

    def server_tools(self) -> list[Tool]:
        """Those that run here: of the servers that the request names or, if it names none, of all."""
        found: list[Tool] = []
        for hosted in self._hosted:
            asked = self._servers.get(hosted.server)
            if self._servers and asked is None:
                continue
            approval = hosted.approval
            if asked is not None:
                mcp, path = asked
                allowed = _tool_names(mcp.allowed_tools, path)
                if allowed is not None and hosted.name not in allowed:
                    continue
                # A client may ask for more care than the operator, never for less.
                if mcp.wants_approval(hosted.name, path):
                    approval = "ask"
            same = self.found.get((FUNCTIONS, hosted.tool.name))
            if same is not None:
                refuse_repeated(same.name, same.path)
            invoke = None if approval == "ask" else hosted.tool.invoke
            found.append(replace(hosted.tool, server=hosted.server, invoke=invoke))
        return found
