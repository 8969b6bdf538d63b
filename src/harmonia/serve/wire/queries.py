"""What stands behind the `?` of a request, read as exactly as a body. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.wire.validation import invalid

# A parameter that was given more than once is a list.
Query = Mapping[str, str | list[str]]


def check_query(query: Query, known: tuple[str, ...]) -> None:
    """Refuses a parameter that is not known."""
    for name in query:
        if name not in known:
            raise InputError(
                ErrorCode.SERVE_UNKNOWN_FIELD, f"unknown parameter {name[:100]!r}", Position(path=f"$.{name[:100]}")
            )


def one_of(query: Query, name: str) -> str | None:
    """A parameter that may be there once."""
    value = query.get(name)
    if isinstance(value, list):
        invalid(f"{name} is given more than once", f"$.{name}")
    return value


def limit_of(query: Query, most: int) -> int:
    """How many entries a page of a list may have; 20 where nobody says."""
    given = one_of(query, "limit") or "20"
    # Of digits without an end int makes an error of its own.
    if not given.isascii() or not given.isdigit() or len(given) > len(str(most)) or not 1 <= int(given) <= most:
        invalid(f"limit is {given[:20]!r}; it may be 1 to {most}", "$.limit")
    return int(given)
