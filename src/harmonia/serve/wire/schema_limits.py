"""Admits schemas: of tools and of answers, in every API, and of MCP servers that a client names.

A schema has at most as many bytes as the operator allows, and only so many characters in the prompt. A reference is
written out where it stands, so a schema whose definitions name one another twice is short in a body and endless in a
prompt. What is written stays within a multiple of what was sent: work is linear in the body (law 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.emptiness import fits_nothing
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json, ResponseFormat
from harmonia.run.tools.arguments import schema_fault
from harmonia.schema import to_typescript
from harmonia.schema.values import DEFAULT_LIMITS
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.validation import invalid

# Types with references may be written several times; small ones always may.
_TIMES: Final = 8
_FREE_CHARACTERS: Final = 64 * 1024
# Checking a larger schema takes seconds; what is wrong with it becomes a warning when an answer is checked.
_AT_ONCE_BYTES: Final = 32_768
_REFERENCES: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


class SchemaBudget:
    """One per request, for all of its schemas together."""

    def __init__(self, limits: Limits) -> None:
        self._most_bytes = limits.schema_bytes
        self._left = _FREE_CHARACTERS

    def admit(self, schema: Json | bool | None, path: str, *, is_demanded: bool = False) -> None:
        """Raises the client's error if this schema, with those before it, is too large or, if a model is to be held to
        it, if nothing can match it. May take a second, so do not call it in an event loop."""
        if schema is None:
            return
        encoded = encode_bytes(schema)
        if len(encoded) > self._most_bytes:
            said = f"the schema has {len(encoded)} bytes; at most {self._most_bytes} are accepted"
            raise InputError(ErrorCode.SERVE_TOO_LARGE, said, Position(path=path))
        if any(reference in encoded for reference in _REFERENCES):
            self._expand(schema, encoded, path)
        if is_demanded:
            check_demanded(schema, path)

    def admit_format(self, form: ResponseFormat, path: str, *, is_demanded: bool) -> None:
        """The same for the schema of an answer, to which at least some answer has to fit."""
        self.admit(form.schema, path, is_demanded=is_demanded)
        if not is_demanded and fits_nothing(form.schema):
            invalid("no value can match this schema", path)

    def _expand(self, schema: Json | bool, encoded: bytes, path: str) -> None:
        self._left += _TIMES * len(encoded)
        limits = msgspec.structs.replace(DEFAULT_LIMITS, characters=max(0, min(self._left, DEFAULT_LIMITS.characters)))
        try:
            written = to_typescript(schema, limits=limits)
        except InputError as error:
            if error.code is ErrorCode.SCHEMA_UNKNOWN_REFERENCE:
                return  # not a matter of size: rendering reports it
            inner = (error.at.path or "$").removeprefix("$")
            raise InputError(error.code, error.message, Position(path=f"{path}{inner}")) from error
        self._left -= len(written.text) + sum(len(each.text) for each in written.declarations)


def check_demanded(schema: Json | bool, path: str) -> None:
    """Raises the client's error for a schema of the answer, or of a strict tool, that nothing can match."""
    fault = schema_fault(schema) if len(encode_bytes(schema)) <= _AT_ONCE_BYTES else None
    if fault is not None:
        reason, inner = fault
        invalid(f"not a valid JSON Schema: {reason}", f"{path}{inner.removeprefix('$')}")
    if fits_nothing(schema):
        invalid("no value can match this schema", path)


def locate(error: InputError, schemas: Iterable[tuple[Json | bool | None, str]]) -> InputError:
    """The error with its path in the request, if one of these schemas, each with its path, caused it."""
    if not error.code.value.startswith("schema."):
        return error
    for schema, path in schemas:
        try:
            if schema is not None:
                to_typescript(schema)
        except InputError as found:
            inner = (found.at.path or "$").removeprefix("$")
            return InputError(found.code, found.message, Position(path=f"{path}{inner}"))
    return error
