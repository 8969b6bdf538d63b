"""Tools of MCP servers. Each server is one connection; each of its tools a Tool that calls it.

    async with connect(read_servers(path), pins="pins.json", consent=ask) as mcp:
        tools = mcp.tools

1. A server that cannot be reached does not take the others down: `servers` says what is wrong with it, and the next
   call or `refresh` tries again. With `strict`, it is an error at once.
2. What a server says of its tools is untrusted: only tools whose definition is pinned are offered (see `pins`). They
   are listed again before the next call when the server says that they changed or had to be started again, and on
   `refresh`.
3. A Tool runs only while the server's definition is the one that it was made of, so the model never calls something
   else than what it was shown.
4. When `connect` is left, in whatever way, no process and no task is left behind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harmonia.errors import ErrorCode, InputError, ToolError
from harmonia.run.tools.mcp.configuration import McpServer
from harmonia.run.tools.mcp.connection import Connection, SessionExpired, finish, require_mcp
from harmonia.run.tools.mcp.pins import POLICIES, Change, Consent, Definition, Pins, Policy
from harmonia.run.tools.mcp.results import readable, readable_line, readable_schema, text_of
from harmonia.run.tools.tool import Tool
from harmonia.tool_definitions import SERVER_SEPARATOR

if TYPE_CHECKING:
    from mcp import Tool as ListedTool


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a server is. `withheld` has the tools that are not offered, by their own names, each with the reason;
    `changes` are the definitions that the operator did not accept. `is_stale`: the tools may have changed since they
    were listed. `complaints` is the end of what the server wrote to its standard error."""

    name: str
    is_connected: bool
    is_stale: bool
    protocol: str | None
    tools: tuple[str, ...]
    withheld: dict[str, ToolError]
    changes: tuple[Change, ...]
    error: ToolError | None
    complaints: str


@asynccontextmanager
async def connect(
    servers: Iterable[McpServer],
    *,
    pins: Pins | str | os.PathLike[str] | None = None,
    policy: Policy = "ask",
    consent: Consent | None = None,
    strict: bool = False,
    verify_calls: bool = False,
) -> AsyncGenerator[McpTools]:
    """Connect to the servers, all at once, and list their tools; everything ends with the block.

    `pins` is what the operator accepted, or the file it is kept in; without it, every tool is new. `policy` decides
    about new tools, and `consent` is asked, one question at a time: with "ask", the default, and without `consent`, no
    new tool is offered. With `verify_calls`, the tools are listed again before every call, for servers that change them
    without notice.
    """
    require_mcp()
    known = tuple(servers)
    names = [server.name for server in known]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(ErrorCode.TOOL_REPEATED_NAME, f"two servers are called {twice[0]!r}")
    if policy not in POLICIES:
        said = f"unknown policy {policy!r} for new tools; use one of {', '.join(POLICIES)}"
        raise InputError(ErrorCode.RUN_INVALID_OPTION, said)
    review = _Review(pins if isinstance(pins, Pins) else Pins(pins), policy, consent)
    tools = McpTools({server.name: _Server(server, review, verify_calls) for server in known})
    try:
        await tools.refresh(strict=strict)
        yield tools
    finally:
        await tools.close()


