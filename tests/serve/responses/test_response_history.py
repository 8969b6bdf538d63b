"""What a response begins with: what came before, from the store or from the client, as the tokens it was sampled as."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode, encode
from harmonia.errors import ErrorCode, InputError, StoreError
from harmonia.serve.security.keys import Caller
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, create, served, stream, swap, text_of

CALL = calls("get_weather", '{"city": "Paris"}')
ALICE, BOB = Caller(owner="alice"), Caller(owner="bob")


def contains(prompt: list[int], tokens: list[int]) -> bool:
    return any(prompt[at : at + len(tokens)] == tokens for at in range(len(prompt)))


def output_of(call: dict[str, Any], text: str = "21 degrees") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>",
        " to=functions.get_weather<|channel|>commentary json<|message|>",
        "<|channel|>analysis to=functions.get_weather code<|message|>",
    ],
)
def test_what_was_sampled_comes_back_from_the_store_token_by_token(tmp_path: Path, header: str) -> None:
    async def run() -> None:
        # The arguments in tokens that no encoder would choose.
        arguments = [*encode('{"ci'), *encode('ty": "Par'), *encode('is"}')]
        assert arguments != encode('{"city": "Paris"}')
        sampled = [*say(think("Some thought.") + header), *arguments, *say("<|call|>")]
        engine = ScriptedEngine([sampled], final("It is warm."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Weather in Paris?", tools=[WEATHER])
            call = first["output"][-1]
            assert call["arguments"] == '{"city": "Paris"}'
            second = await create(service, previous_response_id=first["id"], input=[output_of(call)], tools=[WEATHER])
            assert text_of(second) == "It is warm."
            assert contains(engine.prompts[1], sampled)
            # The whole of the first prompt is the beginning of the second, so that an engine need not read it again.
            assert engine.prompts[1][: len(engine.prompts[0])] == engine.prompts[0]

    asyncio.run(run())


@pytest.mark.parametrize("include", [[], ["harmonia.encrypted_content"]])
def test_a_client_that_keeps_everything_itself_gets_the_same_prompt(tmp_path: Path, include: list[str]) -> None:
    async def run() -> None:
        stored, stateless = (ScriptedEngine(think("Some thought.") + CALL, final("It is warm.")) for _ in range(2))
        question = {"role": "user", "content": "Weather in Paris?"}
        async with served(stored, tmp_path) as service:
            first = await create(service, input=[question], tools=[WEATHER])
            body = [output_of(first["output"][-1])]
            await create(service, previous_response_id=first["id"], input=body, tools=[WEATHER])
            swap(service, model=stateless)
            first = await create(service, input=[question], tools=[WEATHER], store=False, include=include)
            items = [question, *first["output"], output_of(first["output"][-1])]
            await create(service, input=items, tools=[WEATHER], store=False)
        assert stateless.prompts == stored.prompts

    asyncio.run(run())


def test_sealed_items_keep_even_odd_tokens_and_an_edited_one_is_what_it_says(tmp_path: Path) -> None:
    async def run() -> None:
        odd = " to=functions.get_weather<|channel|>commentary json<|message|>{}<|call|>"
        async with served(ScriptedEngine(odd), tmp_path) as service:
            first = await create(
                service, input="Hi", tools=[WEATHER], include=["harmonia.encrypted_content"], store=False
            )
            call = first["output"][0]
            edited: dict[str, Any] = {"arguments": '{"city":"Rome"}', "encrypted_content": None}
            for change, is_as_sampled in (({}, True), (edited, False)):
                engine = ScriptedEngine(final("ok"))
                swap(service, model=engine)
                items = [{"role": "user", "content": "Hi"}, {**call, **change}, output_of(call)]
                await create(service, input=items, tools=[WEATHER], store=False)
                assert contains(engine.prompts[0], say(odd)) is is_as_sampled
                assert ('"city":"Rome"' in decode(engine.prompts[0])) is not is_as_sampled

    asyncio.run(run())


def test_reasoning_of_an_ended_turn_is_not_in_the_next_prompt(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("Old thought.") + final("Hello."), final("Again."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi")
            await create(service, previous_response_id=first["id"], input="And now?")
        text = decode(engine.prompts[1])
        assert "Old thought." not in text
        assert text.index("Hello.") < text.index("And now?")

    asyncio.run(run())


def test_instructions_are_those_of_the_request_alone(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("One."), final("Two."))
        async with served(engine, tmp_path) as service:
            items = [{"role": "system", "content": "Second rule."}, {"role": "user", "content": "Hi"}]
            first = await create(service, instructions="First rule.", input=items)
            await create(service, previous_response_id=first["id"], instructions="Third rule.", input="And now?")
        assert "<|start|>developer<|message|># Instructions\n\nFirst rule.\n\nSecond rule.<|end|>" in decode(
            engine.prompts[0]
        )
        second = decode(engine.prompts[1])
        assert "First rule." not in second
        assert "Third rule.\n\nSecond rule.<|end|>" in second

    asyncio.run(run())


def test_nobody_continues_reads_or_deletes_what_belongs_to_another(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(think("mine") + CALL), tmp_path) as service:
            first = await create(service, ALICE, input="Hi", tools=[WEATHER])
            for attempt in (
                create(service, BOB, previous_response_id=first["id"], input="x"),
                service.responses.retrieve(first["id"], BOB),
                service.responses.delete(first["id"], BOB),
                service.responses.cancel(first["id"], BOB),
                service.responses.input_items(first["id"], BOB),
                create(service, BOB, input=[{"type": "item_reference", "id": first["output"][0]["id"]}]),
            ):
                with pytest.raises(InputError) as caught:
                    await attempt
                assert caught.value.code in (ErrorCode.SERVE_NOT_FOUND, ErrorCode.SERVE_PREVIOUS_NOT_FOUND)
            with pytest.raises(InputError) as caught:
                await create(service, BOB, input=[first["output"][0]], store=False)
            assert caught.value.code is ErrorCode.SERVE_BAD_SEAL
            assert caught.value.at.path == "$.input[0].encrypted_content"
            assert json.loads(await service.responses.retrieve(first["id"], ALICE)) == first

    asyncio.run(run())


def test_a_reference_stands_for_the_stored_item(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("Some thought.") + CALL, final("Warm."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[WEATHER])
            references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
            items = [{"role": "user", "content": "Hi"}, *references, output_of(first["output"][-1])]
            second = await create(service, input=items, tools=[WEATHER])
            assert contains(engine.prompts[1], engine.sampled[0])
            kept = json.loads(await service.responses.input_items(second["id"], Caller(), {"order": "asc"}))
            assert kept["data"][1] == first["output"][0]
            third = await create(service, previous_response_id=second["id"], input="And?", tools=[WEATHER])
            assert third["status"] == "completed"

    asyncio.run(run())


def test_a_deleted_response_cannot_be_continued_nor_can_those_behind_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("One.")), tmp_path) as service:
            first = await create(service, input="Hi")
            second = await create(service, previous_response_id=first["id"], input="Hi again")
            await service.responses.delete(first["id"], Caller())
            for id_ in (first["id"], second["id"]):
                with pytest.raises(InputError) as caught:
                    await create(service, previous_response_id=id_, input="x")
                assert caught.value.code is ErrorCode.SERVE_PREVIOUS_NOT_FOUND
                assert caught.value.at.path == "$.previous_response_id"

    asyncio.run(run())


def test_what_is_not_stored_cannot_be_continued(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("One.")), tmp_path) as service:
            first = await create(service, input="Hi", store=False)
            with pytest.raises(InputError) as caught:
                await create(service, previous_response_id=first["id"], input="x")
            assert caught.value.code is ErrorCode.SERVE_PREVIOUS_NOT_FOUND
            with pytest.raises(InputError):
                await service.responses.retrieve(first["id"], Caller())

    asyncio.run(run())


def test_an_unknown_call_id_is_the_clients_fault(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("One.")), tmp_path) as service:
            with pytest.raises(InputError) as caught:
                await create(service, input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}])
            assert caught.value.code is ErrorCode.INTERCHANGE_UNKNOWN_CALL
            assert caught.value.at.path == "$.input[0].call_id"

    asyncio.run(run())


def test_the_store_has_what_the_client_was_told_and_ids_are_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(think("x") + CALL), tmp_path) as service:
            events = await stream(service, input="Hi", tools=[WEATHER])
            final_response = events[-1]["response"]
            stored = json.loads(await service.responses.retrieve(final_response["id"], Caller()))
            assert stored == final_response
            assert {event["response"]["id"] for event in events if "response" in event} == {stored["id"]}

    asyncio.run(run())


def test_a_client_that_leaves_cancels_and_what_came_is_kept(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine([think("x") + "<|channel|>final<|message|>Half of it", asyncio.Event()])
        async with served(engine, tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            events = started.events()
            async for event in events:
                if event.type == "response.output_text.delta":
                    break
            await events.aclose()
            assert engine.running == 0
            stored = json.loads(await service.responses.retrieve(started.id, Caller()))
            assert stored["status"] == "cancelled"
            assert [item["type"] for item in stored["output"]] == ["reasoning", "message"]
            assert stored["output"][1]["status"] == "incomplete"

    asyncio.run(run())


def test_cancel_ends_the_stream_with_one_terminal_event(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(["<|channel|>final<|message|>Half of it", asyncio.Event()])
        async with served(engine, tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            kinds: list[str | None] = []
            cancelled = None
            async for event in started.events():
                kinds.append(event.type)
                if event.type == "response.output_text.delta" and cancelled is None:
                    cancelled = asyncio.create_task(service.responses.cancel(started.id, Caller()))
            assert cancelled is not None
            response = json.loads(await cancelled)
            assert kinds[-1] == "response.incomplete"
            assert response["status"] == "cancelled"
            assert text_of(response).startswith("Half")
            again = json.loads(await service.responses.cancel(started.id, Caller()))
            assert again == response

    asyncio.run(run())


def test_input_items_come_in_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("One.")), tmp_path) as service:
            items = [{"role": "user", "content": str(number)} for number in range(5)]
            response = await create(service, input=items)
            first = json.loads(
                await service.responses.input_items(response["id"], Caller(), {"limit": "2", "order": "asc"})
            )
            assert [item["content"][0]["text"] for item in first["data"]] == ["0", "1"]
            assert first["has_more"] is True
            query = {"limit": "10", "order": "asc", "after": first["last_id"]}
            rest = json.loads(await service.responses.input_items(response["id"], Caller(), query))
            assert [item["content"][0]["text"] for item in rest["data"]] == ["2", "3", "4"]
            assert rest["has_more"] is False
            for query, path in (({"limit": "0"}, "$.limit"), ({"order": "up"}, "$.order"), ({"x": "1"}, "$.x")):
                with pytest.raises(InputError) as caught:
                    await service.responses.input_items(response["id"], Caller(), query)
                assert caught.value.at.path == path

    asyncio.run(run())


def test_the_tokens_of_an_input_are_those_of_its_prompt(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("One."))
        async with served(engine, tmp_path) as service:
            body: dict[str, Any] = {"input": "Hi", "instructions": "Be kind.", "tools": [WEATHER]}
            counted = json.loads(await service.responses.input_tokens(body, Caller()))
            await create(service, **body)
            assert counted == {"object": "response.input_tokens", "input_tokens": len(engine.prompts[0])}

    asyncio.run(run())


class SlowToBegin:
    """A store whose first write waits until it is let go, or fails."""

    def __init__(self, store: Any, error: StoreError | None = None) -> None:
        self.may_begin = asyncio.Event()
        self._store = store
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, *arguments: Any) -> None:
        await self.may_begin.wait()
        if self._error is not None:
            raise self._error
        await self._store.begin(*arguments)


def test_a_stream_has_begun_before_the_disk_knows_and_no_item_is_told_until_then(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(think("x") + final("Done.")), tmp_path) as service:
            store = SlowToBegin(service.store)
            swap(service, store=store)
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            events = started.events()
            told: list[str | None] = []
            while "response.output_item.added" not in told:
                told.append((await anext(events)).type)
            retrieved = asyncio.create_task(service.responses.retrieve(started.id, Caller()))
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            assert not waiting.done()
            store.may_begin.set()
            assert (await waiting).type == "response.output_item.done"
            assert json.loads(await retrieved)["id"] == started.id
            rest = [event.type async for event in events]
            assert rest[-1] == "response.completed"

    asyncio.run(run())


def test_a_stream_whose_beginning_cannot_be_stored_fails_with_one_terminal_event(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(think("x") + final("Done.")), tmp_path) as service:
            full = StoreError(ErrorCode.STORE_UNAVAILABLE, "the disk is full")
            store = SlowToBegin(service.store, full)
            swap(service, store=store)
            store.may_begin.set()
            events = await stream(service, input="Hi")
            assert [event["type"] for event in events if event["type"].split(".")[-1] in ("failed", "completed")] == [
                "response.failed"
            ]
            assert events[-1]["response"]["harmonia_reason"] == "store_unavailable"
            with pytest.raises(StoreError):
                await create(service, input="Hi")

    asyncio.run(run())
