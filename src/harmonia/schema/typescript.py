"""`to_typescript`: one JSON Schema to one TypeScript type."""

from __future__ import annotations

from typing import Any

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.documents import as_json
from harmonia.schema.names import Names
from harmonia.schema.plain_printer import plain_type
from harmonia.schema.printer import Printer
from harmonia.schema.reference_printer import exact_type
from harmonia.schema.values import DEFAULT_LIMITS, SchemaLimits, TypeScript


def to_typescript(
    schema: dict[str, Any] | bool,
    *,
    exact_reference: bool = False,
    name: str = "",
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> TypeScript:
    """Print a schema as the TypeScript in which Harmony declares tools.

    `name` is the tool's; helper types begin with it. `exact_reference` prints what openai-harmony 0.0.8 prints,
    broken TypeScript included, and reports no losses. Raises InputError for a schema that is no schema, for a
    reference that is remote or leads nowhere, and beyond `limits`.
    """
    return convert(schema, name, Names((name,)), exact_reference, limits, "$")


def convert(
    schema: dict[str, Any] | bool,
    owner: str,
    names: Names,
    exact_reference: bool,
    limits: SchemaLimits,
    root_path: str,
) -> TypeScript:
    """`to_typescript` for callers that print several schemas into one namespace or one larger document."""
    # Where nothing is lost and nothing is broken, both modes print the same.
    text = plain_type(schema)
    if text is not None and len(text) <= limits.characters:
        return TypeScript(text)
    document = as_json(schema, root_path)
    if exact_reference:
        return TypeScript(exact_type(document, limits, root_path))
    if not isinstance(document, dict | bool):
        raise InputError(
            ErrorCode.SCHEMA_INVALID,
            f"A schema must be an object or a boolean, not {type(document).__name__}.",
            Position(path=root_path),
        )
    return Printer(document, owner, names, limits, root_path).print_document()
