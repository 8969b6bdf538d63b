"""`to_typescript`: one JSON Schema to one TypeScript type."""

from __future__ import annotations

from typing import Any

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.exact import exact_type
from harmonia.schema.names import Names
from harmonia.schema.printer import Printer
from harmonia.schema.values import DEFAULT_LIMITS, SchemaLimits, TypeScript, is_json


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
    try:
        return _convert(schema, owner, names, exact_reference, limits, root_path)
    except (AttributeError, TypeError) as error:
        if is_json(schema):
            raise
        raise InputError(
            ErrorCode.SCHEMA_INVALID, "The schema holds something that is not JSON.", Position(path=root_path)
        ) from error


def _convert(
    schema: dict[str, Any] | bool,
    owner: str,
    names: Names,
    exact_reference: bool,
    limits: SchemaLimits,
    root_path: str,
) -> TypeScript:
    if exact_reference:
        return TypeScript(exact_type(schema, limits, root_path))
    if not isinstance(schema, dict | bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # JSON may hold anything
        raise InputError(
            ErrorCode.SCHEMA_INVALID,
            f"A schema must be an object or a boolean, not {type(schema).__name__}.",
            Position(path=root_path),
        )
    return Printer(schema, owner, names, limits, root_path).print_document()
