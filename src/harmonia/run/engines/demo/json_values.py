"""JSON of unknown shape, with types: what is not of the shape that was hoped for is empty."""

from __future__ import annotations

from typing import Any, TypeGuard, cast


def as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number of JSON; Python's booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
