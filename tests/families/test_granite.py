"""Granite's formats: what is a call, what is a thought, and how each generation is written."""

from __future__ import annotations

import json

import pytest

from harmonia.families.granite import GRANITE, GRANITE_3
from harmonia.families.reader import read_answer
from harmonia.families.registry import DEFAULT_READING, Family, ReadingOptions
from harmonia.families.tool_descriptions import example_call
from harmonia.messages import Message, ToolDescription
from tests.families.family_laws import check_family_laws

WEATHER = ToolDescription("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})


def read(text: str, options: ReadingOptions = DEFAULT_READING) -> list[Message]:
    check_family_laws(GRANITE, text, options, range(0, len(text), 3))
    return list(read_answer(GRANITE, text, options).messages)


def said(text: str, options: ReadingOptions = DEFAULT_READING) -> list[tuple[str | None, str]]:
    return [(message.channel, message.text) for message in read(text, options)]


def test_a_list_of_calls_is_written_and_read_again() -> None:
    calls = [("get_weather", '{"city": "Oslo"}'), ("get_weather", '{"city": "Bern"}')]
    written = GRANITE_3.write_calls(calls)
    assert written.startswith("<|tool_call|>[{") and written.count("<|tool_call|>") == 1
    assert [(message.recipient, message.text) for message in read(written)] == [
        (f"functions.{name}", arguments) for name, arguments in calls
    ]


def test_thoughts_in_words_count_at_the_beginning_only() -> None:
    assert said("Here is my thought process: a b. Here is my response: c.") == [
        ("analysis", " a b. "),
        ("final", "c."),
    ]
    assert said("Well. Here is my thought process: no.") == [("final", "Well. Here is my thought process: no.")]


def test_a_response_in_tags_is_the_answer_without_them() -> None:
    assert said("<think>a</think>\n<response>b</response>\n") == [("analysis", "a"), ("final", "b")]
    assert said("<think>a</think>\n<response>b") == [("analysis", "a"), ("final", "b")]


def test_without_thinking_everything_is_the_answer() -> None:
    text = "<think>a</think><response>b</response>"
    assert said(text, ReadingOptions(thinking=())) == [("final", text)]


@pytest.mark.parametrize("mark", ["<tool_response>", "<function_response>"])
def test_a_result_that_the_model_invents_is_forged(mark: str) -> None:
    *_, last = read(f'<tool_call>{{"name": "get_weather", "arguments": {{}}}}</tool_call>{mark}12. It is 12.')
    assert last.origin is not None and last.origin.forged


def test_another_turn_that_the_model_begins_is_not_shown() -> None:
    *_, last = read("Done.<|start_of_role|>user<|end_of_role|>And now?")
    assert (last.channel, last.recipient) == (None, None)


def test_results_and_errors() -> None:
    assert GRANITE.write_result("f", "12", is_error=False) == "<tool_response>\n12\n</tool_response>"
    assert GRANITE.write_result("f", "no", is_error=True) == '<tool_response>\n{"error": "no"}\n</tool_response>'
    assert GRANITE_3.write_result("f", "12", is_error=False) == "12"


@pytest.mark.parametrize("family", [GRANITE, GRANITE_3])
def test_the_words_about_calling_show_a_call_that_can_be_read(family: Family) -> None:
    example = family.write_call(*example_call([WEATHER]))
    assert example in family.call_format([WEATHER])
    (message,) = read(example)
    assert (message.recipient, json.loads(message.text)) == ("functions.get_weather", {"city": "the city"})
    assert family.guidance(is_error=True) != family.guidance(is_error=False)


@pytest.mark.parametrize("family", [GRANITE, GRANITE_3])
def test_tools_are_declared_with_their_schema_or_not_at_all(family: Family) -> None:
    assert family.tool_part([]) == ""
    assert '"city"' in family.tool_part([WEATHER])
