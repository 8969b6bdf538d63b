"""The tools of the MCP servers that a request names are listed once, at the head of the output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode
from harmonia.errors import EngineError, ErrorCode
from harmonia.messages import Json
from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool, server_tools
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from tests.support.clients.sdk_types import check_events, check_response
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.served import create, fold, served, stream

FREE = calls("disk___free", "{}")
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
DISK: Json = {"type": "mcp", "server_label": "disk"}
NEWS: Json = {"type": "mcp", "server_label": "news"}
USER: Json = {"role": "user", "content": "Hi"}
DIED = EngineError(ErrorCode.ENGINE_DIED, "it broke off")


def tools(**rules: str) -> tuple[ServerTool, ...]:
    async def run(_: Any) -> str:
        return "4 kB free"

    hints: Json = {"readOnlyHint": True, "title": "Free space"}
    return server_tools(
        [
            Tool("disk___free", "Free space.", SCHEMA, run, annotations=hints),
            Tool("disk___wipe", None, None, run),
            Tool("news___read", "The news.", SCHEMA, run),
        ],
        {name.replace("__", "."): rule for name, rule in rules.items()},
    )


LISTED: list[Json] = [
    {
        "name": "free",
        "description": "Free space.",
        "input_schema": SCHEMA,
        "annotations": {"readOnlyHint": True, "title": "Free space"},
    },
    {
        "name": "wipe",
        "description": None,
        "input_schema": {"type": "object", "properties": {}},
        "annotations": None,
    },
]


def listings(response: Json) -> list[Json]:
    return [item for item in response["output"] if item["type"].endswith("mcp_list_tools")]


def labels(response: Json) -> list[str]:
    return [item["server_label"] for item in listings(response)]


def test_each_named_server_is_listed_before_anything_else(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("x") + FREE, final("4 kB."))
        async with served(engine, tmp_path, tools=tools()) as service:
            events = await stream(service, input="Hi", tools=[DISK, NEWS])
            check_events(events)
            response = events[-1]["response"]
            assert fold(events) == response["output"]
            kinds = [item["type"] for item in response["output"]]
            assert kinds == ["mcp_list_tools", "mcp_list_tools", "reasoning", "mcp_call", "message"]
            disk, news = response["output"][:2]
            assert (disk["server_label"], disk["tools"]) == ("disk", LISTED)
            assert (news["server_label"], [tool["name"] for tool in news["tools"]]) == ("news", ["read"])
            assert disk["id"].startswith("mcpl_") and disk["id"] != news["id"]
            about = [event for event in events if event.get("output_index") == 0]
            assert [event["type"] for event in about] == [
                "response.output_item.added",
                "response.mcp_list_tools.in_progress",
                "response.mcp_list_tools.completed",
                "response.output_item.done",
            ]
            assert (about[0]["item"]["tools"], about[-1]["item"]) == ([], disk)
            stored = json.loads(await service.responses.retrieve(response["id"], Caller()))
            check_response(stored)
            assert stored["output"] == response["output"]

    asyncio.run(run())


def test_what_the_request_does_not_name_is_not_listed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=tools()) as service:
            assert labels(await create(service, input="Hi")) == []
            assert labels(await create(service, input="Hi", tools=[NEWS])) == ["news"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("rules", "asked"), [({"disk__wipe": "refuse"}, {}), ({}, {"allowed_tools": ["free"]}), ({"disk__wipe": "ask"}, {})]
)
def test_only_tools_that_the_model_may_call_are_listed(tmp_path: Path, rules: dict[str, str], asked: Json) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=tools(**rules)) as service:
            response = await create(service, input="Hi", tools=[{**DISK, **asked}])
            (listed,) = listings(response)
            # One that asks first is offered as well.
            expected = LISTED if "ask" in rules.values() else LISTED[:1]
            assert listed["tools"] == expected

    asyncio.run(run())


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_list_is_sent_once_in_a_conversation_and_says_nothing_to_the_model(tmp_path: Path, is_stored: bool) -> None:
    async def run() -> None:
        engine = ScriptedEngine(*[final("x")] * 4)
        async with served(engine, tmp_path, tools=tools()) as service:
            first = await create(service, input=[USER], tools=[DISK], store=is_stored)

            async def ask(**body: Any) -> Json:
                if is_stored:
                    return await create(service, previous_response_id=first["id"], input=[USER], **body)
                return await create(service, input=[USER, *first["output"], USER], store=False, **body)

            assert labels(first) == ["disk"]
            assert labels(await ask(tools=[DISK])) == []
            # A tool that no list has is listed.
            assert labels(await ask(tools=[DISK, NEWS])) == ["news"]
            without = [item for item in first["output"] if item["type"] != "mcp_list_tools"]
            await create(service, input=[USER, *without, USER], tools=[DISK], store=False)
            assert engine.prompts[1] == engine.prompts[3]
            # The description stands where the tools are declared, and only there.
            assert decode(engine.prompts[1]).count("Free space.") == 1

    asyncio.run(run())


def test_tools_that_were_left_out_before_are_listed_when_they_are_offered(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(*[final("x")] * 3), tmp_path, tools=tools()) as service:
            first = await create(service, input="Hi", tools=[{**DISK, "allowed_tools": ["free"]}])
            second = await create(service, input="Hi", tools=[DISK], previous_response_id=first["id"])
            assert [tool["name"] for tool in listings(second)[0]["tools"]] == ["free", "wipe"]
            fewer = {**DISK, "allowed_tools": ["wipe"]}
            assert labels(await create(service, input="Hi", tools=[fewer], previous_response_id=second["id"])) == []

    asyncio.run(run())


def test_a_list_that_failed_or_is_only_referred_to_is_read_as_what_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(*[final("x")] * 3), tmp_path, tools=tools()) as service:
            first = await create(service, input=[USER], tools=[DISK])
            reference = {"type": "item_reference", "id": first["output"][0]["id"]}
            second = await create(service, input=[USER, reference], tools=[DISK])
            assert labels(second) == []
            inputs = await service.responses.input_items(second["id"], Caller())
            assert first["output"][0] in json.loads(inputs)["data"]
            failed = {"type": "mcp_list_tools", "server_label": "disk", "tools": LISTED, "error": "gone"}
            assert labels(await create(service, input=[USER, failed], tools=[DISK])) == ["disk"]

    asyncio.run(run())


def test_an_engine_that_fails_at_once_is_an_error_though_tools_were_listed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine([DIED]), tmp_path, tools=tools()) as service:
            with pytest.raises(EngineError) as caught:
                await create(service, input="Hi", tools=[DISK])
            assert caught.value.code is ErrorCode.ENGINE_DIED
        async with served(ScriptedEngine([DIED]), tmp_path, tools=tools()) as service:
            events = await stream(service, input="Hi", tools=[DISK])
            assert events[-1]["type"] == "response.failed"
            assert labels(events[-1]["response"]) == ["disk"]

    asyncio.run(run())


def test_a_list_does_not_count_as_a_call(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(*[calls("nothing", "{}")] * 40)
        async with served(engine, tmp_path, tools=tools()) as service:
            response = await create(service, input="Hi", tools=[DISK])
            # The model only ever called what does not exist.
            assert (response["status"], response["harmonia_reason"]) == ("incomplete", "uncertain_call")

    asyncio.run(run())


def test_an_answer_that_goes_on_lists_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine("lo.<|return|>"), tmp_path, tools=tools()) as service:
            item: Json = {"type": "message", "role": "assistant", "content": "Hel"}
            response = await create(service, input=[USER, item], tools=[DISK], harmonia_continue=True)
            assert [item["type"] for item in response["output"]] == ["message"]

    asyncio.run(run())


def test_an_approved_call_follows_the_list(tmp_path: Path) -> None:
    async def run(service: Service) -> None:
        first = await create(service, input=[USER], tools=[DISK])
        request = first["output"][-1]
        decision = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        second = await create(service, previous_response_id=first["id"], input=[decision], tools=[DISK, NEWS])
        assert [item["type"] for item in second["output"]] == ["mcp_list_tools", "mcp_call", "message"]
        assert labels(second) == ["news"]

    async def serve() -> None:
        async with served(ScriptedEngine(FREE, final("x")), tmp_path, tools=tools(disk="ask")) as service:
            await run(service)

    asyncio.run(serve())


def test_the_other_dialect_has_the_item_under_our_prefix_and_no_events_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        caller = Caller(dialect="open-responses")
        async with served(ScriptedEngine(final("x"), final("y")), tmp_path, tools=tools()) as service:
            events = await stream(service, caller, input="Hi", tools=[DISK])
            response = events[-1]["response"]
            assert response["output"][0]["type"] == "harmonia:mcp_list_tools"
            about = [event["type"] for event in events if event.get("output_index") == 0]
            assert about == ["response.output_item.added", "response.output_item.done"]
            again = await create(service, caller, input=[USER, *response["output"], USER], tools=[DISK])
            assert labels(again) == []

    asyncio.run(run())
