"""The rules of a schema: what they admit fits it, what fits it they admit, and what they do not enforce they report."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.grammar.json_schema.json_rules import MAX_COMPARED, MAX_COUNT, json_rules
from harmonia.grammar.rules import Grammar, Loss, Node
from harmonia.grammar.simplification import pruned
from tests.grammar.rule_reader import Generator, admits
from tests.support.strategies.schemas import any_schemas

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
}


def reads(schema: object, text: str) -> bool:
    node, rules, _ = json_rules(schema, "functions.x")
    return admits(node, rules, text)


def losses(schema: object) -> list[tuple[str, str]]:
    return [(loss.path, loss.feature) for loss in json_rules(schema, "functions.x")[2]]


def possible(schema: object) -> tuple[Node, Mapping[str, Node], tuple[Loss, ...]]:
    """The rules, without what nothing can come of."""
    node, rules, lost = json_rules(schema, "functions.x")
    made = pruned(Grammar(node, rules))
    assert made is not None
    return made.start, made.rules, lost


def texts(schema: object, count: int, seed: int = 0) -> list[str]:
    node, rules, _ = possible(schema)
    generator = Generator(rules, random.Random(seed))
    return [generator.text(node) for _ in range(count)]


ADMITTED: list[tuple[Any, str]] = [
    (WEATHER, '{"city":"Paris"}'),
    (WEATHER, '{"city": "Paris", "unit": "celsius", "days": 14}'),
    (WEATHER, '{\n  "city": "Paris",\n  "days": 1\n}'),
    (WEATHER, '{ "city": "caf\\u00e9 \\ud83d\\ude00 \\n é 😀 \\"" }'),
    (TREE, '{"value": 1, "children": [{"value": 2, "children": []}, {"value": -3}]}'),
    ({}, '{"a": [1, -2.5e10, true, null, "x", {}]}'),
    (True, "[]"),
    ({"type": "array", "minItems": 1, "maxItems": 2}, '[1, "a"]'),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, '["a", 1]'),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}}, '["a", null, null]'),
    ({"type": ["string", "null"]}, "null"),
    ({"const": {"a": [1, "x"]}}, '{"a": [1, "x"]}'),
    ({"enum": ["a", 1, None, True, 2.5]}, "2.5"),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]}, '"ab"'),
    ({"allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 3}}}], "type": "object"}, '{"a": 3}'),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}, '{"b": 1, "other": 2}'),
    ({"type": "object", "properties": {"ab": {}}, "additionalProperties": {"type": "integer"}}, '{"a": 1, "abc": 2}'),
    ({"type": "object", "propertyNames": {"pattern": "^x-"}}, '{"x-1": 1}'),
    ({"type": "object", "patternProperties": {"^n": {"type": "null"}}, "additionalProperties": False}, '{"no": null}'),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, '"abc"'),
    ({"type": "string", "pattern": "b+"}, '"abba"'),
    ({"type": "string", "format": "date"}, '"2024-02-29"'),
    ({"type": "string", "format": "date-time"}, '"2024-12-31T23:59:59.5+01:00"'),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "0.999"),
    ({"type": "number", "exclusiveMinimum": 0}, "0.001"),
    ({"type": "integer", "exclusiveMinimum": -12, "maximum": 105}, "-11"),
]
REFUSED: list[tuple[Any, str]] = [
    (WEATHER, "{}"),
    (WEATHER, '{"city": ""}'),
    (WEATHER, '{"unit": "celsius", "city": "Paris"}'),
    (WEATHER, '{"city": "Paris", "city": "Rome"}'),
    (WEATHER, '{"city": "Paris", "days": 0}'),
    (WEATHER, '{"city": "Paris", "days": 15}'),
    (WEATHER, '{"city": "Paris", "days": 01}'),
    (WEATHER, '{"city": "Paris", "unit": "kelvin"}'),
    (WEATHER, '{"city": "Paris", "more": 1}'),
    (WEATHER, '{"city": "Paris",}'),
    (WEATHER, '{"city": "Paris"'),
    (WEATHER, '{"city":  "Paris"}'),
    (WEATHER, '{"city": "a\nb"}'),
    (WEATHER, '{"city": "\\ud83d"}'),
    (WEATHER, '{"city": "\\ude00\\ud83d"}'),
    (WEATHER, '{"city": "\\x"}'),
    (TREE, '{"value": 1, "children": [{"children": []}]}'),
    ({"type": "array", "maxItems": 1}, "[1, 2]"),
    ({"type": "array", "minItems": 2}, "[1]"),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, '["a", 1]'),
    ({"allOf": [{"required": ["a"]}, {"properties": {"a": {"minimum": 3}}}], "type": "object"}, '{"a": 2}'),
    ({"type": "object", "properties": {"ab": {"type": "string"}}}, '{"x": 1, "ab": 1}'),
    # A declared name cannot be written as another by an escape.
    ({"type": "object", "properties": {"ab": {"type": "string"}}}, '{"\\u0061b": 1}'),
    ({"type": "object", "minProperties": 1}, "{}"),
    ({"type": "object", "maxProperties": 0}, '{"a": 1}'),
    ({"type": "object", "propertyNames": {"pattern": "^x-"}}, '{"y": 1}'),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, '"abcd"'),
    ({"type": "string", "pattern": "b+"}, '"aa"'),
    ({"type": "string", "format": "date"}, '"2023-02-29"'),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "1"),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, "1.0"),
    ({"type": "number", "minimum": 0}, "-1"),
    ({"type": "number", "exclusiveMinimum": 0}, "0.0"),
    ({"type": "integer", "exclusiveMinimum": -12, "maximum": 105}, "-12"),
    ({"type": "integer"}, "1.5"),
    ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, "1"),
]


@pytest.mark.parametrize(("schema", "text"), ADMITTED)
def test_what_fits_is_admitted(schema: Any, text: str) -> None:
    jsonschema.validate(json.loads(text), schema)
    assert reads(schema, text)


@pytest.mark.parametrize(("schema", "text"), REFUSED)
def test_what_does_not_fit_or_is_not_written_so_is_refused(schema: Any, text: str) -> None:
    assert not reads(schema, text)


@pytest.mark.parametrize("low", [None, -1234, -100, -99, -10, -9, -1, 0, 1, 7, 10, 95, 99, 100, 101, 999, 1234])
@pytest.mark.parametrize("high", [None, -1233, -100, -1, 0, 1, 9, 10, 11, 99, 100, 109, 1000, 1999, 4321])
def test_integers_are_exact_at_their_bounds(low: int | None, high: int | None) -> None:
    schema = {"type": "integer"}
    schema |= {key: value for key, value in (("minimum", low), ("maximum", high)) if value is not None}  # pyright: ignore
    if low is not None and high is not None and low > high:
        with pytest.raises(InputError):
            json_rules(schema, "x")
        return
    node, rules, _ = json_rules(schema, "x")
    around = {bound + step for bound in (low, high, 0) if bound is not None for step in (-11, -1, 0, 1, 10, 90)}
    for value in around | {-99999, 99999}:
        fits = (low is None or value >= low) and (high is None or value <= high)
        assert admits(node, rules, str(value)) is fits, value


# What is not enforced


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "not": {"const": "a"}}, [("$.not", "not")]),
        (
            {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
            [("$.properties.a.uniqueItems", "uniqueItems")],
        ),
        ({"type": "array", "uniqueItems": False}, []),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, [("$.if", "if")]),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, [("$.dependentRequired", "dependentRequired")]),
        ({"type": "integer", "multipleOf": 5}, [("$.multipleOf", "multipleOf")]),
        ({"type": "number", "minimum": 0.5, "maximum": 3}, [("$.minimum", "minimum")]),
        ({"type": "integer", "minimum": 0.5, "maximum": 3}, []),
        ({"type": "string", "pattern": "(?=a)b"}, [("$.pattern", "pattern")]),
        ({"type": "string", "format": "email"}, [("$.format", "format")]),
        ({"type": "string", "maxLength": MAX_COUNT + 1}, [("$.maxLength", "maxLength")]),
        ({"type": "string", "pattern": "^a(b|c)$", "minLength": 2}, [("$.minLength", "minLength")]),
        ({"type": "object", "maxProperties": 2}, [("$.maxProperties", "maxProperties")]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [("$.oneOf", "oneOf")]),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, []),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, []),
        ({"$defs": {"a": {"not": {}}}, "type": "string"}, []),
        ({"type": "object", "unevaluatedProperties": False}, [("$.unevaluatedProperties", "unevaluatedProperties")]),
        ({"type": "object", "unevaluatedProperties": True, "dependentSchemas": {}}, []),
        ({"type": "number", "multipleOf": 1}, [("$.multipleOf", "multipleOf")]),
        ({"type": "integer", "multipleOf": 1}, []),
        ({"type": "integer", "format": "int32"}, [("$.format", "format")]),
        ({"anyOf": [], "type": "null"}, [("$.anyOf", "anyOf")]),
        ({"required": ["a", 1], "type": "object"}, [("$.required", "required")]),
        ({"type": "integer", "minimum": 10**400}, [("$.minimum", "minimum")]),
        ({"oneOf": [{"const": at} for at in range(MAX_COMPARED + 1)]}, [("$.oneOf", "oneOf")]),
        ({"type": 5}, [("$.type", "type")]),
        ({"type": "integer", "minimum": "3", "exclusiveMaximum": True}, [("$.minimum", "minimum")]),
        (
            {"type": "number", "minimum": None, "maximum": float("inf")},
            [("$.minimum", "minimum"), ("$.maximum", "maximum")],
        ),
    ],
)
def test_what_is_not_enforced_is_reported_where_it_stands(schema: Any, expected: list[tuple[str, str]]) -> None:
    assert losses(schema) == expected


def test_branches_that_a_property_tells_apart_do_not_overlap() -> None:
    def branch(kind: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"kind": {"const": kind}, "x": {}}, "required": ["kind"]}

    assert losses({"oneOf": [branch("a"), branch("b")]}) == []
    # As pydantic writes it where the kind has a default: only one of them requires it.
    without = {key: value for key, value in branch("b").items() if key != "required"}
    assert losses({"oneOf": [branch("a"), without]}) == []
    assert losses({"oneOf": [branch("a"), branch("a")]}) == [("$.oneOf", "oneOf")]


def test_a_loss_says_whose_it_is() -> None:
    _, _, found = json_rules({"not": {}}, "functions.shell")
    assert found == (Loss("functions.shell", "$.not", "not", found[0].message),)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "string", "enum": [1, 2]},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        # A tree without leaves.
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "prefixItems": [False], "minItems": 1},
    ],
)
def test_what_no_value_fits_is_an_error(schema: Any) -> None:
    with pytest.raises(InputError) as caught:
        json_rules(schema, "x")
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


def test_a_schema_that_leads_only_to_itself_says_nothing() -> None:
    assert reads({"$ref": "#"}, "1")
    assert reads({"allOf": [{"$ref": "#"}], "type": "integer"}, "1")
    assert not reads({"allOf": [{"$ref": "#"}], "type": "integer"}, '"a"')


def test_a_control_token_in_a_name_or_a_value_is_escaped() -> None:
    schema = {"type": "object", "properties": {"<|start|>": {"const": "<|end|>"}}, "required": ["<|start|>"]}
    for text in texts(schema, 20):
        assert "<|start" not in text and "<|end" not in text
        jsonschema.validate(json.loads(text), schema)


def test_white_space_is_bounded() -> None:
    assert max(len(text) for text in texts(WEATHER, 200)) < 2_000


# Differences


_scalars: st.SearchStrategy[Any] = st.sampled_from(
    (None, True, False, 0, 1, 2, 3, -1, 10, "", "a", "ab", "b", "abc", "é")
)
Fields = dict[str, st.SearchStrategy[Any]]
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("a", "b", "c", "ab")), inner, max_size=3)
    ),
    max_leaves=4,
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(("a", "b", "ab"))
    counts = st.integers(0, 3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(names, inner, max_size=3),
                "required": st.lists(names, max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "minItems": counts,
                "maxItems": counts,
            },
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        st.just({"$ref": "#/$defs/a"}),
    )


_leaves: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(("string", "integer", "number", "boolean", "null", ["string", "null"]))}
    ),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 2), "maxLength": st.integers(0, 3)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("string"), "pattern": st.sampled_from(("^a", "b$", "^[ab]*$", "^a|b$", "."))}
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(("integer", "number"))},
        optional={
            "minimum": st.integers(-2, 3),
            "maximum": st.integers(-2, 12),
            "exclusiveMinimum": st.integers(-2, 3),
            "exclusiveMaximum": st.integers(-2, 12),
        },
    ),
    st.fixed_dictionaries({"enum": st.lists(_values, min_size=1, max_size=3)}),
    st.booleans(),
)
_parts = st.recursive(_leaves, _nested, max_leaves=6)


def _document(schema: Any, a: Any) -> Any:
    return schema if isinstance(schema, bool) else {**schema, "$defs": {"a": a}}


# What is referred to is an object or an array, because jsonschema follows a reference to itself for ever.
schemas = st.builds(_document, _parts, _nested(_parts).filter(lambda schema: "type" in schema))
some = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
many = settings(some, max_examples=1_000)


def _rules(schema: Any) -> tuple[Node, Mapping[str, Node], tuple[Loss, ...]] | None:
    try:
        return possible(schema)
    except InputError as error:
        assert error.code is ErrorCode.GRAMMAR_INVALID_OPTION
        return None


@some
@given(schemas, st.integers(0, 1_000_000))
def test_everything_that_is_generated_is_valid(schema: Any, seed: int) -> None:
    _check_generated(schema, seed)


@pytest.mark.exhaustive
@many
@given(schemas, st.integers(0, 1_000_000))
def test_everything_that_is_generated_is_valid_in_many_cases(schema: Any, seed: int) -> None:
    _check_generated(schema, seed)


def _check_generated(schema: Any, seed: int) -> None:
    made = _rules(schema)
    if made is None or made[2]:
        return
    generator = Generator(made[1], random.Random(seed))
    for _ in range(4):
        text = generator.text(made[0])
        assert _is_valid(json.loads(text), schema), text
        assert admits(made[0], made[1], text)


def _is_valid(value: Any, schema: Any) -> bool:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return validator.is_valid(value)


def _in_order(value: Any) -> Any:
    """Objects with their properties in the order of the alphabet, as `schemas` mostly declares them."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}  # pyright: ignore
    return [_in_order(each) for each in value] if isinstance(value, list) else value  # pyright: ignore


