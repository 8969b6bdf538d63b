"""The seam between the services, which make the events of a stream, and the transport that carries them to the client.

Server-sent events are http/endpoints.py; another transport is another `EventSink`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

import msgspec


class StreamEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its JSON, and its name; events of Chat Completions have none."""

    data: bytes
    type: str | None = None


class EventSink(Protocol):
    """Carries the events of a stream to the client. The methods may be plain functions that return an awaitable: an
    async function would cost one more coroutine for each event. An OSError says that the client has left."""

    def start(self) -> Awaitable[None]: ...
    def send(self, event: StreamEvent) -> Awaitable[None]: ...
    def keep_alive(self) -> Awaitable[None]: ...
    def finish(self) -> Awaitable[None]:
        """End the stream after its last event."""
        ...

    def fail(self, error: BaseException) -> Awaitable[None]:
        """End a stream that broke off, with an event that says so."""
        ...
