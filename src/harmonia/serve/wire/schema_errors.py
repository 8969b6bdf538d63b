"""Where in a request a schema is wrong. Rendering knows the place in the schema, not whose schema it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from harmonia.errors import InputError, Position
from harmonia.grammar.json_schema.emptiness import fits_nothing
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.run.tools.arguments import schema_fault
from harmonia.schema import to_typescript
from harmonia.serve.wire.validation import invalid

# Checking a larger one takes seconds. What is wrong with it is a warning, where an answer is checked.
_AT_ONCE_BYTES: Final = 32_768


def check_demanded(schema: Json | bool, path: str) -> None:
    """Raises the client's error for a schema of the answer, or of a strict tool, to which nothing can be held."""
    fault = schema_fault(schema) if len(encode_bytes(schema)) <= _AT_ONCE_BYTES else None
    if fault is not None:
        reason, inner = fault
        invalid(f"it is no JSON Schema: {reason}", f"{path}{inner.removeprefix('$')}")
    if fits_nothing(schema):
        invalid("no value fits this schema", path)


def locate(error: InputError, schemas: Iterable[tuple[Json | bool | None, str]]) -> InputError:
    """The error with its path in the request, where one of these schemas, each with its path, is to blame."""
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