def _sorted(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _sorted(schema[key]) for key in sorted(schema)}  # pyright: ignore
    return [_sorted(each) for each in schema] if isinstance(schema, list) else schema  # pyright: ignore


def _flat_nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Like `_nested`, with all properties declared, and nothing in an order that a value does not have."""
    declared: Fields = {"a": inner, "ab": inner, "b": inner}
    objects: Fields = {"type": st.just("object"), "properties": st.fixed_dictionaries(declared)}
    more: Fields = {
        "required": st.lists(st.sampled_from(("a", "b")), max_size=2),
        "additionalProperties": st.booleans(),
    }
    arrays: Fields = {"type": st.just("array"), "items": inner}
    return st.one_of(
        st.fixed_dictionaries(objects, optional=more),
        st.fixed_dictionaries(arrays, optional={"minItems": st.integers(0, 2)}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"anyOf": branches}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"allOf": branches}),
    )


_flat = _leaves | _flat_nested(_leaves | _flat_nested(_leaves))


@some
@given(_flat, st.lists(_values, min_size=1, max_size=6), st.sampled_from((None, 2)))
def test_a_value_is_admitted_if_and_only_if_it_fits(schema: Any, values: list[Any], indent: int | None) -> None:
    _check_admitted(schema, values, indent)


@pytest.mark.exhaustive
@many
@given(_flat, st.lists(_values, min_size=1, max_size=6), st.sampled_from((None, 2)))
def test_a_value_is_admitted_if_and_only_if_it_fits_in_many_cases(
    schema: Any, values: list[Any], indent: int | None
) -> None:
    _check_admitted(schema, values, indent)


def _check_admitted(schema: Any, values: list[Any], indent: int | None) -> None:
    schema = _sorted(schema)
    made = _rules(schema)
    lost = made is not None and made[2]
    for value in (_in_order(value) for value in values):
        is_valid = _is_valid(value, schema)
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        is_admitted = made is not None and admits(made[0], made[1], text)
        assert is_admitted is is_valid or (is_admitted and lost), (text, is_valid)


@some
@given(any_schemas)
def test_any_schema_gives_rules_or_an_error_with_a_code(schema: Any) -> None:
    try:
        node, rules, _ = possible(schema)
    except InputError as error:
        assert error.code in (
            ErrorCode.GRAMMAR_INVALID_OPTION,
            ErrorCode.SCHEMA_UNKNOWN_REFERENCE,
            ErrorCode.SCHEMA_REMOTE_REFERENCE,
        )
        return
    json.loads(Generator(rules, random.Random(0)).text(node))
