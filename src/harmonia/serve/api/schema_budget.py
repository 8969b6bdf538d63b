"""What the schemas of one request may come to when the model is told of them.

A reference is written out where it stands, so a schema whose definitions name one another twice is short in a body and
endless in a prompt. What is written stays within a multiple of what was sent: work is linear in the body (law 8).
"""

from __future__ import annotations

from typing import Final

import msgspec

from harmonia.errors import InputError, Position
from harmonia.messages import Json
from harmonia.schema import to_typescript
from harmonia.schema.values import DEFAULT_LIMITS

# Types with references are written several times at times, and small ones may well be.
_TIMES: Final = 8
_FREE_CHARACTERS: Final = 64 * 1024
_REFERENCES: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


class SchemaBudget:
    """One per request."""

    def __init__(self) -> None:
        self._left = _FREE_CHARACTERS

    def take(self, schema: Json | bool | None, encoded: bytes, path: str) -> None:
        """Raises where this schema, with those before it, becomes too much. `encoded` is its JSON."""
        if schema is None or not any(reference in encoded for reference in _REFERENCES):
            return
        self._left += _TIMES * len(encoded)
        limits = msgspec.structs.replace(DEFAULT_LIMITS, characters=max(0, min(self._left, DEFAULT_LIMITS.characters)))
        try:
            written = to_typescript(schema, limits=limits)
        except InputError as error:
            inner = (error.at.path or "$").removeprefix("$")
            raise InputError(error.code, error.message, Position(path=f"{path}{inner}")) from error
        self._left -= len(written.text) + sum(len(each.text) for each in written.declarations)
