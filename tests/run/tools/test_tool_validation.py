"""Arguments against schemas: what is refused and where, drafts, and that nothing is ever fetched."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from harmonia import ErrorCode, InputError, Position, ToolError
from harmonia.json_codec import json_path
from harmonia.run.tools.arguments import compile_schema, nearest

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "maximum": 9},
        "unit": {"enum": ["c", "k"]},
        "stops": {
            "type": "array",
            "items": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}},
        },
        "mode": {"const": "fast"},
        "when": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"day": {"type": "integer"}}}]},
        "a b": {"type": "boolean"},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    return schema


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "$"),
        ([], "$"),
        (None, "$"),
        ({"city": 3}, "$.city"),
        ({"city": "R"}, "$.city"),
        ({"city": "Rome", "days": "3"}, "$.days"),
        ({"city": "Rome", "days": True}, "$.days"),
        ({"city": "Rome", "days": 3.5}, "$.days"),
        ({"city": "Rome", "days": 10}, "$.days"),
        ({"city": "Rome", "unit": "f"}, "$.unit"),
        ({"city": "Rome", "stops": [{"x": 1}, {"y": 1}]}, "$.stops[1]"),
        ({"city": "Rome", "stops": [{"x": None}]}, "$.stops[0].x"),
        ({"city": "Rome", "mode": "slow"}, "$.mode"),
        ({"city": "Rome", "when": {"day": "one"}}, "$.when.day"),
        ({"city": "Rome", "when": 3}, "$.when"),
        ({"city": "Rome", "a b": 3}, '$["a b"]'),
        ({"city": "Rome", "town": 3}, "$"),
        # Of several faults, the one that is nearest to the root.
        ({"stops": [{"x": None}]}, "$"),
    ],
)
def test_the_first_fault_is_told_with_its_place(arguments: Any, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        compile_schema("t", SCHEMA)(arguments)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_ARGUMENTS, Position(path=path))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"city": 3}, ["$.city", "3", "integer", "string"]),
        ({}, ["city"]),
        ({"city": "Rome", "unit": "f"}, ['"f"', '"c"', '"k"']),
        ({"city": "Rome", "dys": 1}, ["dys", "accepts days"]),
        ({"city": "Rome", "mode": "slow"}, ['"slow"', '"fast"']),
        ({"city": "Rome", "days": 10}, ["10", "maximum 9"]),
    ],
)
def test_a_model_is_told_what_was_found_and_what_is_expected(arguments: Any, words: list[str]) -> None:
    with pytest.raises(ToolError) as caught:
        compile_schema("t", SCHEMA)(arguments)
    assert [word for word in words if word not in caught.value.message] == []


def test_a_huge_value_is_not_repeated() -> None:
    with pytest.raises(ToolError) as caught:
        compile_schema("t", SCHEMA)({"city": ["x" * 100_000], "unit": "y" * 100_000})
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("schema", [True, {}, SCHEMA, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_arguments_that_fit_pass(schema: Any) -> None:
    compile_schema("t", schema)({"city": "Rome", "days": 3.0, "stops": [{"x": 1}], "when": {"day": 1}})


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        # Draft 7: a list of items. Draft 4: a boolean beside the minimum.
        ({"properties": {"a": {"items": [{"type": "string"}]}}}, ["x", 1], [1]),
        ({"properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}}, 2, 1),
        ({"properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "null"}}}, None, 1),
        (
            {"$id": "https://example.org/t", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"const": 1}}},
            1,
            2,
        ),
    ],
)
def test_older_drafts_are_understood(schema: Any, fits: Any, does_not: Any) -> None:
    validate = compile_schema("t", schema)
    validate({"a": fits})
    with pytest.raises(ToolError) as caught:
        validate({"a": does_not})
    assert caught.value.code is ErrorCode.TOOL_INVALID_ARGUMENTS


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, "$.parameters.type"),
        ({"properties": {"a": {"allOf": 5}}}, "$.parameters.properties.a.allOf"),
        ({"properties": {"a": {"const": {1, 2}}}}, "$.parameters"),
        ({"const": float("nan")}, "$.parameters"),
        (cyclic(), "$.parameters"),
        ({"$ref": 5}, '$.parameters["$ref"]'),
        ({"properties": {"a": {"$ref": ["x"]}}}, '$.parameters.properties.a["$ref"]'),
        ({"$schema": "http://["}, '$.parameters["$schema"]'),
        ({"items": {"$schema": "http://["}}, '$.parameters.items["$schema"]'),
    ],
)
def test_what_is_no_schema_is_the_callers_fault(schema: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        compile_schema("t", schema)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path=path))


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#"}, {"$ref": "#/$defs/none"}, {"$ref": "other.json"}, {"$ref": {}}, {"not": {"$ref": True}}],
)
def test_a_schema_that_cannot_be_followed_says_so(schema: Any) -> None:
    with pytest.raises(InputError) as caught:
        compile_schema("t", schema)({})
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION


def test_a_property_may_have_the_name_of_a_reference() -> None:
    validate = compile_schema("t", {"properties": {"$ref": {"type": "string"}, "$schema": True}})
    validate({"$ref": "x", "$schema": "http://["})
    with pytest.raises(ToolError):
        validate({"$ref": 5})


def test_an_address_in_data_is_no_reference() -> None:
    data = {"$ref": "https://example.org/x"}
    compile_schema("t", {"properties": {"a": {"enum": [data], "default": data, "examples": [data]}}})({"a": data})


def test_a_pattern_of_javascript_does_not_stop_a_call() -> None:
    validate = compile_schema("t", {"properties": {"a": {"pattern": "(?<year>[0-9]+)"}}})
    validate({"a": "2024"})


def test_nothing_is_ever_fetched() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            here = f"http://127.0.0.1:{server.server_port}"
            for schema in (
                {"$ref": f"{here}/a"},
                {"properties": {"a": {"$ref": f"//127.0.0.1:{server.server_port}/b"}}},
                {"$id": f"{here}/base", "$ref": "c"},
                {"$id": f"{here}/base", "properties": {"a": {"$dynamicRef": f"{here}/d#x"}}},
                {"$schema": f"{here}/dialect", "type": "object"},
            ):
                try:
                    compile_schema("t", schema)({"a": 1})
                except InputError as error:
                    assert error.code is ErrorCode.TOOL_INVALID_DEFINITION
                else:
                    assert "$schema" in schema  # a dialect that nobody knows is read as 2020-12
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


def test_without_jsonschema_the_command_that_installs_it_is_told() -> None:
    code = (
        "import sys; sys.modules['jsonschema'] = None\n"
        "from harmonia.run.tools.arguments import compile_schema\n"
        "from harmonia import InputError\n"
        "try: compile_schema('t', {})\n"
        "except InputError as error: print(error.code, error.message)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("tool.missing_extra ") and "pip install 'harmonia[run]'" in ran.stdout


def test_a_schema_that_is_changed_later_does_not_change_the_check() -> None:
    schema: dict[str, Any] = {"required": ["a"]}
    validate = compile_schema("t", schema)
    schema["required"] = []
    with pytest.raises(ToolError):
        validate({})


def test_the_likest_name_comes_first() -> None:
    names = ["functions.get_weather", "functions.add", "browser.search"]
    assert nearest("getWeather", names)[0] == "functions.get_weather"
    assert nearest("functions.search", names)[0] == "browser.search"
    assert sorted(nearest("x", names)) == sorted(names)


def test_a_path_can_be_read_back() -> None:
    assert json_path([]) == "$"
    assert json_path(["a", 0, "b c", "_d"]) == '$.a[0]["b c"]._d'


@pytest.mark.parametrize(("value", "divisor"), [(19.99, 0.01), (0.3, 0.1), (1e308, 0.01), (-4.5, 1.5), (10**400, 10)])
def test_a_multiple_is_one_as_it_is_written(value: float, divisor: float) -> None:
    compile_schema("t", {"multipleOf": divisor})(value)


@pytest.mark.parametrize(("value", "divisor"), [(19.995, 0.01), (0.35, 0.1), (10**400 + 1, 10)])
def test_what_is_no_multiple_is_refused(value: float, divisor: float) -> None:
    with pytest.raises(ToolError) as caught:
        compile_schema("t", {"multipleOf": divisor})(value)
    assert caught.value.code is ErrorCode.TOOL_INVALID_ARGUMENTS


def test_of_members_that_a_literal_tells_apart_the_fault_is_in_the_one_that_was_meant() -> None:
    def shape(kind: str, size: str) -> dict[str, Any]:
        properties = {"kind": {"const": kind}, size: {"type": "number"}}
        return {"type": "object", "properties": properties, "required": ["kind", size]}

    schema = {"properties": {"shape": {"oneOf": [shape("circle", "radius"), shape("square", "side")]}}}
    with pytest.raises(ToolError) as caught:
        compile_schema("t", schema)({"shape": {"kind": "square", "side": "2"}})
    assert caught.value.at == Position(path="$.shape.side")


def test_a_property_that_fits_a_pattern_is_not_called_one_too_many() -> None:
    schema = {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    with pytest.raises(ToolError) as caught:
        compile_schema("t", schema)({"x-fine": "", "wrong": 1})
    assert "wrong" in caught.value.message and "x-fine" not in caught.value.message and "^x-" in caught.value.message
