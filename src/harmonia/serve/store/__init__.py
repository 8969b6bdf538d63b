"""Where responses are kept: one interface, SQLite behind it."""

from harmonia.serve.store.sqlite import SqliteStore, open_store
from harmonia.serve.store.store import Order, Page, Store, StoredItem, StoredResponse, StoredTurn

__all__ = ["Order", "Page", "SqliteStore", "Store", "StoredItem", "StoredResponse", "StoredTurn", "open_store"]
