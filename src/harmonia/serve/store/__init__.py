"""Where responses are kept: one interface, SQLite behind it."""

from harmonia.serve.store.store import Page, Store, StoredItem, StoredResponse, StoredTurn

__all__ = ["Page", "Store", "StoredItem", "StoredResponse", "StoredTurn"]
