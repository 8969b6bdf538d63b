"""Whatever a schema says, and wherever its references lead: arguments fit, do not fit, or the schema is refused.

jsonschema trusts that its schema is one. A `$ref` may lead to a place that the schema of schemas does not look at, so
every keyword stands here with every kind of value, in places that drafts know and in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, HarmonyError, InputError, ToolError
from harmonia.grammar import GRAMMAR_KINDS, grammar_for
from harmonia.messages import Json
from harmonia.messages.message import ResponseFormat
from harmonia.run.constraints.attempts import demand_of
from harmonia.run.tools import ToolSet
from harmonia.run.tools.arguments import compile_schema
from tests.support.repeated import repeated

KEYWORDS: Final = (
    *("type", "properties", "required", "items", "prefixItems", "additionalItems", "additionalProperties"),
    *("patternProperties", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependencies"),
    *("dependentRequired", "dependentSchemas", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "contains"),
    *("minContains", "maxContains", "minProperties", "maxProperties", "propertyNames", "unevaluatedProperties"),
    *("unevaluatedItems", "$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor"),
    *("$recursiveAnchor", "$schema", "$vocabulary", "$defs", "definitions", "title", "default", "examples"),
    *("nullable", "extends", "disallow", "divisibleBy"),
)
TEXTS: Final = ("", "%s%n", "#", "#/", "#/x", "#/$defs/A", "#a", "x#/a", "http://[", "(", "a\x00(", "string")
OTHERS: Final[tuple[Any, ...]] = (
    *(5, -1, 0, 1.5, 1e308, 10**400, True, False, None),
    *([], ["a"], [1, None], ["a", "a"], [{"type": 3}]),
    *({}, {"a": 5}, {"a": ["b"]}, {"type": "%s"}, {"a": {"type": "%s"}}),
)
OLD: Final = "http://json-schema.org/draft-0{}/schema#"
NEW: Final = "https://json-schema.org/draft/{}/schema"
DRAFTS: Final = (None, *map(OLD.format, (3, 4, 6, 7)), *map(NEW.format, ("2019-09", "2020-12")))
PLACES: Final[dict[str, Callable[[Json], Json]]] = {
    "itself": dict,
    "a property": lambda schema: {"type": "object", "properties": {"a": schema}},
    "a definition": lambda schema: {"$ref": "#/%24defs/A~1b", "$defs": {"A/b": schema}},
    "a list that no draft knows": lambda schema: {"$ref": "#/x/0", "x": [schema]},
    "another document's way": lambda schema: {"anyOf": [{"$ref": "#/components/A"}], "components": {"A": schema}},
    "data": lambda schema: {"properties": {"a": {"$ref": "#/default"}}, "default": schema},
    "under an address": lambda schema: {"$ref": "q#/z", "properties": {"k": {"$id": "q", "id": "q", "z": schema}}},
}
ARGUMENTS: Final[tuple[Any, ...]] = ({}, {"a": 1, "b": "x"}, {"a": [1, 2, 2]}, {"a": {"a": 1}}, {"": None}, [], "x", 3)


@st.composite
def schemas(draw: st.DrawFn) -> Json:
    fields = draw(
        st.dictionaries(st.sampled_from(KEYWORDS), st.sampled_from((*TEXTS, *OTHERS)), min_size=1, max_size=3)
    )
    schema = PLACES[draw(st.sampled_from(list(PLACES)))](fields)
    draft = draw(st.sampled_from(DRAFTS))
    return schema if draft is None else {"$schema": draft, **schema}


def outcome(schema: Json, arguments: Any, *, untrusted: bool) -> str:
    """Whose fault it is that arguments do not fit, as the error says it."""
    try:
        compile_schema("t", schema, untrusted=untrusted)(arguments)
    except ToolError as error:
        assert error.code is ErrorCode.TOOL_INVALID_ARGUMENTS
        return "the model's"
    except InputError as error:
        assert error.code is ErrorCode.TOOL_INVALID_DEFINITION
        assert error.at.path is not None and error.at.path.startswith("$.parameters")
        return "the owner's"
    return "nobody's"


@repeated(given(schemas(), st.booleans()), some=300, many=10_000, deadline=None)
def test_arguments_fit_or_somebody_is_told_whose_fault_it_is(schema: Json, untrusted: bool) -> None:
    for arguments in ARGUMENTS:
        outcome(schema, arguments, untrusted=untrusted)


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize(
    ("schema", "arguments", "whose"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, "nobody's"),
        ({"type": "object", "required": ["a"]}, {"b": 1}, "the model's"),
        ({"type": "strin"}, {"a": 1}, "the owner's"),
        ({"$ref": "#/x", "x": [True]}, {"a": 1}, "the owner's"),
        ({"properties": {"a": {"$ref": "#/x"}}}, {"b": 1}, "nobody's"),
        ({"properties": {"a": {"$ref": "#/x"}}}, {"a": 1}, "the owner's"),
    ],
)
def test_a_fault_has_one_who_can_mend_it(schema: Json, arguments: Json, whose: str, untrusted: bool) -> None:
    assert outcome(schema, arguments, untrusted=untrusted) == whose


@repeated(given(schemas()), some=100, many=3_000, deadline=None)
def test_what_is_demanded_is_written_as_a_grammar_or_refused(schema: Json) -> None:
    form = ResponseFormat(name="f", schema=schema)
    try:
        compile_schema(form.name, schema, is_answers=True, is_demanded=True)
    except InputError as error:
        assert error.code is ErrorCode.RUN_INVALID_OPTION
        return
    for kind in GRAMMAR_KINDS:
        try:
            written = grammar_for(demand_of(ToolSet([]), "auto", form), kind)
        except InputError as error:
            assert error.code.startswith(("grammar.", "schema.")) and error.at.path is not None
        else:
            assert written.text.encode()


LOST: Final[tuple[Json, ...]] = (
    {"$ref": "#/x", "x": {"type": "strin"}},
    {"$ref": "#/x", "x": [{}]},
    {"$ref": "#/x/y", "x": [{}]},
    {"$ref": "#/default", "default": {"properties": 5}},
    {"$ref": "#/x", "x": {"required": [1, None]}},
)


@pytest.mark.parametrize("schema", LOST)
def test_a_reference_to_what_is_no_schema_is_the_callers_fault(schema: Json) -> None:
    validate = compile_schema("t", schema)
    with pytest.raises(
        InputError, match=r"not a valid JSON Schema: a \$ref in it points to something that is not a schema"
    ):
        validate({})


def test_definitions_under_their_new_name_are_checked_in_old_drafts_too() -> None:
    definitions: Json = {"A/b": {"type": "%s%n"}}
    for draft in DRAFTS[2:]:  # in the third, a type may have any name
        schema: Json = {"$schema": draft, "$ref": "#/%24defs/A~1b", "$defs": definitions}
        with pytest.raises(InputError) as caught:
            compile_schema("t", schema)
        assert caught.value.at.path == '$.parameters["$defs"]["A/b"].type'


def test_the_third_drafts_required_is_a_boolean() -> None:
    validate = compile_schema("t", {"$schema": DRAFTS[1], "properties": {"a": {"required": True}}})
    with pytest.raises(HarmonyError, match="expected required true"):
        validate({})
