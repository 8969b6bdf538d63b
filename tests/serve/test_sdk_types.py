"""Every object and event that we send has the shape that OpenAI's SDK declares: both APIs, streamed and whole, with
reasoning hidden and shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harmonia import decode
from harmonia.errors import EngineError, ErrorCode, ToolError
from harmonia.messages import Json
from harmonia.run.engines import Finish, Usage
from harmonia.run.tools import Tool
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import Approval, ServerTool
from harmonia.serve.security.keys import Caller
from tests.support.clients.sdk_types import check_chunks, check_completion, check_events, check_response
from tests.support.engines.scripted import Line, ScriptedEngine, calls, final, think
from tests.support.servers import chat_service
from tests.support.servers.served import WEATHER, create, served, stream

CUSTOM: Json = {"type": "custom", "name": "note"}
NAMESPACE: Json = {"type": "namespace", "name": "maps", "description": "Maps.", "tools": [{**WEATHER, "name": "find"}]}
CALLS: dict[str, tuple[Json, str]] = {
    "function_call": (WEATHER, calls("get_weather", '{"city":"Rome"}')),
    "namespaced": (NAMESPACE, calls("find", '{"city":"Rome"}').replace("functions.", "maps.")),
    "custom_tool_call": (CUSTOM, calls("note", '"text"')),
    "shell_call": ({"type": "shell"}, calls("shell", '{"commands":["ls"]}')),
    "local_shell_call": ({"type": "local_shell"}, calls("local_shell", '{"command":["ls"],"timeout_ms":5}')),
    "create_file": ({"type": "apply_patch"}, calls("apply_patch", '{"type":"create_file","path":"a","diff":"+x"}')),
    "update_file": ({"type": "apply_patch"}, calls("apply_patch", '{"type":"update_file","path":"a","diff":"+x"}')),
    "delete_file": ({"type": "apply_patch"}, calls("apply_patch", '{"type":"delete_file","path":"a","more":1}')),
}
FREE = calls("disk___free", '{"path":"/"}')
DAMAGED = calls("get_weather", '{"city":').replace("<|call|>", "<|start|>assistant")
DIED = EngineError(ErrorCode.ENGINE_DIED, "it broke off")


def disk(approval: Approval = "run", *, fails: bool = False) -> ServerTool:
    async def run(_: Any) -> str:
        if fails:
            raise ToolError(ErrorCode.TOOL_FAILED, "no disk")
        return "4 kB free"

    schema: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return ServerTool("disk", "free", Tool("disk___free", "Free space.", schema, invoke=run), approval)


# What a model does, with the tools that the client declares and those that run here.
SCRIPTS: dict[str, tuple[list[str | list[Line]], list[Json], list[ServerTool]]] = {
    "text": ([think("Hm.") + final("Yes.")], [], []),
    "commentary": (["<|channel|>commentary<|message|>First.<|end|><|start|>assistant" + final("Yes.")], [], []),
    **{name: ([think("Hm.") + call], [tool], []) for name, (tool, call) in CALLS.items()},
    "unknown_tool": ([calls("nothing", "{}"), final("Sorry.")], [WEATHER], []),
    "uncertain_call": (
        [calls("get_weather", '{"city":').replace("<|call|>", "<|start|>assistant") + final("x")],
        [WEATHER],
        [],
    ),
    "mcp_call": ([FREE, final("4 kB.")], [], [disk()]),
    "mcp_list_tools": ([FREE, final("4 kB.")], [{"type": "mcp", "server_label": "disk"}], [disk()]),
    "mcp_listed_and_failed": ([[DIED]], [{"type": "mcp", "server_label": "disk"}], [disk()]),
    "mcp_failed": ([FREE, final("None.")], [], [disk(fails=True)]),
    "mcp_approval_request": ([FREE], [], [disk("ask")]),
    "only_reasoning": ([think("Hm.").removesuffix("<|start|>assistant")], [], []),
    "cut_off": ([[think("Hm.") + "<|channel|>final<|message|>Ye", Finish("length", Usage(3, 4))]], [], []),
    "cut_off_call": ([[calls("get_weather", '{"ci').removesuffix("<|call|>"), Finish("length")]], [WEATHER], []),
    "failed": ([[think("Hm.") + "<|channel|>final<|message|>Ye", DIED]], [], []),
    "failed_at_once": ([[DIED]], [], []),
}


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_responses_have_the_shape_of_the_sdk(tmp_path: Path, name: str, analysis: str) -> None:
    script, tools, hosted = SCRIPTS[name]
    settings: Any = {"analysis": analysis, "retry_malformed": False}
    body: Json = {"input": "Hi", "tools": tools, "user": "u", "max_output_tokens": 99}

    async def run() -> None:
        async with served(ScriptedEngine(*script), tmp_path, tools=hosted, **settings) as service:
            events = await stream(service, **body, include=["harmonia.encrypted_content"])
            check_events(events)
            check_response(json.loads(await service.responses.retrieve(events[-1]["response"]["id"], Caller())))
        async with served(ScriptedEngine(*script), tmp_path, tools=hosted, **settings) as service:
            if script != [[DIED]]:  # that is an error of HTTP
                check_response(await create(service, **body))

    asyncio.run(run())


# Without what only Responses have, and without what is an error of HTTP.
ONLY_RESPONSES = ("namespaced", "shell_call", "_file", "_at_once", "mcp_list_tools", "mcp_listed_and_failed")
CHAT_SCRIPTS = [name for name in SCRIPTS if not name.endswith(ONLY_RESPONSES)]


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
@pytest.mark.parametrize("name", CHAT_SCRIPTS)
def test_chat_completions_have_the_shape_of_the_sdk(name: str, analysis: Any) -> None:
    script, tools, hosted = SCRIPTS[name]
    declared = [
        {"type": tool["type"], tool["type"]: {key: value for key, value in tool.items() if key != "type"}}
        for tool in tools
    ]
    settings = Settings(analysis=analysis, retry_malformed=False)
    value = chat_service.body(tools=declared, stream_options={"include_usage": True})
    chunks = chat_service.stream(chat_service.completions_of(ScriptedEngine(*script), settings, hosted), value)
    check_chunks(chunks)
    if not any("error" in chunk for chunk in chunks):
        service = chat_service.completions_of(ScriptedEngine(*script), settings, hosted)
        check_completion(chat_service.ask(service, chat_service.body(tools=declared)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("usage", "output_tokens_details", "harmonia_channels"), {"final": 1}),
        (("usage", "input_tokens_details", "cached_tokens"), "1"),
        (("usage", "total_tokens"), None),
        (("output", 0, "type"), "thought"),
        (("output", 0, "harmonia_more"), 1),
        (("status",), "done"),
    ],
)
def test_what_has_another_shape_is_found(tmp_path: Path, path: tuple[Any, ...], value: Any) -> None:
    async def run() -> Json:
        async with served(ScriptedEngine(final("Yes.")), tmp_path) as service:
            return await create(service, input="Hi")

    response = asyncio.run(run())
    check_response(response)
    place: Any = response
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises((AssertionError, ValidationError)):
        check_response(response)


def test_a_patch_says_what_it_does_from_its_first_event_on(tmp_path: Path) -> None:
    async def run(name: str) -> tuple[Json, Json]:
        script, tools, _ = SCRIPTS[name]
        async with served(ScriptedEngine(*script), tmp_path) as service:
            events = await stream(service, input="Hi", tools=tools)
        added, done = (event["item"]["operation"] for event in events if event.get("item", {}).get("operation"))
        return added, done

    whole = {"type": "create_file", "path": "a", "diff": "+x"}
    assert asyncio.run(run("create_file")) == ({**whole, "diff": ""}, whole)
    deleted = {"type": "delete_file", "path": "a"}
    assert asyncio.run(run("delete_file")) == (deleted, deleted)


def test_a_file_is_not_created_without_its_content(tmp_path: Path) -> None:
    async def run() -> Json:
        without = calls("apply_patch", '{"type":"create_file","path":"a"}')
        async with served(ScriptedEngine(without, final("Sorry.")), tmp_path) as service:
            return await create(service, input="Hi", tools=[{"type": "apply_patch"}])

    assert [item["type"] for item in asyncio.run(run())["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize("written", ["foo", '"foo"', '{"input": "foo"}'])
def test_a_custom_tool_of_chat_completions_gets_its_text_however_the_model_wrote_it(written: str) -> None:
    service = chat_service.completions_of(ScriptedEngine(calls("note", written)))
    value = chat_service.body(tools=[{"type": "custom", "custom": {"name": "note"}}])
    for answer in (chat_service.ask(service, value), chat_service.fold(chat_service.stream(service, value))):
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert call["custom"] == {"name": "note", "input": "foo"}


def test_what_a_failed_tool_said_goes_back_to_the_model(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(FREE, final("None."), final("Still none."))
        async with served(engine, tmp_path, tools=[disk(fails=True)]) as service:
            first = await create(service, input="Hi", store=False)
            call, answer = first["output"]
            said = json.dumps({"error": "no disk", "code": "tool.failed"})
            assert call["error"] == {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": said}]}
            for error in (call["error"], said):
                again = [{"role": "user", "content": "Hi"}, {**call, "error": error}, answer]
                await create(service, input=[*again, {"role": "user", "content": "Now?"}], store=False)
                assert said in decode(engine.prompts[-1])

    asyncio.run(run())
