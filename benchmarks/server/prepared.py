"""The cheapest application that answers as ours did: it reads the body and sends what it has in memory, one send for
each event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from benchmarks.server.engine import Script

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class PreparedApp:
    """An ASGI application with one answer for every request. Its script has bytes."""

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._script = Script(())

    def follow(self, headers: Sequence[tuple[bytes, bytes]], script: Script) -> None:
        self._headers = list(headers)
        self._script = script

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        script = self._script
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        if script.holds_behind is None:
            for piece in script.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        else:
            for piece in script.pieces[: script.holds_behind]:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            for piece in script.pieces[script.holds_behind :]:
                await script.wait()
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
