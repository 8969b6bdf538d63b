"""The printed text against the real TypeScript compiler: it compiles, it means the schema, nothing leaks.

The compiler runs in node, in one process for all tests. `npm ci` in tests/typescript installs it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings

from harmonia.schema import declare_tool, to_typescript
from tests.support.paths import ROOT
from tests.support.repeated import repeated
from tests.support.strategies.schemas import (
    HOSTILE_TEXTS,
    Schema,
    any_schemas,
    lossless_schemas,
    reference_schemas,
    texts,
)

COMPILED_CASES = (150, pytest.param(800, marks=pytest.mark.exhaustive))
HOSTILE_CASES = 300

FOLDER = ROOT / "tests" / "typescript"
NODE = shutil.which("node")
needs_compiler = pytest.mark.skipif(
    NODE is None or not (FOLDER / "node_modules" / "typescript").is_dir(),
    reason="needs node, and the compiler that `npm ci` in tests/typescript installs",
)


Compile = Callable[[dict[str, str]], dict[str, list[str]]]


@pytest.fixture(scope="module")
def compile_all() -> Generator[Compile]:
    """What the compiler has against each source; sources that it accepts are not in the result."""
    assert NODE is not None
    with subprocess.Popen(
        [NODE, str(FOLDER / "check.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        asks, answers = process.stdin, process.stdout
        assert asks is not None and answers is not None

        def compile_(sources: dict[str, str]) -> dict[str, list[str]]:
            print(json.dumps(sources), file=asks, flush=True)
            return json.loads(answers.readline())

        yield compile_


def source_of(schema: Schema | bool, rest: str = "") -> str:
    """A module that declares the type `Value` for a schema."""
    printed = to_typescript(schema, name="Value")
    helpers = "".join(f"type {helper.name} = {helper.text};\n" for helper in printed.declarations)
    return f"{helpers}export type Value = {printed.text};\n{rest}"


@needs_compiler
def test_the_checker_tells_good_from_bad(compile_all: Compile) -> None:
    assert compile_all({"good": "type t = string[];", "syntax": "type t = {", "name": "type t = array;"}).keys() == {
        "syntax",
        "name",
    }


@needs_compiler
@pytest.mark.parametrize("cases", COMPILED_CASES)
def test_what_is_printed_for_any_schema_compiles(compile_all: Compile, cases: int) -> None:
    schemas: list[Schema] = []

    # The compiler takes seconds to start and milliseconds per schema, so the schemas are gathered first. Nothing
    # can be shrunk then; the shortest source that fails is shown instead.
    @settings(max_examples=cases, deadline=None, phases=[Phase.generate])
    @given(any_schemas | reference_schemas | lossless_schemas)
    def gather(schema: Schema) -> None:
        schemas.append(schema)

    gather()
    sources = {
        str(index): declare_tool("tool", "two\nlines", schema).text + "\nexport type Tool = tool;"
        for index, schema in enumerate(schemas)
    }
    problems = compile_all(sources)
    shortest = min(problems, key=lambda name: len(sources[name]), default=None)
    assert shortest is None, f"{problems[shortest]}\n{schemas[int(shortest)]}\n{sources[shortest]}"


class Meaning(NamedTuple):
    schema: Schema | bool
    valid: list[Any]
    wrong: list[Any]


NODE_SCHEMA: Schema = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"value": {"type": "number"}, "next": {"$ref": "#/$defs/Node"}},
            "required": ["value"],
        }
    },
}

MEANINGS = {
    "string": Meaning({"type": "string"}, ["a"], [1, None]),
    "integer": Meaning({"type": "integer"}, [1], ["1"]),
    "null": Meaning({"type": "null"}, [None], [0]),
    "true": Meaning(True, [1, None, {"a": []}], []),
    "false": Meaning(False, [], [1, None]),
    "nullable": Meaning({"type": "string", "nullable": True, "enum": ["nullify"]}, ["nullify", None], ["x"]),
    "type list": Meaning(
        {"type": ["object", "null"], "properties": {"a": {"type": "string"}}, "required": ["a"]},
        [None, {"a": "x"}],
        [{}, {"a": 1}, 5],
    ),
    "const": Meaning({"const": {"a": [1, None]}}, [{"a": [1, None]}], [{"a": [2, None]}, {}]),
    "enum": Meaning({"enum": [1, "a", None, False]}, [1, "a", None, False], [2, "b", True]),
    "array of a union": Meaning(
        {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}}, [[], ["p", "q"]], ["p", ["r"]]
    ),
    "tuple": Meaning(
        {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False, "minItems": 1},
        [["a"], ["a", 1]],
        [[], [1], ["a", 1, 2]],
    ),
    "open tuple": Meaning(
        {"items": [{"type": "string"}], "additionalItems": {"type": ["number", "null"]}},
        [[], ["a"], ["a", 1, None]],
        [[1], ["a", "b"]],
    ),
    "required": Meaning(
        {"type": "object", "properties": {"my-key": {"type": "string"}}, "required": ["my-key", "other"]},
        [{"my-key": "a", "other": 5}],
        [{"my-key": "a"}, {"other": 1}, {"my-key": 1, "other": 1}],
    ),
    "optional": Meaning({"properties": {"a": {"type": "string"}}}, [{}, {"a": "x"}], [{"a": 1}, {"b": 1}]),
    "forbidden property": Meaning({"properties": {"a": False}}, [{}], [{"a": 1}]),
    "dictionary": Meaning({"additionalProperties": {"type": "number"}}, [{}, {"a": 1}], [{"a": "x"}]),
    "dictionary with named keys": Meaning(
        {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}},
        [{"a": "x", "b": 1}, {"b": 1}],
        [{"a": 1}, {"b": True}],
    ),
    "pattern dictionary": Meaning(
        {"patternProperties": {"^x": {"type": "array", "items": {"type": "string"}}}}, [{"x1": ["a"]}], [{"x1": "a"}]
    ),
    "oneOf with comments": Meaning(
        {"oneOf": [{"type": "string", "description": "a"}, {"type": "number", "description": "b\nc"}]},
        ["x", 1],
        [True],
    ),
    "anyOf": Meaning({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["x", None], [1]),
    "nested oneOf": Meaning(
        {"oneOf": [{"oneOf": [{"const": 1}, {"const": 2}]}, {"type": "array", "items": {"oneOf": [{"const": 3}]}}]},
        [1, 2, [3, 3]],
        [3, [1]],
    ),
    "allOf": Meaning(
        {
            "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "number"}}, "required": ["b"]},
                {"minProperties": 2},
            ]
        },
        [{"a": "x", "b": 1}],
        [{"a": "x"}, {"b": 1}],
    ),
    "properties and oneOf": Meaning(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        [{"a": "x"}, {"b": "x"}],
        [{}, {"a": 1}],
    ),
    "discriminated union": Meaning(
        {
            "type": "object",
            "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
            "$defs": {
                "cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
                "dog": {
                    "type": "object",
                    "properties": {"kind": {"const": "dog"}, "tricks": {"type": "integer"}},
                    "required": ["kind"],
                },
            },
        },
        [{"kind": "cat"}, {"kind": "dog", "tricks": 3}],
        [{"kind": "cow"}, {"kind": "cat", "tricks": 3}],
    ),
    "recursive": Meaning(
        NODE_SCHEMA,
        [{"value": 1}, {"value": 1, "next": {"value": 2, "next": {"value": 3}}}],
        [{"value": 1, "next": {"next": {"value": 3}}}],
    ),
    "recursive root": Meaning(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]},
        ["a", [], ["a", [["b"]]]],
        [1, [[1]]],
    ),
    "reference with siblings": Meaning(
        {
            "$ref": "#/$defs/a",
            "type": "object",
            "properties": {"y": {"type": "number"}},
            "required": ["y"],
            "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}},
        },
        [{"x": "a", "y": 1}],
        [{"x": "a"}, {"y": 1}],
    ),
    "hostile key": Meaning(
        {"properties": {'a"}; type b = {"': {"type": "string"}}}, [{'a"}; type b = {"': "x"}], [{'a"}; type b = {"': 1}]
    ),
    "numbers": Meaning({"enum": [1e20, -0.5, 1e-7, -3]}, [1e20, -0.5, 1e-7, -3], [1e21, 0.5]),
}


@needs_compiler
def test_valid_values_are_assignable_and_wrong_ones_are_not(compile_all: Compile) -> None:
    sources: dict[str, str] = {}
    expected: set[str] = set()
    for name, meaning in MEANINGS.items():
        for index, value in enumerate(meaning.valid + meaning.wrong):
            case = f"{name} {index}"
            sources[case] = source_of(meaning.schema, f"export const value: Value = {json.dumps(value)};\n")
            if index >= len(meaning.valid):
                expected.add(case)
    problems = compile_all(sources)
    assert {name: problems[name] for name in problems.keys() - expected} == {}, "valid, but not assignable"
    assert {name: sources[name] for name in expected - problems.keys()} == {}, "wrong, but assignable"


# A string literal or a comment, as JavaScript reads them.
STRINGS_AND_COMMENTS = re.compile('"(?:[^"\\\\\n\r\u2028\u2029]|\\\\.)*"|//[^\n\r\u2028\u2029]*')


def skeleton(text: str) -> str:
    """What is left for the compiler: no comments, no strings, no space."""
    code = STRINGS_AND_COMMENTS.sub(lambda found: '""' if found[0].startswith('"') else "", text)
    return re.sub(r"[\s\u2028\u2029]+", "", code)


def tool_full_of(text: str, key: str) -> str:
    """A tool with this text in every place that takes one. `key` is no identifier, so that it is quoted."""
    said: Schema = {"title": text, "description": text, "default": text, "examples": [text, {text: text}]}
    said |= {"pattern": text, "format": text, "contentEncoding": text}
    variants: list[Schema] = [{"type": "string", **said}, {"type": "object", **said}, {"const": text, **said}]
    schema: Schema = {
        "type": "object",
        **said,
        "properties": {
            key: {"type": "string", **said},
            "enum": {"type": "string", **said, "enum": [text]},
            "values": {"enum": [text, [text]]},
            "items": {"type": "array", "items": {"type": "string", **said}},
            "tuple": {"prefixItems": [{"type": "string", **said}]},
            "object": {"type": "object", **said, "required": [key]},
            "reference": {"$ref": "#/$defs/a", **said},
            "oneOf": {"oneOf": variants, **said},
            "anyOf": {"anyOf": variants, **said},
            "allOf": {"allOf": variants, **said},
            "dictionary": {"patternProperties": {text: {"type": "string", **said}}},
        },
        "$defs": {"a": {"type": "string", **said}},
    }
    return declare_tool("tool", f"a{text}", schema).text


@repeated(given(texts), some=60, many=HOSTILE_CASES)
def test_no_text_changes_the_code_around_it(text: str) -> None:
    assert skeleton(tool_full_of(text, f"-{text}")) == skeleton(tool_full_of("harmless", "-harmless"))


@needs_compiler
def test_types_that_name_each_other_compile(compile_all: Compile) -> None:
    schema: Schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "c": {"$ref": "#/$defs/C"}},
        "$defs": {
            "A": {"anyOf": [{"properties": {"c": {"$ref": "#/$defs/C"}}}, {"$ref": "#/$defs/C"}]},
            "C": {"anyOf": [{"$ref": "#/$defs/A"}, {"properties": {"c": {"$ref": "#/$defs/C"}}}]},
        },
    }
    assert compile_all({"both": source_of(schema)}) == {}


@needs_compiler
def test_tools_full_of_hostile_text_compile(compile_all: Compile) -> None:
    sources = {
        str(index): f"{tool_full_of(text, f'-{text}')}\nexport type Tool = tool;"
        for index, text in enumerate(HOSTILE_TEXTS)
    }
    assert compile_all(sources) == {}
