"""Server-sent events over HTTP: the `EventSink` of the APIs' streams."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import msgspec

from harmonia.serve.http.request_state import Exchange
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent

_KEEP_ALIVE: Final = b": keep-alive\n\n"
_DONE: Final = b"data: [DONE]\n\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the events
)
# `event: TYPE\ndata: ` by type; there are some fifty.
_heads: Final[dict[str | None, bytes]] = {None: b"data: "}


class SseSink:
    """`has_done` ends the stream with `[DONE]`; `is_named`: the events have names, as those of Responses do."""

    def __init__(self, exchange: Exchange, *, has_done: bool, is_named: bool) -> None:
        self._exchange = exchange
        self._has_done = has_done
        self._is_named = is_named

    def start(self) -> Awaitable[None]:
        return self._exchange.start(200, _HEADERS)

    def send(self, event: StreamEvent) -> Awaitable[None]:
        return self._exchange.send_piece(frame_of(event))

    def keep_alive(self) -> Awaitable[None]:
        return self._exchange.send_piece(_KEEP_ALIVE)

    async def finish(self) -> None:
        if self._has_done:
            await self._exchange.send_piece(_DONE)
        await self._exchange.send_piece(b"", is_last=True)

    def fail(self, error: BaseException) -> Awaitable[None]:
        """An event in the form of both dialects of Responses, or in that of Chat Completions."""
        fields = api_error_of(error).to_dict()
        if self._is_named:
            data = {"sequence_number": self._exchange.events, **fields, "type": "error", "error": fields}
            event = StreamEvent(msgspec.json.encode(data), "error")
        else:
            event = StreamEvent(msgspec.json.encode({"error": fields}))
        return self._exchange.send_piece(frame_of(event), is_last=True)


def frame_of(event: StreamEvent) -> bytes:
    """An event on the wire."""
    head = _heads.get(event.type)
    if head is None:
        head = _heads[event.type] = f"event: {event.type}\ndata: ".encode()
    return head + event.data + b"\n\n"
