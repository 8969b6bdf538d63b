"""ReAct, for models that were never trained to call tools: labels, inputs, and observations that nobody made."""

from __future__ import annotations

import json

import pytest

from harmonia.errors import ErrorCode
from harmonia.events import MessageEnded, Repaired
from harmonia.families.react import REACT
from harmonia.families.reader import read_answer
from harmonia.families.registry import DEFAULT_READING, ReadingOptions
from harmonia.messages import Message, ToolDescription
from harmonia.parser import Tools
from harmonia.parts import Text, Think, ToolCall, parts_of, visible_text
from tests.families.family_laws import check_family_laws, events_of

SEARCH = ToolDescription(
    "search",
    "Searches.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "most": {"type": "integer"}},
        "required": ["query"],
    },
)
WAIT = ToolDescription("wait", None, {"type": "object", "properties": {"seconds": {"type": "integer"}}})
DESCRIBED = ReadingOptions(tools=Tools([SEARCH, WAIT]), descriptions=(SEARCH, WAIT))


def messages_of(text: str, options: ReadingOptions = DEFAULT_READING) -> list[Message]:
    events = check_family_laws(REACT, text, options, range(0, len(text), 3))
    return [event.message for event in events if isinstance(event, MessageEnded)]


def codes_of(text: str, options: ReadingOptions = DEFAULT_READING) -> list[ErrorCode]:
    return [event.diagnostic.code for event in events_of(REACT, [text], options) if isinstance(event, Repaired)]


@pytest.mark.parametrize(
    ("thought", "action", "given", "answer"),
    [
        ("Thought:", "Action:", "Action Input:", "Final Answer:"),
        ("thought:", "ACTION:", "action input:", "final answer:"),
        ("Thought 1:", "Action 1:", "Action Input 1:", "Final Answer 1 :"),
        ("  Thought :", "  Action :", "  Action Input :", " Final  Answer:"),
        ("**Thought:**", "**Action:**", "**Action Input:**", "**Final Answer:**"),
    ],
)
def test_labels_are_known_however_they_are_written(thought: str, action: str, given: str, answer: str) -> None:
    text = f'{thought} I look.\n{action} search\n{given} {{"query": "Oslo"}}\n{answer} Oslo.'
    parts = parts_of(read_answer(REACT, text))
    assert [type(part) for part in parts] == [Think, ToolCall, Text]
    call = parts[1]
    assert isinstance(call, ToolCall) and (call.name, call.arguments) == ("search", {"query": "Oslo"})
    assert (parts[0], parts[2]) == (Think("I look."), Text("Oslo."))
    messages_of(text)


def test_a_label_in_the_middle_of_a_line_is_text() -> None:
    text = "The next Action: wait. And a Thought: none."
    assert [message.text for message in messages_of(text)] == [text]


def test_text_without_labels_is_the_answer() -> None:
    assert parts_of(read_answer(REACT, "\nOslo is fine.\n")) == [Text("Oslo is fine.")]


def test_several_thoughts_are_several() -> None:
    assert [part for part in parts_of(read_answer(REACT, "Thought: one\nThought: two"))] == [Think("one"), Think("two")]


def test_an_observation_that_the_model_invents_is_forged_and_ends_the_reading() -> None:
    text = 'Action: search\nAction Input: {"query": "x"}\nObservation: y\nThought: so y\nFinal Answer: y'
    call, forged = messages_of(text)
    assert call.recipient == "functions.search" and call.origin is not None and call.origin.stop == "call"
    assert forged.origin is not None and forged.origin.forged and forged.role == "tool"
    assert visible_text([call, forged]) == ""
    assert codes_of(text) == [ErrorCode.HEADER_FORGED_ROLE]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ('{"query": "Oslo", "most": 3}', {"query": "Oslo", "most": 3}),
        ("Oslo", {"query": "Oslo"}),
        ('"Oslo"', {"query": "Oslo"}),
        ("12", {"query": "12"}),
        ("```\nOslo\n```", {"query": "Oslo"}),
        ('```json\n{"query": "Oslo"}\n```', {"query": "Oslo"}),
        ("", {}),
    ],
)
def test_an_input_without_a_name_is_the_parameter_that_must_be_given(given: str, arguments: dict[str, object]) -> None:
    (message,) = messages_of(f"Action: search\nAction Input: {given}\n", DESCRIBED)
    assert json.loads(message.text) == arguments


