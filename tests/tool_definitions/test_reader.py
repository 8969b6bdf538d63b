"""One reader for tool definitions: every spelling, lenient and exact, and the path of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.run.tools import Tool
from harmonia.serve.wire.validation import read_struct
from harmonia.tool_definitions import (
    CHAT,
    LEGACY_FUNCTIONS,
    RESPONSES,
    Spelling,
    TextForm,
    ToolDefinition,
    read_definition,
    read_namespace,
    unwrap,
)

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
NAMED: Json = {"name": "weather", "description": "The weather.", "parameters": SCHEMA, "strict": True}
GRAMMAR: Json = {"syntax": "regex", "definition": "[0-9]+"}


@pytest.mark.parametrize(
    ("given", "spelling", "path"),
    [
        ({"type": "function", "function": NAMED}, CHAT, "$.tools[0].function"),
        ({"type": "function", **NAMED}, RESPONSES, "$.tools[0]"),
        (NAMED, LEGACY_FUNCTIONS, "$.tools[0]"),
    ],
)
def test_every_api_writes_the_same_tool(given: Json, spelling: Spelling, path: str) -> None:
    expected = ToolDefinition("weather", "The weather.", SCHEMA, strict=True)
    lenient = read_definition(given, "$.tools[0]")
    exact = read_definition(given, "$.tools[0]", spelling=spelling, check=read_struct)
    assert lenient == exact == expected
    assert lenient.path == exact.path == path
    assert lenient.kind == "function"


@pytest.mark.parametrize(
    ("given", "spelling", "path"),
    [
        (
            {"type": "custom", "custom": {"name": "n", "format": {"type": "grammar", "grammar": GRAMMAR}}},
            CHAT,
            "$.custom.format.grammar.definition",
        ),
        ({"type": "custom", "name": "n", "format": {"type": "grammar", **GRAMMAR}}, RESPONSES, "$.format.definition"),
    ],
)
def test_a_custom_tool_has_the_grammar_of_its_text(given: Json, spelling: Spelling, path: str) -> None:
    for tool in (read_definition(given), read_definition(given, spelling=spelling, check=read_struct)):
        assert (tool.kind, tool.takes, tool.text_form) == ("custom", "text", TextForm("regex", "[0-9]+"))
        assert tool.text_form_path == path


@pytest.mark.parametrize(
    ("given", "spelling", "code", "path"),
    [
        ({"type": "function", **NAMED}, CHAT, ErrorCode.SERVE_UNKNOWN_FIELD, "$.name"),
        ({"type": "function", "function": NAMED, "x": 1}, CHAT, ErrorCode.SERVE_UNKNOWN_FIELD, "$.x"),
        ({"type": "function", "function": {**NAMED, "x": 1}}, CHAT, ErrorCode.SERVE_UNKNOWN_FIELD, "$.function.x"),
        ({"type": "function", **NAMED, "x": 1}, RESPONSES, ErrorCode.SERVE_UNKNOWN_FIELD, "$.x"),
        ({**NAMED, "defer_loading": True}, LEGACY_FUNCTIONS, ErrorCode.SERVE_UNKNOWN_FIELD, "$.defer_loading"),
        ({"type": "function", "name": ""}, RESPONSES, ErrorCode.SERVE_INVALID_FIELD, "$.name"),
        ({"type": "custom", "custom": {"name": "n", "format": {}}}, CHAT, ErrorCode.SERVE_INVALID_FIELD, None),
        ({"type": "mcp"}, RESPONSES, ErrorCode.SERVE_INVALID_FIELD, "$.type"),
    ],
)
def test_an_api_takes_its_own_spelling_alone(given: Json, spelling: Spelling, code: ErrorCode, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_definition(given, code=ErrorCode.SERVE_INVALID_FIELD, spelling=spelling, check=read_struct)
    assert caught.value.code is code
    assert path is None or caught.value.at == Position(path=path)


def test_a_definition_can_be_read_as_a_tool_that_runs() -> None:
    tool = read_definition({"name": "ping", "defer_loading": True}, make=Tool)
    assert tool == Tool("ping", defer_loading=True)


@pytest.mark.parametrize(
    "given", [{"type": "namespace", "name": "n", "tools": [NAMED]}, {"name": "n", "tools": [NAMED]}]
)
def test_a_namespace_has_definitions(given: Json) -> None:
    given = {**given, "name": "n", "tools": [NAMED]}
    assert unwrap(given)[0] == "namespace"
    assert read_namespace(given) == ("n", None, [NAMED])


@pytest.mark.parametrize(
    ("given", "path"),
    [({"name": 5, "tools": []}, "$.name"), ({"type": "namespace", "name": "n", "tools": {"a": 1}}, "$.tools")],
)
def test_a_wrong_namespace_is_refused_with_its_path(given: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_namespace(given)
    assert caught.value.at == Position(path=path)


@pytest.mark.parametrize(
    "form",
    [{"type": "grammar"}, {"type": "grammar", "syntax": "bnf", "definition": ""}, {"type": "grammar", "grammar": 5}],
)
def test_a_grammar_has_a_syntax_and_a_definition(form: Json) -> None:
    with pytest.raises(InputError) as caught:
        read_definition({"type": "custom", "name": "n", "format": {"type": "grammar", **form}})
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.TOOL_INVALID_DEFINITION, "$.format")


def test_a_tool_of_an_mcp_server_has_its_own_name() -> None:
    tool = ToolDefinition("disk___free", server="disk")
    assert (tool.kind, tool.own_name) == ("mcp", "free")
    assert ToolDefinition("disk___free").own_name == "disk___free"
