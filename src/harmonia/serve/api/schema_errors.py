"""Where in a request a schema is wrong. Rendering knows the place in the schema, not whose schema it was."""

from __future__ import annotations

from collections.abc import Iterable

from harmonia.errors import InputError, Position
from harmonia.messages import Json
from harmonia.schema import to_typescript


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
