"""What can be told of a schema's type by looking at it, before anything is printed."""

from __future__ import annotations

from typing import Final

from harmonia.schema.keywords import KINDS
from harmonia.schema.values import Json

# Keywords that say something of objects or arrays beyond their being such, and the values that make sense of them.
_OBJECT_KEYWORDS: Final = {
    "properties": dict,
    "patternProperties": dict,
    "required": list,
    "additionalProperties": (dict, bool),
}
_ARRAY_KEYWORDS: Final = {"items": (dict, list, bool), "prefixItems": list}
_DETAILS: Final = frozenset({*_OBJECT_KEYWORDS, *_ARRAY_KEYWORDS, "const", "enum"})


def spelled(kind: Json) -> Json:
    """The value of `type` in JSON Schema's spelling: Gemini's dialect writes its names in capitals."""
    if isinstance(kind, str):
        return kind if kind in KINDS or kind.lower() not in KINDS else kind.lower()
    return [spelled(name) for name in kind] if isinstance(kind, list) else kind


def is_about_objects(schema: dict[str, Json]) -> bool:
    """Whether a keyword describes the keys of an object. A plain `additionalProperties: false` names none."""
    return any(
        keyword in schema and schema[keyword] is not False and isinstance(schema[keyword], types)
        for keyword, types in _OBJECT_KEYWORDS.items()
    )


def is_about_arrays(schema: dict[str, Json]) -> bool:
    """Whether a keyword describes the items of an array."""
    return any(keyword in schema and isinstance(schema[keyword], types) for keyword, types in _ARRAY_KEYWORDS.items())


def says_more_than_type(schema: dict[str, Json]) -> bool:
    """Whether the schema lists values, properties or items, beside or without a `type`."""
    return any(schema[keyword] is not False for keyword in _DETAILS & schema.keys())


def is_of_kind(value: Json, kind: Json) -> bool:
    """Whether a value has the type of that name."""
    match value:
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case None:
            return kind == "null"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"


def says_null(schema: dict[str, Json]) -> bool:
    """Whether the schema names null itself, so that `nullable` adds nothing."""
    kind, values = schema.get("type"), schema.get("enum")
    if "const" in schema:
        return schema["const"] is None
    if isinstance(values, list) and values:
        return None in values
    if isinstance(kind, list):
        return "null" in kind
    variants = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(variants, list):
        return {"type": "null"} in variants
    return kind == "null"
