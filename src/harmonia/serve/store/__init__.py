"""Where responses and chats are stored: one contract, and backends that are chosen by URL."""

from harmonia.serve.store.base import (
    ChatChange,
    ChatLimits,
    ChatPage,
    ChatStore,
    Decision,
    Excerpt,
    Matcher,
    Order,
    Page,
    Store,
    StoredChat,
    StoredChatTurn,
    StoredItem,
    StoredResponse,
    StoredTurn,
    TurnRefusal,
)
from harmonia.serve.store.store_urls import StoreCheck, check_store, normalize_address, open_store

__all__ = [
    "ChatChange",
    "ChatLimits",
    "ChatPage",
    "ChatStore",
    "Decision",
    "Excerpt",
    "Matcher",
    "Order",
    "Page",
    "Store",
    "StoreCheck",
    "StoredChat",
    "StoredChatTurn",
    "StoredItem",
    "StoredResponse",
    "StoredTurn",
    "TurnRefusal",
    "check_store",
    "normalize_address",
    "open_store",
]
