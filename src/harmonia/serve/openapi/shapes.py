"""Words for writing JSON Schemas by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harmonia.messages import Json

STRING: Final[Json] = {"type": "string"}
INTEGER: Final[Json] = {"type": "integer"}
NUMBER: Final[Json] = {"type": "number"}
BOOLEAN: Final[Json] = {"type": "boolean"}
NULL: Final[Json] = {"type": "null"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}
ANY_OBJECT: Final[Json] = {"type": "object"}


def record(properties: Json, optional: Iterable[str] = (), *, closed: bool = False, said: str = "") -> Json:
    """An object. All of its properties are required but the optional ones; closed ones have no others."""
    schema: Json = {"type": "object", "properties": properties}
    left_out = set(optional)
    required = [name for name in properties if name not in left_out]
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return described(schema, said) if said else schema


def listed(items: Json, said: str = "") -> Json:
    schema = {"type": "array", "items": items}
    return described(schema, said) if said else schema


def one_of(*values: Any) -> Json:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def either(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def or_null(schema: Json) -> Json:
    return {"anyOf": [schema, NULL]}


def described(schema: Json, said: str) -> Json:
    return {**schema, "description": said}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
