"""`harmonia tools`: what is read, what is shown, what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonia import PYTHON, Conversation, DeveloperContent, Message, SystemContent, ToolDescription, render
from harmonia.cli import main

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FLAT = {"type": "function", "name": "get-weather", "description": "The weather.", "parameters": CITY}
MCP = {"name": "get-weather", "description": "The weather.", "inputSchema": CITY}
NESTED = {"type": "function", "function": {"name": "get-weather", "description": "The weather.", "parameters": CITY}}

MODULE = '''
from harmonia.run.tools import tool

class Wind: ...

@tool
def forecast(city: str, days: int = 3) -> str:
    """Fetch the forecast."""
    return city

@tool(name="wind!")
def wind() -> str:
    return ""

def unmarked(city: str): ...
def odd(wind: Wind): ...
'''


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["tools", *arguments], input=stdin)


def told(*arguments: str, stdin: str = "") -> dict[str, Any]:
    result = run("--json", *arguments, stdin=stdin)
    assert (result.exit_code, result.stdout.count("\n")) == (0, 1), result.output
    return json.loads(result.stdout)


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "weather_tools.py"
    path.write_text(MODULE)
    return str(path)


@pytest.mark.parametrize(
    "value",
    [
        [FLAT],
        [NESTED],
        [MCP],
        FLAT,
        NESTED,
        {"tools": [NESTED]},
        {"model": "gpt-oss-20b", "messages": [], "tools": [NESTED], "tool_choice": "auto"},
        {"functions": [FLAT]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}},
    ],
)
def test_definitions_are_found_wherever_they_are(value: object) -> None:
    found = told(stdin=json.dumps(value))
    assert [(tool["name"], tool["recipient"], tool["is_renamed"]) for tool in found["tools"]] == [
        ("get-weather", "functions.get_weather", True)
    ]


def test_the_tools_that_a_conversation_declares_are_shown() -> None:
    weather = ToolDescription("get_weather", "The weather.", CITY)
    content = DeveloperContent(instructions="Be kind.").with_functions(weather)
    conversation = Conversation([Message.system(SystemContent().with_tools(PYTHON)), Message("developer", content)])
    found = told(stdin=conversation.to_json())
    assert [tool["recipient"] for tool in found["tools"]] == ["python", "functions.get_weather"]
    assert found["namespaces"][1]["text"] in render(conversation).text
    assert run(stdin=Conversation([Message.system(), Message.user("Hi")]).to_json()).exit_code == 1


def test_the_cost_is_that_of_the_prompt() -> None:
    content = DeveloperContent().with_functions(ToolDescription("get_weather", "The weather.", CITY))
    messages = [Message.system(), Message("developer", content)]
    expected = len(render(messages).tokens) - len(render([Message.system()]).tokens)
    found = told(stdin=json.dumps([FLAT]))
    assert found["tokens"] == expected == found["tools"][0]["tokens"] + found["heading_tokens"]
    assert found["namespaces"][0]["text"] in render(messages).text


def test_people_see_the_declaration_the_names_and_the_losses() -> None:
    lossy: dict[str, Any] = {**FLAT, "parameters": {**CITY, "if": {}, "then": {}, "else": {}}}
    result = run(stdin=json.dumps([lossy]))
    assert result.exit_code == 0
    assert "type get_weather = (_: {\ncity: string,\n}) => any;" in result.stdout
    assert "functions.get_weather, renamed from 'get-weather'" in result.stdout
    (loss,) = result.stdout.partition("The model does not see:\n")[2].splitlines()
    assert loss.startswith("  functions.get_weather $.parameters: ")


def test_no_control_character_reaches_the_terminal() -> None:
    hostile = {"name": "a\x1b[2J\x07", "description": "\x1b]0;title\x07", "parameters": {"description": "\x9b31m"}}
    result = run(stdin=json.dumps([hostile]))
    assert result.exit_code == 0
    assert not set(result.stdout + result.stderr) & set("\x1b\x07\x9b")


def test_what_a_provider_runs_itself_is_left_out_and_said() -> None:
    result = run("--json", stdin=json.dumps([{"type": "web_search"}, FLAT]))
    assert [tool["name"] for tool in json.loads(result.stdout)["tools"]] == ["get-weather"]
    assert result.stderr.startswith("left out: $[0] ")


@pytest.mark.parametrize("written", ["", "{", "3", "{}", '{"messages": []}', "[3]", '[{"description": "x"}]', b"\xff"])
def test_what_has_no_definitions_is_an_error(written: str | bytes) -> None:
    result = run(stdin=written)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")


def test_a_function_of_a_file_is_shown(module: str) -> None:
    assert [tool["name"] for tool in told("-f", f"{module}:unmarked")["tools"]] == ["unmarked"]
    assert [tool["name"] for tool in told("-f", module)["tools"]] == ["forecast", "wind!"]


def test_functions_and_definitions_stand_together(module: str, tmp_path: Path) -> None:
    definitions = tmp_path / "tools.json"
    definitions.write_text(json.dumps([FLAT]))
    found = told(str(definitions), "-f", f"{module}:forecast", "--function", f"{module}:unmarked")
    assert [tool["recipient"] for tool in found["tools"]] == [
        "functions.get_weather",
        "functions.forecast",
        "functions.unmarked",
    ]


def test_a_function_of_a_module_is_shown() -> None:
    assert [tool["name"] for tool in told("-f", "textwrap:dedent")["tools"]] == ["dedent"]


@pytest.mark.parametrize(
    ("written", "code"),
    [("{module}:none", 2), ("no_such_module_anywhere:f", 2), ("missing.py:f", 2), ("textwrap", 2), ("{module}:odd", 1)],
)
def test_a_function_that_is_none_is_an_error(written: str, code: int, module: str) -> None:
    result = run("-f", written.format(module=module))
    assert (result.exit_code, result.stdout) == (code, "")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([FLAT, {"function": {"name": 5}}], "$[1].function.name"),
        ({"result": {"tools": [{"name": ""}]}}, "$.result.tools[0].name"),
        ({"name": 5}, "$.name"),
        ([{"name": 5}], "$[0].name"),
    ],
)
def test_an_error_says_where_in_the_file_the_definition_stands(given: object, path: str) -> None:
    result = run(stdin=json.dumps(given))
    assert result.exit_code == 1 and f"(at path {path})" in result.stderr
