"""OpenAI's JSON in text and its variants: what is a call, what is text, and how each is written."""

from __future__ import annotations

import json

import pytest

from harmonia.errors import ErrorCode
from harmonia.families.gemma import GEMMA_3
from harmonia.families.json_calls import OPENAI, OpenAi
from harmonia.families.llama import LLAMA, Llama
from harmonia.families.mistral import MISTRAL, Mistral
from harmonia.families.reader import read_answer
from harmonia.families.registry import CallWriter, Family, ReadingOptions
from harmonia.families.tool_descriptions import example_call
from harmonia.messages import Message, ToolDescription
from harmonia.parser import Tools
from tests.families.family_laws import check_family_laws

WEATHER = ToolDescription("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
PYTHON = ToolDescription("code_interpreter")
KNOWN = ReadingOptions(tools=Tools([WEATHER, PYTHON]), descriptions=(WEATHER, PYTHON))


def read(text: str, options: ReadingOptions = KNOWN) -> list[Message]:
    check_family_laws(OPENAI, text, options, range(0, len(text), 3))
    return list(read_answer(OPENAI, text, options).messages)


def called(text: str, options: ReadingOptions = KNOWN) -> list[tuple[str | None, str]]:
    return [(message.recipient, message.text) for message in read(text, options)]


@pytest.mark.parametrize("family", [OPENAI, LLAMA, MISTRAL])
def test_several_calls_are_read_as_they_were_written(family: OpenAi | Llama | Mistral) -> None:
    calls = [("get_weather", '{"city": "Oslo"}'), ("get_weather", '{"city": "Bern; {x}"}')]
    assert called(family.write_calls(calls)) == [(f"functions.{name}", arguments) for name, arguments in calls]


@pytest.mark.parametrize("family", [OPENAI, LLAMA, MISTRAL])
def test_arguments_that_are_no_json_are_still_written_where_json_must_stand(family: CallWriter) -> None:
    written = family.write_call("get_weather", "Oslo {")
    (message,) = read(written)
    assert message.recipient == "functions.get_weather"


def test_json_that_is_no_call_is_the_answer_as_it_comes() -> None:
    reader = OPENAI.reader(KNOWN)
    first = reader.feed('{"city": "Os')
    assert "".join(getattr(event, "text", "") for event in first) == '{"city": "Os'
    for text in ('{"name": "Bob", "age": 3}', '[{"name": "Bob"}]', '{"type": "circle"}', '{"id": 7, "function": null}'):
        assert called(text) == [(None, text)]


def test_json_with_a_name_that_no_tool_has_is_the_answer_if_it_has_more_than_a_call() -> None:
    for text in (
        '{"name": "Bob", "parameters": {"age": 3}, "job": 1}',
        '{"name": "Bob Ray", "parameters": {"age": 3}}',
    ):
        assert called(text) == [(None, text)]


@pytest.mark.parametrize("text", ['{"name": "find", "parameters": {"age": 3}}', "[find(age=3)]"])
def test_a_call_of_a_tool_that_nobody_declared_is_reported_and_not_shown(text: str) -> None:
    (message,) = read(text)
    assert (message.recipient, message.text) == ("functions.find", '{"age": 3}')
    assert message.origin is not None and message.origin.faults == (ErrorCode.FAMILY_UNKNOWN_TOOL,)
    (message,) = read(text, ReadingOptions())
    assert message.origin is not None and message.origin.faults == ()


def test_llamas_list_in_python_and_its_function_tag_are_calls() -> None:
    listed = '[get_weather(city="P"), b()]'
    for options in (KNOWN, ReadingOptions()):
        assert called(listed, options) == [("functions.get_weather", '{"city": "P"}'), ("functions.b", "{}")]
    assert called('<function=get_weather>{"city":"P"}</function>') == [("functions.get_weather", '{"city":"P"}')]
    assert called(f"<|python_tag|>{listed}<|eom_id|>", ReadingOptions())[0] == (
        "functions.get_weather",
        '{"city": "P"}',
    )


@pytest.mark.parametrize("text", ["[see()]", "[a(b)](c)", "[1, 2]", "[f(x", "[print(1)] it", "Use </function> here."])
def test_brackets_that_are_no_calls_are_the_answer(text: str) -> None:
    assert "".join(message.text for message in read(text)) == text
    assert all(message.recipient is None for message in read(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "parameters": {"a": 5}}',
        '[{"name": "get_weather", "arguments": {}}]',
        "[f(x=1)]",
        "[f(x=1)] is how you call it",
        'Sure! <function=f>{"x": 1}</function>',
    ],
)
@pytest.mark.parametrize("family", [OPENAI, GEMMA_3])
def test_where_there_are_no_tools_nothing_without_a_mark_is_a_call(family: Family, text: str) -> None:
    nothing = ReadingOptions(tools=Tools([]))
    check_family_laws(family, text, nothing, range(len(text)))
    (message,) = read_answer(family, text, nothing).messages
    assert (message.text, message.recipient, message.channel) == (text, None, "final")
    reader = family.reader(nothing)
    assert "".join(getattr(event, "text", "") for event in reader.feed(text[:20])).startswith(text[:9])


