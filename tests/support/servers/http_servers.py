"""A real server on a real socket, in front of services that do what a test says; and clients that behave or do not."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.app import Application
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.inspector.turn_trace import RenderedTurn
from harmonia.serve.security.keys import Caller
from harmonia.serve.server import Listening, serve
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.validation import Query
from tests.support.servers.quick_uvicorn import quicken
from tests.support.watchdog import WATCHDOG_S

quicken()


Script = Callable[["Generated"], AsyncGenerator[StreamEvent, None]]


def numbered(count: int) -> list[StreamEvent]:
    return [StreamEvent(b'{"n":%d}' % number, "response.tick") for number in range(count)]


@dataclass
class Generated:
    """A generation as a test sees it: `script` gives its events, `closed` says that it has ended, `is_finished` that it
    ended by itself."""

    script: Script
    value: Any
    caller: Caller
    wants_stream: bool = True
    output_tokens: int | None = None
    failure: Exception | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    is_finished: bool = False

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        try:
            async for event in self.script(self):
                yield event
            self.is_finished = True
        finally:
            self.closed.set()

    async def result(self) -> bytes:
        return b"[" + b",".join([event.data async for event in self.events()]) + b"]"

    def cancel(self) -> None:
        self.cancelled.set()


class Generates:
    """`create` of both services. The script of each generation is the one that the test set last."""

    def __init__(self) -> None:
        self.script: Script = emit(numbered(3))
        self.refuses: BaseException | None = None
        self.started: asyncio.Queue[Generated] = asyncio.Queue()
        self.asked: list[tuple[Any, Caller]] = []

    async def create(self, value: Any, caller: Caller) -> Generated:
        self.asked.append((value, caller))
        if self.refuses is not None:
            raise self.refuses
        made = Generated(self.script, value, caller, wants_stream=bool(value.get("stream")))
        self.started.put_nowait(made)
        return made


class Answers(Generates):
    """The rest of what `/v1/responses` has: each answers with what it was asked."""

    async def retrieve(self, response_id: str, caller: Caller, query: Query) -> bytes:
        return self._say("retrieve", response_id, caller, query)

    async def delete(self, response_id: str, caller: Caller) -> bytes:
        return self._say("delete", response_id, caller)

    async def cancel(self, response_id: str, caller: Caller) -> bytes:
        return self._say("cancel", response_id, caller)

    async def input_items(self, response_id: str, caller: Caller, query: Query) -> bytes:
        return self._say("input_items", response_id, caller, query)

    async def input_tokens(self, value: Any, caller: Caller) -> bytes:
        return self._say("input_tokens", value, caller)

    def _say(self, what: str, of: Any, caller: Caller, query: Query | None = None) -> bytes:
        if self.refuses is not None:
            raise self.refuses
        return json.dumps({"what": what, "of": of, "owner": caller.owner, "query": dict(query or {})}).encode()


class Keys:
    def __init__(self, keys: dict[str, str]) -> None:
        self._keys = keys

    def find(self, key: str) -> str | None:
        return self._keys.get(key)


class CheckedStore:
    problem: HarmonyError | None = None

    async def check(self) -> None:
        if self.problem is not None:
            raise self.problem


class FakeService:
    """What HTTP needs of a service."""

    def __init__(self, keys: dict[str, str] | None = None, settings: Settings | None = None) -> None:
        self.settings = settings or Settings(port=0)
        self.responses: Any = Answers()
        self.chat_completions: Any = Generates()
        self.saved_chats: Any = None
        self.keys: Any = None if keys is None else Keys(keys)
        self.store: Any = CheckedStore()
        self.model: Any = DemoEngine()

    @property
    def model_names(self) -> tuple[str, ...]:
        return ()

    def known_model(self, name: str) -> str:
        if name not in self.model_names:
            raise InputError(ErrorCode.SERVE_UNKNOWN_MODEL, "there is no such model", Position(path="$.model"))
        return name

    async def render_turn(self, caller: Caller, request: Any, output: Any, sampled: Any = ()) -> RenderedTurn:
        return RenderedTurn([], 0)

    def describe_mcp_servers(self) -> list[Any]:
        return []


def emit(events: Sequence[StreamEvent], then: Callable[[Generated], Awaitable[None]] | None = None) -> Script:
    """These events, and then whatever is awaited."""

    async def script(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        for event in events:
            yield event
        if then is not None:
            await then(generated)

    return script


def hang_behind(events: Sequence[StreamEvent]) -> Script:
    """These events, then nothing any more until the generation is asked to end, which gives one more."""

    async def script(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        for event in events:
            yield event
        await generated.cancelled.wait()
        yield StreamEvent(b'{"end":true}', "response.incomplete")

    return script


@dataclass
class Server:
    listening: Listening
    service: FakeService
    app: Application
    log: io.StringIO
    stop: asyncio.Event
    clients: list[Client] = field(default_factory=list["Client"])

    @property
    def port(self) -> int:
        return self.listening.port

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)
        self.clients.append(Client(reader, writer))
        return self.clients[-1]

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own."""
        client = await self.connect()
        try:
            await client.send(method, path, body, **headers)
            return await client.read()
        finally:
            client.close()

    def lines(self) -> list[dict[str, Any]]:
        """The log, which these servers write as JSON."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


class Client:
    """HTTP/1.1 by hand, so that a test can also do what no library would."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        await self.write(request_of(method, path, body, **headers))

    async def read_head(self) -> tuple[int, dict[str, str]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers

    async def read(self, *, is_head: bool = False) -> Answer:
        status, headers = await self.read_head()
        if is_head or status in (204, 304):
            body = b""
        elif "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = b"".join([chunk async for chunk in self.chunks()])
        return Answer(status, headers, body)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The chunks of a stream, which are its writes."""
        while (size := int((await self.reader.readline()).strip() or b"0", 16)) > 0:
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)

    async def is_closed(self) -> bool:
        """Waits for the end of the connection, and reads what still comes."""
        with suppress(ConnectionError):
            await self.reader.read()
        return True

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()


def request_of(method: str, path: str, body: Any = None, **headers: str) -> bytes:
    """The bytes of a request. A header whose value is empty is left out."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"host": "localhost"}
    if body is not None:
        lines |= {"content-type": "application/json", "content-length": str(len(data))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data


@asynccontextmanager
async def running(
    service: FakeService | None = None,
    *,
    limits: Limits | None = None,
    **settings: Any,
) -> AsyncGenerator[Server, None]:
    """A server, while the block runs."""
    made = Settings(port=0, log_format="json", limits=limits or Limits(keep_alive_s=600.0), **settings)
    service = service or FakeService()
    service.settings = made
    app = Application(service, made)
    listening: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    log = io.StringIO()
    task = asyncio.create_task(
        serve(service, made, on_listening=listening.set_result, stop=stop, app=app, log_stream=log)
    )
    async with asyncio.timeout(WATCHDOG_S):
        await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        server = Server(await listening, service, app, log, stop)
        try:
            yield server
        finally:
            for client in server.clients:
                client.close()
            stop.set()
            await task
