"""What comes back: approvals, seals and references, in the places where they belong and in others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode
from harmonia.errors import ErrorCode, InputError
from harmonia.run.tools import Tool, ToolSet
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import Approval, ServerTool
from harmonia.serve.security.keys import Caller
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.service import Service
from harmonia.serve.store.store_urls import open_store
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.served import NOW, WEATHER, create, fold, served, stream, text_of

FREE = calls("disk___free", "{}")
SEALED = ["harmonia.encrypted_content", "reasoning.encrypted_content"]


def disk(seen: list[Any], approval: Approval = "run", server: str = "disk", name: str = "free") -> ServerTool:
    def invoke(arguments: Any) -> str:
        seen.append(arguments)
        return "4 kB free"

    tool = Tool(f"{server}___{name}", "Free space.", {"type": "object", "properties": {}}, invoke)
    return ServerTool(server, name, tool, approval)


def decision(request: dict[str, Any], approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}


# ── approvals ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("second", [True, False])
def test_a_call_is_decided_once(tmp_path: Path, second: bool) -> None:
    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(FREE, final("x")), tmp_path, tools=[disk(seen, "ask")]) as service:
            first = await create(service, input="Hi")
            request = first["output"][-1]
            both = [decision(request), decision(request, second)]
            with pytest.raises(InputError) as caught:
                await create(service, previous_response_id=first["id"], input=both)
            assert caught.value.code is ErrorCode.SERVE_INVALID_FIELD
            assert caught.value.at.path == "$.input[1].approval_request_id"
            assert seen == []

    asyncio.run(run())


def test_what_was_refused_is_not_run_by_a_later_approval(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(FREE, final("As you wish."))
        async with served(engine, tmp_path, tools=[disk(seen, "ask")]) as service:
            first = await create(service, input="Hi")
            request = first["output"][-1]
            second = await create(service, previous_response_id=first["id"], input=[decision(request, False)])
            with pytest.raises(InputError) as caught:
                await create(service, previous_response_id=second["id"], input=[decision(request)])
            assert caught.value.at.path == "$.input[0].approval_request_id"
            assert seen == []

    asyncio.run(run())


def test_an_approval_of_a_response_that_did_not_come_to_it_runs_nothing_later(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(FREE, final("Well."))
        async with served(engine, tmp_path, tools=[disk(seen, "ask")]) as service:
            first = await create(service, input="Hi")
            body = {"previous_response_id": first["id"], "input": [decision(first["output"][-1])]}
            started = await service.responses.create(body, Caller())
            await started.events().aclose()  # the client left before the call ran
            third = await create(service, previous_response_id=started.id, input="And?")
            assert text_of(third) == "Well."
            assert seen == []
            assert "was not run" in decode(engine.prompts[-1])

    asyncio.run(run())


def test_an_approved_call_is_told_like_any_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(FREE, final("x")), tmp_path, tools=[disk([], "ask")]) as service:
            first = await create(service, input="Hi")
            body: dict[str, Any] = {"previous_response_id": first["id"], "input": [decision(first["output"][-1])]}
            events = await stream(service, **body)
            fold(events)
            assert [event["type"].removeprefix("response.") for event in events[2:8]] == [
                "output_item.added",
                "mcp_call.in_progress",
                "mcp_call_arguments.delta",
                "mcp_call_arguments.done",
                "mcp_call.completed",
                "output_item.done",
            ]

    asyncio.run(run())


def test_an_approved_call_runs_under_the_name_that_it_was_offered_by(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        tools = [disk(seen, "ask", name="a.b"), disk([], "ask", name="a-b")]
        recipient = ToolSet([tool.tool for tool in tools]).recipient_of(tools[0].tool)
        engine = ScriptedEngine(calls(recipient.removeprefix("functions."), "{}"), final("x"))
        async with served(engine, tmp_path, tools=tools) as service:
            first = await create(service, input="Hi")
            request = first["output"][0]
            assert request["name"] == "a.b"
            response = await create(service, input=[decision(request)], previous_response_id=first["id"])
            assert response["output"][0]["output"] == "4 kB free"
            assert seen == [{}]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        ({"never": {"tool_names": ["free"]}}, False),
        ({"never": {"tool_names": ["other"]}}, True),
        ({"always": {"tool_names": ["free"]}}, True),
        ({"always": {"tool_names": ["other"]}}, False),
    ],
)
def test_approvals_are_wanted_by_name(tmp_path: Path, given: Any, asks: bool) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(FREE, final("x")), tmp_path, tools=[disk([])]) as service:
            tool = {"type": "mcp", "server_label": "disk", "require_approval": given}
            response = await create(service, input="Hi", tools=[tool])
            assert response["output"][1]["type"] == ("mcp_approval_request" if asks else "mcp_call")

    asyncio.run(run())


@pytest.mark.parametrize("given", [{"never": ["free"]}, {"sometimes": {}}, {"always": {"tool_names": "free"}}])
def test_an_approval_that_cannot_be_read_is_refused(tmp_path: Path, given: Any) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=[disk([])]) as service:
            tool = {"type": "mcp", "server_label": "disk", "require_approval": given}
            with pytest.raises(InputError) as caught:
                await create(service, input="Hi", tools=[tool])
            assert (caught.value.at.path or "").startswith("$.tools[0].require_approval")

    asyncio.run(run())


# ── seals ───────────────────────────────────────────────────────────────────────────────────────────────────────────


ODD = "<|channel|>commentary to=functions.{}<|message|>{}<|call|>"  # without <|constrain|>
CUSTOM: dict[str, Any] = {"type": "custom", "name": "note"}


@pytest.mark.parametrize(
    ("tool", "sampled", "output"),
    [
        (CUSTOM, ODD.format("note", '{"input": "x"}'), "custom_tool_call_output"),
        ({"type": "shell"}, ODD.format("shell", '{"commands":["ls"]}'), "shell_call_output"),
        ({"type": "local_shell"}, ODD.format("local_shell", '{"command":["ls"]}'), "local_shell_call_output"),
        (
            {"type": "apply_patch"},
            ODD.format("apply_patch", '{"type":"delete_file","path":"a"}'),
            "apply_patch_call_output",
        ),
    ],
)
def test_a_sealed_call_of_every_kind_keeps_its_tokens(tmp_path: Path, tool: Any, sampled: str, output: str) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("x") + sampled, final("x"))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[tool], include=SEALED, store=False)
            call = first["output"][-1]
            result = {"type": output, "call_id": call["call_id"], "output": "ran"}
            items = [{"role": "user", "content": "Hi"}, *first["output"], result]
            await create(service, input=items, tools=[tool], store=False)
        before = engine.prompts[0] + engine.sampled[0]
        assert engine.prompts[1][: len(before)] == before

    asyncio.run(run())


def test_a_sealed_call_that_ran_here_keeps_its_tokens_unless_it_says_something_else(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(ODD.format("disk___free", "{  }"), final("x"))
        async with served(engine, tmp_path, tools=[disk([])]) as service:
            first = await create(service, input="Hi", include=SEALED, store=False)
            call = first["output"][0]
            for changed in ({}, {"output": "none"}, {"arguments": "{}"}):
                items = [{"role": "user", "content": "Hi"}, {**call, **changed}, {"role": "user", "content": "And?"}]
                if changed:
                    with pytest.raises(InputError) as refused:
                        await create(service, input=items, store=False)
                    assert refused.value.code is ErrorCode.SERVE_BAD_SEAL
                    assert refused.value.at.path == "$.input[1].encrypted_content"
                    del items[1]["encrypted_content"]
                await create(service, input=items, store=False)
                before = engine.prompts[0] + engine.sampled[0]
                assert (engine.prompts[-1][: len(before)] == before) is (not changed)
                assert ("4 kB free" in decode(engine.prompts[-1])) is ("output" not in changed)

    asyncio.run(run())


def test_what_came_with_a_seal_is_continued_when_the_seal_has_expired(tmp_path: Path) -> None:
    now = [NOW]

    async def run() -> None:
        engine = ScriptedEngine(think("x") + ODD.format("get_weather", "{ }"), final("x"))
        store = await open_store(f"sqlite:///{tmp_path / 'responses.sqlite3'}")
        try:
            seals = Seals(tmp_path / "seal-keys.json", clock=lambda: now[0])
            service = Service(Settings(), engine, store, seals, clock=lambda: now[0])
            first = await create(service, input="Hi", tools=[WEATHER], include=SEALED, store=False)
            result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
            items = [{"role": "user", "content": "Hi"}, *first["output"], result]
            edited = [
                items[0],
                items[1],
                {**items[2], "arguments": '{"city": "Rome"}', "encrypted_content": None},
                result,
            ]
            second = await create(service, input=items, tools=[WEATHER])
            third = await create(service, input=edited, tools=[WEATHER])
            now[0] += 31 * 86_400
            await create(service, previous_response_id=second["id"], input="And?", tools=[WEATHER])
            assert decode(engine.sampled[0][5:]) in decode(engine.prompts[-1])
            await create(service, previous_response_id=third["id"], input="And?", tools=[WEATHER])
            assert '{"city": "Rome"}' in decode(engine.prompts[-1])
        finally:
            await store.close()

    asyncio.run(run())


def test_a_seal_holds_under_every_name_of_the_model(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("marked") + calls("get_weather", "{}"), final("x"))
        async with served(engine, tmp_path, aliases=("other",)) as service:
            first = await create(service, input="Hi", tools=[WEATHER], store=False)
            items = [{"role": "user", "content": "Hi"}, *first["output"]]
            result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
            await create(service, model="other", input=[*items, result], tools=[WEATHER], store=False)
            assert "marked" in decode(engine.prompts[-1])

    asyncio.run(run())


# ── tools that come back ────────────────────────────────────────────────────────────────────────────────────────────


def test_additional_tools_of_an_earlier_response_may_be_given_again(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(final("One."), final("Two."))
        extra = {"type": "additional_tools", "role": "developer", "tools": [WEATHER]}
        newer = {**WEATHER, "description": "Newer."}
        async with served(engine, tmp_path) as service:
            first = await create(service, input=[extra, {"role": "user", "content": "Hi"}])
            second = await create(service, previous_response_id=first["id"], input="And?", tools=[newer])
            assert text_of(second) == "Two."
            assert "Newer." in decode(engine.prompts[-1])
            assert decode(engine.prompts[-1]).count("type get_weather") == 1
            with pytest.raises(InputError) as caught:
                await create(service, input="Hi", tools=[WEATHER, newer])
            assert (caught.value.code, caught.value.at.path) == (ErrorCode.TOOL_REPEATED_NAME, "$.tools[1]")

    asyncio.run(run())


def test_a_namespace_and_a_server_may_have_one_name(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(ODD.format("x", "{}").replace("functions.x", "disk.free"), final("x"))
        function: dict[str, Any] = {
            "type": "function",
            "name": "free",
            "parameters": {"type": "object", "properties": {}},
        }
        namespace: dict[str, Any] = {"type": "namespace", "name": "disk", "tools": [function]}
        async with served(engine, tmp_path, tools=[disk(seen)]) as service:
            first = await create(service, input="Hi", tools=[namespace])
            call = first["output"][0]
            assert (call["type"], call["namespace"]) == ("function_call", "disk")
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "lots"}
            items = [{"role": "user", "content": "Hi"}, call, result]
            await create(service, input=items, tools=[namespace])
            assert "<|start|>disk.free to=assistant" in decode(engine.prompts[-1])
            assert seen == []

    asyncio.run(run())


def test_a_tool_with_the_name_of_one_that_runs_here_is_refused_where_it_stands(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=[disk([])]) as service:
            with pytest.raises(InputError) as caught:
                await create(service, input="Hi", tools=[{"type": "function", "name": "disk___free"}])
            assert (caught.value.code, caught.value.at.path) == (ErrorCode.TOOL_REPEATED_NAME, "$.tools[0]")

    asyncio.run(run())


# ── counting ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tokens_of_an_input_do_not_count_what_the_prompt_leaves_out(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("a long thought " * 20) + final("One."), final("Two."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi")
            body: dict[str, Any] = {"previous_response_id": first["id"], "input": "And?"}
            counted = json.loads(await service.responses.input_tokens(body, Caller()))
            await create(service, **body)
            assert counted["input_tokens"] == len(engine.prompts[1])

    asyncio.run(run())


def test_a_request_for_an_approval_without_an_id_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=[disk([], "ask")]) as service:
            item = {"type": "mcp_approval_request", "name": "free", "server_label": "disk", "arguments": "{}"}
            with pytest.raises(InputError) as caught:
                await create(service, input=[item])
            assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.input[0].id")

    asyncio.run(run())


def test_the_schema_of_a_format_has_the_limit_of_all_schemas(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path) as service:
            form = {"type": "json_schema", "name": "x", "schema": {"enum": ["x" * 300_000]}}
            with pytest.raises(InputError) as caught:
                await create(service, input="Hi", text={"format": form})
            assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_TOO_LARGE, "$.text.format.schema")

    asyncio.run(run())
