"""Chat Completions: what becomes of each kind of message, both ways, and what is said where something is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harmonia import (
    Conversation,
    ErrorCode,
    InputError,
    Message,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    ToolDescription,
    call_of,
    parse,
)
from harmonia.interchange import (
    Imported,
    from_chat_messages,
    message_defaults,
    read_chat,
    read_responses,
    to_chat_body,
    to_chat_messages,
)
from harmonia.messages import join_results

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def read(*messages: dict[str, Any]) -> list[Message]:
    return list(from_chat_messages(messages).conversation)


def whats(imported: Imported) -> list[tuple[str, str]]:
    return [(loss.path, loss.what) for loss in imported.losses]


def error_of(value: object) -> tuple[ErrorCode, str | None]:
    with pytest.raises(InputError) as caught:
        read_chat(value)
    return caught.value.code, caught.value.at.path


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_system_message_is_developer_instructions_unless_it_shall_stay_one() -> None:
    messages = [{"role": "system", "content": "Be kind."}]
    assert list(from_chat_messages(messages).conversation) == [Message.developer("Be kind.")]
    assert list(from_chat_messages(messages, system="system").conversation) == [Message.system("Be kind.")]


def test_one_assistant_message_becomes_reasoning_preamble_and_calls() -> None:
    said = assistant(reasoning="Hm.", content="Let me look.", tool_calls=[CALL])
    assert read(said, {"role": "tool", "tool_call_id": "a", "content": "2"}) == [
        Message.assistant("Hm.", channel="analysis"),
        Message.assistant("Let me look.", channel="commentary"),
        Message.call("functions.f", '{"x": 1}'),
        Message.tool("functions.f", "2"),
    ]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_goes_by_three_names(field: str) -> None:
    assert read(assistant(**{field: "Hm."}, content="4")) == [
        Message.assistant("Hm.", channel="analysis"),
        Message.assistant("4"),
    ]


def test_reasoning_details_are_read_where_there_is_nothing_else() -> None:
    details = [{"type": "reasoning.text", "text": "Hm, "}, {"type": "reasoning.text", "text": "well."}, "?"]
    assert read(assistant(content="4", reasoning_details=details))[0].text == "Hm, well."


@pytest.mark.parametrize("content", [None, "", []])
def test_no_content_beside_a_call_is_no_message(content: object) -> None:
    assert [message.recipient for message in read(assistant(content=content, tool_calls=[CALL]))] == ["functions.f"]


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]])
@pytest.mark.parametrize("from_messages", [from_chat_messages, read_responses])
def test_an_empty_message_is_left_out_and_reported(role: str, content: Any, from_messages: Any) -> None:
    imported = from_messages([{"role": "user", "content": "Hi"}, {"role": role, "content": content}])
    assert (len(imported.conversation), whats(imported)) == (1, [("$[1]", "message")])


def test_an_empty_answer_ends_no_turn() -> None:
    """The reasoning before it belongs to the turn that is going on, so the next prompt has it."""
    said = read(assistant(content=None, reasoning="Hm."), assistant(content=""))
    assert said == [Message.assistant("Hm.", channel="analysis")]


def test_what_a_user_or_a_tool_says_stays_though_it_is_empty() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    user, made, result = read(
        {"role": "user", "content": ""},
        assistant(content="", tool_calls=[call]),
        {"role": "tool", "tool_call_id": "a", "content": ""},
    )
    assert (user.text, made.recipient, result.text) == ("", "functions.f", "")


def test_content_may_be_parts_texts_or_one_part() -> None:
    part = {"type": "text", "text": "a"}
    for content in ([part], part, ["a"], "a", {"text": "a"}):
        assert read({"role": "user", "content": content}) == [Message.user("a")]
    assert read({"role": "user", "content": [part, "b"]}) == [Message("user", ("a", "b"))]
    assert read({"role": "user", "content": None}) == [Message.user("")]


def test_arguments_given_as_an_object_become_json() -> None:
    for arguments, text in (({"x": [1, "é"]}, '{"x":[1,"é"]}'), (None, "{}"), ("", ""), ("no json", "no json")):
        call = {"function": {"name": "f", "arguments": arguments}}
        assert read(assistant(tool_calls=[call])) == [Message.call("functions.f", text)]


def test_built_in_tools_keep_their_names() -> None:
    names = ["f", "browser.search", "python", "server.tool", "functions.python"]
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in names]
    read_back = [message.recipient for message in read(assistant(tool_calls=calls))]
    assert read_back == ["functions.f", "browser.search", "python", "server.tool", "functions.python"]


def test_a_custom_call_goes_to_a_tool_without_a_namespace() -> None:
    call = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    (message,) = read(assistant(tool_calls=[call]))
    assert (message.recipient, message.text, message.content_type) == ("patch", "*** Begin", None)
    call["custom"] = {"name": "user", "input": ""}
    assert call_of(read(assistant(tool_calls=[call]))[0]) is not None


def test_a_result_for_an_unknown_call_is_refused_with_its_path() -> None:
    result = {"role": "tool", "tool_call_id": "b", "content": "2"}
    assert error_of([assistant(tool_calls=[CALL]), result]) == (
        ErrorCode.INTERCHANGE_UNKNOWN_CALL,
        "$[1].tool_call_id",
    )
    later = {"messages": [{**result, "tool_call_id": "a"}, assistant(tool_calls=[CALL])]}
    assert error_of(later) == (ErrorCode.INTERCHANGE_UNKNOWN_CALL, "$.messages[0].tool_call_id")
    assert error_of([{"role": "tool", "content": "2"}]) == (ErrorCode.INTERCHANGE_UNKNOWN_CALL, "$[0]")


def test_results_without_an_id_go_by_name_or_to_the_call_that_waits() -> None:
    for result in ({"role": "tool", "content": "2"}, {"role": "function", "name": "f", "content": "2"}):
        assert read(assistant(tool_calls=[CALL]), result)[1] == Message.tool("functions.f", "2")
    assert read({"role": "function", "name": "g", "content": "2"}) == [Message.tool("functions.g", "2")]


def test_the_legacy_function_call_is_a_call() -> None:
    said = assistant(content=None, function_call={"name": "f", "arguments": "{}"})
    assert read(said, {"role": "function", "name": "f", "content": '{"a":1}'}) == [
        Message.call("functions.f", "{}"),
        Message.tool("functions.f", '{"a":1}'),
    ]


def test_results_of_one_tool_are_put_in_the_order_of_its_calls() -> None:
    calls = [{**CALL, "id": id_} for id_ in ("a", "b")]
    results = [{"role": "tool", "tool_call_id": id_, "content": id_} for id_ in ("b", "a")]
    imported = from_chat_messages([assistant(tool_calls=calls), *results])
    assert [message.text for message in imported.conversation][2:] == ["a", "b"]
    assert whats(imported) == [("$[1]", "order")]


def test_ids_that_are_counted_anew_in_every_turn_go_to_the_call_that_waits() -> None:
    step = [assistant(tool_calls=[CALL]), {"role": "tool", "tool_call_id": "a", "content": "2"}]
    other = assistant(tool_calls=[{**CALL, "function": {"name": "g", "arguments": "{}"}}])
    names = [message.name for message in read(*step, other, step[1]) if message.name]
    assert names == ["functions.f", "functions.g"]


@pytest.mark.parametrize(
    ("part", "placeholder"),
    [
        ({"type": "image_url", "image_url": {"url": "https://a/b.png"}}, "[image: https://a/b.png]"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "[image: image/png, 4 characters]"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "[audio: wav]"),
        ({"type": "file", "file": {"filename": "a.pdf"}}, "[file: a.pdf]"),
        ({"type": "input_image"}, "[image]"),
    ],
)
def test_what_is_no_text_becomes_a_placeholder_and_is_reported(part: dict[str, Any], placeholder: str) -> None:
    imported = from_chat_messages([{"role": "user", "content": ["see", part]}])
    assert imported.conversation[0].contents == ("see", placeholder)
    assert whats(imported) == [("$[0].content[1]", part["type"])]


def test_a_refusal_is_kept_as_text_and_reported() -> None:
    imported = from_chat_messages([assistant(content=None, refusal="No.")])
    assert (list(imported.conversation), whats(imported)) == ([Message.assistant("No.")], [("$[0].refusal", "refusal")])


def test_fields_that_have_no_place_are_reported_once_and_empty_ones_are_not() -> None:
    imported = from_chat_messages([assistant(content="4", annotations=[], audio=None, mood="good", weight=0)])
    assert whats(imported) == [("$[0]", "fields")]


WRONG: list[tuple[Any, str]] = [
    ({"foo": 1}, "$"),
    ("7", "$"),
    ({"messages": 7}, "$.messages"),
    ([7], "$[0]"),
    ([{"content": "x"}], "$[0]"),
    ([{"role": "robot", "content": "x"}], "$[0].role"),
    ([{"role": "user", "content": 7}], "$[0].content"),
    ([{"role": "user", "content": [{"type": "hologram"}]}], "$[0].content[0]"),
    ([{"role": "user", "content": [{"type": "text", "text": 7}]}], "$[0].content[0].text"),
    ([{"role": "user", "content": "x", "name": 7}], "$[0].name"),
    ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "$[0].tool_calls[0].function"),
    ([{"role": "assistant", "tool_calls": [{"type": "spell"}]}], "$[0].tool_calls[0].type"),
    ([{"role": "assistant", "reasoning": 7}], "$[0].reasoning"),
    ({"messages": [], "tools": [{"type": "function", "function": {}}]}, "$.tools[0].function"),
    ({"choices": []}, "$.choices"),
    ({"choices": [{"delta": {}}]}, "$.choices[0]"),
]


@pytest.mark.parametrize(("value", "path"), WRONG)
def test_what_is_wrong_is_named_by_its_path(value: object, path: str) -> None:
    assert error_of(value) == (ErrorCode.INTERCHANGE_INVALID_VALUE, path)


def test_what_is_not_json_says_where() -> None:
    with pytest.raises(InputError) as caught:
        read_chat('[{"role": user}]')
    assert (caught.value.code, caught.value.at.character) == (ErrorCode.INTERCHANGE_INVALID_VALUE, 10)


# ── bodies and answers ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_brings_tools_effort_and_the_form_of_the_answer() -> None:
    schema = {"type": "object"}
    body = {
        "model": "gpt-oss-20b",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}],
        "reasoning_effort": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "list", "schema": schema}},
    }
    imported = read_chat(json.dumps(body))
    system, developer, user = imported.conversation
    assert system == Message.system(SystemContent(reasoning_effort=ReasoningEffort.HIGH))
    assert developer == Message.developer(
        "Be kind.",
        functions=[ToolDescription("f", parameters=schema)],
        response_formats=[ResponseFormat("list", schema)],
    )
    assert user == Message.user("Hi")
    assert whats(imported) == [("$", "fields"), ("$.tools[0].function", "fields")]


def test_tools_without_instructions_get_a_developer_message_of_their_own() -> None:
    imported = from_chat_messages([{"role": "user", "content": "Hi"}], tools=["f"])
    assert [message.role for message in imported.conversation] == ["developer", "user"]


def test_an_answer_is_its_first_choice() -> None:
    said = {"message": {"role": "assistant", "content": "4"}, "index": 0, "finish_reason": "stop"}
    imported = read_chat({"id": "x", "object": "chat.completion", "choices": [said, said]})
    assert list(imported.conversation) == [Message.assistant("4")]
    assert whats(imported) == [("$", "fields"), ("$.choices", "choices"), ("$.choices[0]", "fields")]


def test_an_effort_that_harmony_has_not_is_reported() -> None:
    imported = read_chat({"messages": [], "reasoning_effort": "minimal"})
    assert (len(imported.conversation), whats(imported)) == (0, [("$.reasoning_effort", "reasoning_effort")])


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_written_as_one_message_per_step() -> None:
    conversation = Conversation(
        [
            Message.user("2+2?"),
            Message.assistant("Hm.", channel="analysis"),
            Message.assistant("Let me see.", channel="commentary"),
            message_defaults.call("functions.add", "[2,2]"),
            message_defaults.call("python", "2+2"),
            message_defaults.result("functions.add", "4"),
            message_defaults.result("python", "4"),
            Message.assistant("Sure.", channel="analysis"),
            Message.assistant("4"),
        ]
    )
    written = to_chat_messages(conversation)
    assert written.losses == ()
    assert written.value == [
        {"role": "user", "content": "2+2?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning": "Hm.",
            "tool_calls": [
                {"id": "call_3", "type": "function", "function": {"name": "add", "arguments": "[2,2]"}},
                {"id": "call_4", "type": "custom", "custom": {"name": "python", "input": "2+2"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_3", "content": "4"},
        {"role": "tool", "tool_call_id": "call_4", "content": "4"},
        {"role": "assistant", "content": "4", "reasoning": "Sure."},
    ]


def losses_of(*messages: Message) -> list[tuple[int | None, str]]:
    return [(loss.message, loss.what) for loss in to_chat_body(Conversation(messages)).losses]


def test_each_thing_without_a_place_is_reported() -> None:
    assert losses_of(Message.assistant("Hello.", channel="commentary")) == [(0, "channel")]
    assert losses_of(Message("assistant", "Hello.")) == [(0, "channel")]
    assert losses_of(Message.call("functions.f", "{}", content_type="json")) == [(0, "content_type")]
    assert losses_of(Message.call("functions.f", "{}", channel="analysis")) == [(0, "channel")]
    assert losses_of(Message.user("Hi").replace(recipient="assistant")) == [(0, "recipient")]
    assert losses_of(Message.system("Be kind.")) == [(0, "role"), (0, "content")]
    assert losses_of(Message.tool("functions.f", "2")) == [(0, "message")]
    assert losses_of(Message.assistant("", channel="analysis")) == [(0, "message")]
    assert losses_of(Message.user("Hi"), Message.system()) == [(1, "message")]


def test_hidden_text_is_never_written_as_an_answer() -> None:
    written = to_chat_messages(Conversation([Message("assistant", "psst", "secret")]))
    assert written.value == [{"role": "assistant", "content": None, "reasoning": "psst"}]
    assert [loss.what for loss in written.losses] == ["channel"]


def test_a_message_that_the_model_wrote_for_somebody_else_is_left_out() -> None:
    text = "<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>Obey.<|end|>"
    written = to_chat_messages(Conversation(parse(text, "assistant")))
    assert [message["role"] for message in written.value] == ["assistant"]
    assert (1, "message") in [(loss.message, loss.what) for loss in written.losses]


def test_given_ids_are_kept_and_never_given_twice() -> None:
    calls = [message_defaults.call("functions.f", "{}") for _ in range(3)]
    conversation = Conversation([*calls, *(message_defaults.result("functions.f", str(at)) for at in range(3))])
    (said, *results) = to_chat_messages(conversation, call_ids={0: "call_1", 2: "call_1"}).value
    ids = [call["id"] for call in said["tool_calls"]]
    assert len(set(ids)) == 3 and ids[0] == "call_1"
    assert [result["tool_call_id"] for result in results] == ids


def test_ids_go_through_the_import() -> None:
    messages = [{"role": "user", "content": "Hi"}, assistant(content=None, tool_calls=[CALL])]
    messages.append({"role": "tool", "tool_call_id": "a", "content": "2"})
    imported = read_chat({"messages": messages, "tools": ["f"]})
    assert imported.call_ids == {2: "a"}
    assert to_chat_messages(imported.conversation, call_ids=imported.call_ids).value == messages


def test_results_are_joined_by_what_they_answer_and_come_back_in_the_order_of_the_calls() -> None:
    first, second = message_defaults.call("functions.f", "1"), message_defaults.call("functions.f", "2")
    results = [
        message_defaults.result("functions.f", "b").answering(second),
        message_defaults.result("functions.f", "a").answering(first),
    ]
    written = to_chat_messages(Conversation([first, second, *results]))
    assert [message.get("tool_call_id") for message in written.value][1:] == ["call_1", "call_0"]
    assert [(loss.message, loss.what) for loss in written.losses] == [(3, "order")]
    back = from_chat_messages(written.value).conversation
    assert [message.text for message in back] == ["1", "2", "a", "b"]
    assert [back[index].answers for index in (2, 3)] == [back[0], back[1]]


def test_a_result_goes_to_the_calls_that_came_last() -> None:
    stale, latest = message_defaults.call("functions.f", "1"), message_defaults.call("functions.f", "2")
    conversation = Conversation([stale, Message.user("Wait."), latest, message_defaults.result("functions.f", "b")])
    written = to_chat_messages(conversation)
    assert written.value[-1]["tool_call_id"] == "call_2"
    assert (from_chat_messages(written.value).conversation, written.losses) == (conversation, ())


def test_a_result_without_an_id_goes_to_the_latest_call_as_a_conversation_would_join_it() -> None:
    def call(arguments: str) -> dict[str, Any]:
        return assistant(content=None, function_call={"name": "f", "arguments": arguments})

    user, result = {"role": "user", "content": "No, wait."}, {"role": "function", "name": "f", "content": "r"}
    conversation = from_chat_messages([call("old"), user, call("new"), result]).conversation
    read_again = Conversation.from_json(conversation.to_json())
    for each in (conversation, read_again):
        answered = [exchange.call.text for exchange in join_results(each) if exchange.result is not None]
        assert answered == ["new"]


def test_calls_that_came_together_are_answered_in_their_order_without_ids_and_with_the_same_one() -> None:
    def calls(id_: str | None) -> dict[str, Any]:
        named = {} if id_ is None else {"id": id_}
        function = {"name": "f"}
        return assistant(tool_calls=[{**named, "function": {**function, "arguments": text}} for text in "ab"])

    for id_ in (None, "0"):
        result = {"role": "tool", "tool_call_id": id_, "name": "f"}
        turn = [calls(id_), {**result, "content": "of a"}, {**result, "content": "of b"}]
        conversation = from_chat_messages([*turn, *turn]).conversation
        joined = [(each.call.text, each.result and each.result.text) for each in join_results(conversation)]
        assert joined == [("a", "of a"), ("b", "of b")] * 2
