"""Schemas that evidently no value fits, and those that only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia.grammar.json_schema.unsatisfiable import fits_nothing

STRING: dict[str, Any] = {"type": "string"}
NOTHING: list[Any] = [
    False,
    {"enum": []},
    {"type": "string", "enum": [1]},
    {"type": "integer", "const": "a"},
    {"type": "string", "minLength": 5, "maxLength": 2},
    {"type": "number", "minimum": 5, "maximum": 2},
    {"type": ["string", "array"], "minLength": 1, "maxLength": 0, "minItems": 1, "maxItems": 0},
    {"type": "array", "minItems": 1, "items": False},
    {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"allOf": [STRING, {"type": "integer"}]},
    {"type": "null", "allOf": [STRING]},
    {"allOf": [STRING, False]},
    {"anyOf": [False, {"enum": []}]},
]


@pytest.mark.parametrize("schema", NOTHING)
def test_what_nothing_fits_is_found(schema: Any) -> None:
    assert fits_nothing(schema)


SOMETHING: list[Any] = [
    True,
    {},
    {"type": "strng"},
    {"type": []},
    {"minLength": 5, "maxLength": 2},  # numbers have no length
    {"type": ["string", "null"], "minLength": 5, "maxLength": 2},
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "required": ["a"], "additionalProperties": False, "patternProperties": {"a": {}}},
    {"allOf": [{"type": "number"}, {"type": "integer"}]},
    {"anyOf": [False, STRING]},
    {"anyOf": []},
    {"type": "array", "items": False},
    {"type": "array", "minItems": 1, "items": False, "prefixItems": [STRING]},
    {"$ref": "#/$defs/a", "enum": []},
    {"type": "string", "enum": [None], "nullable": True},
]


@pytest.mark.parametrize("schema", SOMETHING)
def test_what_something_fits_is_not(schema: Any) -> None:
    assert not fits_nothing(schema)


def test_a_schema_that_leads_to_itself_comes_to_an_end() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["a"]}
    schema["properties"] = {"a": schema}
    assert not fits_nothing(schema)


def test_what_stands_in_many_places_is_looked_at_once() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["left", "right"]}
    schema["properties"] = {"left": schema, "right": schema}  # two to the power of its depth, if it were not
    assert not fits_nothing(schema)
    nothing: dict[str, Any] = {"enum": []}
    assert fits_nothing({"allOf": [{"anyOf": [nothing, STRING]}, nothing]})
