"""The call that a model is shown has arguments of the form that the tool's schema asks for."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmonia.families.reader import read_answer
from harmonia.families.registry import FAMILIES as ROWS
from harmonia.families.registry import (
    FAMILY_FORMATS,
    CallWriter,
    ReadingOptions,
    ToolFormat,
    family_of,
    variant_of,
)
from harmonia.families.tool_descriptions import example_call
from harmonia.messages import ToolDescription
from harmonia.parser import Tools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to_city": {"type": "string"},
        "days": {"type": ["integer", "null"], "minimum": 3},
        "unit": {"enum": ["c", "k"]},
        "tags": {"type": "array", "items": {"type": "boolean"}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}, "y": {}}, "required": ["x"]},
        "other": {"type": "string"},
    },
    "required": ["to_city", "days", "unit", "tags", "place"],
}
# A name that Python does not take, and JSON does.
TOOL = ToolDescription("get-weather", "The weather.", SCHEMA)
EXPECTED = {"to_city": "the to city", "days": 3, "unit": "c", "tags": [True], "place": {"x": 1}}
FAMILIES = [
    *(family_of(each) for each in FAMILY_FORMATS if each is not ToolFormat.TEXT),
    *(
        variant_of(family_of(tool_format), template)
        for tool_format, row in ROWS.items()
        for template in row
        if template
    ),
]


def test_what_is_required_is_given() -> None:
    name, arguments = example_call([TOOL])
    assert (name, json.loads(arguments)) == ("get-weather", EXPECTED)
    assert example_call([ToolDescription("f", None, {"properties": {"a": {}, "b": {}}})]) == ("f", '{"a": "the a"}')
    assert example_call([ToolDescription("f")]) == ("f", "{}")
    assert example_call([]) == ("tool_name", "{}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_every_family_shows_a_call_that_it_reads(family: CallWriter) -> None:
    example = family.write_call(*example_call([TOOL]))
    assert example in family.call_format([TOOL])
    (message,) = read_answer(
        family_of(family.format), example, ReadingOptions(tools=Tools([TOOL]), descriptions=(TOOL,))
    ).messages
    assert (message.recipient, json.loads(message.text)) == ("functions.get-weather", EXPECTED)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "required", "items", "enum", "a"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_the_schema_is_there_is_an_example(schema: Any) -> None:
    parameters = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {"properties": {"a": schema}}
    _, arguments = example_call([ToolDescription("f", None, parameters)])
    assert isinstance(json.loads(arguments), dict)
