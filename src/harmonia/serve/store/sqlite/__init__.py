"""The store in one SQLite file."""

from harmonia.serve.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
