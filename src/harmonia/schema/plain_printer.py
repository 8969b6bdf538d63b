"""A fast path for the schemas that most tools have.

Objects of primitives, string enums, arrays and further such objects, each with at most a one-line description, need
none of the printer's care: nothing can be lost, quoted or recursive. `plain_type` prints these, and returns None for
everything else. It may not differ from the printer in a single byte; a test compares the two.
"""

from __future__ import annotations

from typing import Final

from harmonia.schema.keywords import PRIMITIVES
from harmonia.schema.values import Json

# Deeper or larger schemas go to the printer, which enforces the limits.
_DEPTH: Final = 8
_PROPERTIES: Final = 500

_OBJECT: Final = frozenset({"type", "properties", "required", "additionalProperties"})
_PROPERTY: Final = _OBJECT | {"description", "default", "enum", "items"}
_ARRAY: Final = frozenset({"type", "items", "description"})
_PRIMITIVE: Final = frozenset({"type", "description", "default"})
_ENUM: Final = frozenset({"type", "enum", "description", "default"})


def plain_type(schema: Json, indent: str = "", depth: int = 0) -> str | None:
    """An object as TypeScript; None if it needs the printer."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not schema.keys() <= _OBJECT:
        return None
    properties, required = schema.get("properties"), schema.get("required", [])
    if (
        not isinstance(properties, dict)
        or not isinstance(required, list)
        or len(properties) > _PROPERTIES
        or depth > _DEPTH
        or schema.get("additionalProperties", False) is not False
        or not all([isinstance(name, str) and name in properties for name in required])
    ):
        return None
    lines = ["{\n"]
    for key, value in properties.items():
        line = _property(key if key in required else f"{key}?", value, indent, depth) if key.isidentifier() else None
        if line is None:
            return None
        lines.append(line)
    lines.append(f"{indent}}}")
    return "".join(lines)


def _property(key: str, schema: Json, indent: str, depth: int) -> str | None:
    if not isinstance(schema, dict) or not schema.keys() <= _PROPERTY:
        return None
    text = _value_type(schema, indent, depth)
    if text is None:
        return None
    line = f"{indent}{key}: {text},"
    if "default" in schema:
        default = _default(schema["default"], is_enum="enum" in schema)
        if default is None:
            return None
        line = f"{line} // default: {default}"
    if "description" in schema:
        description = schema["description"]
        if not isinstance(description, str) or not description.isprintable():
            return None
        line = f"{indent}// {description}\n{line}"
    return f"{line}\n"


def _value_type(schema: dict[str, Json], indent: str, depth: int) -> str | None:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return None
    if kind in PRIMITIVES:
        if "enum" in schema:
            return _enum(schema) if kind == "string" and schema.keys() <= _ENUM else None
        return PRIMITIVES[kind] if schema.keys() <= _PRIMITIVE else None
    if kind == "object":
        return plain_type(schema, f"{indent}    ", depth + 1)
    if kind == "array" and schema.keys() <= _ARRAY:
        items = schema.get("items")
        if isinstance(items, dict):
            inner = items.get("type")
            if isinstance(inner, str) and inner in PRIMITIVES and len(items) == 1:
                return f"{PRIMITIVES[inner]}[]"
            text = plain_type(items, f"{indent}    ", depth + 1)
            return None if text is None else f"{text}[]"
    return None


def _enum(schema: dict[str, Json]) -> str | None:
    values = schema["enum"]
    if not isinstance(values, list) or not values:
        return None
    return " | ".join([f'"{value}"' for value in values]) if all(map(_is_plain_text, values)) else None


def _default(value: Json, *, is_enum: bool) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # The reference reads larger integers as floats.
        return str(value) if -(1 << 63) <= value < 1 << 64 else None
    if _is_plain_text(value):
        return f"{value}" if is_enum else f'"{value}"'
    return None


def _is_plain_text(value: Json) -> bool:
    """Whether the string literal of a value is just the text in quotes."""
    return isinstance(value, str) and value.isprintable() and '"' not in value and "\\" not in value
