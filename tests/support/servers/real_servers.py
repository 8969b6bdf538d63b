"""A real server on a real socket in front of a real service, and a client that keeps every byte it was sent."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from harmonia.run.sampling import Model
from harmonia.serve.app import Application, AppService
from harmonia.serve.security.keys import ApiKeys
from harmonia.serve.server import Listening, serve
from harmonia.serve.service import Service
from tests.support.servers.http_servers import Answer, Client, request_of
from tests.support.servers.served import served
from tests.support.watchdog import WATCHDOG_S


@dataclass
class RealServer:
    """`heard` is everything that came over sockets, and `log` everything that was logged."""

    port: int
    app: Application
    service: Service
    log: io.StringIO
    heard: bytearray = field(default_factory=bytearray)

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)
        return Client(_Kept(reader, self.heard), writer)  # type: ignore[arg-type] -- it reads, and that is all

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own."""
        client = await self.connect()
        try:
            await client.write(request_of(method, path, body, **headers))
            return await client.read()
        finally:
            client.close()


class _Kept:
    """A reader that keeps what was read."""

    def __init__(self, reader: asyncio.StreamReader, heard: bytearray) -> None:
        self._reader = reader
        self._heard = heard

    async def readuntil(self, separator: bytes) -> bytes:
        return self._keep(await self._reader.readuntil(separator))

    async def readexactly(self, size: int) -> bytes:
        return self._keep(await self._reader.readexactly(size))

    async def readline(self) -> bytes:
        return self._keep(await self._reader.readline())

    async def read(self, size: int = -1) -> bytes:
        return self._keep(await self._reader.read(size))

    def _keep(self, data: bytes) -> bytes:
        self._heard += data
        return data


@asynccontextmanager
async def real_server(
    engine: Model, folder: Path, *, key_file: Path | None = None, **settings: Any
) -> AsyncGenerator[RealServer]:
    """A server, while the block runs."""
    if key_file is not None:
        settings["api_key_file"] = str(key_file)
    async with served(engine, folder, port=0, log_format="json", **settings) as service:
        if key_file is not None:
            service.keys = ApiKeys(key_file)
        made = cast(AppService, service)
        app = Application(made, service.settings)
        listening: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        log = io.StringIO()
        task = asyncio.create_task(
            serve(made, service.settings, on_listening=listening.set_result, stop=stop, app=app, log_stream=log)
        )
        async with asyncio.timeout(WATCHDOG_S):
            await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            try:
                yield RealServer((await listening).port, app, service, log)
            finally:
                stop.set()
                await task
