"""The application without a socket: one request in, everything that it sent out. For tests of many requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from harmonia.run.sampling import Model
from harmonia.serve.app import Application, AppService
from harmonia.serve.service import Service
from tests.support.servers.http_servers import Answer
from tests.support.servers.served import served
from tests.support.watchdog import WATCHDOG_S


async def ask(
    app: Application,
    method: str,
    target: str,
    body: Any = None,
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    pieces: int = 1,
) -> Answer:
    """One request. A body that is bytes is sent as it is, in so many pieces; every other one as JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {name for name, _ in headers}
    defaults = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    size = max(1, -(-len(data) // pieces))
    left = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    parts = urlsplit(target)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [*(each for each in defaults if each[0] not in given), *headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8765),
    }
    sent: list[dict[str, Any]] = []
    is_over = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(WATCHDOG_S):
        await app(scope, receive, send)
    is_over.set()
    start = sent[0]
    assert start["type"] == "http.response.start"
    assert sum(message["type"] == "http.response.start" for message in sent) == 1
    assert sent[-1].get("more_body", False) is False
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


@asynccontextmanager
async def application(engine: Model, folder: Path, **options: Any) -> AsyncGenerator[tuple[Application, Service]]:
    """The application in front of a service in front of this engine."""
    async with served(engine, folder, **options) as service:
        yield Application(cast(AppService, service), service.settings), service


def events_of(answered: Answer) -> list[dict[str, Any]]:
    """The events of a stream, without the [DONE] that ends a chat stream."""
    lines = [line.removeprefix(b"data: ") for line in answered.body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]
