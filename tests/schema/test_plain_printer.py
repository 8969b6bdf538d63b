"""The short way for plain schemas prints what the printer prints, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.schema import to_typescript
from harmonia.schema.document import DEFAULT_LIMITS
from harmonia.schema.literals import Names
from harmonia.schema.printer import Printer, plain_type
from harmonia.schema.reference_printer import exact_type
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.support.strategies.schemas import any_schemas, lossless_schemas

# Mostly words that the short way takes, now and then one that it does not.
words = st.sampled_from(["a", "b_c", "d1", "é", "Where."]) | st.sampled_from(
    ["a", "b_c", "with space", "é", 'quo"te', "back\\slash", "new\nline", "class", "my-key", ""]
)
# Mostly plain schemas, with something in each that may be too much for the short way.
leaves: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "null", "any", ["string", "null"]])},
    optional={
        "description": words | st.none(),
        "default": words | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.none(),
        "enum": st.lists(words | st.integers(), max_size=3),
    },
) | st.fixed_dictionaries({"type": st.just("string"), "title": words, "minimum": st.integers()})
nested: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(  # pyright: ignore[reportUnknownLambdaType] -- schemas are any JSON
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(words, inner, max_size=4)},
            optional={
                "required": st.lists(words, max_size=3),
                "description": words,
                "additionalProperties": st.booleans() | inner,
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")}, optional={"items": inner, "description": words, "default": st.none()}
        ),
    ),
    max_leaves=8,
)


plain_leaves: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "number", "integer", "boolean"])},
        optional={
            "description": st.text("ab .é", max_size=8),
            # Larger integers are not plain: the two modes print them differently.
            "default": st.integers(-(1 << 63), (1 << 64) - 1) | st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("string"), "enum": st.lists(st.text("ab ", max_size=3), min_size=1, max_size=3)},
        optional={"default": st.text("ab ", max_size=3)},
    ),
    st.fixed_dictionaries({"type": st.just("array"), "items": st.just({"type": "number"})}),
)
plain_objects: st.SearchStrategy[Any] = st.recursive(
    plain_leaves,
    lambda inner: (
        st.fixed_dictionaries(  # pyright: ignore[reportUnknownLambdaType] -- schemas are any JSON
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abcde"), inner, max_size=4)},
            optional={"additionalProperties": st.just(False)},
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
    ),
    max_leaves=8,
).map(lambda schema: {"type": "object", "properties": {"p": schema}, "required": ["p"]})


def printed(schema: Any) -> Any:
    return Printer(schema, "", Names(("",)), DEFAULT_LIMITS, "$").print_document()


@repeated(given(nested | plain_objects | lossless_schemas | any_schemas), some=250, many=1500)
def test_the_short_way_prints_what_the_printer_prints_or_nothing(schema: Any) -> None:
    text = plain_type(schema)
    if text is not None:
        compared("plain schemas and the printer")
        result = printed(schema)
        assert text == result.text
        assert result.losses == () and result.declarations == ()
        assert text == exact_type(schema, DEFAULT_LIMITS, "$")


@repeated(given(plain_objects), some=80, many=400)
def test_plain_schemas_go_the_short_way_but_for_arrays_of_unions(schema: Any) -> None:
    text = plain_type(schema)
    if text is None:
        assert "array" in str(schema)
    else:
        compared("plain schemas and the printer")
        assert text == printed(schema).text == exact_type(schema, DEFAULT_LIMITS, "$")


@pytest.mark.parametrize("default", [(1 << 64) - 1, -(1 << 63), 1 << 64, -(1 << 63) - 1, 10**40])
def test_integers_of_any_size_print_alike_by_every_way(default: int) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer", "default": default}}}
    assert to_typescript(schema).text == printed(schema).text
    assert to_typescript(schema, exact_reference=True).text == exact_type(schema, DEFAULT_LIMITS, "$")


def test_what_most_tools_have_is_plain() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
            "stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}}}},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert plain_type(schema) == printed(schema).text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"my-key": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string", "description": "two\nlines"}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ['"']}}},
        {"type": "object", "properties": {"a": {"type": "integer", "default": 1 << 64}}},
        {"type": "object", "properties": {"a": {"type": "integer", "default": -(1 << 63) - 1}}},
        {"type": "object", "description": "of the whole"},
        True,
    ],
)
def test_everything_else_is_left_to_the_printer(schema: Any) -> None:
    assert plain_type(schema) is None
