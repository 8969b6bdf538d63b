"""Values of a provider's JSON, which may be anything: what is not of the kind that is asked for is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Fields = Mapping[str, Any]


def fields_of(value: object) -> Fields:
    """An object's fields."""
    return cast(Fields, value) if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[Fields]:
    """The objects in a list."""
    return [fields_of(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """A number of tokens. True is no number here, though Python thinks so."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
