"""`harmonia grammar`: the grammar of a conversation and its tools, for each engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonia import Conversation, DeveloperContent, Message
from harmonia.cli import main
from harmonia.grammar import GRAMMAR_KINDS, WrittenGrammar
from harmonia.grammar.completion import grammar_for
from harmonia.messages import ResponseFormat
from harmonia.run.engines.grammar_mask import Matcher
from tests.grammar.damages import DEMAND, FUNCTIONS, sampled

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": CITY},
    {"type": "function", "name": "tag", "parameters": {"type": "object", "properties": {"t": {"uniqueItems": True}}}},
    {"type": "custom", "name": "count", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}},
]
ANSWER = "<|channel|>final<|message|>Four.<|return|>"
CALL = '<|channel|>commentary to=functions.get_weather<|message|>{"city":"Ulm"}<|call|>'
COUNT = "<|channel|>commentary to=functions.count<|message|>12<|call|>"


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["grammar", *arguments], input=stdin)


def admitted(*arguments: str, stdin: str = "") -> set[str]:
    """Which of some completions the printed grammar admits."""
    result = run("--quiet", *arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return {
        text
        for text in (ANSWER, CALL, COUNT, ANSWER.replace("Four.", '{"city": "Ulm"}'))
        if Matcher(WrittenGrammar("llguidance", result.stdout)).admitted(list(sampled(text))) == len(sampled(text))
    }


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return str(path)


PYTHON = """
from harmonia.run import tool

@tool
def get_weather(city: str) -> str:
    "The weather."
    return ""

def hidden(city: str) -> str:
    "Not marked."
    return ""
"""


def test_python_functions_are_tools_as_they_are_for_chat(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PYTHON)
    assert CALL in admitted("--tools", str(file))
    assert admitted("--tools", f"{file}:hidden", "--tool-choice", "required") == set()
    assert admitted("--tools", f"{file}:get_weather", "--tool-choice", "required") == {CALL}


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        ("def f(): pass", "", "has no function marked with @tool; mark one with @tool"),
        ("def f(): pass", ":g", "has no function g; it has f"),
        ("1 / 0", "", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_python_without_tools_is_refused_as_for_chat(tmp_path: Path, content: str, name: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(content)
    result = run("--tools", f"{file}{name}")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "--tools" in result.stderr


def test_a_tools_file_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    assert run("--tools", str(tmp_path / "none.json")).exit_code == 2
    assert run("--tools", str(tmp_path / "none.py")).exit_code == 2


def test_the_tools_and_the_choice_decide(tools: str) -> None:
    json_answer = ANSWER.replace("Four.", '{"city": "Ulm"}')
    assert admitted() == {ANSWER, json_answer}
    assert admitted("--tools", tools) == {ANSWER, CALL, COUNT, json_answer}
    assert admitted("--tools", tools, "--tool-choice", "required") == {CALL, COUNT}
    assert admitted("--tools", tools, "--tool-choice", "get_weather") == {CALL}
    assert admitted("--tools", tools, "--tool-choice", "functions.count") == {COUNT}
    assert admitted("--tools", tools, "--tool-choice", "none") == {ANSWER, json_answer}
    assert admitted("--tools", tools, "--tool-choice", "required", "--allow", "count", "--allow", "tag") == {COUNT}


@pytest.mark.parametrize(
    "form",
    [CITY, {"type": "json_schema", "json_schema": {"name": "c", "schema": CITY}}, {"type": "json_object"}],
)
def test_a_response_format_decides(form: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "format.json"
    path.write_text(json.dumps(form))
    assert admitted("--response-format", str(path)) == {ANSWER.replace("Four.", '{"city": "Ulm"}')}


def test_a_conversation_brings_its_tools_and_its_response_format() -> None:
    content = DeveloperContent().with_tools(FUNCTIONS).with_response_formats(ResponseFormat("c", CITY))
    conversation = Conversation([Message("developer", content)]).to_json()
    assert admitted("-", stdin=conversation) == {CALL, ANSWER.replace("Four.", '{"city": "Ulm"}')}


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
def test_every_engine_is_printed_as_the_library_writes_it(kind: Any) -> None:
    conversation = Conversation([Message("developer", DeveloperContent().with_tools(FUNCTIONS))]).to_json()
    written = grammar_for(DEMAND, kind)
    assert run("--engine", kind, "-", stdin=conversation).stdout.strip() == written.text.strip()
    told = json.loads(run("--engine", kind, "--json", "-", stdin=conversation).stdout)
    assert told["kind"] == kind and told["text"] == written.text and told["ends_by_engine"] == written.ends_by_engine


def test_what_is_lost_is_told_on_standard_error(tools: str) -> None:
    result = run("--tools", tools)
    assert result.stderr.startswith("note: functions.tag $.properties.t.uniqueItems: ")
    [loss] = json.loads(run("--tools", tools, "--output", "json").stdout)["losses"]
    assert (loss["about"], loss["path"], loss["feature"]) == (
        "functions.tag",
        "$.properties.t.uniqueItems",
        "uniqueItems",
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--tool-choice", "nobody"), "[run.invalid_option]"),
        (("--tool-choice", "required"), "[run.invalid_option]"),
        (("--response-format", "-"), "grammar.invalid_option"),
    ],
)
def test_what_cannot_be_is_an_error(arguments: tuple[str, ...], code: str) -> None:
    result = run(*arguments, stdin="[]")
    assert (result.exit_code, result.stdout) == (1, "")
    assert code in result.stderr


def test_a_tool_choice_that_is_no_tool_is_told_which_there_are(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"name": "get_weather"}]')
    result = run("--tools", str(file), "--tool-choice", "get_wether")
    assert "functions.get_weather" in result.stderr


@pytest.mark.parametrize("kind", ["llguidance", "gbnf", "xgrammar"])
@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("false", "no value matches the schema of response_format (at path $) [grammar.invalid_option]"),
        ('{"enum": []}', "grammar.invalid_option"),
        ('{"type": "string", "minLength": 5, "maxLength": 2}', "grammar.invalid_option"),
        ('{"type": "strng"}', "not a valid JSON Schema"),
    ],
)
def test_a_schema_that_is_none_or_that_nothing_fits_is_an_error(schema: str, code: str, kind: str) -> None:
    result = run("--engine", kind, "--response-format", "-", stdin=schema)
    assert (result.exit_code, result.stdout) == (1, "")
    assert code in result.stderr


@pytest.mark.parametrize("kind", GRAMMAR_KINDS)
@pytest.mark.parametrize("schema", [{"type": "objct"}, {"properties": {"city": {"$ref": "#/$defs/nowhere"}}}])
def test_a_strict_tool_to_which_nothing_can_be_held_is_refused_as_by_a_run(
    tmp_path: Path, kind: str, schema: dict[str, Any]
) -> None:
    path = tmp_path / "strict.json"
    path.write_text(json.dumps([{"type": "function", "name": "f", "strict": True, "parameters": schema}]))
    result = run("--tools", str(path), "--engine", kind)
    assert result.exit_code == 1 and "tool.invalid_definition" in result.stderr
