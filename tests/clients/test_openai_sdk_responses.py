"""OpenAI's Python SDK, unchanged, against `harmonia serve`: the Responses API."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import cast

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import (
    ParsedResponse,
    ParsedResponseOutputItem,
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseInputMessageItem,
    ResponseOutputItem,
    ResponseOutputItemDoneEvent,
    ResponseReasoningItem,
    ResponseTextDeltaEvent,
)

from tests.support.clients.sdk_questions import QUESTION, TOOL, WEATHER, Report
from tests.support.servers.server_processes import ServerProcess


def call_of(response: Response | ParsedResponse[None]) -> ResponseFunctionToolCall:
    (call,) = (item for item in response.output if isinstance(item, ResponseFunctionToolCall))
    return call


def as_input(item: ResponseOutputItem | ParsedResponseOutputItem[None]) -> ResponseInputItemParam:
    """As the SDK's guide does it: what came goes back as it is. Its types do not know that it may."""
    return cast("ResponseInputItemParam", item)


def output_of(call: ResponseFunctionToolCall) -> ResponseInputItemParam:
    return {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}


# ── create ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_answered(client: OpenAI) -> None:
    response = client.responses.create(model="demo", input="Hello!", instructions="Be brief.", metadata={"a": "b"})
    assert response.status == "completed"
    assert response.output_text.endswith("You said: Hello!")
    assert response.metadata == {"a": "b"}
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_reasoning_is_sealed(client: OpenAI) -> None:
    response = client.responses.create(model="demo", input="Hello!")
    reasoning = response.output[0]
    assert isinstance(reasoning, ResponseReasoningItem)
    assert reasoning.summary == [] and not reasoning.content
    assert reasoning.encrypted_content


def test_reasoning_that_is_shown_is_streamed_and_goes_back(open_client: OpenAI) -> None:
    with open_client.responses.stream(model="demo", input=QUESTION, tools=[TOOL]) as stream:
        deltas = [event.delta for event in stream if event.type == "response.reasoning_text.delta"]
        asked = stream.get_final_response()
    reasoning = asked.output[0]
    assert isinstance(reasoning, ResponseReasoningItem) and reasoning.content
    assert len(deltas) > 1 and "".join(deltas) == reasoning.content[0].text
    history: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    history += [as_input(item) for item in asked.output]
    history.append(output_of(call_of(asked)))
    answered = open_client.responses.create(model="demo", input=history, tools=[TOOL], store=False)
    assert WEATHER in answered.output_text


def test_what_is_streamed_is_what_is_kept(client: OpenAI) -> None:
    with client.responses.create(model="demo", input="Hello!", stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert isinstance(events[0], ResponseCreatedEvent) and isinstance(last, ResponseCompletedEvent)
    deltas = [event.delta for event in events if isinstance(event, ResponseTextDeltaEvent)]
    assert len(deltas) > 1 and "".join(deltas) == last.response.output_text
    done = [event.item for event in events if isinstance(event, ResponseOutputItemDoneEvent)]
    assert done == last.response.output
    assert client.responses.retrieve(last.response.id) == last.response


def test_the_stream_helper_accumulates_an_answer(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input="Hello!") as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots[-1] == final.output_text
    assert all(after.startswith(before) for before, after in pairwise(snapshots))


def test_the_stream_helper_accumulates_a_call(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input=QUESTION, tools=[TOOL]) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    (call,) = (item for item in final.output if item.type == "function_call")
    assert call.name == "get_weather"
    assert call.parsed_arguments == {"city": "Paris"}
    assert snapshots[-1] == call.arguments


def test_a_stream_left_early_ends_there(client: OpenAI) -> None:
    with client.responses.create(model="demo", input="/demo endless", stream=True) as stream:
        first = next(iter(stream))
        assert isinstance(first, ResponseCreatedEvent)
    while (left := client.responses.retrieve(first.response.id)).status == "in_progress":
        pass
    # Nobody cancelled it by name. Had it gone on, it would have filled its context.
    assert left.status == "cancelled"


def test_an_answer_is_parsed_into_a_model(client: OpenAI) -> None:
    response = client.responses.parse(model="demo", input="Report on Paris", text_format=Report)
    assert response.output_parsed is not None
    assert response.output_parsed == Report.model_validate_json(response.output_text)


def test_a_streamed_answer_is_parsed_into_a_model(client: OpenAI) -> None:
    with client.responses.stream(model="demo", input="Report on Paris", text_format=Report) as stream:
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Report)


