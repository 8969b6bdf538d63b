"""Small servers for tests: real sockets, and each byte as a test says.

A handler gets the request and a `Wire` to answer on. `Wire` has the usual answers, and `write` for everything else.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from harmonia.run.engines import Chunk, Engine, Finish, Patience, Request

# Nothing waits for long in a test; where a fault is expected, no time is lost with it.
SHORT = Patience(connect_s=5.0, first_s=30.0, idle_s=30.0, attempts=3, wait_s=0.01, longest_wait_s=2.0)


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, status: int, body: object, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", "content-type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode() + data)

    async def begin(self, content_type: str = "text/event-stream") -> None:
        await self.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, *bodies: object) -> None:
        """Events, all in one piece."""
        await self.chunk(b"".join(b"data: " + _dump(body) + b"\n\n" for body in bodies))

    async def line(self, *bodies: object) -> None:
        await self.chunk(b"".join(_dump(body) + b"\n" for body in bodies))

    async def end(self) -> None:
        await self.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Die: the connection is reset."""
        transport = self._writer.transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        transport.abort()

    async def wait_for_reader_to_leave(self) -> None:
        with suppress(ConnectionError):
            while await self.reader.read(4096):
                pass


def _dump(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()


Handler = Callable[[Asked, Wire], Awaitable[None]]


@dataclass
class Served:
    url: str
    port: int
    asked: list[Asked] = field(default_factory=list[Asked])
    open_connections: int = 0
    failures: list[BaseException] = field(default_factory=list[BaseException])
    all_gone: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(handle: Handler, port: int = 0) -> AsyncGenerator[Served]:
    """A server in this event loop. At the end, every connection must have been closed, by whichever side."""
    served: Served

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.open_connections += 1
        served.all_gone.clear()
        try:
            asked = await _read_request(reader)
            if asked is not None:
                served.asked.append(asked)
                await handle(asked, Wire(reader, writer))
        except ConnectionError:
            pass  # the reader left
        except BaseException as error:
            served.failures.append(error)
            raise
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            served.open_connections -= 1
            if not served.open_connections:
                served.all_gone.set()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    served = Served(f"http://127.0.0.1:{port}", port)
    served.all_gone.set()
    async with server:
        yield served
        await asyncio.wait_for(served.all_gone.wait(), 30)
    assert not served.failures


async def _read_request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, json.loads(content) if content else None)


@dataclass
class Heard:
    tokens: list[int] = field(default_factory=list[int])
    text: str = ""
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    finish: Finish | None = None
    error: Exception | None = None


async def listen(engine: Engine, prompt: Sequence[int] = (200006, 173781), request: Request | None = None) -> Heard:
    """All that an engine says, and the error that ended it."""
    heard = Heard()
    try:
        async for event in engine.generate(prompt, request or Request()):
            if isinstance(event, Finish):
                heard.finish = event
            else:
                heard.chunks.append(event)
                heard.tokens += event.tokens
                heard.text += event.text
    except Exception as error:
        heard.error = error
    return heard


def unused_port() -> int:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return reserved.getsockname()[1]
