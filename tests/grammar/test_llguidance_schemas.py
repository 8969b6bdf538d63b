"""JSON Schemas for llguidance: what is held is held, what is not is told, and what is made compiles."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from harmonia import decode, encode
from harmonia.errors import ErrorCode, InputError
from harmonia.grammar import WrittenGrammar
from harmonia.grammar.llguidance_schemas import MAX_DEFINITIONS, MAX_DEPTH, held_schema
from harmonia.json_codec import read_json
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.vocabulary import RETURN
from tests.grammar.sampling import has_no_number_beyond_floats, sample
from tests.support.strategies.schemas import any_schemas, lossless_schemas, reference_schemas


def grammar_of(schema: Any) -> str:
    return f"start: value <[{RETURN}]>\nvalue: %json " + msgspec.json.encode(held_schema(schema, "t")[0]).decode()


def matcher_of(schema: Any) -> Matcher:
    return Matcher(WrittenGrammar("llguidance", grammar_of(schema)))


def is_admitted(schema: Any, text: str) -> bool:
    tokens = [*encode(text), RETURN]
    return matcher_of(schema).admitted(tokens) == len(tokens)


def lost(schema: Any) -> list[tuple[str, str]]:
    return [(loss.path, loss.feature) for loss in held_schema(schema, "t")[1]]


# ── what is held ────────────────────────────────────────────────────────────────────────────────────────────────────

ANY: dict[str, Any] = {}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
TREE = {"$defs": {"t": {"type": "object", "properties": {"k": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}}}


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        ({"type": "integer", "minimum": 3, "maximum": 12}, "12", True),
        ({"type": "integer", "minimum": 3, "maximum": 12}, "13", False),
        ({"type": "integer", "exclusiveMinimum": 3}, "3", False),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, "1", False),
        ({"type": "number"}, "1e-5", True),
        ({"type": "number", "multipleOf": 0.01}, "1.05", True),
        ({"type": "number", "multipleOf": 0.01}, "1.055", False),
        ({"type": "string", "minLength": 2, "maxLength": 3}, '"🦜🦜"', True),
        ({"type": "string", "minLength": 2, "maxLength": 3}, '"a"', False),
        ({"type": "string", "pattern": "^[a-z]+-\\d{2}$"}, '"ab-12"', True),
        ({"type": "string", "pattern": "^[a-z]+-\\d{2}$"}, '"ab-1"', False),
        ({"type": "string", "format": "date"}, '"2026-02-31"', False),
        ({"type": "string", "description": "d", "title": "t", "default": 3, "x-vendor": 1}, '"a"', True),
        ({"enum": ["a", None, {"b": [1]}]}, '{"b": [1]}', True),
        ({"enum": ["a", None, {"b": [1]}]}, '"b"', False),
        ({"const": 7}, "8", False),
        ({"type": ["string", "null"]}, "null", True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "1", True),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "true", False),
        ({"oneOf": [{"type": "string"}], "anyOf": [{"maxLength": 1}]}, '"ab"', False),
        ({"allOf": [{"type": "string"}, {"maxLength": 2}]}, '"abc"', False),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, "[]", False),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, "[1,2]", False),
        ({"type": "array", "items": [{"type": "integer"}], "additionalItems": False}, "[1,2]", False),
        (OPEN, '{"a": 1, "b": [true]}', True),
        (OPEN, '{"a": "x"}', False),
        (OPEN, '{"\\u0061": "x"}', False),
        ({**OPEN, "additionalProperties": False}, '{"b": 1}', False),
        ({**OPEN, "additionalProperties": {"type": "string"}}, '{"a": 1, "b": "x"}', True),
        ({**OPEN, "additionalProperties": {"type": "string"}}, '{"\\u0061": "x"}', False),
        ({**OPEN, "required": ["b"]}, '{"a": 1}', False),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, '{"x1": "a"}', False),
        ({"type": "object", "properties": {"a": ANY}, "required": ["a"], "maxProperties": 1}, '{"a":1,"b":2}', False),
        ({**TREE, "$ref": "#/$defs/t"}, '{"k":[{"k":[]}]}', True),
        ({**TREE, "$ref": "#/$defs/t"}, '{"k":[1]}', False),
        ({"$ref": "#/properties/a", "properties": {"a": {"type": "string"}}}, '"x"', True),
        ({"$ref": "#/components/x", "components": {"x": {"const": 1}}}, "2", False),
        (True, "[1]", True),
        ({"type": "object"}, '{\n    "a": {\n        "b": 1\n    }\n}', True),
        ({"type": "object"}, '{\n\n"a": 1}', False),
        ({"type": "object"}, '{"a":     1}', False),
    ],
)
def test_what_is_held(schema: Any, text: str, fits: bool) -> None:
    assert is_admitted(schema, text) is fits
    assert not lost(schema)


# ── what is not ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "path", "feature"),
    [
        ({"not": {"type": "string"}}, "$.not", "not"),
        ({"type": "array", "uniqueItems": True}, "$.uniqueItems", "uniqueItems"),
        ({"type": "array", "contains": {}}, "$.contains", "contains"),
        ({"if": {"type": "string"}}, "$.if", "if"),
        ({"dependentRequired": {"a": ["b"]}}, "$.dependentRequired", "dependentRequired"),
        ({"propertyNames": {"pattern": "^a"}}, "$.propertyNames", "propertyNames"),
        ({"unevaluatedProperties": False}, "$.unevaluatedProperties", "unevaluatedProperties"),
        ({"divisibleBy": 2}, "$.divisibleBy", "divisibleBy"),
        ({"type": "string", "format": "iri"}, "$.format", "format"),
        ({"type": "string", "pattern": "^(?!a)"}, "$.pattern", "pattern"),
        ({"type": "string", "pattern": "(a)\\1"}, "$.pattern", "pattern"),
        ({"type": "string", "pattern": "\\bword"}, "$.pattern", "pattern"),
        ({"type": "string", "pattern": '^[^"]*$'}, "$.pattern", "pattern"),
        ({"type": "any"}, "$.type", "type"),
        ({"minimum": 1e300}, "$.minimum", "minimum"),
        ({"$ref": "https://example.com/x"}, '$["$ref"]', "$ref"),
        ({"$ref": "#/nowhere"}, '$["$ref"]', "$ref"),
        ({"$ref": "#"}, '$["$ref"]', "$ref"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "$.oneOf", "oneOf"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "$.oneOf", "oneOf"),
        ({"patternProperties": {"^a": ANY, "b$": ANY}}, "$.patternProperties", "patternProperties"),
        ({"properties": {"a": ANY, "b": ANY}, "minProperties": 1}, "$.minProperties", "minProperties"),
        ({"type": "object", "minProperties": 2}, "$.minProperties", "minProperties"),
        ({"items": {"properties": {"my-key": {"not": ANY}}}}, '$.items.properties["my-key"].not', "not"),
        ({"$defs": {"d": {"not": ANY}}, "items": {"$ref": "#/$defs/d"}}, '$["$defs"].d.not', "not"),
    ],
)
def test_what_is_not_held_is_told_and_admitted(schema: Any, path: str, feature: str) -> None:
    assert lost(schema) == [(path, feature)]
    assert not LLMatcher.validate_grammar(grammar_of(schema))


@pytest.mark.parametrize(
    "schemas",
    [
        [{"type": "string"}, {"type": "integer"}, {"type": "null"}],
        [{"const": 1}, {"enum": [2, "a"]}],
        [{"const": "a"}, {"type": "object"}],
        [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
        ],
    ],
)
def test_branches_that_exclude_each_other_lose_nothing(schemas: list[Any]) -> None:
    assert not lost({"oneOf": schemas})


def test_a_keyword_that_says_nothing_is_no_loss() -> None:
    assert not lost({"uniqueItems": False, "dependencies": {}, "unevaluatedProperties": True, "contentEncoding": "x"})


def test_every_keyword_that_is_taken_out_is_one_that_the_engine_does_not_hold() -> None:
    """When llguidance learns a keyword, this says so."""
    refused = {
        "not": ANY,
        "if": ANY,
        "contains": ANY,
        "uniqueItems": True,
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": ANY},
        "propertyNames": {"minLength": 1},
        "unevaluatedProperties": False,
        "unevaluatedItems": False,
        "$dynamicRef": "#a",
    }
    for keyword, value in refused.items():
        assert "Unimplemented" in LLMatcher.validate_grammar(f"start: %json {json.dumps({keyword: value})}"), keyword


def test_a_schema_that_would_fell_the_compiler_is_refused() -> None:
    deep: Any = True
    for _ in range(MAX_DEPTH + 1):
        deep = {"items": deep}
    chain = {f"d{at}": {"items": {"$ref": f"#/$defs/d{at + 1}"}} for at in range(MAX_DEFINITIONS + 1)}
    many = {f"p{at}": {"$ref": f"#/$defs/d{at}"} for at in range(MAX_DEFINITIONS + 1)}
    for schema in (
        deep,
        {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{MAX_DEFINITIONS + 1}": True}},
        {"properties": many, "$defs": {f"d{at}": {"const": at} for at in range(MAX_DEFINITIONS + 1)}},
    ):
        with pytest.raises(InputError) as raised:
            held_schema(schema, "t")
        assert raised.value.code is ErrorCode.GRAMMAR_TOO_LARGE


def test_a_schema_that_no_value_fits_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        matcher_of({"type": "integer", "minimum": 3, "maximum": 1})
    assert raised.value.code is ErrorCode.GRAMMAR_INVALID_OPTION


# ── any schema at all ───────────────────────────────────────────────────────────────────────────────────────────────

# What the engine may say of what is made here: nothing fits it, or two schemas that both lead to themselves are to be
# held at once, which it gives up.
TAKEN_BACK = ("Unsatisfiable schema", "intersection stack level exceeded", "circular references with sibling keys")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_schemas | reference_schemas)
def test_what_is_made_of_any_schema_compiles(schema: Any) -> None:
    message = LLMatcher.validate_grammar(grammar_of(schema))
    assert not message or any(words in message for words in TAKEN_BACK)


@pytest.mark.exhaustive
@settings(max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_schemas | reference_schemas)
def test_what_is_made_of_any_schema_compiles_at_length(schema: Any) -> None:
    message = LLMatcher.validate_grammar(grammar_of(schema))
    assert not message or any(words in message for words in TAKEN_BACK)


def check_sampled(schema: Any, seed: int) -> None:
    matcher = matcher_of(schema)
    tokens = sample(matcher, Random(seed), most=200, hurry=0.5)
    if not matcher.is_over:
        return
    text = decode(tokens[:-1])
    value = json.loads(text)
    if has_no_number_beyond_floats(value):
        assert read_json(text) == value
    with suppress(jsonschema.SchemaError):  # the strategy's schemas are for a printer; to a validator some are none
        jsonschema.validate(value, schema)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lossless_schemas, st.integers(0, 1_000))
def test_what_is_sampled_under_a_schema_fits_it(schema: Any, seed: int) -> None:
    if not lost(schema):
        check_sampled(schema, seed)
