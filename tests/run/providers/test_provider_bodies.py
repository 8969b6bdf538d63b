"""What is sent to a provider, and what is noted because it has no place there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import (
    Conversation,
    Message,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.run.engines import Finish, Request, Sampling
from harmonia.run.engines.http import api_address
from harmonia.run.providers import ChatCompletionsProvider, ResponsesProvider
from harmonia.run.providers.bodies import Body, ToolNames, chat_body, responses_body
from tests.support.engines.provider_streams import chat_answer
from tests.support.servers.wire_servers import SHORT, Asked, Wire, serving

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (
    ToolNamespace("functions", tools=(ToolDescription("get_weather", "The weather.", SCHEMA),)),
    ToolNamespace("web", tools=(ToolDescription("search", None, SCHEMA),)),
)
HI = Conversation([Message.user("Hi")])
ASKING = Conversation([Message.developer(namespaces=TOOLS), *HI])


def both(request: Request, conversation: Conversation = HI, **extra: Any) -> tuple[Body, Body]:
    return chat_body(conversation, request, "m", extra), responses_body(conversation, request, "m", extra)


def test_the_plainest_question_is_plain() -> None:
    chat, responses = both(Request())
    assert chat.value == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert responses.value == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "stream": True,
        "store": False,
    }
    assert chat.notes == responses.notes == ()


def test_that_one_call_is_wanted_is_said_to_those_who_have_tools() -> None:
    for body in both(Request(parallel_calls=False), ASKING):
        assert body.value["parallel_tool_calls"] is False
    for body in (*both(Request(), ASKING), *both(Request(parallel_calls=False))):
        assert "parallel_tool_calls" not in body.value


def test_sampling_is_sent_under_the_names_of_the_api_and_what_it_has_not_is_noted() -> None:
    sampling = Sampling(max_tokens=5, temperature=0.5, top_p=0.9, seed=3, top_k=7, logprobs=2)
    chat, responses = both(Request(sampling))
    assert {name: chat.value[name] for name in ("max_tokens", "temperature", "top_p", "seed")} == {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
    }
    assert (responses.value["max_output_tokens"], responses.value["temperature"]) == (5, 0.5)
    assert [note.split(" has no ")[1].split(";")[0] for note in chat.notes] == ["top_k", "logprobs"]
    assert [note.split(" has no ")[1].split(";")[0] for note in responses.notes] == ["top_k", "seed", "logprobs"]


def test_extra_is_sent_takes_things_out_and_needs_no_note() -> None:
    for body in both(Request(Sampling(top_k=7)), top_k=7, stream=None):
        assert body.value["top_k"] == 7
        assert "stream" not in body.value
        assert body.notes == ()


def test_tools_lose_their_namespace_and_get_a_legal_name() -> None:
    chat, responses = both(Request(), ASKING)
    assert [tool["function"]["name"] for tool in chat.value["tools"]] == ["get_weather", "web_search"]
    assert [(tool["type"], tool["name"]) for tool in responses.value["tools"]] == [
        ("function", "get_weather"),
        ("function", "web_search"),
    ]
    for body in (chat, responses):
        assert body.notes == ("web.search is called web_search at the provider",)
        assert body.value["tool_choice"] == "auto"
        assert body.names.recipient_of("web_search") == "web.search"
        assert body.names.recipient_of("get_weather") == "functions.get_weather"


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_is_sent_as_it_is(choice: str) -> None:
    assert [body.value["tool_choice"] for body in both(Request(tool_choice=choice), ASKING)] == [choice, choice]


@pytest.mark.parametrize("choice", ["functions.get_weather", "get_weather"])
def test_a_tool_that_must_be_called_is_named(choice: str) -> None:
    chat, responses = both(Request(tool_choice=choice), ASKING)
    assert chat.value["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert responses.value["tool_choice"] == {"type": "function", "name": "get_weather"}


def test_a_tool_that_is_not_there_cannot_be_demanded() -> None:
    for conversation in (HI, ASKING):
        for make in (chat_body, responses_body):
            with pytest.raises(InputError) as refused:
                make(conversation, Request(tool_choice="functions.other"), "m", {})
            assert refused.value.code is ErrorCode.RUN_INVALID_OPTION


def test_calls_in_the_history_have_the_names_that_the_tools_have() -> None:
    history = ASKING.add(Message.call("web.search", "{}"), Message.tool("web.search", "nothing"))
    chat, responses = both(Request(), history)
    call, result = chat.value["messages"][1:]
    assert call["tool_calls"][0]["function"]["name"] == "web_search"
    assert result["tool_call_id"] == call["tool_calls"][0]["id"] == "call_2"
    item, output = responses.value["input"][1:]
    assert (item["name"], item["call_id"], output["call_id"]) == ("web_search", "call_2", "call_2")


@pytest.mark.parametrize(("schema", "sent"), [(SCHEMA, SCHEMA), (True, {}), (False, {"not": {}})])
def test_a_response_format_is_a_json_schema_with_a_legal_name(schema: Any, sent: Any) -> None:
    chat, responses = both(Request(response_format=ResponseFormat("my answer!", schema, "It.")))
    form = {"name": "my_answer_", "schema": sent, "description": "It."}
    assert chat.value["response_format"] == {"type": "json_schema", "json_schema": form}
    assert responses.value["text"] == {"format": {"type": "json_schema", **form}}


def test_the_effort_of_the_request_wins_over_that_of_the_conversation() -> None:
    system = Message.system(SystemContent(reasoning_effort=ReasoningEffort.LOW))
    conversation = Conversation([system, *HI])
    for request, effort in ((Request(), "low"), (Request(reasoning_effort=ReasoningEffort.HIGH), "high")):
        chat, responses = both(request, conversation)
        assert chat.value["reasoning_effort"] == effort
        assert responses.value["reasoning"] == {"effort": effort}


def test_what_a_conversation_declares_is_sent_where_the_request_has_nothing() -> None:
    form = ResponseFormat("city", SCHEMA)
    conversation = Conversation([Message.developer("Be kind.", namespaces=TOOLS, response_formats=[form]), *HI])
    chat, responses = both(Request(), conversation)
    assert len(chat.value["tools"]) == len(responses.value["tools"]) == 2
    assert "response_format" in chat.value and "text" in responses.value
    assert chat.value["messages"][0] == {"role": "developer", "content": "Be kind."}
    as_system = chat_body(conversation, Request(), "m", {}, developer_role="system")
    assert as_system.value["messages"][0] == {"role": "system", "content": "Be kind."}


def test_what_cannot_be_sent_is_noted() -> None:
    system = Message.system(SystemContent(model_identity="You are a parrot."))
    for body in both(Request(), Conversation([system, *HI])):
        assert any("model_identity" in note or "parrot" in note or "system" in note for note in body.notes)


@given(st.lists(st.from_regex(r"[a-z]{1,3}\.[\w.é-]{1,70}", fullmatch=True), max_size=8))
def test_two_tools_never_have_one_name(recipients: list[str]) -> None:
    names = ToolNames(recipients)
    wires = {recipient: names.wire_of(recipient) for recipient in recipients}
    assert len(set(wires.values())) == len(wires)
    for recipient, wire in wires.items():
        assert names.recipient_of(wire) == recipient
        assert len(wire) <= 64 and wire.isascii()


def test_a_name_that_was_never_given_out_is_a_function() -> None:
    assert ToolNames().recipient_of("made_up") == "functions.made_up"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://host:8000", "http://host:8000/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("https://host/api/v1/", "https://host/api/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1/responses", "https://host/v1"),
        ("https://host/openai/models", "https://host/openai"),
    ],
)
def test_an_address_may_be_given_in_several_forms(given: str, address: str) -> None:
    assert api_address(given) == address


@pytest.mark.parametrize("kind", [ChatCompletionsProvider, ResponsesProvider])
def test_a_key_goes_into_a_header_and_is_seen_nowhere_else(
    kind: type[ChatCompletionsProvider] | type[ResponsesProvider],
) -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        assert asked.headers["authorization"] == "Bearer sk-secret"
        assert asked.headers["x-title"] == "test"
        await wire.answer(
            200, chat_answer(content="Hi") if kind is ChatCompletionsProvider else {"output": [], "status": "completed"}
        )

    async def run() -> Finish:
        async with serving(handle) as served:
            provider = kind(served.url, "m", api_key="sk-secret", headers={"x-title": "test"}, patience=SHORT)
            assert "secret" not in repr(provider)
            assert (provider.model, provider.server.url) == ("m", f"{served.url}/v1")
            events = [event async for event in provider.respond(HI, Request())]
            await provider.close()
            await provider.close()
            assert isinstance(events[-1], Finish)
            return events[-1]

    assert asyncio.run(run()).reason == "stop"
