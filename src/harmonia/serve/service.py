"""Everything that a server holds, opened and closed together: the model, the store, the keys, the tools.

HTTP knows this object only; another transport would be another user of it. The services below get what they need of
it, never the whole.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harmonia.errors import HarmonyError, StoreError
from harmonia.messages import Json
from harmonia.run.sampling import Model
from harmonia.serve.chat_completions.service import ChatCompletions
from harmonia.serve.config.settings import Settings
from harmonia.serve.inspector.turn_trace import TurnTraces
from harmonia.serve.models.served_model import ServedModel
from harmonia.serve.models.server_tools import ServerTool, describe_servers, server_tools
from harmonia.serve.responses.prepared_request import Backend
from harmonia.serve.responses.service import Responses
from harmonia.serve.saved_chats.service import SavedChats
from harmonia.serve.security.keys import ApiKeys
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.store.base import Store
from harmonia.serve.store.store_urls import open_store

if TYPE_CHECKING:
    from harmonia.run.tools.mcp import McpTools

_LOG: Final = logging.getLogger("harmonia.serve")
_DAY_S: Final = 86_400
_MUCH_TEXT: Final = "Some words, as many as it takes. " * 1000
_PURGE_EVERY_S: Final = 3600.0


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
        self.clock = clock
        self.tools = tuple(tools)
        self._mcp = mcp
        self._served = ServedModel(model, settings)
        backend = Backend(settings, self._served, store, seals, self.tools, clock)
        self.responses = Responses(backend)
        self.chat_completions = ChatCompletions(settings, self._served, self.tools, clock)
        self.render_turn = TurnTraces(backend).render
        self.saved_chats = SavedChats(settings, store, self.tools, self.render_turn, clock)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, model: Model) -> AsyncGenerator[Service]:
        """Open what the settings name, in front of this model, which is closed with the rest."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            keys_at = settings.api_key_file
            keys = None if keys_at is None else ApiKeys(Path(keys_at), on_problem=_report)
            seals = Seals(settings.seal_key_path(), days=settings.seal_days, on_problem=_report)
            store = await open_store(settings.store_address())
            stack.push_async_callback(store.close)
            left = await store.recover()
            if left:
                what = "1 response was" if len(left) == 1 else f"{len(left)} responses were"
                _LOG.warning("%s in progress when a server died; marked as failed", what)
            mcp = await _connect(settings, stack)
            tools = () if mcp is None else server_tools(mcp.tools, settings.mcp_approval)
            service = cls(settings, model, store, seals, keys=keys, tools=tools, mcp=mcp)
            # The tokenizer takes a second to load; no request should wait for that.
            await asyncio.to_thread(service._served.renderer.vocabulary.encode, _MUCH_TEXT)
            purging = asyncio.create_task(service.purge())
            stack.push_async_callback(_end, purging)
            yield service

    async def purge(self) -> None:
        """Delete responses that are older than the operator keeps them, now and every hour."""
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

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names under which the model is served; answers have the first."""
        return self._served.names

    def known_model(self, name: str) -> str:
        """The served model that a request names. Raises if there is none."""
        return self._served.find(name)

    def describe_mcp_servers(self) -> list[Json]:
        """The operator's MCP servers with their tools, and those that failed to start."""
        failures = {} if self._mcp is None else {each.name: each.error for each in self._mcp.servers}
        return describe_servers(self.tools, failures)


async def _connect(settings: Settings, stack: AsyncExitStack) -> McpTools | None:
    if settings.mcp is None:
        return None
    from harmonia.run.default_paths import pins_file
    from harmonia.run.tools.mcp import connect, read_servers

    pins = pins_file()
    tools = await stack.enter_async_context(connect(read_servers(Path(settings.mcp)), pins=pins, policy="trust_first"))
    for status in tools.servers:
        if status.error is not None:
            _LOG.warning("%s", status.error)
        for name, reason in status.withheld.items():
            _LOG.warning("the tool %s of the MCP server %s is not offered: %s", name, status.name, reason)
    return tools


def _report(error: HarmonyError) -> None:
    _LOG.error("%s", error)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
