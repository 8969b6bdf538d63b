"""Responses: what becomes of each kind of item, both ways, and what is said where something is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import Conversation, ErrorCode, InputError, Message, ReasoningEffort, SystemContent, ToolDescription
from harmonia.interchange import Imported, message_defaults, read_responses, to_responses_body
from harmonia.interchange.responses import to_responses_items

CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}


def read(*items: dict[str, Any]) -> list[Message]:
    return list(read_responses(items).conversation)


def whats(imported: Imported) -> list[tuple[str, str]]:
    return [(loss.path, loss.what) for loss in imported.losses]


def error_of(value: object) -> tuple[ErrorCode, str | None]:
    with pytest.raises(InputError) as caught:
        read_responses(value)
    return caught.value.code, caught.value.at.path


def test_messages_have_parts_roles_and_phases() -> None:
    parts: list[dict[str, Any]] = [{"type": "output_text", "text": "Hello.", "annotations": []}]
    said: dict[str, Any] = {"type": "message", "role": "assistant", "content": parts}
    assert read(
        {"role": "system", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {**said, "phase": "commentary"},
        {**said, "phase": "final_answer"},
        said,
    ) == [
        Message.developer("Be kind."),
        Message.user("Hi"),
        Message.assistant("Hello.", channel="commentary"),
        Message.assistant("Hello."),
        Message.assistant("Hello."),
    ]


def test_a_phase_that_is_not_known_is_reported() -> None:
    imported = read_responses([{"role": "assistant", "content": "x", "phase": "encore"}])
    assert whats(imported) == [("$[0].phase", "phase")]


def test_reasoning_is_its_content_or_else_its_summary() -> None:
    content = [{"type": "reasoning_text", "text": "Hm."}]
    summary = [{"type": "summary_text", "text": "Thought."}]
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": content},
        {"type": "reasoning", "summary": summary, "encrypted_content": "gAAA"},
        {"type": "reasoning", "summary": summary, "content": content},
        {"type": "reasoning", "summary": []},
    ]
    imported = read_responses(items)
    assert [message.text for message in imported.conversation] == ["Hm.", "Thought.", "Hm."]
    assert all(message.channel == "analysis" for message in imported.conversation)
    assert whats(imported) == [
        ("$[1]", "reasoning"),
        ("$[1].encrypted_content", "encrypted_content"),
        ("$[2].summary", "summary"),
        ("$[3]", "message"),
    ]


def test_calls_and_their_outputs_are_joined_by_id() -> None:
    custom = {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "***"}
    outputs = [
        {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "2"}]},
    ]
    assert read(CALL, custom, *outputs) == [
        message_defaults.call("functions.f", "{}"),
        message_defaults.call("patch", "***"),
        message_defaults.result("patch", "done"),
        message_defaults.result("functions.f", "2"),
    ]
    namespaced = {**CALL, "namespace": "server"}
    assert read(namespaced)[0].recipient == "server.f"


def test_an_output_for_an_unknown_call_is_refused_with_its_path() -> None:
    output = {"type": "function_call_output", "call_id": "b", "output": "2"}
    assert error_of([CALL, output]) == (ErrorCode.INTERCHANGE_UNKNOWN_CALL, "$[1].call_id")
    assert error_of({"input": [output]}) == (ErrorCode.INTERCHANGE_UNKNOWN_CALL, "$.input[0].call_id")


def test_calls_that_the_server_made_bring_their_results_along() -> None:
    mcp = {"type": "mcp_call", "id": "m", "server_label": "docs", "name": "find", "arguments": "{}", "output": "3"}
    search = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}, "status": "completed"}
    page = {"type": "web_search_call", "action": {"type": "open_page", "url": "https://a/"}}
    code = {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]}
    imported = read_responses([mcp, search, page, code])
    assert list(imported.conversation) == [
        message_defaults.call("docs.find", "{}"),
        message_defaults.result("docs.find", "3"),
        message_defaults.call("browser.search", '{"query":"x"}'),
        message_defaults.call("browser.open", '{"id":"https://a/"}'),
        message_defaults.call("python", "1+1"),
        message_defaults.result("python", "2"),
    ]
    assert whats(imported) == [("$[1]", "output"), ("$[2]", "output")]
    assert imported.call_ids == {0: "m", 2: "w"}


def test_a_failed_mcp_call_answers_with_its_error() -> None:
    imported = read_responses([{"type": "mcp_call", "name": "find", "arguments": "{}", "error": "gone"}])
    assert imported.conversation[1] == message_defaults.result("functions.find", "gone")
    assert whats(imported) == [("$[0].error", "error")]


@pytest.mark.parametrize("kind", ["image_generation_call", "computer_call_output", "from_the_future"])
def test_items_without_a_place_are_left_out_and_reported(kind: str) -> None:
    imported = read_responses([{"type": kind, "id": "x"}, {"role": "user", "content": "Hi"}])
    assert (list(imported.conversation), whats(imported)) == ([Message.user("Hi")], [("$[0]", kind)])


def test_a_list_of_tools_says_nothing_and_nothing_is_lost_with_it() -> None:
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": [{"name": "find"}]}
    imported = read_responses([listed, {"role": "user", "content": "Hi"}])
    assert (list(imported.conversation), whats(imported)) == ([Message.user("Hi")], [])


WRONG: list[tuple[Any, str]] = [
    ({"foo": 1}, "$"),
    ([{"type": "item_reference", "id": "msg_1"}], "$[0]"),
    ([{"content": "x"}], "$[0]"),
    ([{"role": "tool", "content": "x"}], "$[0].role"),
    ([{"type": "function_call", "arguments": "{}"}], "$[0]"),
    ([{"type": "function_call_output", "output": "x"}], "$[0]"),
    ([{"type": "custom_tool_call", "name": "x", "input": 7}], "$[0].input"),
    ({"input": "Hi", "tools": 7}, "$.tools"),
    ({"input": "Hi", "reasoning": 7}, "$.reasoning"),
    ({"output": 7}, "$.output"),
]


@pytest.mark.parametrize(("value", "path"), WRONG)
def test_what_is_wrong_is_named_by_its_path(value: object, path: str) -> None:
    assert error_of(value) == (ErrorCode.INTERCHANGE_INVALID_VALUE, path)


def test_a_body_has_instructions_input_tools_and_effort() -> None:
    body = {
        "model": "gpt-oss-20b",
        "instructions": "Be kind.",
        "input": "Hi",
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "text"}},
    }
    imported = read_responses(body)
    assert list(imported.conversation) == [
        Message.system(SystemContent(reasoning_effort=ReasoningEffort.LOW)),
        Message.developer("Be kind.", functions=[ToolDescription("f")]),
        Message.user("Hi"),
    ]
    assert whats(imported) == [("$", "fields"), ("$.reasoning", "fields"), ("$.tools[1]", "tool")]


def test_a_response_is_its_output() -> None:
    response = {
        "object": "response",
        "id": "resp_1",
        "instructions": "Be kind.",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}],
    }
    imported = read_responses(response)
    assert (list(imported.conversation), whats(imported)) == ([Message.assistant("4")], [("$", "fields")])


def test_a_turn_is_written_item_by_item() -> None:
    conversation = Conversation(
        [
            Message.developer("Be kind.", functions=[ToolDescription("f")]),
            Message.assistant("Hm.", channel="analysis"),
            Message.assistant("Let me see.", channel="commentary"),
            message_defaults.call("functions.f", "{}"),
            message_defaults.result("functions.f", "4"),
            Message.assistant("4"),
        ]
    )
    written = to_responses_body(conversation)
    assert written.losses == ()
    assert written.value == {
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Let me see."}],
                "phase": "commentary",
            },
            {"type": "function_call", "call_id": "call_3", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_3", "output": "4"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "4"}],
                "phase": "final_answer",
            },
        ],
        "tools": [{"type": "function", "name": "f"}],
    }
    assert [(loss.message, loss.what) for loss in to_responses_items(conversation).losses] == [(0, "tools")]


def test_names_of_people_are_reported() -> None:
    written = to_responses_items(Conversation([Message.user("Hi", name="Ada"), Message.tool("functions.f", "2")]))
    assert [(loss.message, loss.what) for loss in written.losses] == [(0, "name"), (1, "message")]
