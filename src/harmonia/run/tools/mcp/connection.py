"""One connection to one MCP server: started, listed, called, and started again when it has died.

    closed -open-> living -the stream ends, or the transport fails-> closed

1. The SDK's client lives in a task of its own from its first to its last line, because its cancel scopes must be left
   by the task that entered them. Requests are sent from the tasks of their callers, with scopes of their own.
2. A call that times out or whose caller is cancelled is also cancelled at the server, and the connection stays usable.
3. A connection that died is not repaired: the calls that were under way fail, since it is not known how far they got,
   and the next request begins a new life.
4. After `close`, the server's process and every task of the connection are gone, even if the caller was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar, cast

from harmonia.errors import ErrorCode, HarmonyError, InputError, ToolError
from harmonia.run.tools.mcp.configuration import HttpServer, McpServer, StdioServer, environment_for
from harmonia.run.tools.mcp.results import readable

if TYPE_CHECKING:
    import httpx2
    from mcp import Client, Tool
    from mcp.types import CallToolResult


T = TypeVar("T")

# What is kept of a server's standard error.
LIMIT_BYTES: Final = 16_384
_READ_BYTES: Final = 65_536
# A longer list is an attack or a bug; no person can read that many descriptions, and no model either.
MAX_TOOLS: Final = 2_000
# A server that takes long to confirm a subscription is used without one: its tools are listed again when it says so.
SUBSCRIBE_S: Final = 5.0
# How long a session's end may take over HTTP. The SDK gives a process about six seconds.
FAREWELL_S: Final = 2.0
_MESSAGE_CHARS: Final = 4_000
_SESSION_GONE: Final = "Session terminated"
_SILENCE: Final = logging.NullHandler()


class Complaints:
    """A pipe whose one end is `file`, for the server's standard error. The running event loop reads the other end."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.file: TextIO = os.fdopen(writing, "w")
        try:
            self._loop.add_reader(self._reading, self._read)
        except NotImplementedError:
            # The default loop of Windows does not read pipes this way. A pipe that is never read blocks the server.
            self.file.close()
            self.file = open(os.devnull, "w")  # noqa: SIM115 - closed in `close`

    @property
    def text(self) -> str:
        """The end of what was written."""
        self._read_all()
        return readable(self._kept.decode(errors="replace")).strip()

    def close(self) -> None:
        """Close both ends; what was read stays."""
        if self._reading < 0:
            return
        self._read_all()
        with suppress(NotImplementedError):
            self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self._reading = -1
        self.file.close()

    def _read_all(self) -> None:
        # What a dying server wrote may still be in the pipe.
        while self._reading >= 0 and self._read():
            pass

    def _read(self) -> bool:
        """Read once; whether there was anything."""
        try:
            data = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return False
        self._kept += data
        del self._kept[:-LIMIT_BYTES]
        return bool(data)


