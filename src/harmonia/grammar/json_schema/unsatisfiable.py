"""Finds schemas that obviously no value matches, so that their author gets an error instead of an endless completion.

The check is shallow: it does not follow `$ref`, and a schema that passes may still match nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from harmonia.messages import Json
from harmonia.schema.document import is_of_kind

_MAX_DEPTH: Final = 40
_COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}
_KINDS: Final = frozenset((*_COUNTS, "null", "boolean"))
# What schemas have in common whose kinds exclude each other.
_NO_KIND: Final = frozenset(("nothing",))


def fits_nothing(schema: Any) -> bool:
    """Whether it is evident that no value fits a schema."""
    return _fits_nothing(schema, 0, {})


def _fits_nothing(schema: Any, depth: int, known: dict[int, bool]) -> bool:
    """`known` has what was looked at, as objects of Python. What leads back to itself is not evident."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return schema is False
    fields = cast("Json", schema)
    if id(fields) not in known:
        known[id(fields)] = False
        known[id(fields)] = _is_evident(fields, lambda inner: _fits_nothing(inner, depth + 1, known))
    return known[id(fields)]


def _is_evident(fields: Json, is_empty: Callable[[Any], bool]) -> bool:
    if "$ref" in fields or fields.get("nullable") is True:
        return False
    kinds = _kinds(fields)
    lists = [_listed(fields["enum"])] if isinstance(fields.get("enum"), list) else []
    lists += [[fields["const"]]] if "const" in fields else []
    for values in lists:
        if not any(not kinds or any(is_of_kind(value, kind) for kind in kinds) for value in values):
            return True
    if kinds and all(_is_impossible(kind, fields, is_empty) for kind in kinds):
        return True
    for one in _listed(fields.get("allOf")):
        if is_empty(one):
            return True
        if isinstance(one, dict) and "$ref" not in one:
            kinds = _common(kinds, _kinds(cast("Json", one)))
    unions = (_listed(fields.get(keyword)) for keyword in ("anyOf", "oneOf"))
    return kinds == _NO_KIND or any(branches and all(map(is_empty, branches)) for branches in unions)


def _is_impossible(kind: str, fields: Json, is_empty: Callable[[Any], bool]) -> bool:
    """Whether no value of this kind fits."""
    if kind not in _COUNTS:
        return False
    least, most = (_number(fields.get(keyword)) for keyword in _COUNTS[kind])
    if least is not None and most is not None and least > most:
        return True
    if kind == "array":
        return fields.get("items") is False and not fields.get("prefixItems") and least is not None and least >= 1
    properties: Any = fields.get("properties", {})
    if kind != "object" or not isinstance(properties, dict):
        return False
    # Does a property have to be there that cannot be?
    is_closed = fields.get("additionalProperties") is False and not fields.get("patternProperties")
    declared = cast("Json", properties)
    required = [name for name in _listed(fields.get("required")) if isinstance(name, str)]
    return any(is_empty(declared[name]) if name in declared else is_closed for name in required)


def _kinds(fields: Json) -> frozenset[str]:
    """The kinds that a schema names; none where it names none, or one that does not exist."""
    named = fields.get("type")
    names: list[Any] = cast("list[Any]", named) if isinstance(named, list) else [named]
    is_known = all(isinstance(name, str) and name in _KINDS for name in names)
    return frozenset(names) if is_known and fields.get("nullable") is not True else frozenset()


def _common(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    if not one or not other:
        return one or other
    numbers = {"integer"} if {"integer", "number"} & one and {"integer", "number"} & other else set[str]()
    return (one & other) | numbers or _NO_KIND


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
