"""The real server with its page, in a thread of the test's own process, so that a test can script the engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harmonia.run.sampling import Model
from harmonia.run.tools.mcp import McpServer, McpTools, connect
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import ServerTool, server_tools
from harmonia.serve.security.keys import ApiKeys
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.server import Listening, serve
from harmonia.serve.service import Service
from harmonia.serve.store.store_urls import open_store
from tests.support.servers.quick_uvicorn import quicken
from tests.support.watchdog import WATCHDOG_S

quicken()


@dataclass
class PageServer:
    """A server that listens. `stop` ends it, as a server ends that is gone; `call` runs something in its loop."""

    url: str
    service: Service
    loop: asyncio.AbstractEventLoop
    _stopping: asyncio.Event
    _thread: threading.Thread

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WATCHDOG_S)
        assert not self._thread.is_alive()

    def set(self, event: asyncio.Event) -> None:
        """Let an engine go on that waits for this."""
        self.loop.call_soon_threadsafe(event.set)


@contextmanager
def page_server(
    engine: Model,
    folder: Path,
    *,
    tools: Sequence[ServerTool] = (),
    mcp_servers: Sequence[McpServer] = (),
    **settings: Any,
) -> Generator[PageServer]:
    """A server on any free port, whose state is in this folder. It ends with the test."""
    given: dict[str, Any] = {"port": 0, "analysis": "shown", **settings}
    chosen = Settings(**given)
    found: list[PageServer] = []
    failures: list[BaseException] = []
    is_up = threading.Event()

    async def play() -> None:
        async with AsyncExitStack() as stack:
            store = await open_store(f"sqlite:///{folder / 'page.sqlite3'}")
            stack.push_async_callback(store.close)
            keys = None if chosen.api_key_file is None else ApiKeys(Path(chosen.api_key_file))
            mcp: McpTools | None = None
            offered = tuple(tools)
            if mcp_servers:
                pins = folder / "pins.json"
                mcp = await stack.enter_async_context(connect(mcp_servers, pins=pins, policy="trust_first"))
                offered += server_tools(mcp.tools, chosen.mcp_approval)
            seals = Seals(folder / "seal-keys.json")
            service = Service(chosen, engine, store, seals, keys=keys, tools=offered, mcp=mcp)
            stopping = asyncio.Event()

            def on_listening(listening: Listening) -> None:
                loop = asyncio.get_running_loop()
                found.append(PageServer(listening.url, service, loop, stopping, threading.current_thread()))
                is_up.set()

            await serve(service, chosen, on_listening=on_listening, stop=stopping)

    def run() -> None:
        try:
            asyncio.run(play())
        except BaseException as error:
            failures.append(error)
        finally:
            is_up.set()

    thread = threading.Thread(target=run, name="page-server", daemon=True)
    thread.start()
    assert is_up.wait(WATCHDOG_S)
    if failures:
        raise failures[0]
    server = found[0]
    try:
        yield server
    finally:
        if thread.is_alive():
            server.stop()
