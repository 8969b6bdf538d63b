"""The tools of a request: how the model is told of them, and what a call to each becomes for the client.

    function       function_call: the client runs it
    custom         custom_tool_call: the same; its input is text
    namespace      function_call with a `namespace`
    shell, local_shell, apply_patch    shell_call and so on: the client runs them; to the model they are functions
    mcp            a server that the operator configured, by its label; its calls run here
    web_search, tool_search    left out, with a warning: clients send them unasked, and a model may always choose not
                   to search

All others are a provider's own, and refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode
from harmonia.messages import Json
from harmonia.run.tools import Tool, ToolSet
from harmonia.serve.config.settings import Limits
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.responses.items.table import BUILT_IN
from harmonia.serve.wire import request_tools
from harmonia.serve.wire.request_tools import (
    Chosen,
    SchemaBudget,
    choose,
    read_client_tool,
    refuse_repeated,
)
from harmonia.serve.wire.validation import invalid, read_struct, too_large, unsupported
from harmonia.tool_definitions import FUNCTIONS, RESPONSES, RESPONSES_CHOICE, FlatTool, Spelling, read_namespace


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


_LEFT_OUT: Final = (
    "web_search",
    "web_search_preview",
    "web_search_2025_08_26",
    "web_search_preview_2025_03_11",
    "tool_search",
)
# The structs of tool definitions and tool choices, by type.
DEFINITIONS: Final[Spelling] = {**RESPONSES, **dict.fromkeys(BUILT_IN, _BuiltIn), "mcp": _Mcp}
CHOICES: Final[Spelling] = {**RESPONSES_CHOICE, **dict.fromkeys(BUILT_IN, FlatTool)}
# Of a server that a client names by its address there may be any number of tools.
_MOST_NAMED: Final = 32
_NO_TOOLS: Final = ToolSet()  # one, which remembers what a parser has read


class RemoteServer(msgspec.Struct, frozen=True):
    """An MCP server that a client asks for by its address."""

    label: str
    url: str
    headers: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    asks: bool = True
    path: str = "$.tools"


def remote_servers(tools: Sequence[Json], path: str = "$.tools") -> list[RemoteServer]:
    """The MCP servers that come with an address. Whether that is allowed is not decided here."""
    found: list[RemoteServer] = []
    for at, given in enumerate(tools):
        if given.get("type") != "mcp" or given.get("server_url") is None:
            continue
        where = f"{path}[{at}]"
        mcp = read_struct(given, _Mcp, where)
        headers = dict(mcp.headers or {})
        if mcp.authorization is not None:
            headers["authorization"] = f"Bearer {mcp.authorization}"
        names = _names_allowed(mcp.allowed_tools, f"{where}.allowed_tools")
        # Which tools ask, where some do, is read with the tools.
        asks = mcp.require_approval in (None, "always")
        found.append(RemoteServer(mcp.server_label, mcp.server_url or "", headers, names, asks, where))
    return found


def check_allowed(label: str, allowed: Sequence[str] | None, names: Sequence[str], path: str) -> None:
    """Refuse a list of allowed tools none of which the server has. `path` is that of the server's definition."""
    if allowed and not set(allowed) & set(names):
        known = ", ".join(sorted(names)[:_MOST_NAMED]) or "none"
        invalid(f"the MCP server {label!r} has none of these tools; it has: {known}", f"{path}.allowed_tools")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tools(
    lists: Sequence[tuple[str, Sequence[Json]]],
    hosted: Sequence[ServerTool],
    limits: Limits,
    schemas: SchemaBudget,
    warnings: list[str],
) -> ToolSet:
    """The tools of a request: lists of definitions, each with its path, and those that run here.

    No list has a name twice. A tool of a later list replaces the one of an earlier list that has its name. What is left
    out goes to `warnings`.
    """
    if not hosted and not any(tools for _, tools in lists):
        return _NO_TOOLS
    reader = _Reader(hosted, limits, schemas, warnings)
    for path, tools in lists:
        reader.begin_list()
        for at, given in enumerate(tools):
            reader.read(given, f"{path}[{at}]")
    return reader.finish()