class McpTools:
    """The tools of connected servers. Made by `connect`."""

    def __init__(self, servers: dict[str, _Server]) -> None:
        self._servers = servers

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are offered, in the order of the servers and of their lists, named `server___tool`."""
        return tuple(tool for server in self._servers.values() for tool, _ in server.listing.offers.values())

    @property
    def servers(self) -> tuple[ServerStatus, ...]:
        """How each server is, now."""
        return tuple(server.status for server in self._servers.values())

    @property
    def is_stale(self) -> bool:
        """Whether `refresh` may find other tools: a server said so, or has died."""
        return any(server.is_stale for server in self._servers.values())

    async def refresh(self, *names: str, strict: bool = False) -> tuple[Tool, ...]:
        """List the tools of these servers, or of all, again, reconnect where needed, and return all tools.

        What the operator did not accept before is asked again. With `strict`, the first server that fails raises.
        """
        if unknown := [name for name in names if name not in self._servers]:
            known = ", ".join(self._servers) or "none"
            raise InputError(ErrorCode.TOOL_UNKNOWN, f"there is no MCP server {unknown[0]!r}; the servers are {known}")
        chosen = [self._servers[name] for name in names or self._servers]
        try:
            async with asyncio.TaskGroup() as group:
                listings = [group.create_task(server.refresh()) for server in chosen]
        except BaseExceptionGroup as failed:
            # Not a server's failure, which `refresh` returns, but that of `consent` or of the file of pins.
            raise failed.exceptions[0] from None
        if strict and (failures := [failure for each in listings if (failure := each.result()) is not None]):
            raise failures[0]
        return self.tools

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        """Calls a tool by its name, `server___tool`. A tool that is not offered raises, and the error says why."""
        server, parted, tool = name.partition(SERVER_SEPARATOR)
        if not parted or server not in self._servers:
            said = f"{readable_line(name)!r} is not the name of a tool of an MCP server"
            raise ToolError(ErrorCode.TOOL_UNKNOWN, said)
        return await self._servers[server].call(tool, arguments)

    async def close(self) -> None:
        """End every connection; `connect` does this."""
        # The servers must end even if the caller is cancelled, or their processes would stay.
        await finish(asyncio.create_task(server.connection.close()) for server in self._servers.values())


class _Review:
    """Asks the operator, one question at a time, whichever server it is about."""

    def __init__(self, pins: Pins, policy: Policy, consent: Consent | None) -> None:
        self.pins = pins
        self._policy: Policy = policy
        self._consent = consent
        self._asking = asyncio.Lock()
        self._refused: set[str] = set()

    async def look_at(self, definition: Definition, *, ask_again: bool) -> Change | None:
        """None where the tool may be offered, else the change that the operator did not accept."""
        async with self._asking:
            change = self.pins.change_to(definition)
            # A server that goes back and forth between two definitions must not wear the operator down.
            if change is not None and definition.sha256 in self._refused and not ask_again:
                return change
            self._refused.discard(definition.sha256)
            change = await self.pins.review(definition, self._policy, self._consent)
            if change is not None:
                self._refused.add(definition.sha256)
            return change


@dataclass(frozen=True, slots=True)
class _Listing:
    """A list of tools, sorted: what is offered, with the hash of its definition, what is not, and what was refused."""

    offers: dict[str, tuple[Tool, str]] = field(default_factory=dict[str, tuple[Tool, str]])
    withheld: dict[str, ToolError] = field(default_factory=dict[str, ToolError])
    changes: list[Change] = field(default_factory=list[Change])


class _Server:
    """One server: its connection, what is offered of it, and what is not."""

    def __init__(self, server: McpServer, review: _Review, verify_calls: bool) -> None:
        self.connection = Connection(server)
        self.listing = _Listing()
        self._server = server
        self._review = review
        self._verify_calls = verify_calls
        self._error: ToolError | None = None
        self._listing = asyncio.Lock()

    @property
    def is_stale(self) -> bool:
        return self.connection.is_stale or not self.connection.is_alive

    @property
    def status(self) -> ServerStatus:
        connection, listing = self.connection, self.listing
        offered, withheld, changes = tuple(listing.offers), dict(listing.withheld), tuple(listing.changes)
        state = (connection.is_alive, self.is_stale, connection.protocol)
        return ServerStatus(self._server.name, *state, offered, withheld, changes, self._error, connection.complaints)

    async def refresh(self) -> ToolError | None:
        """List the tools and have them reviewed. Returns the error instead of raising it: `status` has it, too."""
        try:
            async with self._listing:
                await self._list(ask_again=True)
        except ToolError as error:
            return error
        return None

    async def call(self, tool: str, arguments: dict[str, Any] | None, sha256: str | None = None) -> str:
        """Call a tool, if it is offered and, where `sha256` is given, unchanged."""
        try:
            return await self._call(tool, arguments, sha256)
        except SessionExpired:
            # Servers end sessions that were idle. The call was not run, so it may be sent again, in a new session.
            return await self._call(tool, arguments, sha256)

    async def _call(self, tool: str, arguments: dict[str, Any] | None, sha256: str | None) -> str:
        if self.is_stale or self._verify_calls:
            async with self._listing:
                # Others may have listed while this call waited.
                if self.is_stale or self._verify_calls:
                    await self._list(ask_again=False)
        shown = readable_line(f"{self._server.name} {tool}")
        _, current = self.listing.offers.get(tool, (None, None))
        if current is None:
            reason = self.listing.withheld.get(tool)
            code, message = (ErrorCode.TOOL_UNKNOWN, f"there is no tool {shown}")
            raise ToolError(code, message) if reason is None else ToolError(reason.code, reason.message)
        if sha256 not in (None, current):
            said = (
                f"the definition of {shown} has changed since the model was shown it, with the consent of the operator"
            )
            raise ToolError(ErrorCode.TOOL_CHANGED, said)
        result = await self.connection.call(tool, dict(arguments or {}))
        text = text_of(result)
        if result.is_error:
            raise ToolError(ErrorCode.TOOL_FAILED, text or f"{shown} failed without giving a reason")
        return text

    async def _list(self, *, ask_again: bool) -> None:
        """List the tools again. If that fails, what was offered stays: the next call tries again."""
        try:
            listed = await self.connection.list_tools()
            try:
                with self._review.pins.saving_once():
                    listing = await self._sort(listed, ask_again)
            except BaseException:
                self.connection.is_stale = True  # not all of it was reviewed
                raise
        except ToolError as error:
            self._error = error
            raise
        self.listing, self._error = listing, None

    async def _sort(self, listed: list[ListedTool], ask_again: bool) -> _Listing:
        listing = _Listing()
        offers, withheld, allowed = listing.offers, listing.withheld, self._server.allowed_tools
        seen: set[str] = set()
        for tool in listed:
            shown = repr(readable_line(tool.name))
            definition = _definition_of(self._server.name, tool)
            try:
                if tool.name in seen:
                    offers.pop(tool.name, None)  # it is not known which of the two would answer
                    raise ToolError(ErrorCode.TOOL_REPEATED_NAME, f"two tools are called {shown}")
                if not tool.name:
                    raise ToolError(ErrorCode.TOOL_INVALID_DEFINITION, "a tool has no name")
                if allowed is not None and tool.name not in allowed:
                    raise ToolError(ErrorCode.TOOL_NOT_ALLOWED, f"{shown} is not allowed")
                try:
                    sha256 = definition.sha256
                except InputError as error:  # it is not JSON, so it cannot be pinned, whoever accepts it
                    raise ToolError(error.code, error.message) from error
                change = await self._review.look_at(definition, ask_again=ask_again)
                if change is not None:
                    listing.changes.append(change)
                    raise change.refusal
                offers[tool.name] = (self._tool_of(definition), sha256)
            except ToolError as refusal:
                withheld[tool.name] = refusal
            seen.add(tool.name)
        for name in sorted(set(allowed or ()) - seen):
            withheld[name] = ToolError(ErrorCode.TOOL_UNKNOWN, f"{self._server.name} has no tool {name!r}")
        return listing

    def _tool_of(self, definition: Definition) -> Tool:
        name, sha256 = definition.tool, definition.sha256

        async def invoke(arguments: dict[str, Any] | None) -> str:
            return await self.call(name, arguments, sha256)

        timeouts = self._server.timeouts
        return Tool(
            f"{definition.server}{SERVER_SEPARATOR}{name}",
            None if definition.description is None else readable(definition.description),
            readable_schema(definition.input_schema),
            invoke,
            # The server may have to be started again first. Each step has its own limit; this is no shorter than they.
            timeout_s=timeouts.connect_s + timeouts.list_s + timeouts.call_s,
            untrusted=True,
            annotations=readable_schema(definition.annotations),
        )


def _definition_of(server: str, tool: ListedTool) -> Definition:
    annotations = None if tool.annotations is None else tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return Definition(server, tool.name, tool.description, tool.input_schema, annotations or None)
