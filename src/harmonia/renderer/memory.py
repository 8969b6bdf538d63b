"""A bounded memory that keeps what is in use, at the price of one dictionary look-up for a hit.

Two generations: what is found in the old one moves to the new one, and when the new one is full, it becomes the old
one, whose contents are forgotten. A list ordered by use would keep much the same, but has to be rewritten at each hit.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Values by key, of at most `limit` bytes together, by the sizes that the caller gives."""

    __slots__ = ("_lock", "_new", "_new_size", "_old", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._new: dict[Hashable, tuple[Value, int]] = {}
        self._old: dict[Hashable, tuple[Value, int]] = {}
        self._new_size = 0

    def get(self, key: Hashable) -> Value | None:
        found = self._new.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, *found)
        return None if found is None else found[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        half = self.limit // 2
        if size > half:
            return
        with self._lock:
            if self._new_size + size > half:
                self._old, self._new, self._new_size = self._new, {}, 0
            self._new[key] = value, size
            self._new_size += size

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())