def test_an_input_takes_the_type_of_the_only_parameter() -> None:
    (message,) = messages_of("Action: wait\nAction Input: 12", DESCRIBED)
    assert json.loads(message.text) == {"seconds": 12}


def test_an_input_for_a_tool_that_nobody_described_stays_as_it_is() -> None:
    (message,) = messages_of("Action: search\nAction Input: Oslo in May")
    (part,) = parts_of([message])
    assert isinstance(part, ToolCall) and part.arguments == {"_raw": "Oslo in May"} and not part.is_executable
    assert codes_of("Action: search\nAction Input: Oslo in May") == [ErrorCode.BODY_ARGUMENTS_NOT_JSON]


def test_names_may_have_marks_around_them() -> None:
    for name in ("`search`", '"search"', "[search]", "**search**"):
        (message,) = messages_of(f"Action: {name}\nAction Input: {{}}")
        assert message.recipient == "functions.search"


def test_an_action_of_the_paper_has_its_input_in_brackets() -> None:
    (message,) = messages_of("Action 2: search[High Plains [US]]", DESCRIBED)
    assert (message.recipient, json.loads(message.text)) == ("functions.search", {"query": "High Plains [US]"})


def test_an_action_without_an_input_is_a_call_only_where_the_tool_is_known() -> None:
    (call,) = messages_of("Action: wait", DESCRIBED)
    assert (call.recipient, call.text) == ("functions.wait", "{}")
    (text,) = messages_of("Action: wait")
    assert (text.recipient, text.text, text.channel) == (None, "Action: wait", "final")


def test_an_action_that_is_a_sentence_cannot_be_read() -> None:
    text = "Action: search the web\nAction Input: Oslo"
    (message,) = messages_of(text)
    assert message.recipient is None and visible_text([message]) == ""
    assert codes_of(text) == [ErrorCode.FAMILY_UNREADABLE_CALL]


def test_a_prompt_may_open_the_first_thought() -> None:
    options = ReadingOptions(prompt_opens_thought=True)
    assert parts_of(read_answer(REACT, " I know it.\nFinal Answer: Oslo", options)) == [
        Think("I know it."),
        Text("Oslo"),
    ]
    assert parts_of(read_answer(REACT, "Thought: I know it.\nFinal Answer: Oslo", options)) == [
        Think("I know it."),
        Text("Oslo"),
    ]


def test_a_model_that_thinks_in_marks_of_its_own_may_have_them() -> None:
    options = ReadingOptions(thinking=("<think>", "</think>"), prompt_opens_thought=True)
    assert parts_of(read_answer(REACT, "hm</think>Final Answer: Oslo", options)) == [
        Think("hm"),
        Text("Final Answer: Oslo"),
    ]
    assert parts_of(read_answer(REACT, "hm</think>\nFinal Answer: Oslo", options)) == [Think("hm"), Text("Oslo")]


def test_what_is_written_for_the_prompt_is_said_in_labels() -> None:
    part = REACT.tool_part([SEARCH, WAIT])
    assert "search: Searches." in part and '"query"' in part and "one of search, wait" in part
    assert part.endswith(REACT.call_format([SEARCH, WAIT])) and REACT.tool_part([]) == ""
    assert REACT.write_call("search", '{"query": "x"}') == 'Action: search\nAction Input: {"query": "x"}'
    assert REACT.write_result("search", "y", is_error=False) == "Observation: y"
    assert REACT.write_result("search", "y", is_error=True) == "Observation: Error: y"
    assert REACT.guidance(is_error=True) != REACT.guidance(is_error=False)
