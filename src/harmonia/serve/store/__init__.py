"""Where responses and chats are kept: one interface, SQLite behind it."""

from harmonia.serve.store.base import Decision, Order, Page, Store, StoredItem, StoredResponse, StoredTurn
from harmonia.serve.store.chats import (
    ChatChange,
    ChatLimits,
    ChatPage,
    ChatStore,
    Excerpt,
    Look,
    StoredChat,
    StoredChatTurn,
    TurnRefusal,
)
from harmonia.serve.store.sqlite.store import SqliteStore, open_store

__all__ = [
    "ChatChange",
    "ChatLimits",
    "ChatPage",
    "ChatStore",
    "Decision",
    "Excerpt",
    "Look",
    "Order",
    "Page",
    "SqliteStore",
    "Store",
    "StoredChat",
    "StoredChatTurn",
    "StoredItem",
    "StoredResponse",
    "StoredTurn",
    "TurnRefusal",
    "open_store",
]
