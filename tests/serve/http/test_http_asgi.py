"""The application under other servers than ours: ASGI by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from harmonia.serve.app import Application
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.wire.event_stream import StreamEvent
from tests.support.servers.http_servers import FakeService, Generated, hang_behind, numbered


class Connection:
    """One request as an ASGI server gives it. `left` is set when the client leaves; `refuses` is what `send` raises."""

    def __init__(self, path: str = "/v1/responses", body: Any = None, method: str = "POST") -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "scheme": "http",
        }
        self.sent: list[Any] = []
        self.left = asyncio.Event()
        self.refuses: OSError | None = None
        self._body: bytes | None = json.dumps(body).encode()

    async def receive(self) -> Any:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.refuses is not None and message["type"] == "http.response.body":
            raise self.refuses
        self.sent.append(message)


async def flood(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
    """Never waits. It ends, so that a test that fails does not hang."""
    for number in range(1_000_000):
        yield StreamEvent(b"%d" % number)


def test_a_stream_that_never_waits_does_not_keep_others_from_running() -> None:
    async def play() -> None:
        service = FakeService()
        service.responses.script = flood
        connection = Connection(body={"stream": True})
        app = Application(service, Settings())
        task = asyncio.create_task(app(connection.scope, connection.receive, connection.send))
        generated = await service.responses.started.get()
        connection.left.set()
        await task
        assert not generated.is_finished

    asyncio.run(play())


def test_a_server_that_raises_for_a_client_that_left_cancels_the_generation() -> None:
    async def play() -> None:
        service = FakeService()
        service.responses.script = hang_behind(numbered(3))
        connection = Connection(body={"stream": True})
        connection.refuses = BrokenPipeError()
        app = Application(service, Settings())
        await app(connection.scope, connection.receive, connection.send)
        generated = await service.responses.started.get()
        assert generated.closed.is_set() and not generated.is_finished
        assert b'harmonia_cancellations_total{why="gone"} 1.0' in app.metrics.write()
        assert b"harmonia_bugs_total 0.0" in app.metrics.write()

    asyncio.run(play())


def test_a_generator_that_swallows_its_cancellation_is_closed_nevertheless() -> None:
    async def swallow(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        yield numbered(1)[0]
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield StreamEvent(b"{}")

    async def play() -> None:
        service = FakeService()
        service.responses.script = swallow
        connection = Connection(body={"stream": True})
        task = asyncio.create_task(
            Application(service, Settings())(connection.scope, connection.receive, connection.send)
        )
        generated = await service.responses.started.get()
        connection.left.set()
        async with asyncio.timeout(30):
            await task
        assert generated.closed.is_set()

    asyncio.run(play())


def test_a_task_that_the_server_cancels_ends_as_cancelled_and_the_generator_is_closed() -> None:
    async def play() -> None:
        service = FakeService()
        service.responses.script = hang_behind(numbered(1))
        connection = Connection(body={"stream": True})
        app = Application(service, Settings())
        task = asyncio.create_task(app(connection.scope, connection.receive, connection.send))
        generated = await service.responses.started.get()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert generated.closed.is_set()

    asyncio.run(play())


def test_the_end_of_the_lifespan_ends_the_streams() -> None:
    async def play() -> None:
        service = FakeService()
        service.responses.script = hang_behind(numbered(1))
        app = Application(service, Settings())
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        sent: list[str] = []
        connection = Connection(body={"stream": True})
        task = asyncio.create_task(app(connection.scope, connection.receive, connection.send))
        generated = await service.responses.started.get()

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, receive, send)
        await task
        assert generated.is_finished
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        late = Connection(body={})
        await app(late.scope, late.receive, late.send)
        assert late.sent[0]["status"] == 503

    asyncio.run(play())


def test_places_are_given_back_however_a_request_ends() -> None:
    async def play() -> None:
        service = FakeService()
        app = Application(service, Settings(limits=Limits(concurrent=1)))
        for refuses in (ValueError(), None):
            service.responses.refuses = refuses
            for body in ({"stream": True}, {}):
                connection = Connection(body=body)
                await app(connection.scope, connection.receive, connection.send)
                assert connection.sent[0]["status"] == (200 if refuses is None else 500)
        gone = Connection(body={"stream": True})
        gone.left.set()
        service.responses.script = hang_behind(numbered(1))
        await app(gone.scope, gone.receive, gone.send)
        service.responses.script = hang_behind([])
        last = Connection(body={"stream": True})
        task = asyncio.create_task(app(last.scope, last.receive, last.send))
        while len(service.responses.asked) < 6:
            await asyncio.sleep(0)
        last.left.set()
        await task
        assert last.sent[0]["status"] == 200

    asyncio.run(play())


class Slowly(Connection):
    """A server whose `send` takes turns of the loop, and may not be called again before it returns. Behind the last
    piece it says that the client has left, as uvicorn does."""

    def __init__(self, body: Any) -> None:
        super().__init__(body=body)
        self.has_comment = asyncio.Event()
        self._is_busy = False

    async def send(self, message: Any) -> None:
        assert not self._is_busy
        self._is_busy = True
        if message.get("body", b"").startswith(b":"):
            self.has_comment.set()
        if not message.get("more_body", True):
            self.left.set()
        for _ in range(5):
            await asyncio.sleep(0)
        await super().send(message)
        self._is_busy = False


def test_an_event_waits_for_the_comment_before_it_and_the_end_is_no_leaving() -> None:
    async def play() -> None:
        connection = Slowly({"stream": True})

        async def script(_: Generated) -> AsyncGenerator[StreamEvent, None]:
            first, second = numbered(2)
            yield first
            await connection.has_comment.wait()
            yield second

        service = FakeService()
        service.responses.script = script
        app = Application(service, Settings(limits=Limits(keep_alive_s=0.01)))
        await app(connection.scope, connection.receive, connection.send)
        bodies = [message["body"] for message in connection.sent[1:]]
        assert bodies[-1] == b""
        assert [body for body in bodies if body.startswith(b"event")] == [
            b'event: response.tick\ndata: {"n":0}\n\n',
            b'event: response.tick\ndata: {"n":1}\n\n',
        ]
        figures = app.metrics.write()
        assert b"harmonia_bugs_total 0.0" in figures
        assert b"harmonia_cancellations_total{" not in figures

    asyncio.run(play())


def test_a_web_socket_is_closed() -> None:
    async def play() -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await Application(FakeService(), Settings())({"type": "websocket"}, receive, send)
        assert [message["type"] for message in sent] == ["websocket.close"]

    asyncio.run(play())
