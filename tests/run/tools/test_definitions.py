"""Tools from definitions: every form in which they are written, and what is no definition."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import BROWSER, PYTHON, ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.run.tools import Tool, convert_tools_for_harmony

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMED: Json = {"name": "weather", "description": "The weather."}


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "function", "function": {**NAMED, "parameters": SCHEMA, "strict": False}},
        {"function": {**NAMED, "parameters": SCHEMA}},
        {"type": "function", **NAMED, "parameters": SCHEMA, "strict": None},
        {**NAMED, "parameters": SCHEMA},
        {**NAMED, "inputSchema": SCHEMA, "outputSchema": {}, "annotations": {"readOnlyHint": True}, "title": "W"},
        {**NAMED, "input_schema": SCHEMA},
    ],
)
def test_every_form_gives_the_same_tool(definition: Json) -> None:
    assert Tool.from_definition(definition) == Tool("weather", "The weather.", SCHEMA)
    flat = {"type": "function", **NAMED, "parameters": SCHEMA}
    assert {key: value for key, value in convert_tools_for_harmony([definition])[0].items() if key != "strict"} == flat


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "ping"},
        {"name": "ping", "parameters": None, "description": None},
        {"type": "function", "function": {"name": "ping", "description": "", "parameters": None}},
        {"name": "ping", "inputSchema": None},
    ],
)
def test_only_the_name_has_to_be_there(definition: Json) -> None:
    assert Tool.from_definition(definition) == Tool("ping")
    assert convert_tools_for_harmony([definition]) == [
        {"type": "function", "name": "ping", "parameters": {"type": "object", "properties": {}}}
    ]


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ("weather", "$"),
        (None, "$"),
        ({}, "$.name"),
        ({"name": ""}, "$.name"),
        ({"name": 3}, "$.name"),
        ({"type": "function", "function": {"parameters": {}}}, "$.function.name"),
        ({"name": "x", "description": 3}, "$.description"),
        ({"name": "x", "parameters": "{}"}, "$.parameters"),
        ({"name": "x", "inputSchema": [1]}, "$.inputSchema"),
        ({"type": "web_search"}, "$.type"),
    ],
)
def test_what_is_no_definition_is_refused_with_its_place(definition: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        Tool.from_definition(definition)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path=path))


def test_a_custom_tool_takes_text() -> None:
    made = Tool.from_definition({"type": "custom", "name": "shell", "description": "Runs it."})
    assert (made.name, made.takes, made.parameters) == ("shell", "text", {"type": "string"})
    nested = Tool.from_definition({"type": "custom", "custom": {"name": "shell", "description": "Runs it."}})
    assert nested == made


def test_converting_keeps_strict_and_the_tools_of_providers() -> None:
    search: Json = {"type": "web_search", "filters": {}}
    custom = {"type": "custom", "name": "shell"}
    given: Json = {"tools": [{"type": "function", "function": {"name": "a", "strict": True}}, search, custom]}
    first, *rest = convert_tools_for_harmony(given)
    assert (list(first), first["strict"]) == (["type", "name", "parameters", "strict"], True)
    assert rest == [search, custom]


def test_converting_twice_changes_nothing() -> None:
    once = convert_tools_for_harmony([{**NAMED, "inputSchema": SCHEMA}, {"function": {"name": "b"}}])
    assert convert_tools_for_harmony(once) == once


def test_a_namespace_gives_its_tools() -> None:
    assert [(tool.namespace, tool.name) for tool in Tool.from_namespace(BROWSER)] == [
        ("browser", "search"),
        ("browser", "open"),
        ("browser", "find"),
    ]
    assert Tool.from_namespace(PYTHON) == [Tool("python", PYTHON.description, namespace=None, takes="text")]


def test_converting_takes_one_definition_and_keeps_the_type_of_a_nested_custom_tool() -> None:
    flat = {"type": "function", **NAMED, "parameters": SCHEMA}
    assert convert_tools_for_harmony({**NAMED, "inputSchema": SCHEMA}) == [flat]
    assert convert_tools_for_harmony({"function": {**NAMED, "parameters": SCHEMA}}) == [flat]
    custom: Json = {"type": "custom", "custom": {"name": "shell", "format": {"type": "text"}}}
    assert convert_tools_for_harmony([custom]) == [{"type": "custom", "name": "shell", "format": {"type": "text"}}]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([NAMED, {"function": {"name": 5}}], "$[1].function.name"),
        ({"tools": [{"name": ""}]}, "$.tools[0].name"),
        ({"name": ""}, "$.name"),
        ({"tools": "weather"}, "$.tools"),
        (None, "$"),
    ],
)
def test_converting_says_where_the_wrong_definition_stands(given: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        convert_tools_for_harmony(given)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path=path))