async def finish(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait until the tasks are done, whatever happens to the caller meanwhile."""
    rest, was_cancelled = set(tasks), False
    while rest := {task for task in rest if not task.done()}:
        try:
            await asyncio.wait(rest)
        except asyncio.CancelledError:
            was_cancelled = True
    if was_cancelled:
        raise asyncio.CancelledError


def require_mcp() -> None:
    """Raise if the SDK is not installed."""
    try:
        import mcp  # noqa: F401 # pyright: ignore[reportUnusedImport] - only whether it is there
    except ImportError as error:
        said = "MCP servers need the package mcp: pip install 'harmonia[mcp]'"
        raise InputError(ErrorCode.TOOL_MISSING_EXTRA, said) from error
    # The SDK logs a traceback for each bad line of a server. Without a handler, Python would print those.
    logging.getLogger("mcp").addHandler(_SILENCE)


class SessionExpired(ToolError):
    """The server no longer knows the session, so it did nothing. A new session may be tried."""


class Connection:
    """The connection to one server. `is_stale` says that the tools may not be those that were listed last."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.is_stale = True
        self._life: _Life | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.is_alive

    @property
    def protocol(self) -> str | None:
        """The version of MCP in use, while the connection lives."""
        client = None if self._life is None else self._life.client
        return None if client is None or not self.is_alive else client.protocol_version

    @property
    def complaints(self) -> str:
        """The last of what the server wrote to its standard error."""
        return "" if self._life is None else self._life.complaints

    async def list_tools(self) -> list[Tool]:
        """Every tool of the server, from all pages."""

        async def fetch(client: Client) -> list[Tool]:
            tools: list[Tool] = []
            cursors: set[str] = set()
            cursor: str | None = None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                is_long = len(tools) > MAX_TOOLS
                if is_long or cursor in cursors:
                    found = f"has more than {MAX_TOOLS:,} tools" if is_long else "gives the same page again"
                    raise ToolError(ErrorCode.TOOL_FAILED, f"the list of tools of {self.server.name} {found}")
                if cursor is None:
                    return tools
                cursors.add(cursor)

        life = await self._living()
        # Subscribed first and cleared before the list is asked for: a change meanwhile is not missed.
        await life.subscribe()
        self.is_stale = False
        try:
            return await self._request(life, fetch, self.server.timeouts.list_s, "the list of tools")
        except BaseException:
            self.is_stale = True
            raise

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool. An error of the tool is a result like others here."""
        life, limit_s = await self._living(), self.server.timeouts.call_s
        return await self._request(life, lambda client: client.call_tool(tool, arguments), limit_s, tool)

    async def close(self) -> None:
        """End the connection, and with it a process that was started for it, for good."""
        self._is_closed = True
        # A task that is opening it sees that, once it has the lock; a life that is under way ends here.
        if self._life is not None:
            await self._life.end()

    async def _living(self) -> _Life:
        """The life that requests are sent to; a new one where there is none."""
        async with self._lock:
            if self._life is not None:
                if self._life.is_alive:
                    return self._life
                await self._life.end()
            if self._is_closed:
                raise ToolError(ErrorCode.TOOL_SERVER_UNREACHABLE, f"the connection to {self.server.name} is closed")
            self.is_stale = True
            life = self._life = _Life(self.server, lambda: setattr(self, "is_stale", True))
            try:
                await life.opened.wait()
                if not life.is_alive:
                    raise life.gone()
            except (asyncio.CancelledError, ToolError):
                await life.end()
                raise
            return life

    async def _request(self, life: _Life, send: Callable[[Client], Awaitable[T]], timeout_s: float, what: str) -> T:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        name = self.server.name
        limit = asyncio.timeout(timeout_s)
        try:
            # When the time is up, the SDK sees a cancelled caller, and tells the server to stop.
            async with limit:
                client = life.client
                if client is None:
                    raise life.gone()
                return await send(client)
        except TimeoutError as error:
            if not limit.expired():
                raise ToolError(ErrorCode.TOOL_FAILED, f"{name} failed: {_message_of(error)}") from error
            said = f"{name} did not answer within {timeout_s:g} s: {what}"
            raise ToolError(ErrorCode.TOOL_TIMED_OUT, said) from error
        except MCPError as error:
            if error.message == _SESSION_GONE:
                await life.end()
                raise SessionExpired(ErrorCode.TOOL_SERVER_UNREACHABLE, f"{name} has ended the session") from error
            if error.code == CONNECTION_CLOSED:
                self.is_stale = True  # whoever answers next may be another program
                if not life.is_alive:
                    await life.end()  # which also finds out why
                raise life.gone(error) from error
            raise ToolError(ErrorCode.TOOL_FAILED, f"{name} refused {what}: {_message_of(error)}") from error
        except HarmonyError:
            raise
        except Exception as error:
            # An answer that breaks the protocol or the tool's own output schema; or, in a life that ended, the SDK's
            # various ways of saying so.
            if not life.is_alive:
                raise life.gone(error) from error
            raise ToolError(ErrorCode.TOOL_FAILED, f"{name} gave a bad answer: {_message_of(error)}") from error


class _Life:
    """One life of a connection, owned by its task. `opened` is set once it is known whether it could be opened."""

    def __init__(self, server: McpServer, on_change: Callable[[], None]) -> None:
        self.client: Client | None = None
        self.failure: ToolError | None = None
        self.opened, self._ended = asyncio.Event(), asyncio.Event()
        self._server = server
        self._on_change = on_change
        self._complaints = Complaints() if isinstance(server, StdioServer) else None
        self._is_leaving, self._is_late = False, False
        self._status: int | None = None
        self._subscription: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._live(), name=f"mcp server {server.name}")
        # Not a `finally` of the task: one that is cancelled before its first step never gets there.
        self._task.add_done_callback(self._finish)

    @property
    def is_alive(self) -> bool:
        return self.opened.is_set() and not self._ended.is_set() and not self._task.done()

    @property
    def complaints(self) -> str:
        return "" if self._complaints is None else self._complaints.text

    async def end(self) -> None:
        """End the life and wait until nothing of it is left, whatever happens to the caller meanwhile."""
        self._ended.set()
        self._abandon()
        # The SDK bounds every wait of its shutdown. A task that is left alone here would be cancelled in the middle
        # of it when the event loop ends, and its server would stay.
        await finish(task for task in (self._task, self._subscription) if task is not None)

    def gone(self, cause: BaseException | None = None) -> ToolError:
        """The error of a request to a server that is no longer there."""
        if self.failure is not None:
            return self._unreachable(self.failure.message)
        because = "" if cause is None else f" ({_message_of(cause)})"
        return self._unreachable(f"{self._server.name} ended before it answered{because}")

    async def subscribe(self) -> None:
        """Ask for news of changed tools, where the protocol has such subscriptions and the server supports them."""
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        client = self.client
        if client is None or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or (self._subscription and not self._subscription.done()):
            return
        confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._subscription = asyncio.create_task(self._listen(client, confirmed))
        await asyncio.wait((confirmed,), timeout=SUBSCRIBE_S)

    async def _listen(self, client: Client, confirmed: asyncio.Future[bool]) -> None:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                confirmed.set_result(True)
                async for _ in changes:
                    self._on_change()
        except Exception:  # every way in which a subscription is refused or lost; calls report what is wrong
            logging.getLogger(__name__).debug("no news from %s", self._server.name, exc_info=True)
        finally:
            # Changes are no longer reported. Where the subscription was confirmed, the tools are listed again before
            # the next call, and the subscription is renewed.
            if confirmed.done():
                self._on_change()
            else:
                confirmed.set_result(False)

    def _abandon(self, *, is_late: bool = False) -> None:
        """Stop a handshake that is under way; but never a shutdown, which would leave the process running."""
        if not self.opened.is_set() and not self._is_leaving and not self._is_late:
            self._is_late = is_late
            self._task.cancel()

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        too_late = loop.call_later(self._server.timeouts.connect_s, lambda: self._abandon(is_late=True))
        try:
            async with AsyncExitStack() as stack:
                self.client = await self._enter(stack)
                too_late.cancel()
                self.opened.set()
                try:
                    await self._ended.wait()
                finally:
                    self._ended.set()
                    if self._subscription is not None:
                        self._subscription.cancel()
                        await asyncio.gather(self._subscription, return_exceptions=True)
        except Exception as error:  # whatever goes wrong with a server is reported as that server's error
            self.failure = self._unreachable(self._reason(error))
            self.failure.__cause__ = error
        except asyncio.CancelledError:
            if not self._is_late:
                raise
            self.failure = self._unreachable(self._reason(TimeoutError()))
        finally:
            too_late.cancel()
            self.client = None

    def _finish(self, _: asyncio.Task[None]) -> None:
        self._ended.set()
        self.opened.set()
        if self._complaints is not None:
            self._complaints.close()

    async def _enter(self, stack: AsyncExitStack) -> Client:
        from importlib.metadata import version

        from mcp import Client, Implementation
        from mcp.types import ToolListChangedNotification

        async def heed(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._on_change()

        def leave() -> None:
            self._is_leaving = True

        transport = _watch(await self._transport(stack), self._ended.set, leave)
        # A cached list would be what the server once said; pins compare with what it says now.
        us = Implementation(name="harmonia", version=version("harmonia"))
        client = Client(transport, message_handler=heed, cache=None, client_info=us)
        return await stack.enter_async_context(client)

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        server = self._server
        if isinstance(server, HttpServer):
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            from harmonia.run.tools.mcp.public_http import PublicTransport

            async def note_status(response: httpx2.Response) -> None:
                # The SDK reports only that there was an error; people want to know whether it was a 401.
                self._status = response.status_code

            # Reading has no limit of its own: a call may take its time, and every request has a limit here.
            client = httpx2.AsyncClient(
                headers=dict(server.headers),
                timeout=httpx2.Timeout(server.timeouts.connect_s, read=None),
                event_hooks={"request": [_limit_farewell], "response": [note_status]},
                transport=None if server.private_hosts is None else PublicTransport(server.private_hosts),
                trust_env=server.private_hosts is None,
            )
            return streamable_http_client(server.url, http_client=await stack.enter_async_context(client))
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        args, variables = list(server.args), environment_for(server)
        parameters = StdioServerParameters(command=server.command, args=args, env=variables, cwd=server.cwd)
        assert self._complaints is not None
        return stdio_client(parameters, errlog=self._complaints.file)

    def _reason(self, error: Exception) -> str:
        server = self._server
        place = f"the MCP server {server.name}"
        if isinstance(server, StdioServer):
            if isinstance(inner := _innermost(error), FileNotFoundError) and inner.filename == server.command:
                return f"{place} cannot be started: the command {server.command} was not found"
            place += f" ({server.command})"
        if self.opened.is_set():
            return f"the connection to {place} failed: {_message_of(error)}"
        if isinstance(error, TimeoutError):
            return f"{place} did not complete the handshake within {server.timeouts.connect_s:g} s"
        status = f" (HTTP {self._status})" if self._status is not None and self._status >= 400 else ""
        return f"{place} cannot be reached: {_message_of(error)}{status}"

    def _unreachable(self, reason: str) -> ToolError:
        """The error. The server's standard error is a note for the operator: the message goes to the model."""
        error = ToolError(ErrorCode.TOOL_SERVER_UNREACHABLE, reason)
        if self.complaints:
            error.add_note(f"it wrote to its standard error:\n{self.complaints}")
        return error


@asynccontextmanager
async def _watch(
    transport: AbstractAsyncContextManager[Any], on_end: Callable[[], None], on_leave: Callable[[], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """The transport, with a callback when the stream from the server ends, which the SDK reports only to those who read
    on, and one when the transport begins to shut down."""
    async with transport as (reading, writing):
        try:
            yield _Watched(reading, on_end), writing
        finally:
            on_leave()


class _Watched:
    """The stream from the server. Whoever reads it leaves it when it ends."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Any:
        return self._stream.__aiter__()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> bool | None:
        self._on_end()
        return await self._stream.__aexit__(*reason)


async def _limit_farewell(request: httpx2.Request) -> None:
    # The SDK ends a session with a DELETE and waits for the answer. A server that gives none must not keep us.
    if request.method == "DELETE":
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), FAREWELL_S)


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap an error in groups of one."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _message_of(error: BaseException) -> str:
    error = _innermost(error)
    return readable(str(error) or type(error).__name__)[:_MESSAGE_CHARS]
