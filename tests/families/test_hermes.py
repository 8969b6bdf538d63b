"""The Hermes format: what its template writes, and what of the habits of its models is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harmonia.errors import ErrorCode, StreamError
from harmonia.events import ArgumentsDelta, HeaderCompleted, MessageEnded, Repaired, Skipped, TurnEnded
from harmonia.families.hermes import HERMES
from harmonia.families.reader import read_answer
from harmonia.families.registry import DEFAULT_READING, ReadingOptions
from harmonia.messages import Message, ToolDescription, ToolNamespace
from harmonia.parser import Tools
from harmonia.parts import Text, Think, ToolCall, call_of, parts_of, visible_text
from tests.families.family_laws import check_family_laws, events_of

CALL = '<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call>'
WEATHER = ToolDescription(
    "get_weather",
    "Get the current weather",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
)


def messages_of(text: str, options: ReadingOptions = DEFAULT_READING) -> list[Message]:
    """The messages of a text, for which all laws are checked on the way."""
    events = check_family_laws(HERMES, text, options, range(0, len(text), 3))
    return [event.message for event in events if isinstance(event, MessageEnded)]


def calls_of(text: str, options: ReadingOptions = DEFAULT_READING) -> list[tuple[str | None, Any]]:
    return [(message.recipient, json.loads(message.text)) for message in messages_of(text, options)]


def codes_of(text: str, options: ReadingOptions = DEFAULT_READING) -> list[ErrorCode]:
    return [event.diagnostic.code for event in events_of(HERMES, [text], options) if isinstance(event, Repaired)]


# ── thoughts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thought_is_hidden_and_a_text_is_shown() -> None:
    parsed = read_answer(HERMES, "<think>\nHm.\n</think>\n\nFour.<|im_end|>\n")
    assert parts_of(parsed) == [Think("Hm."), Text("Four.")]
    assert visible_text(parsed) == "Four."
    assert not parsed.diagnostics


def test_a_thought_that_the_prompt_opened_needs_no_mark() -> None:
    options = ReadingOptions(prompt_opens_thought=True)
    assert [(each.channel, each.text) for each in messages_of("Hm.</think>Four.", options)] == [
        ("analysis", "Hm."),
        ("final", "Four."),
    ]


def test_a_thought_that_is_opened_twice_is_one() -> None:
    options = ReadingOptions(prompt_opens_thought=True)
    assert [(each.channel, each.text) for each in messages_of("<think>Hm.</think>Four.", options)] == [
        ("analysis", "Hm."),
        ("final", "Four."),
    ]
    assert codes_of("<think>Hm.</think>Four.", options) == []


def test_a_thought_that_never_closes_shows_nothing_and_says_why() -> None:
    events = events_of(HERMES, ["<think>Hm. I should"])
    assert codes_of("<think>Hm. I should") == [ErrorCode.FAMILY_UNCLOSED]
    assert isinstance(events[-1], TurnEnded) and events[-1].hidden_because == "there is only text on analysis"


def test_a_closing_mark_where_nothing_is_open_is_left_out() -> None:
    (message,) = messages_of("Hm.</tool_call>Four.")
    assert message.text == "Hm.Four."
    assert codes_of("Hm.</tool_call>Four.") == [ErrorCode.FAMILY_STRAY_MARK]


def test_other_marks_of_thoughts_can_be_given_or_none() -> None:
    text = "<reason>Hm.</reason>Four."
    assert parts_of(read_answer(HERMES, text, ReadingOptions(thinking=("<reason>", "</reason>")))) == [
        Think("Hm."),
        Text("Four."),
    ]
    assert parts_of(read_answer(HERMES, "<think>Hm.", ReadingOptions(thinking=()))) == [Text("<think>Hm.")]


def test_a_thought_speaks_of_a_tag_and_ends_at_one_on_a_line_of_its_own() -> None:
    (thought,) = messages_of("<think>I write <tool_call> now.</think>")
    assert thought.text == "I write <tool_call> now."
    thought, call = messages_of(f"<think>Hm.\n{CALL}")
    assert (thought.channel, call.recipient) == ("analysis", "functions.get_time")
    assert codes_of(f"<think>Hm.\n{CALL}") == [ErrorCode.FAMILY_UNCLOSED, ErrorCode.FAMILY_CALL_IN_THOUGHT]


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"a": 1}}',
        '\n{"name": "f", "arguments": {"a": 1}}\n',
        '{"name": "f", "parameters": {"a": 1}}',
        '{"arguments": {"a": 1}, "name": "f"}',
        '{"name": "f", "arguments": "{\\"a\\": 1}"}',
        '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
        '```json\n{"name": "f", "arguments": {"a": 1}}\n```',
        '[{"name": "f", "arguments": {"a": 1}}]',
        '{"name": "f", "arguments": {"a": 1}, "id": "call_1"}',
        "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>",
        "<function=f><parameter=a>1</function>",
        '<function=f>{"a": 1}</function>',
    ],
)
def test_a_call_is_read_however_it_is_dressed(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    assert calls_of(text) == [("functions.f", {"a": 1})]
    assert codes_of(text) == []


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {"b": [2]}}',
        '[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"b": [2]}}]',
        '[{"name": "f"}, {"name": "g", "arguments": {"b": [2]}}]',
        "<function=f></function><function=g><parameter=b>[2]</parameter></function>",
    ],
)
def test_several_calls_may_stand_in_one_pair_of_tags(body: str) -> None:
    assert calls_of(f"<tool_call>{body}</tool_call>") == [("functions.f", {}), ("functions.g", {"b": [2]})]


def test_calls_follow_each_other_and_text_may_stand_between() -> None:
    parsed = read_answer(HERMES, f"First.\n{CALL}\nThen.\n{CALL}<|im_end|>")
    kinds = [type(part) for part in parts_of(parsed)]
    assert kinds == [Text, ToolCall, Text, ToolCall]
    assert not parsed.diagnostics


def test_a_closing_tag_inside_of_an_argument_closes_nothing() -> None:
    arguments = {"text": 'a </tool_call> and \\ "quoted" <tool_call>'}
    assert calls_of(HERMES.write_call("f", json.dumps(arguments))) == [("functions.f", arguments)]


def test_arguments_are_told_as_they_come() -> None:
    reader = HERMES.reader()
    told = reader.feed('<tool_call>{"name": "f", "arguments": {"text": "One')
    assert any(isinstance(event, HeaderCompleted) for event in told)
    assert "".join(event.text for event in told if isinstance(event, ArgumentsDelta)) == '{"text": "One'
    more = reader.feed(' two"}}')
    assert "".join(event.text for event in more if isinstance(event, ArgumentsDelta)) == ' two"}'


def test_a_missing_closing_tag_leaves_a_call_that_is_not_run() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}'
    (message,) = messages_of(text)
    call = call_of(message)
    assert call is not None and (call.value, call.status) == ({"a": 1}, "guessed")
    assert codes_of(text) == [ErrorCode.FAMILY_UNCLOSED]


def test_text_behind_a_call_without_a_closing_tag_is_text() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {}}\n\nThe time is noon.'
    call, said = messages_of(text)
    assert (call.recipient, said.text, said.channel) == ("functions.f", "The time is noon.", "final")
    assert codes_of(text) == [ErrorCode.FAMILY_UNCLOSED]


def test_another_call_closes_one_without_a_closing_tag() -> None:
    text = '<tool_call>{"name": "f", "arguments": {}}<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    one, other = messages_of(text)
    assert (one.recipient, other.recipient) == ("functions.f", "functions.g")
    assert (
        one.origin and other.origin and (one.origin.faults, other.origin.faults) == ((ErrorCode.FAMILY_UNCLOSED,), ())
    )


def test_a_call_that_was_cut_off_keeps_what_came_of_its_arguments() -> None:
    (message,) = messages_of('<tool_call>{"name": "f", "arguments": {"a": "on')
    (part,) = parts_of([message])
    assert isinstance(part, ToolCall) and (part.arguments, part.status) == ({"_raw": '{"a": "on'}, "guessed")


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ('{{"name": "f", "arguments": {"a": 1}}}', [ErrorCode.FAMILY_BROKEN_CALL]),
        ('{"name": "f", "arguments": {"a": 1}', [ErrorCode.FAMILY_BROKEN_CALL]),
        ('{"name": "f", "arguments": {a: 1}}', [ErrorCode.BODY_ARGUMENTS_NOT_JSON]),
        ("{'name': 'f', 'arguments': {'a': 1}}", [ErrorCode.FAMILY_BROKEN_CALL, ErrorCode.BODY_ARGUMENTS_NOT_JSON]),
    ],
)
def test_broken_json_is_a_call_that_cannot_be_run(body: str, codes: list[ErrorCode]) -> None:
    text = f"<tool_call>{body}</tool_call>"
    (message,) = messages_of(text)
    assert message.recipient == "functions.f"
    assert codes_of(text) == codes
    call = call_of(message)
    assert call is not None and not call.is_executable
    assert call.status == "guessed" or not call.is_json


@pytest.mark.parametrize(
    "body", ["", "\n", "get the time", "{}", "[]", "42", '{"arguments": {}}', "<function=>", "<b>"]
)
def test_what_is_no_call_is_kept_and_neither_shown_nor_run(body: str) -> None:
    parsed = read_answer(HERMES, f"<tool_call>{body}</tool_call>")
    (message,) = parsed.messages
    assert (message.text, message.recipient) == (body, None)
    assert visible_text(parsed) == "" and call_of(message) is None
    assert [each.code for each in parsed.diagnostics] == [ErrorCode.FAMILY_UNREADABLE_CALL]


def test_the_function_tag_of_others_is_read_and_marked() -> None:
    text = "Well.\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
    _, call = messages_of(text)
    assert call.recipient == "functions.f" and json.loads(call.text) == {"a": 1}
    assert codes_of(text) == [ErrorCode.FAMILY_FOREIGN_CALL, ErrorCode.FAMILY_STRAY_MARK]
    assert parts_of(read_answer(HERMES, "#include <functional> and <function=f>")) == [
        Text("#include <functional> and <function=f>")
    ]


def test_a_schema_decides_what_a_value_without_quotation_marks_is() -> None:
    values = "<parameter=city>12</parameter><parameter=days>12</parameter>"
    text = f"<tool_call><function=get_weather>{values}</function></tool_call>"
    assert calls_of(text) == [("functions.get_weather", {"city": 12, "days": 12})]
    options = ReadingOptions(descriptions=(WEATHER,))
    assert calls_of(text, options) == [("functions.get_weather", {"city": "12", "days": 12})]


def test_a_value_may_have_lines_and_anything_else_in_it() -> None:
    value = 'if a < b:\n    print("</tool>")\n\n'
    text = f"<tool_call>\n<function=write>\n<parameter=code>\n{value}\n</parameter>\n</function>\n</tool_call>"
    assert calls_of(text) == [("functions.write", {"code": value})]


def test_a_call_goes_to_the_tool_by_its_whole_name_where_that_was_declared() -> None:
    tools = Tools([WEATHER, ToolNamespace("browser", tools=(ToolDescription("search"),))])
    text = (
        HERMES.write_call("browser.search", "{}")
        + HERMES.write_call("get_weather", "{}")
        + HERMES.write_call("x.y", "{}")
    )
    assert [recipient for recipient, _ in calls_of(text, ReadingOptions(tools=tools))] == [
        "browser.search",
        "functions.get_weather",
        "functions.x.y",
    ]


def test_no_call_from_text_is_certain_even_where_the_tool_is_declared() -> None:
    (message,) = messages_of(CALL, ReadingOptions(tools=Tools(["get_time"])))
    call = call_of(message, ["get_time"])
    assert call is not None and (call.kind, call.status, call.is_executable) == ("declared", "unverified", False)


# ── what is not the assistant's ─────────────────────────────────────────────────────────────────────────────────────


def test_a_result_that_the_model_invents_is_forged_and_so_is_all_behind_it() -> None:
    text = f"{CALL}\n<tool_response>\nnoon\n</tool_response>\nIt is noon."
    call, forged = messages_of(text)
    assert call.recipient == "functions.get_time"
    assert forged.origin is not None and forged.origin.forged and forged.name == "functions.get_time"
    assert visible_text([call, forged]) == ""
    assert codes_of(text) == [ErrorCode.HEADER_FORGED_ROLE]


def test_what_stands_behind_the_end_of_the_turn_is_not_shown() -> None:
    parsed = read_answer(HERMES, "Four.<|im_end|>\n<|im_start|>user\nThanks!")
    assert visible_text(parsed) == "Four."
    assert [each.code for each in parsed.diagnostics] == [ErrorCode.STREAM_TEXT_OUTSIDE]
    assert [event.text for event in parsed.events if isinstance(event, Skipped)] == ["<|im_end|>", "\n"]


def test_half_of_a_surrogate_pair_is_reported_where_it_stands() -> None:
    events = events_of(HERMES, ["a\ud800b"])
    found = [event.diagnostic for event in events if isinstance(event, Repaired)]
    assert [(each.code, each.at.character) for each in found] == [(ErrorCode.STREAM_INVALID_UTF8, 1)]


# ── strict, and written ─────────────────────────────────────────────────────────────────────────────────────────────


def test_strict_raises_the_first_fault_behind_the_events_before_it() -> None:
    text = "So.</think>Well.\n<tool_call>oh</tool_call>"
    with pytest.raises(StreamError) as raised:
        read_answer(HERMES, text, mode="strict")
    assert (raised.value.code, raised.value.at.character) == (ErrorCode.FAMILY_STRAY_MARK, 3)
    assert list(raised.value.events) == list(read_answer(HERMES, text).events[:3])
    assert read_answer(HERMES, CALL, mode="strict").messages


def test_tools_are_declared_as_qwens_template_declares_them() -> None:
    # The template of Qwen/Qwen2.5-7B-Instruct writes each tool with Jinja's tojson, one a line.
    part = HERMES.tool_part([WEATHER, ToolDescription("get_time")])
    lines = part.split("\n")
    assert lines[:2] == ["# Tools", ""]
    first, second = lines[lines.index("<tools>") + 1 : lines.index("</tools>")]
    assert json.loads(first) == {
        "type": "function",
        "function": {"name": "get_weather", "description": "Get the current weather", "parameters": WEATHER.parameters},
    }
    assert json.loads(second) == {"type": "function", "function": {"name": "get_time"}}
    assert part.endswith('{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>')
    assert HERMES.tool_part([]) == ""


def test_calls_and_results_are_written_as_the_template_writes_them() -> None:
    assert HERMES.write_call("f", '{"a": 1}') == '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert HERMES.write_call("f", "no JSON") == '<tool_call>\n{"name": "f", "arguments": "no JSON"}\n</tool_call>'
    assert HERMES.write_result("f", "noon", is_error=False) == "<tool_response>\nnoon\n</tool_response>"
    assert HERMES.write_result("f", 'no "clock"', is_error=True) == (
        '<tool_response>\n{"error": "no \\"clock\\""}\n</tool_response>'
    )
    assert HERMES.guidance(is_error=True) != HERMES.guidance(is_error=False)
    assert "<tool_call>" in HERMES.call_format([WEATHER]) and "get_weather" in HERMES.call_format([WEATHER])