def test_running_out_of_tokens_is_incomplete(client: OpenAI) -> None:
    response = client.responses.create(model="demo", input="/demo endless", max_output_tokens=40)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text


def test_an_engine_that_dies_fails_the_stream(client: OpenAI) -> None:
    with client.responses.create(model="demo", input="/demo engine-error", stream=True) as stream:
        *_, last = stream
    assert last.type == "response.failed"
    assert last.response.error is not None


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_and_its_output_go_on_from_the_stored_response(client: OpenAI) -> None:
    asked = client.responses.create(model="demo", input=QUESTION, tools=[TOOL])
    call = call_of(asked)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    answered = client.responses.create(
        model="demo", previous_response_id=asked.id, input=[output_of(call)], tools=[TOOL]
    )
    assert answered.previous_response_id == asked.id
    assert WEATHER in answered.output_text


def test_the_same_without_a_store_comes_to_the_same_prompt(client: OpenAI) -> None:
    kept = client.responses.create(model="demo", input=QUESTION, tools=[TOOL])
    from_store = client.responses.create(
        model="demo", previous_response_id=kept.id, input=[output_of(call_of(kept))], tools=[TOOL]
    )

    history: list[ResponseInputItemParam] = [{"role": "user", "content": QUESTION}]
    asked = client.responses.create(
        model="demo", input=history, tools=[TOOL], store=False, include=["reasoning.encrypted_content"]
    )
    history += [as_input(item) for item in asked.output]
    history.append(output_of(call_of(asked)))
    answered = client.responses.create(model="demo", input=history, tools=[TOOL], store=False)
    assert WEATHER in answered.output_text
    assert answered.usage is not None and from_store.usage is not None
    assert answered.usage.input_tokens == from_store.usage.input_tokens
    # The same without the reasoning is another, shorter prompt: the reasoning was there.
    without = [item for item in history if not isinstance(item, ResponseReasoningItem)]
    count = client.responses.input_tokens.count(model="demo", input=without, tools=[TOOL])
    assert count.input_tokens < answered.usage.input_tokens
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answered.id)


def test_a_custom_tool_gets_text(client: OpenAI) -> None:
    response = client.responses.create(
        model="demo", input="use write_note for the shopping", tools=[{"type": "custom", "name": "write_note"}]
    )
    (call,) = (item for item in response.output if item.type == "custom_tool_call")
    assert call.name == "write_note"
    assert call.input
    answered = client.responses.create(
        model="demo",
        previous_response_id=response.id,
        input=[{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "written down"}],
        tools=[{"type": "custom", "name": "write_note"}],
    )
    assert "written down" in answered.output_text


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_response_is_retrieved_and_deleted(client: OpenAI) -> None:
    made = client.responses.create(model="demo", input="Hello!")
    assert client.responses.retrieve(made.id) == made
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(made.id)


def test_a_running_response_is_cancelled(client: OpenAI) -> None:
    with client.responses.create(model="demo", input="/demo endless", stream=True) as stream:
        events = iter(stream)
        created = next(events)
        assert isinstance(created, ResponseCreatedEvent)
        while not isinstance(next(events), ResponseTextDeltaEvent):
            pass
        cancelled = client.responses.cancel(created.response.id)
        assert cancelled.status == "cancelled"
        assert cancelled.output_text
        *_, last = events
    assert last.type == "response.incomplete" and last.response.status == "cancelled"
    assert client.responses.retrieve(created.response.id) == cancelled


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_input_items_come_in_pages(client: OpenAI, order: str) -> None:
    texts = [f"message {number}" for number in range(5)]
    made = client.responses.create(model="demo", input=[{"role": "user", "content": text} for text in texts])
    page = client.responses.input_items.list(made.id, limit=2, order="asc" if order == "asc" else "desc")
    assert len(page.data) == 2 and page.has_next_page()
    found: list[str] = []
    for item in page:
        assert isinstance(item, ResponseInputMessageItem)
        (part,) = item.content
        assert part.type == "input_text"
        found.append(part.text)
    assert found == (texts if order == "asc" else texts[::-1])


