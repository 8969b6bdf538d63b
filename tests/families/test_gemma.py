"""Gemma's formats: what is a call, and how each variant is written."""

from __future__ import annotations

import json

import pytest

from harmonia.errors import ErrorCode
from harmonia.families.gemma import FUNCTION_GEMMA, GEMMA_3, GEMMA_4, Gemma3
from harmonia.families.reader import read_answer
from harmonia.families.registry import Family, ReadingOptions
from harmonia.families.tool_descriptions import example_call
from harmonia.messages import Message, ToolDescription
from harmonia.parser import Tools
from tests.families.family_laws import check_family_laws

SCHEMA = {
    "type": "object",
    "properties": {
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "city": {"type": "string", "description": "A city"},
    },
    "required": ["city"],
}
WEATHER = ToolDescription("get_weather", "The weather.", SCHEMA)
KNOWN = ReadingOptions(tools=Tools([WEATHER]), descriptions=(WEATHER,))
VARIANTS = [GEMMA_3, FUNCTION_GEMMA, GEMMA_4]


def read(text: str, options: ReadingOptions = KNOWN) -> list[Message]:
    check_family_laws(GEMMA_3, text, options, range(0, len(text), 3))
    return list(read_answer(GEMMA_3, text, options).messages)


@pytest.mark.parametrize("family", VARIANTS)
def test_several_calls_are_read_as_they_were_written(family: Gemma3) -> None:
    values = [{"city": "Oslo", "days": [1, 2.5], "x": {"y": None, "z": True}}, {"city": 'it\'s "Bern", (CH)'}, {}]
    written = family.write_calls([("get_weather", json.dumps(value)) for value in values])
    messages = read(written)
    assert [json.loads(message.text) for message in messages] == values
    assert {message.recipient for message in messages} == {"functions.get_weather"}
    assert all(message.origin is not None and message.origin.faults == () for message in messages)


def test_several_lines_of_code_are_several_calls() -> None:
    text = "```tool_code\nget_weather('celsius', city='Oslo')\nget_weather(city='Bern')\n```\nDone."
    assert [(message.recipient, message.text) for message in read(text)] == [
        ("functions.get_weather", '{"unit": "celsius", "city": "Oslo"}'),
        ("functions.get_weather", '{"city": "Bern"}'),
        (None, "Done."),
    ]


def test_code_that_is_no_call_is_kept_and_neither_shown_nor_run() -> None:
    text = "```tool_code\nimport numpy as np\nx = np.array([1])\nprint(x + 1)\n```"
    (message,) = read(text)
    assert message.recipient is None
    assert message.origin is not None and message.origin.faults == (ErrorCode.FAMILY_UNREADABLE_CALL,)


def test_arguments_that_would_have_to_be_worked_out_are_kept_as_they_are() -> None:
    (message,) = read("```tool_code\nget_weather(city=cities[0])\n```")
    assert (message.recipient, message.text) == ("functions.get_weather", "city=cities[0]")
    assert message.origin is not None and message.origin.faults == (ErrorCode.BODY_ARGUMENTS_NOT_JSON,)


def test_json_in_the_fence_is_read_too() -> None:
    (message,) = read('```tool_code\n{"name": "get_weather", "parameters": {"city": "Oslo"}}\n```')
    assert (message.recipient, message.text) == ("functions.get_weather", '{"city": "Oslo"}')


def test_a_list_that_is_no_list_of_calls_is_text() -> None:
    for text in ("[see(here) for more]", "[f(x", "[link](https://example.org)"):
        (message,) = read(text)
        assert (message.channel, message.text) == ("final", text)


@pytest.mark.parametrize(
    "forged", ["```tool_output\n12\n```", "<start_function_response>response:f{}", "<|tool_response>12"]
)
def test_a_result_that_the_model_invents_is_forged(forged: str) -> None:
    *_, last = read(f"```tool_code\nget_weather(city='Oslo')\n```\n{forged}\nIt is 12.")
    assert last.origin is not None and last.origin.forged


def test_functiongemma_declares_a_tool_as_its_documentation_shows() -> None:
    # ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices, the developer's turn.
    tool = ToolDescription(
        "get_current_weather",
        "Gets the current weather in a given location.",
        {
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": 'The city and state, e.g. "San Francisco, CA" or "Tokyo, JP"',
                },
                "unit": {
                    "type": "string",
                    "enum": ["celsius", "fahrenheit"],
                    "description": "The unit to return the temperature in.",
                },
            },
            "required": ["location"],
        },
    )
    assert FUNCTION_GEMMA.tool_part([tool]) == (
        "You are a model that can do function calling with the following functions<start_function_declaration>"
        "declaration:get_current_weather{description:<escape>Gets the current weather in a given location.<escape>,"
        "parameters:{properties:{location:{description:<escape>The city and state, e.g. "
        '"San Francisco, CA" or "Tokyo, JP"<escape>,type:<escape>STRING<escape>},unit:{description:<escape>The unit to '
        "return the temperature in.<escape>,enum:[<escape>celsius<escape>,<escape>fahrenheit<escape>],"
        "type:<escape>STRING<escape>}},required:[<escape>location<escape>],type:<escape>OBJECT<escape>}}"
        "<end_function_declaration>"
    )


def test_results_are_written_as_the_documentation_shows() -> None:
    assert GEMMA_3.write_result("f", "180000.0", is_error=False) == "```tool_output\n180000.0\n```"
    assert GEMMA_3.write_result("f", "no", is_error=True) == '```tool_output\n{"error": "no"}\n```'
    assert FUNCTION_GEMMA.write_result("f", "sunny", is_error=False) == (
        "<start_function_response>response:f{value:<escape>sunny<escape>}<end_function_response>"
    )
    assert GEMMA_4.write_result("f", "no", is_error=True) == (
        '<|tool_response>response:f{error:<|"|>no<|"|>}<tool_response|>'
    )


@pytest.mark.parametrize("family", VARIANTS)
def test_the_words_about_calling_show_a_call_that_can_be_read(family: Family) -> None:
    example = family.write_call(*example_call([WEATHER]))
    assert example in family.call_format([WEATHER])
    (message,) = read(example)
    assert (message.recipient, json.loads(message.text)) == ("functions.get_weather", {"city": "the city"})
    assert family.guidance(is_error=True) != family.guidance(is_error=False)


@pytest.mark.parametrize("family", VARIANTS)
def test_no_tools_are_not_declared(family: Family) -> None:
    assert family.tool_part([]) == ""


@pytest.mark.parametrize("family", VARIANTS)
@pytest.mark.parametrize("arguments", ["not json", "[1]", '{"not-a-name": 1}'])
def test_arguments_that_python_or_braces_cannot_name_are_still_written(family: Family, arguments: str) -> None:
    (message,) = read(family.write_call("get_weather", arguments))
    assert message.recipient == "functions.get_weather" or message.origin is not None
