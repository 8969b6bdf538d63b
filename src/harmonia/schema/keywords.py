"""The keywords of JSON Schema (draft 3 to 2020-12, and OpenAPI's) by how they are printed.

Every keyword is in exactly one of these tables or is unknown; unknown keywords are reported.
"""

from __future__ import annotations

from typing import Final

from harmonia.schema.document import Json

# A schema with only these needs none of the other tables. Most tools have nothing else, and the reference reads
# nothing else.
PLAIN: Final = frozenset(
    {"type", "description", "title", "examples", "default", "enum", "properties", "required", "items", "nullable"}
)

# Those of them that only describe a type. A schema without any of them has no comments.
SAID: Final = frozenset({"description", "title", "examples", "default"})
TYPE_ALONE: Final = PLAIN - SAID
TYPE_AND_SAID: Final = frozenset({"type", *SAID})

# Printed as part of the type.
STRUCTURE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "const", "prefixItems"}
    | {"additionalProperties", "patternProperties", "additionalItems"}
)

# Printed as `keyword: value` in a comment, because TypeScript has no type for them.
CONSTRAINTS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
    | {"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
    | {"propertyNames", "dependentRequired", "deprecated", "readOnly", "writeOnly"}
)

# Not printed, and nothing is lost: identity, definitions for references, notes to other authors, and
# `discriminator`, which only repeats what the variants' constants say. `example` is printed with `examples`.
SILENT: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "discriminator"}
    | {"example"}
)

KNOWN: Final = PLAIN | STRUCTURE | CONSTRAINTS | SILENT

# Known, but not expressible in TypeScript: keyword and reason.
INEXPRESSIBLE: Final = {
    **dict.fromkeys(("not", "disallow"), "TypeScript cannot exclude values."),
    **dict.fromkeys(("if", "then", "else"), "TypeScript cannot express conditions on values."),
    "dependentSchemas": "TypeScript cannot express conditions on the presence of a key.",
    "dependencies": "TypeScript cannot express conditions on the presence of a key.",
    **dict.fromkeys(
        ("contains", "minContains", "maxContains"), "TypeScript cannot require that an array contains such an item."
    ),
    "unevaluatedProperties": "TypeScript cannot express which keys other schemas have evaluated.",
    "unevaluatedItems": "TypeScript cannot express which items other schemas have evaluated.",
    "contentSchema": "TypeScript cannot describe a document inside a string.",
    **dict.fromkeys(("$dynamicRef", "$dynamicAnchor"), "Dynamic references are not followed; use $ref."),
    **dict.fromkeys(("$recursiveRef", "$recursiveAnchor"), "Recursive references are not followed; use $ref."),
    "extends": "This keyword of draft 3 is not followed; use allOf.",
}

# These mean "nothing beyond what is listed", which a TypeScript object or tuple means anyway.
CLOSING: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})

PRIMITIVES: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}

# The values of `type`. `any` is not JSON Schema, but is common and unambiguous.
KINDS: Final = frozenset({*PRIMITIVES, "null", "object", "array", "any"})


# Keywords that describe objects or arrays, and the types their values must have.
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
    """Whether a value has the JSON Schema type `kind`."""
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
    """Whether the schema already allows null, so that `nullable` adds nothing."""
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
