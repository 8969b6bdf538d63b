"""What a service gives to whoever carries it to the client: over SSE today, over a WebSocket as well one day."""

from __future__ import annotations

import msgspec


class StreamEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its JSON, and its name, which Chat Completions has none of."""

    data: bytes
    type: str | None = None