def named_servers(lists: Sequence[tuple[str, Sequence[Json]]]) -> tuple[str, ...]:
    """The MCP servers that a request names, by their labels."""
    labels = (str(tool.get("server_label")) for _, tools in lists for tool in tools if tool.get("type") == "mcp")
    return tuple(dict.fromkeys(labels))


def read_choice(given: str | Json | None, tools: ToolSet) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    path = "$.tool_choice"
    return choose(request_tools.read_choice(given, path, CHOICES, ErrorCode.SERVE_UNSUPPORTED), tools, path)


class _Reader:
    def __init__(
        self, hosted: Sequence[ServerTool], limits: Limits, schemas: SchemaBudget, warnings: list[str]
    ) -> None:
        self._hosted = hosted
        self._limits = limits
        self._schemas = schemas
        self._warnings = warnings
        self._found: dict[tuple[str | None, str], Tool] = {}
        self._in_list: set[tuple[str | None, str]] = set()
        self._described: dict[str, str | None] = {}
        self._servers: dict[str, tuple[_Mcp, str]] = {}
        self._count = 0

    def begin_list(self) -> None:
        self._in_list.clear()

    def finish(self) -> ToolSet:
        return ToolSet([*self._found.values(), *self._server_tools()], descriptions=self._described)

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
                    self._described[name] = description
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
        if name in self._in_list:
            refuse_repeated(tool.name, path)
        self._in_list.add(name)
        self._found[name] = tool

    def _read_mcp(self, mcp: _Mcp, path: str) -> None:
        if mcp.connector_id is not None or mcp.tunnel_id is not None:
            unsupported("connectors are not supported; use server_label or server_url", f"{path}.connector_id")
        known = {tool.server for tool in self._hosted}
        if mcp.server_label not in known and mcp.server_url is None:
            offered = ", ".join(sorted(known)) or "none"
            invalid(f"there is no MCP server {mcp.server_label!r} here; there are: {offered}", f"{path}.server_label")
        allowed = _names_allowed(mcp.allowed_tools, f"{path}.allowed_tools")
        names = [tool.name for tool in self._hosted if tool.server == mcp.server_label]
        check_allowed(mcp.server_label, allowed, names, path)
        self._servers[mcp.server_label] = (mcp, path)

    def _server_tools(self) -> list[Tool]:
        """Those that run here: of the servers that the request names or, if it names none, of all."""
        found: list[Tool] = []
        for hosted in self._hosted:
            asked = self._servers.get(hosted.server)
            if self._servers and asked is None:
                continue
            approval = hosted.approval
            if asked is not None:
                mcp, path = asked
                allowed = _names_allowed(mcp.allowed_tools, f"{path}.allowed_tools")
                if allowed is not None and hosted.name not in allowed:
                    continue
                # A client may ask for more care than the operator, never for less.
                if _wants_approval(mcp.require_approval, hosted.name, f"{path}.require_approval"):
                    approval = "ask"
            same = self._found.get((FUNCTIONS, hosted.tool.name))
            if same is not None:
                refuse_repeated(same.name, same.path)
            invoke = None if approval == "ask" else hosted.tool.invoke
            found.append(replace(hosted.tool, server=hosted.server, invoke=invoke))
        return found


def _names_allowed(given: list[str] | Json | None, path: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, list):
        return tuple(given)
    if "read_only" in given:
        unsupported(
            "read_only is not supported here; list the tools in tool_names",
            f"{path}.read_only",
        )
    unknown = next((name for name in given if name != "tool_names"), None)
    if unknown is not None:
        invalid(f"unknown parameter {unknown[:100]!r}", f"{path}.{unknown[:100]}")
    names: Any = given.get("tool_names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        invalid("tool_names must be a list of strings", f"{path}.tool_names")
    return tuple(cast("list[str]", names))


def _wants_approval(given: str | Json | None, name: str, path: str) -> bool:
    """Whether a client wants to be asked. Where it names tools that never ask, all others do."""
    if not isinstance(given, dict):
        return given == "always"
    names: dict[str, tuple[str, ...]] = {}
    for when, each in given.items():
        if when not in ("always", "never") or not isinstance(each, dict | None):
            invalid("expected always and never, each with tool_names", f"{path}.{when[:100]}")
        names[when] = _names_allowed(cast("Json | None", each), f"{path}.{when}") or ()
    return name in names.get("always", ()) or ("never" in names and name not in names["never"])