def test_tokens_are_counted_as_they_are_used(client: OpenAI) -> None:
    counted = client.responses.input_tokens.count(model="demo", input=QUESTION, tools=[TOOL])
    asked = client.responses.create(model="demo", input=QUESTION, tools=[TOOL])
    assert asked.usage is not None
    assert counted.input_tokens == asked.usage.input_tokens


# ── errors, headers, keys ───────────────────────────────────────────────────────────────────────────────────────────


def test_errors_are_of_the_classes_that_people_catch(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as wrong:
        client.responses.create(model="demo", input="Hello!", temperature=9)
    assert wrong.value.param == "temperature"
    assert wrong.value.request_id is not None
    with pytest.raises(openai.BadRequestError) as unknown:
        client.responses.create(model="demo", input="Hello!", extra_body={"temprature": 1})
    assert unknown.value.param == "temprature"
    with pytest.raises(openai.NotFoundError) as no_model:
        client.responses.create(model="gpt-2", input="Hello!")
    assert no_model.value.code == "model_not_found"
    with pytest.raises(openai.APIStatusError) as no_previous:
        client.responses.create(model="demo", input="Hello!", previous_response_id="resp_none")
    assert no_previous.value.param == "previous_response_id"


def test_an_error_of_a_stream_is_known_before_it_begins(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="demo", input="Hello!", temperature=9, stream=True)


def test_raw_responses_have_their_headers(client: OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model="demo", input="Hello!")
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.request_id == raw.headers["x-request-id"] != ""
    assert raw.parse().output_text.endswith("Hello!")
    with client.responses.with_streaming_response.create(model="demo", input="Hello!", stream=True) as streamed:
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert [event.type for event in streamed.parse()][-1] == "response.completed"


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-2")


def test_a_server_with_keys_knows_whose_is_what(guarded: ServerProcess, keys: tuple[Path, dict[str, str]]) -> None:
    with (
        OpenAI(base_url=guarded.base_url, api_key="not-a-key-of-this-server", max_retries=0) as stranger,
        OpenAI(base_url=guarded.base_url, api_key=keys[1]["alice"], max_retries=0) as alice,
        OpenAI(base_url=guarded.base_url, api_key=keys[1]["bob"], max_retries=0) as bob,
    ):
        with pytest.raises(openai.AuthenticationError):
            stranger.responses.create(model="demo", input="Hello!")
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        made = alice.responses.create(model="demo", input="Hello!")
        assert alice.responses.retrieve(made.id) == made
        with pytest.raises(openai.NotFoundError):
            bob.responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError):  # sealed for another
            bob.responses.create(model="demo", input=[as_input(made.output[0])])
    assert not any(key in line for line in guarded.said for key in keys[1].values())


# ── the asynchronous client ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_asynchronous_client_does_the_same(server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            whole, streamed, parsed = await asyncio.gather(
                client.responses.create(model="demo", input="Hello!"),
                _streamed(client),
                client.responses.parse(model="demo", input="Report on Paris", text_format=Report),
            )
            assert whole.output_text == streamed.output_text
            assert isinstance(parsed.output_parsed, Report)
            items = [item async for item in client.responses.input_items.list(whole.id, limit=1)]
            assert len(items) == 1

    asyncio.run(main())


def test_many_streams_at_once_do_not_mix(server: ServerProcess) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            responses = await asyncio.gather(*(_streamed(client, f"This is number {each}.") for each in range(30)))
        for each, response in enumerate(responses):
            assert response.output_text.endswith(f"You said: This is number {each}.")

    asyncio.run(main())


async def _streamed(client: AsyncOpenAI, text: str = "Hello!") -> Response:
    async with client.responses.stream(model="demo", input=text) as stream:
        return await stream.get_final_response()
