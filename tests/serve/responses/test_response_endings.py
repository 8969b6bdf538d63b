"""However a response ends: what the stream says, what the store has, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harmonia.errors import ErrorCode, StoreError
from harmonia.run.engines import Chunk, Finish, Request
from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import Approval, ServerTool
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.served import WEATHER, create, decode, fold, served, swap

FREE = calls("disk___free", "{}")
FREE_AND_WEATHER = FREE + "<|start|>assistant" + calls("get_weather", "{}")
HALF = "<|channel|>final<|message|>Half of it"
SCRIPTS: dict[str, list[Any]] = {
    "answer": [think("x") + final("Hello there")],
    "call": [think("x") + calls("get_weather", '{"city":"Rome"}')],
    "tools of both sides": [think("x") + FREE_AND_WEATHER],
    "tool and answer": [think("x") + FREE, final("4 kB.")],
    "no call": [calls("nobody", "{}"), final("Well.")],
    "cut": [[think("x") + HALF, Finish("length")]],
    "bug": [[think("x") + HALF, RuntimeError("x")]],
}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def disk(invoke: Callable[[Any], Any] = lambda _: "4 kB free", approval: Approval = "run") -> ServerTool:
    tool = Tool("disk___free", "Free space.", {"type": "object", "properties": {}}, invoke)
    return ServerTool("disk", "free", tool, approval)


class WatchedStore:
    """A store that calls `before` with the number of each write."""

    def __init__(self, store: Any, before: Callable[[int], Awaitable[None]]) -> None:
        self._store = store
        self._before = before
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("begin", "add_output", "finish"):
            return method

        async def write(*given: Any) -> None:
            self.writes += 1
            await self._before(self.writes)
            await method(*given)

        return write


def watch(service: Service, before: Callable[[int], Awaitable[None]]) -> WatchedStore:
    watched = WatchedStore(service.store, before)
    swap(service, store=watched)
    return watched


def only_this_task() -> bool:
    return len(asyncio.all_tasks()) == 1


async def check_settled(service: Service, engine: ScriptedEngine, response_id: str, told: list[dict[str, Any]]) -> None:
    """Nothing runs, and the store has all that was told."""
    assert engine.running == 0
    assert json.loads(await service.responses.cancel(response_id, Caller())), "it does not wait for anything"
    stored = json.loads(await service.responses.retrieve(response_id, Caller()))
    assert stored["status"] != "in_progress"
    items = {item["id"]: item for item in stored["output"]}
    for event in told:
        if event["type"] == "response.output_item.done":
            assert items[event["item"]["id"]] == event["item"]
        if event["type"] in TERMINAL:
            assert event["response"] == stored


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_client_may_leave_behind_any_event(tmp_path: Path, name: str) -> None:
    async def leave(service: Service, engine: ScriptedEngine, after: int) -> bool:
        body = {"input": "Hi", "stream": True, "tools": [WEATHER]}
        started = await service.responses.create(body, Caller())
        events, told = started.events(), list[dict[str, Any]]()
        while len(told) < after and (event := await anext(events, None)) is not None:
            told.append(decode(event))
        await events.aclose()
        await check_settled(service, engine, started.id, told)
        return len(told) < after

    async def run() -> None:
        after, is_whole = 0, False
        while not is_whole:
            engine = ScriptedEngine(*SCRIPTS[name])
            async with served(engine, tmp_path, tools=[disk()]) as service:
                is_whole = await leave(service, engine, after)
            after += 1
        assert only_this_task()

    asyncio.run(run())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_client_may_leave_during_any_write_to_the_store(tmp_path: Path, name: str) -> None:
    async def leave(at_write: int) -> int:
        """Whoever waits for the response is cancelled when this write begins; says how many writes there were."""
        engine = ScriptedEngine(*SCRIPTS[name])
        async with served(engine, tmp_path, tools=[disk()]) as service:
            told: list[dict[str, Any]] = []
            ids: list[str] = []

            async def read() -> None:
                started = await service.responses.create({"input": "Hi", "tools": [WEATHER]}, Caller())
                ids.append(started.id)
                events = started.events()
                try:
                    async for event in events:
                        told.append(decode(event))
                finally:
                    await events.aclose()

            reading = asyncio.create_task(read())

            async def before(number: int) -> None:
                if number == at_write:
                    reading.cancel()

            store = watch(service, before)
            with suppress(asyncio.CancelledError):
                await reading
            if ids:
                await check_settled(service, engine, ids[0], told)
            assert await service.store.recover() == ()
            return store.writes

    async def run() -> None:
        at_write = 1
        while await leave(at_write) >= at_write:
            at_write += 1
        assert only_this_task()

    asyncio.run(run())


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("stays_broken", [True, False])
def test_a_store_that_breaks_fails_the_response_and_the_stream_still_adds_up(
    tmp_path: Path, name: str, stays_broken: bool
) -> None:
    async def broken(at_write: int) -> int:
        engine = ScriptedEngine(*SCRIPTS[name])
        async with served(engine, tmp_path, tools=[disk()]) as service:

            async def before(number: int) -> None:
                if number == at_write or (stays_broken and number > at_write):
                    raise StoreError(ErrorCode.STORE_UNAVAILABLE, "the disk is full")

            store = watch(service, before)
            started = await service.responses.create({"input": "Hi", "tools": [WEATHER]}, Caller())
            told = [decode(event) async for event in started.events()]
            assert [event["type"] in TERMINAL for event in told].count(True) == 1
            response = told[-1]["response"]
            assert fold(told) == response["output"]
            if store.writes >= at_write:
                assert response["status"] == "failed"
                assert response["error"]["code"] in ("store_unavailable", "server_error")
                assert response["incomplete_details"] is None
                assert response["completed_at"] is None
            assert engine.running == 0
            if not stays_broken:
                await check_settled(service, engine, started.id, told)
            return store.writes

    async def run() -> None:
        at_write = 2  # the first is that of create
        while await broken(at_write) >= at_write:
            at_write += 1

    asyncio.run(run())


def test_a_store_that_cannot_begin_a_response_refuses_it_and_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path) as service:

            async def before(_: int) -> None:
                raise StoreError(ErrorCode.STORE_UNAVAILABLE, "the disk is full")

            watch(service, before)
            with pytest.raises(StoreError):
                await create(service, input="Hi")
            assert only_this_task()

    asyncio.run(run())


def test_events_that_are_closed_before_they_began_end_the_response(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("x"))
        async with served(engine, tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            await started.events().aclose()
            await check_settled(service, engine, started.id, [])

    asyncio.run(run())


class UntidyEngine(ScriptedEngine):
    """Its connection breaks when it is closed."""

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        try:
            async for piece in super().generate(prompt, request):
                yield piece
        finally:
            raise RuntimeError("closing failed")


def test_an_engine_that_cannot_be_closed_leaves_no_response_in_progress(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(UntidyEngine([HALF, asyncio.Event()]), tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            events = started.events()
            async for event in events:
                if event.type == "response.output_text.delta":
                    break
            await events.aclose()
            stored = json.loads(await service.responses.cancel(started.id, Caller()))
            assert stored["status"] == "cancelled"
            assert stored["output"][0]["content"][0]["text"] == "Half"

    asyncio.run(run())


def test_a_response_cancelled_while_an_approved_call_runs_has_its_terminal_event(tmp_path: Path) -> None:
    async def run() -> None:
        started: Any = None

        def invoke(_: Any) -> str:
            started.cancel()
            return "4 kB free"

        engine = ScriptedEngine(FREE, final("Never."))
        async with served(engine, tmp_path, tools=[disk(invoke, "ask")]) as service:
            first = await create(service, input="Hi")
            request = first["output"][-1]
            decision = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
            body = {"previous_response_id": first["id"], "input": [decision]}
            started = await service.responses.create(body, Caller())
            told = [decode(event) async for event in started.events()]
            assert told[-1]["type"] == "response.incomplete"
            assert told[-1]["response"]["status"] == "cancelled"
            assert [item["type"] for item in fold(told)] == ["mcp_call"]
            assert len(engine.prompts) == 1
            await check_settled(service, engine, started.id, told)

    asyncio.run(run())


def test_the_end_is_in_the_store_before_it_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("One."), final("Two.")), tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            events = started.events()
            async for event in events:
                if event.type in TERMINAL:
                    break
            # The client is quick, and goes on before the stream is closed.
            assert (await create(service, previous_response_id=started.id, input="And?"))["status"] == "completed"
            await events.aclose()

    asyncio.run(run())


def test_a_response_that_nobody_reads_ends_when_it_is_forgotten(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("x"))
        async with served(engine, tmp_path) as service:
            response_id = (await service.responses.create({"input": "Hi"}, Caller())).id
            gc.collect()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            await asyncio.sleep(0)
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            await check_settled(service, engine, response_id, [])

    asyncio.run(run())
