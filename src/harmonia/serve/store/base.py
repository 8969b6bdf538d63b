"""What a store is.

1. Everything belongs to an owner. What belongs to another is not there.
2. A write is durable when the call returns. Items are written one by one as they are finished, so that a crash loses at
   most the item that was in progress.
3. What is deleted is gone from the files, not only from the answers.
4. A store vouches for what it holds: the tokens of `StoredItem.sampled` came from our own parser (law 1).
5. Every failure is a StoreError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from harmonia.serve.store.chats import ChatStore

Order = Literal["asc", "desc"]


class StoredItem(msgspec.Struct, frozen=True):
    """An item as the client sees it (`wire`, JSON), and as the model does: `sampled` are messages with their tokens, as
    serve/wire/trusted_messages.py writes them; None where the messages follow from the wire."""

    id: str
    wire: bytes
    sampled: bytes | None = None


class StoredResponse(msgspec.Struct, frozen=True):
    """A response without its items. `body` is the resource as JSON, whose `output` is empty."""

    id: str
    owner: str
    model: str
    status: str
    created_at: int
    body: bytes
    previous_id: str | None = None


class StoredTurn(msgspec.Struct, frozen=True):
    """A response with what went in and what came out."""

    response: StoredResponse
    inputs: tuple[StoredItem, ...]
    outputs: tuple[StoredItem, ...]


class Decision(msgspec.Struct, frozen=True):
    """That a request for an approval was decided. `runs` says that its call is to be run, which may happen once. After
    `expires_at`, in seconds since 1970, nothing can be decided any more, and the store may forget this."""

    request_id: str
    expires_at: int
    runs: bool


class Page(msgspec.Struct, frozen=True):
    """Some of a list of items, and whether there are more behind them."""

    items: tuple[StoredItem, ...]
    has_more: bool


class Store(ChatStore, Protocol):
    async def begin(self, response: StoredResponse, inputs: Sequence[StoredItem]) -> None:
        """A response is in progress."""
        ...

    async def add_output(self, response_id: str, index: int, item: StoredItem) -> None:
        """An item of its output is finished. Writing the same index again replaces it."""
        ...

    async def finish(self, response_id: str, status: str, body: bytes) -> None:
        """The response has ended. A response that was deleted meanwhile stays deleted."""
        ...

    async def load(self, owner: str, response_id: str) -> StoredTurn | None:
        """One response with its items; None where this owner has none of that id."""
        ...

    async def chain(self, owner: str, response_id: str) -> tuple[StoredTurn, ...] | None:
        """The response and all those it continues, the oldest first; None where one of them is missing."""
        ...

    async def items(self, owner: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        """Those of the output items with these ids that this owner has, by their ids."""
        ...

    async def input_items(
        self, owner: str, response_id: str, *, after: str | None = None, limit: int = 20, order: Order = "desc"
    ) -> Page | None:
        """Some of its inputs, behind the item `after`; None where there is no such response or item."""
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Whether there was one to delete."""
        ...

    async def purge(self, older_than: int) -> int:
        """Delete the responses that were created before that time, in seconds since 1970, and say how many they were.
        Those in progress stay."""
        ...

    async def decide(self, owner: str, decisions: Sequence[Decision], now: int) -> str | None:
        """Record that this owner decided these requests, all of them or none. Where the call of one is to be run and
        the request was decided before, nothing is recorded and that request's id is returned. Of any number of
        servers that try this at once, one succeeds. Deleting responses does not undo it."""
        ...

    async def recover(self) -> tuple[str, ...]:
        """At the start: the ids of responses that a server left in progress when it died. They are marked as failed."""
        ...

    async def check(self) -> None:
        """Raises a StoreError where the store cannot be written now; for readiness."""
        ...

    async def close(self) -> None: ...
