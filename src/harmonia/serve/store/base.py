"""The contract of a store: responses with their items, and saved chats, which are trees of turns.

1. Everything belongs to an owner. Other owners' data does not exist for a caller.
2. A write is durable when the call returns. Items are written one by one as they are finished, so that a crash loses at
   most the item in progress; a write to a chat is one turn.
3. Deleted data is gone from the files, not only from the answers. The former content of a rewritten turn or title is
   gone when the next deletion has returned.
4. Stored data is trusted: the tokens of `StoredItem.sampled` came from our own parser (law 1).
5. The turns of a chat are a forest: a turn's parent is in the same chat, was written before it, and never changes.
6. Responses may be purged by age; chats stay until they are deleted.
7. Every failure is a StoreError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

Order = Literal["asc", "desc"]
# Why a turn was not written: unknown parent, another parent than before, too many turns or bytes.
TurnRefusal = Literal["no_parent", "other_parent", "too_many", "too_large"]


class StoredItem(msgspec.Struct, frozen=True):
    """An item as the client sees it (`wire`, JSON) and as the model does: `sampled` are messages with their tokens, as
    serve/security/trusted_messages.py writes them; None if the messages follow from `wire`."""

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
    """A response with its input and output."""

    response: StoredResponse
    inputs: tuple[StoredItem, ...]
    outputs: tuple[StoredItem, ...]


class Decision(msgspec.Struct, frozen=True):
    """The decision on an approval request. `runs`: the call will be run, which may happen once. After `expires_at`
    (seconds since 1970) nothing can be decided any more, and the store may forget the decision."""

    request_id: str
    expires_at: int
    runs: bool


class Page(msgspec.Struct, frozen=True):
    """Part of a list of items, and whether more follow."""

    items: tuple[StoredItem, ...]
    has_more: bool


class StoredChat(msgspec.Struct, frozen=True):
    """A chat without its turns. `settings` is JSON; `title` is empty if there is none yet; `turns` is their number."""

    id: str
    owner: str
    created_at: int
    updated_at: int
    title: str = ""
    settings: bytes = b"{}"
    leaf: str | None = None
    turns: int = 0


class StoredChatTurn(msgspec.Struct, frozen=True):
    """A turn. `body` is the whole turn as JSON, id and parent included."""

    id: str
    parent: str | None
    body: bytes


class ChatChange(msgspec.Struct, frozen=True):
    """New values for a chat; the others stay."""

    title: str | None = None
    settings: bytes | None = None
    leaf: str | msgspec.UnsetType | None = msgspec.UNSET


class ChatLimits(msgspec.Struct, frozen=True):
    """The most turns and bytes of a chat."""

    turns: int
    bytes: int


class Excerpt(msgspec.Struct, frozen=True):
    """Where a search matched: in a turn, or in the title if `turn` is None."""

    turn: str | None
    text: str


# Searches a chat; it reads as many of its turns as it needs.
Matcher = Callable[[StoredChat, Iterable[StoredChatTurn]], Excerpt | None]


class ChatPage(msgspec.Struct, frozen=True):
    """Some chats, the one that changed last first. `before` is where the next page begins, `last_id` the last chat that
    was examined; both are None at the end. `read_bytes` is how much a search read."""

    chats: tuple[tuple[StoredChat, Excerpt | None], ...]
    before: int | None = None
    last_id: str | None = None
    read_bytes: int = 0


class ChatStore(Protocol):
    async def add_chats(self, chats: Sequence[tuple[StoredChat, Sequence[StoredChatTurn]]], most: int) -> bool:
        """Add chats of one owner, all or none; a parent comes before its turns. False if the owner would have more than
        `most`."""
        ...

    async def load_chat(self, owner: str, chat_id: str) -> tuple[StoredChat, tuple[StoredChatTurn, ...]] | None:
        """A chat with its turns, in the order they were first written."""
        ...

    async def chat_place(self, owner: str, chat_id: str) -> int | None:
        """The place of a chat in its owner's list, in the unit of `ChatPage.before`."""
        ...

    async def list_chats(
        self,
        owner: str,
        *,
        before: int | None = None,
        limit: int = 20,
        matches: Matcher | None = None,
        most_bytes: int | None = None,
    ) -> ChatPage:
        """A page of the list, or of the chats that match. `matches` runs in a thread of the store; the page ends after
        the chat at which `most_bytes` were read."""
        ...

    async def change_chat(
        self, owner: str, chat_id: str, change: ChatChange, now: int
    ) -> StoredChat | Literal["no_leaf"] | None:
        """Return the changed chat; None if it does not exist. If the leaf is not in it, nothing changes. Showing
        another leaf does not move a chat to the front of the list."""
        ...

    async def put_turn(
        self, owner: str, chat_id: str, turn: StoredChatTurn, title: str, now: int, limits: ChatLimits
    ) -> StoredChat | TurnRefusal | None:
        """Write or rewrite a turn. A new one becomes the leaf; `title` is used if the chat has none."""
        ...

    async def delete_turn(self, owner: str, chat_id: str, turn_id: str, now: int) -> StoredChat | None:
        """Delete a turn and all after it. A leaf among them moves to the turn's parent. None if not found."""
        ...

    async def delete_chat(self, owner: str, chat_id: str) -> bool:
        """Return whether it existed."""
        ...


class Store(ChatStore, Protocol):
    async def begin(self, response: StoredResponse, inputs: Sequence[StoredItem]) -> None:
        """Record a response in progress."""
        ...

    async def add_output(self, response_id: str, index: int, item: StoredItem) -> None:
        """Record a finished output item. Writing the same index again replaces it."""
        ...

    async def finish(self, response_id: str, status: str, body: bytes) -> None:
        """Record the end of a response. A response that was deleted meanwhile stays deleted."""
        ...

    async def load(self, owner: str, response_id: str) -> StoredTurn | None:
        """A response with its items; None if this owner has no such response."""
        ...

    async def chain(self, owner: str, response_id: str) -> tuple[StoredTurn, ...] | None:
        """The response and all that it continues, the oldest first; None if one of them is missing."""
        ...

    async def items(self, owner: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        """This owner's output items with these ids, by id."""
        ...

    async def input_items(
        self, owner: str, response_id: str, *, after: str | None = None, limit: int = 20, order: Order = "desc"
    ) -> Page | None:
        """A page of its input, after the item `after`; None if there is no such response or item."""
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Return whether it existed."""
        ...

    async def purge(self, older_than: int) -> int:
        """Delete the responses created before that time (seconds since 1970), except those in progress; return how many
        were deleted."""
        ...

    async def decide(self, owner: str, decisions: Sequence[Decision], now: int) -> str | None:
        """Record that this owner decided these requests, all or none. If a call would run whose request was decided
        before, nothing is recorded and that request's id is returned. Of several servers that try this at once, one
        succeeds. Deleting responses does not undo it."""
        ...

    async def recover(self) -> tuple[str, ...]:
        """At startup, mark responses as failed that a dead server left in progress; return their ids."""
        ...

    async def check(self) -> None:
        """Raise a StoreError if the store cannot be written now; for readiness."""
        ...

    async def close(self) -> None: ...
