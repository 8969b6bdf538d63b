"""What a store of chats is: the conversations of people, which are trees of turns.

1. Everything belongs to an owner. What belongs to another is not there.
2. The turns of a chat are a tree (a forest: several may be first): a turn's parent is in the same chat, was there
   before it, and never changes.
3. A write is of one turn, whatever else the chat has.
4. What is deleted is gone from the files; what a turn or a title was before it was written anew, too, when the next
   deletion has returned.
5. Chats are not purged: they are there until they are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

# Why a turn was not written: there is no such parent, the turn has another, there are too many turns or bytes.
TurnRefusal = Literal["no_parent", "other_parent", "too_many", "too_large"]


class StoredChat(msgspec.Struct, frozen=True):
    """A chat without its turns. `settings` is JSON; `title` is empty where there is none yet; `turns` says how many
    there are."""

    id: str
    owner: str
    created_at: int
    updated_at: int
    title: str = ""
    settings: bytes = b"{}"
    leaf: str | None = None
    turns: int = 0


class StoredChatTurn(msgspec.Struct, frozen=True):
    """A turn. `body` is all of it as JSON, id and parent included."""

    id: str
    parent: str | None
    body: bytes


class ChatChange(msgspec.Struct, frozen=True):
    """What becomes of a chat; what is not set stays."""

    title: str | None = None
    settings: bytes | None = None
    leaf: str | msgspec.UnsetType | None = msgspec.UNSET


class ChatLimits(msgspec.Struct, frozen=True):
    """How much a chat may have."""

    turns: int
    bytes: int


class Excerpt(msgspec.Struct, frozen=True):
    """Where something was found: in a turn, or in the title, where `turn` is None."""

    turn: str | None
    text: str


# Looks for something in a chat; it may look at as many of its turns as it needs.
Look = Callable[[StoredChat, Iterable[StoredChatTurn]], Excerpt | None]


class ChatPage(msgspec.Struct, frozen=True):
    """Some chats, the one that changed last first. `before` is where the next page begins, `last_id` the chat that was
    looked at last; both are None at the end. `read_bytes` is how much was read to look for something."""

    chats: tuple[tuple[StoredChat, Excerpt | None], ...]
    before: int | None = None
    last_id: str | None = None
    read_bytes: int = 0


class ChatStore(Protocol):
    async def add_chats(self, chats: Sequence[tuple[StoredChat, Sequence[StoredChatTurn]]], most: int) -> bool:
        """New chats, of one owner, all or none; parents stand before their turns. False where the owner would have more
        than `most`."""
        ...

    async def load_chat(self, owner: str, chat_id: str) -> tuple[StoredChat, tuple[StoredChatTurn, ...]] | None:
        """A chat with its turns, in the order in which they were first written."""
        ...

    async def chat_place(self, owner: str, chat_id: str) -> int | None:
        """Where a chat stands in the list of its owner, as `before` of a page has it."""
        ...

    async def list_chats(
        self,
        owner: str,
        *,
        before: int | None = None,
        limit: int = 20,
        look: Look | None = None,
        most_bytes: int | None = None,
    ) -> ChatPage:
        """A page of the list, or of those chats in which `look` finds something. It runs in a thread of the store's,
        and the page ends behind the chat with which `most_bytes` were read."""
        ...

    async def change_chat(
        self, owner: str, chat_id: str, change: ChatChange, now: int
    ) -> StoredChat | Literal["no_leaf"] | None:
        """The chat as it is then; None where there is none, and no change where the leaf is not in it. To show another
        leaf does not bring a chat to the front of the list."""
        ...

    async def put_turn(
        self, owner: str, chat_id: str, turn: StoredChatTurn, title: str, now: int, limits: ChatLimits
    ) -> StoredChat | TurnRefusal | None:
        """Write a turn, or write it anew. A new one becomes the leaf; `title` is for a chat that has none."""
        ...

    async def delete_turn(self, owner: str, chat_id: str, turn_id: str, now: int) -> StoredChat | None:
        """Delete a turn and all that follow it. A leaf among them moves to its parent. None where there is none."""
        ...

    async def delete_chat(self, owner: str, chat_id: str) -> bool:
        """Whether there was one to delete."""
        ...
