"""Values for schemas: they fit, and what is said to fit is what jsonschema says fits."""

from __future__ import annotations

import warnings
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.run.engines.demo.calls import FORMATS, make_instance, samples_of
from tests.support.engines.demo_runs import assert_valid
from tests.support.repeated import repeated
from tests.support.strategies import schemas as schema_strategies

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
}
SATISFIABLE: list[Any] = [
    True,
    {},
    {"type": "object"},
    {"const": {"a": [1, None]}},
    {"enum": [None, "x"]},
    {"type": "string", "minLength": 50},
    {"type": "string", "maxLength": 2},
    {"type": "string", "maxLength": 0},
    {"type": "string", "pattern": r"^[A-Z]{3}-\d+$"},
    {"type": "string", "pattern": r"^(foo|bar)[^a-z]\s\w+$", "minLength": 12},
    {"type": "string", "pattern": "^#(?:[0-9a-fA-F]{3}){1,2}$"},
    {"type": "integer", "minimum": 5, "maximum": 5},
    {"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": -1},
    {"type": "integer", "multipleOf": 7, "minimum": 30},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "multipleOf": 0.25, "minimum": 1.1},
    {"type": "number", "maximum": -1e300},
    {"type": ["null", "integer"], "minimum": 3},
    {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"type": "integer", "minimum": 4}, "minItems": 5, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "maxItems": 0, "items": {"type": "string"}},
    {"type": "object", "required": ["a", "b"], "additionalProperties": {"type": "integer"}},
    {"type": "object", "minProperties": 2, "properties": {"a": {"type": "string"}}},
    {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False, "minProperties": 1},
    {"properties": {"a": {}, "b": {"const": 1}}, "required": ["a"], "dependentRequired": {"a": ["b"]}},
    {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "string"}}}, {"type": "object"}]},
    {"allOf": [{"type": "number", "minimum": 3}, {"type": "integer"}, {"maximum": 3}]},
    {"oneOf": [{"type": "string"}, {"type": "string", "enum": ["a"]}]},
    {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    {"anyOf": [False, {"type": "boolean"}]},
    {"not": {"type": "object"}},
    {
        "properties": {"kind": {"enum": ["b", "a"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "else": False,
    },
]
WORDS = st.sampled_from(
    ("", 'Weather in "Paris", unit=celsius, 12 or 3.5', "é 漢 🎉 a=b 1", "demo@example.com 2020-02-02")
)


@pytest.mark.parametrize("schema", SATISFIABLE, ids=str)
@pytest.mark.parametrize("words", ["", 'Use "x" for Paris with a=3, kind=a, 12 and 0.5'])
def test_what_can_be_fulfilled_is_fulfilled(schema: Any, words: str) -> None:
    instance = make_instance(schema, words)
    assert instance.fits
    assert_valid(instance.value, schema)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"$ref": "#"},
        {"type": "string", "pattern": r"(\w)\1"},  # engines read references to groups in different ways
    ],
)
def test_what_cannot_be_fulfilled_is_said_to_be_so(schema: Any) -> None:
    assert not make_instance(schema, "").fits


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_kept(name: str) -> None:
    schema = {"type": "string", "format": name}
    value = make_instance(schema, 'some "words" for Paris').value
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.validate(value, schema, format_checker=checker)


def test_words_of_a_format_are_found() -> None:
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string", "format": "email"}, "on": {"type": "string", "format": "date"}},
        "required": ["to", "on"],
    }
    value = make_instance(schema, "Write to ann@example.org on 2026-03-01.").value
    assert value == {"to": "ann@example.org", "on": "2026-03-01"}


def test_lists_and_optional_objects_are_filled() -> None:
    report = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    schema = {
        "type": "object",
        "properties": {
            "tasks": {"type": "array", "items": {"$ref": "#/$defs/report"}},
            "best": {"anyOf": [{"type": "object", "properties": {"of": report}, "required": ["of"]}, {"type": "null"}]},
        },
        "required": ["tasks", "best"],
        "$defs": {"report": report},
    }
    value = make_instance(schema, "cities: in Paris and in Rome").value
    assert value == {"tasks": [{"city": "Paris"}], "best": {"of": {"city": "Rome"}}}


def test_the_only_property_is_filled_if_it_is_a_list() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"tasks": {"type": "array", "items": {"type": "string"}}},
        "required": [],
    }
    assert make_instance(schema, "in Paris").value == {"tasks": ["Paris"]}


def test_each_word_serves_once() -> None:
    schema = {
        "type": "object",
        "properties": {"origin": {"type": "string"}, "goal": {"type": "string"}, "seats": {"type": "integer"}},
        "required": ["origin", "goal", "seats"],
    }
    value = make_instance(schema, "a train from Paris to Rome with 2 seats").value
    assert value == {"origin": "Paris", "goal": "Rome", "seats": 2}


@repeated(given(schema_strategies.lossless_schemas | schema_strategies.any_schemas, WORDS), some=15, many=60)
def test_nothing_raises_and_what_is_said_to_fit_fits(schema: Any, words: str) -> None:
    instance = make_instance(schema, words)
    if instance.fits:
        assert is_valid(instance.value, schema) is not False


@repeated(
    given(
        st.recursive(
            st.sampled_from((r"\d", "[a-f]", "[^a]", ".", "x", r"\w", r"\S")),
            lambda inner: st.one_of(
                st.tuples(inner, st.sampled_from(("*", "+", "?", "{2,3}"))).map("(?:{0[0]}){0[1]}".format),
                st.tuples(inner, inner).map("".join),
                st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
            ),
        )
    ),
    some=25,
    many=100,
)
def test_samples_of_a_pattern_match_it(pattern: str) -> None:
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    assert list(samples_of(pattern)) and make_instance(schema, "").fits


def is_valid(value: Any, schema: Any) -> bool | None:
    """What jsonschema says; None where the schema is no schema, or says what is not looked at here."""
    if mentions(schema, ("unevaluatedProperties", "unevaluatedItems", "$id", "id")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jsonschema.Draft202012Validator.check_schema(schema)
            jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    except jsonschema.ValidationError:
        return False
    except (jsonschema.SchemaError, RecursionError):
        return None
    except Exception as error:
        if "Unresolvable" in f"{type(error).__mro__} {error}" or "ReferencingError" in str(type(error)):
            return None
        raise
    return True


def mentions(value: Any, keywords: tuple[str, ...]) -> bool:
    if isinstance(value, dict):
        return any(key in keywords or mentions(each, keywords) for key, each in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- JSON
    return isinstance(value, list) and any(mentions(each, keywords) for each in value)  # pyright: ignore[reportUnknownVariableType] -- JSON
