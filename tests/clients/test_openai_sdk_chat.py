"""OpenAI's Python SDK, unchanged, against `harmonia serve`: Chat Completions."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import (
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)

from tests.support.clients.sdk_questions import CHAT_TOOL, QUESTION, WEATHER, Report
from tests.support.servers.server_processes import ServerProcess

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello!"}]
ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]


def call_of(message: ChatCompletionMessage) -> ChatCompletionMessageFunctionToolCall:
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function"
    return call


def test_a_question_is_answered(client: OpenAI) -> None:
    completion = client.chat.completions.create(
        model="demo", messages=[{"role": "developer", "content": "Be brief."}, *HELLO]
    )
    (choice,) = completion.choices
    assert choice.finish_reason == "stop"
    assert (choice.message.content or "").endswith("You said: Hello!")
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


def test_reasoning_is_there_only_where_it_is_shown(client: OpenAI, open_client: OpenAI) -> None:
    def fields(asked: OpenAI) -> dict[str, object]:
        return asked.chat.completions.create(model="demo", messages=HELLO).choices[0].message.to_dict()

    shown, hidden = fields(open_client), fields(client)
    assert shown["reasoning"] and shown["reasoning_content"] == shown["reasoning"]
    assert "reasoning" not in hidden and "reasoning_content" not in hidden
    with open_client.chat.completions.create(model="demo", messages=HELLO, stream=True) as stream:
        deltas = [choice.delta.to_dict() for chunk in stream for choice in chunk.choices]
    assert "".join(str(delta.get("reasoning_content", "")) for delta in deltas) == shown["reasoning"]


def test_several_answers_come_at_once(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="demo", messages=HELLO, n=3)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]


def test_chunks_come_to_the_same_answer(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="demo", messages=HELLO, seed=7)
    stream = client.chat.completions.create(
        model="demo", messages=HELLO, seed=7, stream=True, stream_options={"include_usage": True}
    )
    with stream:
        chunks = list(stream)
    texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert len([text for text in texts if text]) > 1
    assert "".join(texts) == whole.choices[0].message.content
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]
    assert len({chunk.id for chunk in chunks}) == 1
    last = chunks[-1]
    assert last.choices == [] and last.usage is not None and whole.usage is not None
    assert last.usage.completion_tokens == whole.usage.completion_tokens


def test_the_stream_helper_accumulates_an_answer_and_a_call(client: OpenAI) -> None:
    with client.chat.completions.stream(model="demo", messages=HELLO) as stream:
        events = list(stream)
        answered = stream.get_final_completion()
    assert [event.content for event in events if event.type == "content.done"] == [answered.choices[0].message.content]
    with client.chat.completions.stream(model="demo", messages=ASKED, tools=[CHAT_TOOL]) as stream:
        events = list(stream)
        asked = stream.get_final_completion()
    (done,) = (event for event in events if event.type == "tool_calls.function.arguments.done")
    assert done.name == "get_weather"
    assert done.parsed_arguments == {"city": "Paris"}
    assert asked.choices[0].finish_reason == "tool_calls"


def test_a_call_its_output_and_the_answer(client: OpenAI) -> None:
    asked = client.chat.completions.create(model="demo", messages=ASKED, tools=[CHAT_TOOL])
    (choice,) = asked.choices
    assert choice.finish_reason == "tool_calls"
    call = call_of(choice.message)
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    messages: list[ChatCompletionMessageParam] = [
        *ASKED,
        cast("ChatCompletionMessageParam", choice.message),  # as the SDK's guide does it; its types do not know
        {"role": "tool", "tool_call_id": call.id, "content": WEATHER},
    ]
    answered = client.chat.completions.create(model="demo", messages=messages, tools=[CHAT_TOOL])
    assert WEATHER in (answered.choices[0].message.content or "")


@pytest.mark.parametrize("choice", ["none", "required"])
def test_a_choice_of_tools_is_kept(client: OpenAI, choice: str) -> None:
    asked = client.chat.completions.create(
        model="demo",
        messages=HELLO if choice == "required" else ASKED,
        tools=[CHAT_TOOL],
        tool_choice="required" if choice == "required" else "none",
    )
    assert bool(asked.choices[0].message.tool_calls) == (choice == "required")


def test_an_answer_is_parsed_into_a_model(client: OpenAI) -> None:
    completion = client.chat.completions.parse(model="demo", messages=ASKED, response_format=Report)
    message = completion.choices[0].message
    assert message.parsed == Report.model_validate_json(message.content or "")
    with client.chat.completions.stream(model="demo", messages=ASKED, response_format=Report) as stream:
        streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == message.parsed


def test_log_probabilities_are_one_for_each_token(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="demo", messages=HELLO, logprobs=True, top_logprobs=1)
    (choice,) = completion.choices
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert "".join(each.token for each in choice.logprobs.content) == choice.message.content


def test_running_out_of_tokens_is_length(client: OpenAI) -> None:
    endless: list[ChatCompletionMessageParam] = [{"role": "user", "content": "/demo endless"}]
    completion = client.chat.completions.create(model="demo", messages=endless, max_completion_tokens=40)
    assert completion.choices[0].finish_reason == "length"
    # The helper for parsing takes this for what it is, too.
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="demo", messages=endless, max_completion_tokens=40, response_format=Report)


def test_an_engine_that_dies_is_an_error(client: OpenAI) -> None:
    died: list[ChatCompletionMessageParam] = [{"role": "user", "content": "/demo engine-error"}]
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="demo", messages=died)
    # Within a stream the SDK raises what it finds in the last event.
    with (
        client.chat.completions.create(model="demo", messages=died, stream=True) as stream,
        pytest.raises(openai.APIError),
    ):
        list(stream)


def test_errors_are_of_the_classes_that_people_catch(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="demo", messages=HELLO, temperature=9)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="demo", messages=[])
    with pytest.raises(openai.NotFoundError) as no_model:
        client.chat.completions.create(model="gpt-2", messages=HELLO)
    assert no_model.value.code == "model_not_found"


def test_a_server_with_keys_lets_no_stranger_in(guarded: ServerProcess) -> None:
    with (
        OpenAI(base_url=guarded.base_url, api_key="not-a-key-of-this-server", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.chat.completions.create(model="demo", messages=HELLO)


def test_raw_responses_have_their_headers(client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="demo", messages=HELLO)
    assert raw.headers["x-request-id"]
    assert (raw.parse().choices[0].message.content or "").endswith("Hello!")


def test_the_asynchronous_client_does_the_same(server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(model="demo", messages=HELLO, seed=7)
            async with client.chat.completions.stream(model="demo", messages=HELLO, seed=7) as stream:
                streamed = await stream.get_final_completion()
            assert streamed.choices[0].message.content == whole.choices[0].message.content
            parsed = await client.chat.completions.parse(model="demo", messages=ASKED, response_format=Report)
            assert isinstance(parsed.choices[0].message.parsed, Report)

    asyncio.run(main())
