"""Finds schemas that obviously no value matches, so that their author gets an error instead of an endless completion.

The check is shallow: it does not follow `$ref`, and a schema that passes may still match nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from harmonia.messages import Json

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
    return _Look().fits_nothing(schema, 0)


class _Look:
    """One look at a schema. What stands in several places of it, as one object of Python, is looked at once, and what
    leads back to itself is not evident."""

    def __init__(self) -> None:
        self._found: dict[int, bool] = {}

    def fits_nothing(self, schema: Any, depth: int) -> bool:
        if schema is False:
            return True
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return False
        fields = cast("Json", schema)
        if id(fields) not in self._found:
            self._found[id(fields)] = False
            self._found[id(fields)] = self._is_evident(fields, depth)
        return self._found[id(fields)]

    def _is_evident(self, fields: Json, depth: int) -> bool:
        if "$ref" in fields or fields.get("nullable") is True:
            return False
        kinds = _kinds(fields)
        values = fields.get("enum")
        if isinstance(values, list) and not any(_is_of(value, kinds) for value in cast("list[Any]", values)):
            return True
        if "const" in fields and not _is_of(fields["const"], kinds):
            return True
        if kinds and all(self._is_impossible(kind, fields, depth) for kind in kinds):
            return True
        return self._fits_not_all(fields, kinds, depth) or self._fits_no_branch(fields, depth)

    def _fits_not_all(self, fields: Json, kinds: frozenset[str], depth: int) -> bool:
        for one in _schemas(fields.get("allOf")):
            if self.fits_nothing(one, depth + 1):
                return True
            if isinstance(one, dict) and "$ref" not in one:
                kinds = _common(kinds, _kinds(cast("Json", one)))
        return kinds == _NO_KIND

    def _fits_no_branch(self, fields: Json, depth: int) -> bool:
        unions = (_schemas(fields.get(keyword)) for keyword in ("anyOf", "oneOf"))
        return any(branches and all(self.fits_nothing(each, depth + 1) for each in branches) for branches in unions)

    def _is_impossible(self, kind: str, fields: Json, depth: int) -> bool:
        """Whether no value of this kind fits."""
        if kind not in _COUNTS:
            return False
        least, most = (_number(fields.get(keyword)) for keyword in _COUNTS[kind])
        if least is not None and most is not None and least > most:
            return True
        if kind == "array":
            is_empty = fields.get("items") is False and not fields.get("prefixItems")
            return is_empty and least is not None and least >= 1
        return kind == "object" and self._lacks_required(fields, depth)

    def _lacks_required(self, fields: Json, depth: int) -> bool:
        """Whether a property has to be there that cannot be."""
        required, declared = fields.get("required"), fields.get("properties", {})
        if not isinstance(required, list) or not isinstance(declared, dict):
            return False
        properties = cast("Json", declared)
        is_closed = fields.get("additionalProperties") is False and not fields.get("patternProperties")
        for name in cast("list[Any]", required):
            if not isinstance(name, str):
                continue
            if name in properties:
                if self.fits_nothing(properties[name], depth + 1):
                    return True
            elif is_closed:
                return True
        return False


def _kinds(fields: Json) -> frozenset[str]:
    """The kinds that a schema names; none where it names none, or one that does not exist."""
    named = fields.get("type")
    names = cast("list[Any]", named) if isinstance(named, list) else [named]
    is_known = all(isinstance(name, str) and name in _KINDS for name in names)
    if not is_known or fields.get("nullable") is True:
        return frozenset()
    return frozenset(cast("list[str]", names))


def _common(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    if not one or not other:
        return one or other
    numbers = {"integer"} if {"integer", "number"} & one and {"integer", "number"} & other else set[str]()
    return (one & other) | numbers or _NO_KIND


def _is_of(value: Any, kinds: frozenset[str]) -> bool:
    if not kinds:
        return True
    checks: dict[str, Callable[[Any], bool]] = {
        "null": lambda each: each is None,
        "boolean": lambda each: isinstance(each, bool),
        "string": lambda each: isinstance(each, str),
        "array": lambda each: isinstance(each, list),
        "object": lambda each: isinstance(each, dict),
    }
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return any(checks[kind](value) if kind in checks else is_number for kind in kinds)


def _schemas(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
