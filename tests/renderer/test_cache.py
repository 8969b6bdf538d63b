"""The bounded memory of rendered messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harmonia.renderer.renderer import Memory


def test_what_was_put_is_found() -> None:
    memory: Memory[str] = Memory(100)
    memory.put("key", "value", 10)
    assert memory.get("key") == "value"
    assert memory.get("other") is None


def test_clearing_forgets_everything() -> None:
    memory: Memory[str] = Memory(100)
    memory.put("key", "value", 10)
    memory.clear()
    assert memory.get("key") is None and len(memory) == 0


def test_what_is_larger_than_half_of_it_is_not_kept() -> None:
    memory: Memory[str] = Memory(100)
    memory.put("small", "value", 10)
    memory.put("large", "value", 51)
    assert memory.get("large") is None and memory.get("small") == "value"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60))))
def test_it_never_holds_more_than_its_limit(puts: list[tuple[int, int]]) -> None:
    memory: Memory[int] = Memory(100)
    sizes: dict[int, int] = {}
    for key, size in puts:
        memory.put(key, size, size)
        sizes[key] = size
        kept = {key: memory.get(key) for key in sizes}
        assert sum(size for size in kept.values() if size is not None) <= 100


def test_what_is_used_outlives_what_is_not() -> None:
    memory: Memory[int] = Memory(100)
    memory.put("used", 0, 10)
    memory.put("unused", 0, 10)
    for key in range(100):
        assert memory.get("used") == 0
        memory.put(key, 0, 10)
    assert memory.get("unused") is None
