"""The one way in for schemas: of tools and of answers, in every API, and of MCP servers that a client names.

A schema is admitted if it has no more bytes than the operator allows, and comes to no more than this when the model is
told of it.

A reference is written out where it stands, so a schema whose definitions name one another twice is short in a body and
endless in a prompt. What is written stays within a multiple of what was sent: work is linear in the body (law 8).
"""

from __future__ import annotations

from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.schema import to_typescript
from harmonia.schema.values import DEFAULT_LIMITS
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.schema_errors import check_demanded

# Types with references are written several times at times, and small ones may well be.
_TIMES: Final = 8
_FREE_CHARACTERS: Final = 64 * 1024
_REFERENCES: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


class SchemaBudget:
    """One per request, for all of its schemas together."""

    def __init__(self, limits: Limits) -> None:
        self._most_bytes = limits.schema_bytes
        self._left = _FREE_CHARACTERS

    def admit(self, schema: Json | bool | None, path: str, *, is_demanded: bool = False) -> None:
        """Raises the client's error where this schema, with those before it, becomes too much, and, where a model is
        to be held to it, where nothing can be. It may take a second: not for an event loop."""
        if schema is None:
            return
        encoded = encode_bytes(schema)
        if len(encoded) > self._most_bytes:
            said = f"the schema has {len(encoded)} bytes; at most {self._most_bytes} are taken"
            raise InputError(ErrorCode.SERVE_TOO_LARGE, said, Position(path=path))
        if any(reference in encoded for reference in _REFERENCES):
            self._expand(schema, encoded, path)
        if is_demanded:
            check_demanded(schema, path)

    def _expand(self, schema: Json | bool, encoded: bytes, path: str) -> None:
        self._left += _TIMES * len(encoded)
        limits = msgspec.structs.replace(DEFAULT_LIMITS, characters=max(0, min(self._left, DEFAULT_LIMITS.characters)))
        try:
            written = to_typescript(schema, limits=limits)
        except InputError as error:
            if error.code is ErrorCode.SCHEMA_UNKNOWN_REFERENCE:
                return  # not a matter of size: whoever follows the reference says so
            inner = (error.at.path or "$").removeprefix("$")
            raise InputError(error.code, error.message, Position(path=f"{path}{inner}")) from error
        self._left -= len(written.text) + sum(len(each.text) for each in written.declarations)