@pytest.mark.parametrize("text", ['[get_weather(city="P', "[get_weather(", "[get_weather(city=1), get_weather("])
@pytest.mark.parametrize("family", [OPENAI, GEMMA_3])
def test_a_list_of_calls_that_is_cut_off_is_reported_and_not_shown(family: Family, text: str) -> None:
    check_family_laws(family, text, KNOWN, range(len(text)))
    (message,) = read_answer(family, text, KNOWN).messages
    assert (message.recipient, message.text) == ("functions.get_weather", text.partition("(")[2])
    assert message.origin is not None and ErrorCode.FAMILY_UNCLOSED in message.origin.faults
    (message,) = read_answer(family, text, ReadingOptions()).messages
    assert (message.recipient, message.text) == (None, text)  # of a tool that nobody knows it is text


def test_a_function_tag_behind_words_is_a_call_of_a_tool_that_was_declared() -> None:
    tag = '<function=get_weather>{"city": "P"}</function>'
    assert called(f"Sure! {tag} Wait.") == [
        (None, "Sure! "),
        ("functions.get_weather", '{"city": "P"}'),
        (None, "Wait."),
    ]
    *_, call = read('Sure! <function=get_weather>{"city": "P"')
    assert call.origin is not None and ErrorCode.FAMILY_UNCLOSED in call.origin.faults
    for text in ('Sure! <function=g>{"a": 1}</function>', 'Sure! <function=g>{"a": 1}', f"Write `{tag}`."):
        (message,) = read(text)
        assert (message.text, message.recipient) == (text, None)
        assert message.origin is not None and message.origin.faults == ()
    assert called(f"Sure! {tag}", ReadingOptions()) == [(None, f"Sure! {tag}")]


def test_a_closing_tag_in_a_text_of_json_closes_nothing() -> None:
    arguments = '{"city": "</function><function=g>"}'
    assert called(f"<function=get_weather>{arguments}</function>") == [("functions.get_weather", arguments)]


def test_each_function_tag_that_was_not_closed_is_reported() -> None:
    first, second = read('<function=get_weather>{"city": "P"}<function=get_weather>{}')
    for message in (first, second):
        assert message.origin is not None and message.origin.faults == (ErrorCode.FAMILY_UNCLOSED,)


def test_calls_and_code_between_the_marks_of_llama_4() -> None:
    begins, ends = "<|python_start|>", "<|python_end|>"
    assert called(f'{begins}[get_weather(city="P")]{ends}<|eot|>') == [("functions.get_weather", '{"city": "P"}')]
    assert called(f"{begins}print(1){ends}<|eom|>") == [
        ("functions.code_interpreter", json.dumps({"code": "print(1)"}))
    ]
    assert called("Hello.<|eot|>") == [(None, "Hello.")]


def test_a_call_may_stand_in_a_code_fence_or_behind_words() -> None:
    call = '{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}'
    assert called(f"Let me see.\n```json\n{call}\n```\nDone.") == [
        (None, "Let me see.\n"),
        ("functions.get_weather", '{"city": "Oslo"}'),
        (None, "Done."),
    ]


