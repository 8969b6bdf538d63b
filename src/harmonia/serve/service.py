"""Everything that a server holds, opened and closed together: the engine, the store, the keys, the tools.

HTTP knows this object only; another transport would be another user of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position, StoreError, ToolError
from harmonia.messages import Json
from harmonia.renderer import Renderer
from harmonia.run.engines.base import Traits
from harmonia.run.model_source import Model
from harmonia.serve.chat_completions.service import ChatCompletions
from harmonia.serve.config.default_paths import seal_key_path, store_address
from harmonia.serve.config.settings import Settings
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.inspector.turn_trace import RenderedTurn, render_turn
from harmonia.serve.models.cached_tokens import SentPrompts
from harmonia.serve.models.server_tools import ServerTool, describe_servers, server_tools
from harmonia.serve.responses.service import Responses
from harmonia.serve.responses.tools import RemoteServer, check_allowed
from harmonia.serve.saved_chats.service import SavedChats
from harmonia.serve.security.api_keys import ApiKeys
from harmonia.serve.security.identity import Caller
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.store import Store, open_store

if TYPE_CHECKING:
    from harmonia.run.tools.mcp.client import McpTools

_LOG: Final = logging.getLogger("harmonia.serve")
_DAY_S: Final = 86_400
_MUCH_TEXT: Final = "Some words, as many as it takes. " * 1000
_PURGE_EVERY_S: Final = 3600.0
_MOST_REMOTE_SERVERS: Final = 8
_GPT_OSS: Final = re.compile(r"gpt-?oss[-:_]?(20b|120b)?")


class Service:
    """What a server holds. `Service.open` makes one."""

    def __init__(
        self,
        settings: Settings,
        model: Model,
        store: Store,
        seals: Seals,
        *,
        keys: ApiKeys | None = None,
        tools: Sequence[ServerTool] = (),
        mcp: McpTools | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.model = model
        self.store = store
        self.seals = seals
        self.keys = keys
        self.tools = tuple(tools)
        self.mcp = mcp
        self.clock = clock
        self.renderer = Renderer()
        self.sent_prompts = SentPrompts(self.renderer)
        self.responses = Responses(self)
        self.chat_completions = ChatCompletions(self, self.sent_prompts)
        self.saved_chats = SavedChats(self)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, model: Model) -> AsyncGenerator[Service]:
        """Open what the settings name, in front of this model, which is closed with the rest."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            keys_at = settings.api_key_file
            keys = None if keys_at is None else ApiKeys(Path(keys_at), on_problem=_report)
            seals = Seals(seal_key_path(settings), days=settings.seal_days, on_problem=_report)
            store = await open_store(store_address(settings))
            stack.push_async_callback(store.close)
            left = await store.recover()
            if left:
                what = "1 response was" if len(left) == 1 else f"{len(left)} responses were"
                _LOG.warning("%s in progress when a server died, and failed", what)
            mcp = await _connect(settings, stack)
            tools = () if mcp is None else server_tools(mcp.tools, settings.mcp_approval)
            service = cls(settings, model, store, seals, keys=keys, tools=tools, mcp=mcp)
            # The tokenizer takes a second to load, which no request should wait for.
            await asyncio.to_thread(service.renderer.vocabulary.encode, _MUCH_TEXT)
            purging = asyncio.create_task(service.purge())
            stack.push_async_callback(_end, purging)
            yield service

    async def purge(self) -> None:
        """Delete what is older than responses are kept, now and every hour."""
        days = self.settings.limits.stored_days
        while days is not None:
            try:
                count = await self.store.purge(int(self.clock() - days * _DAY_S))
                if count:
                    what = "1 stored response" if count == 1 else f"{count} stored responses"
                    _LOG.info("deleted %s, older than %g days", what, days)
            except StoreError as error:
                _report(error)
            await asyncio.sleep(_PURGE_EVERY_S)

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def traits(self) -> Traits | None:
        """What the engine can do; None for a provider, which reads Harmony itself."""
        return getattr(self.model, "traits", None)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names under which the model is served; the first is the one that answers have."""
        own = self.settings.model or self.model.model
        if Path(own).is_absolute():
            own = Path(own).name  # where the operator keeps a model is nobody's business
        return tuple(dict.fromkeys((own, *self.settings.aliases)))

    def known_model(self, name: str | None) -> str:
        """The served model that a request names. Other spellings of the same model will do; see `_plain`."""
        names = self.model_names
        if name is None or name in names:
            return name or names[0]
        asked = _plain(name)
        if any(_plain(known) == asked for known in names):
            return names[0]
        # The engine without a model plays any gpt-oss.
        if self.model.name == "demo" and _GPT_OSS.fullmatch(asked):
            return names[0]
        raise InputError(
            ErrorCode.SERVE_UNKNOWN_MODEL,
            f"the model {name[:100]!r} is not served here; there is {', '.join(names)}",
            Position(path="$.model"),
        )

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def connect_remote(self, servers: Sequence[RemoteServer], stack: AsyncExitStack) -> tuple[ServerTool, ...]:
        """Tools of MCP servers that a client names by their addresses, if the operator allows that."""
        if not servers:
            return ()
        if not self.settings.allow_client_mcp:
            raise InputError(
                ErrorCode.SERVE_FORBIDDEN,
                "this server does not connect to MCP servers that clients name; the operator configures them, and a "
                "client names them by server_label",
                Position(path=f"{servers[0].path}.server_url"),
            )
        if len(servers) > _MOST_REMOTE_SERVERS:
            raise InputError(
                ErrorCode.SERVE_INVALID_FIELD,
                f"a request may name at most {_MOST_REMOTE_SERVERS} MCP servers by their URL",
                Position(path=f"{servers[_MOST_REMOTE_SERVERS].path}.server_url"),
            )
        from harmonia.run.tools.mcp.client import HttpServer, connect

        private_hosts = frozenset(self.settings.client_mcp_hosts)
        offered: list[ServerTool] = []
        for server in servers:
            remote = HttpServer(server.label, server.url, server.headers, private_hosts=private_hosts)
            try:
                tools = await stack.enter_async_context(connect([remote], policy="trust_first", strict=True))
            except ToolError as error:
                if error.code is not ErrorCode.TOOL_SERVER_UNREACHABLE:
                    raise
                _LOG.warning("the MCP server %s of a client: %s", server.label, error)
                raise InputError(
                    ErrorCode.SERVE_MCP_UNREACHABLE,
                    f"the MCP server {server.label!r} at {_without_secrets(server.url)}, which this request names, "
                    "cannot be reached, is on a private network that the operator does not allow "
                    "(client_mcp_hosts), or does not answer as an MCP server",
                    Position(path=f"{server.path}.server_url"),
                ) from error
            approval = "ask" if server.asks else "run"
            # Such a server checks its arguments itself. Its schemas are a stranger's, and a pattern in one that never
            # comes to an end would hold everybody up.
            unchecked = (replace(tool, checks_arguments=False, untrusted=True) for tool in tools.tools)
            found = server_tools(unchecked, {"*": approval})
            allowed = server.allowed_tools
            check_allowed(server.label, allowed, [tool.name for tool in found], server.path)
            offered += [tool for tool in found if allowed is None or tool.name in allowed]
        return tuple(offered)

    def describe_mcp_servers(self) -> list[Json]:
        """The operator's MCP servers with their tools, and those that are not there."""
        failures = {} if self.mcp is None else {each.name: each.error for each in self.mcp.servers}
        return describe_servers(self.tools, failures)

    # ── traces ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def render_turn(
        self, caller: Caller, request: Json, output: Sequence[Json], sampled: Sequence[SampledEntry] = ()
    ) -> RenderedTurn:
        """The turn as the model had it; see turn_traces.py."""
        return await render_turn(self, caller, request, output, sampled)


async def _connect(settings: Settings, stack: AsyncExitStack) -> McpTools | None:
    if settings.mcp is None:
        return None
    from harmonia.run.default_paths import state_folder
    from harmonia.run.tools.mcp.client import connect, read_servers

    pins = state_folder() / "mcp-pins.json"
    tools = await stack.enter_async_context(connect(read_servers(Path(settings.mcp)), pins=pins, policy="trust_first"))
    for status in tools.servers:
        if status.error is not None:
            _LOG.warning("the MCP server %s: %s", status.name, status.error)
        for name, reason in status.withheld.items():
            _LOG.warning("the tool %s of the MCP server %s is not offered: %s", name, status.name, reason)
    return tools


def _without_secrets(url: str) -> str:
    """An address without a user's name, a password or a query."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:200]
    except ValueError:
        return "an address that is not a URL"


def _report(error: HarmonyError) -> None:
    _LOG.error("%s", error)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _plain(name: str) -> str:
    """A model's name without what engines put around it: the organisation, the file, the quantisation."""
    name = name.lower().rsplit("/", 1)[-1].removesuffix(".gguf").replace(":", "-").replace("_", "-")
    return re.sub(r"-(mxfp4|q\d.*|f16|bf16|latest|gguf|instruct)$", "", name)
