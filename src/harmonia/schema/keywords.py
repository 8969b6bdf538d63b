"""The keywords of JSON Schema (draft 3 to 2020-12, and OpenAPI's), sorted by what becomes of them.

Every keyword is in exactly one of these tables or is unknown; unknown ones are reported.
"""

from __future__ import annotations

from typing import Final

# A schema that has only these needs no look at the other tables. It is what most tools consist of, and all that
# the reference reads.
PLAIN: Final = frozenset(
    {
        "type",
        "description",
        "title",
        "examples",
        "default",
        "enum",
        "properties",
        "required",
        "items",
        "nullable",
    }
)

# The part of them that is only said of a type. A schema without any of them has no comments.
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

# Nothing is printed and nothing is missing: identity, storage for references, notes to other authors, and
# `discriminator`, which only repeats what the variants' constants say. `example` is printed with `examples`.
SILENT: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "discriminator"}
    | {"example"}
)

KNOWN: Final = PLAIN | STRUCTURE | CONSTRAINTS | SILENT

# Known, but TypeScript cannot say it: keyword, and why.
INEXPRESSIBLE: Final = {
    "not": "TypeScript has no type for every value but these.",
    "if": "TypeScript has no conditions on values.",
    "then": "TypeScript has no conditions on values.",
    "else": "TypeScript has no conditions on values.",
    "dependentSchemas": "TypeScript has no conditions on the presence of a key.",
    "dependencies": "TypeScript has no conditions on the presence of a key.",
    "contains": "TypeScript has no type for an array that has such an item somewhere.",
    "minContains": "TypeScript has no type for an array that has such an item somewhere.",
    "maxContains": "TypeScript has no type for an array that has such an item somewhere.",
    "unevaluatedProperties": "TypeScript does not know which keys other schemas have looked at.",
    "unevaluatedItems": "TypeScript does not know which items other schemas have looked at.",
    "contentSchema": "TypeScript has no type for text that holds another document.",
    "$dynamicRef": "A dynamic reference depends on who asks; only $ref is followed.",
    "$recursiveRef": "A recursive reference depends on who asks; only $ref is followed.",
    "$dynamicAnchor": "A dynamic reference depends on who asks; only $ref is followed.",
    "$recursiveAnchor": "A recursive reference depends on who asks; only $ref is followed.",
    "extends": "This keyword of draft 3 is not followed; allOf says the same.",
    "disallow": "TypeScript has no type for every value but these.",
}

# These say "nothing beyond what is listed", which is what a TypeScript object or tuple says anyway.
CLOSING: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})

PRIMITIVES: Final = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
}

# What `type` may say. `any` is not JSON Schema but is often written, and nobody doubts what it means.
KINDS: Final = frozenset({*PRIMITIVES, "null", "object", "array", "any"})