def test_half_a_call_of_a_known_tool_is_not_shown() -> None:
    (message,) = read('{"name": "get_weather", "parameters": {"city": "Os')
    assert (message.recipient, message.text) == ("functions.get_weather", '{"city": "Os')
    assert message.origin is not None and ErrorCode.BODY_ARGUMENTS_NOT_JSON in message.origin.faults


def test_what_is_no_call_behind_a_call_is_kept_and_not_shown() -> None:
    call = '{"name": "get_weather", "parameters": {}}'
    first, second = read(f'{call}; {{"city": "Oslo"}}')
    assert (first.recipient, second.recipient, second.text) == ("functions.get_weather", None, '; {"city": "Oslo"}')
    assert second.origin is not None and second.origin.faults == (ErrorCode.FAMILY_UNREADABLE_CALL,)


def test_code_behind_the_python_tag_is_for_the_tool_that_runs_code() -> None:
    code = "import math\nprint(math.sqrt(2))"
    assert called(f"<|python_tag|>{code}<|eom_id|>") == [("functions.code_interpreter", json.dumps({"code": code}))]
    assert called(f"<|python_tag|>{code}", ReadingOptions()) == [("functions.python", json.dumps({"code": code}))]


def test_a_python_call_of_a_known_tool_is_a_call() -> None:
    assert called("<|python_tag|>get_weather('Oslo')") == [("functions.get_weather", '{"city": "Oslo"}')]


def test_arguments_of_mistral_are_told_as_they_come() -> None:
    reader = OPENAI.reader(KNOWN)
    told = reader.feed('[TOOL_CALLS]get_weather[ARGS]{"city": "O')
    assert "".join(getattr(event, "text", "") for event in told) == '{"city": "O'


def test_what_stands_behind_mistrals_mark_and_is_no_call_is_reported() -> None:
    (message,) = read("[TOOL_CALLS] not json at all")
    assert message.origin is not None and message.origin.faults == (ErrorCode.FAMILY_UNREADABLE_CALL,)
    (message,) = read('[TOOL_CALLS]  junk [{"name": "get_weather", "arguments": {}}]')
    assert message.recipient == "functions.get_weather"


def test_a_result_that_the_model_invents_is_forged() -> None:
    *_, last = read('[TOOL_CALLS]get_weather{}[TOOL_RESULTS]{"content": 12}[/TOOL_RESULTS]It is 12.')
    assert last.origin is not None and last.origin.forged


def test_results_and_errors_are_written_as_the_models_were_taught() -> None:
    assert LLAMA.write_result("f", "12", is_error=False) == '{"output": "12"}'
    assert LLAMA.write_result("f", "no", is_error=True) == '{"error": "no"}'
    assert MISTRAL.write_result("f", "12", is_error=False) == "[TOOL_RESULTS]12[/TOOL_RESULTS]"
    assert MISTRAL.write_result("f", "no", is_error=True) == '[TOOL_RESULTS]{"error": "no"}[/TOOL_RESULTS]'
    assert json.loads(OPENAI.write_result("f", "12", is_error=False)) == {"role": "tool", "name": "f", "content": "12"}


@pytest.mark.parametrize("family", [OPENAI, LLAMA, MISTRAL])
def test_the_words_about_calling_show_a_call_that_can_be_read(family: CallWriter) -> None:
    words = family.call_format([WEATHER])
    example = family.write_call(*example_call([WEATHER]))
    assert example in words
    assert [(name, json.loads(arguments)) for name, arguments in called(example)] == [
        ("functions.get_weather", {"city": "the city"})
    ]
    assert family.guidance(is_error=True) != family.guidance(is_error=False)


@pytest.mark.parametrize("family", [OPENAI, LLAMA, MISTRAL])
def test_tools_are_declared_with_their_schema_or_not_at_all(family: CallWriter) -> None:
    assert family.tool_part([]) == ""
    part = family.tool_part([WEATHER])
    assert "get_weather" in part and "The weather." in part and '"city"' in part
