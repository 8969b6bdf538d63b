"""Tools of every kind: how the model is told of them, and what the client gets when it calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from harmonia import Conversation, Event, Role, TurnEnded, decode, parse
from harmonia.errors import ErrorCode, InputError, ToolError
from harmonia.run.engines import PROVIDER_TRAITS, Finish, Request, Usage
from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, create, fold, served, stream, swap, text_of

PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "BEGIN" /.+/'},
}


def to(recipient: str, body: str, content_type: str = "") -> str:
    return f"<|channel|>commentary to={recipient}{content_type}<|message|>{body}<|call|>"


def answered(folder: Path, engine: ScriptedEngine, **body: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        settings = body.pop("settings", {})
        async with served(engine, folder, tools=body.pop("hosted", ()), **settings) as service:
            body.setdefault("input", "Hi")
            events = await stream(service, **body)
            assert fold(events) == events[-1]["response"]["output"]
            return events[-1]["response"]

    return asyncio.run(run())


@pytest.mark.parametrize("written", ["BEGIN x", '"BEGIN x"', '{"input": "BEGIN x"}'])
def test_a_custom_tool_gets_its_text_however_the_model_wrote_it(tmp_path: Path, written: str) -> None:
    engine = ScriptedEngine(to("functions.apply_patch", written))
    item = answered(tmp_path, engine, tools=[PATCH])["output"][0]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", "BEGIN x")
    assert 'start: "BEGIN" /.+/' in decode(engine.prompts[0])


def test_the_events_of_a_custom_call_are_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(to("functions.apply_patch", "BEGIN x")), tmp_path) as service:
            kinds = [event["type"] for event in await stream(service, input="Hi", tools=[PATCH])]
        assert kinds[2:6] == [
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
        ]

    asyncio.run(run())


def test_a_custom_call_and_its_output_come_back_as_text(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(to("functions.apply_patch", "BEGIN x"), final("Done."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[PATCH], store=False)
            call = first["output"][0]
            output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "patched"}
            items = [{"role": "user", "content": "Hi"}, call, output]
            await create(service, input=items, tools=[PATCH], store=False)
        assert "to=functions.apply_patch<|message|>BEGIN x<|call|>" in decode(engine.prompts[1])
        assert "<|start|>functions.apply_patch to=assistant<|channel|>commentary<|message|>patched<|end|>" in decode(
            engine.prompts[1]
        )

    asyncio.run(run())


def test_a_namespaced_tool_is_called_by_its_namespace(tmp_path: Path) -> None:
    function: dict[str, Any] = {"type": "function", "name": "spawn", "parameters": {"type": "object", "properties": {}}}
    namespace: dict[str, Any] = {
        "type": "namespace",
        "name": "agents",
        "description": "Other agents.",
        "tools": [function],
    }
    engine = ScriptedEngine(to("agents.spawn", "{}", " <|constrain|>json"), final("ok"))

    async def run() -> None:
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[namespace, WEATHER])
            call = first["output"][0]
            assert (call["name"], call["namespace"]) == ("spawn", "agents")
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "spawned"}
            items = [{"role": "user", "content": "Hi"}, call, output]
            await create(service, input=items, tools=[namespace, WEATHER])

    asyncio.run(run())
    assert "// Other agents.\nnamespace agents {" in decode(engine.prompts[0])
    assert "<|start|>agents.spawn to=assistant" in decode(engine.prompts[1])


def test_additional_tools_among_the_items_are_tools(tmp_path: Path) -> None:
    engine = ScriptedEngine(calls("get_weather", '{"city":"Rome"}'))
    items = [{"type": "additional_tools", "role": "developer", "tools": [WEATHER]}, {"role": "user", "content": "Hi"}]
    assert answered(tmp_path, engine, input=items)["output"][0]["name"] == "get_weather"


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "value"),
    [
        (
            "shell",
            '{"commands": ["ls"], "timeout_ms": 5}',
            "action",
            {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None},
        ),
        ("local_shell", '{"command": ["ls", "-l"]}', "action", {"type": "exec", "env": {}, "command": ["ls", "-l"]}),
        (
            "apply_patch",
            '{"type": "create_file", "path": "a.txt", "diff": "+x"}',
            "operation",
            {"type": "create_file", "path": "a.txt", "diff": "+x"},
        ),
    ],
)
def test_tools_that_the_client_runs_have_items_of_their_own(
    tmp_path: Path, tool: str, arguments: str, field: str, value: dict[str, Any]
) -> None:
    engine = ScriptedEngine(calls(tool, arguments), final("Done."))

    async def run() -> None:
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[{"type": tool}])
            call = first["output"][0]
            assert call["type"] == f"{tool}_call"
            assert call[field] == value
            output: dict[str, Any] = {"type": f"{tool}_call_output", "call_id": call["call_id"], "output": "ran it"}
            if tool == "shell":
                output["output"] = [{"stdout": "ran it", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
            elif tool == "local_shell":
                output["id"] = output.pop("call_id")
            else:
                output["status"] = "completed"
            second = await create(service, previous_response_id=first["id"], input=[output], tools=[{"type": tool}])
            assert text_of(second) == "Done."
            stateless = ScriptedEngine(final("Done."))
            swap(service, model=stateless)
            items = [{"role": "user", "content": "Hi"}, call, output]
            await create(service, input=items, tools=[{"type": tool}], store=False)
            assert "ran it" in decode(stateless.prompts[0])

    asyncio.run(run())
    assert "ran it" in decode(engine.prompts[1])


def test_a_call_that_does_not_fit_its_item_is_told_to_the_model_not_to_the_client(tmp_path: Path) -> None:
    engine = ScriptedEngine(calls("shell", '{"commands": "ls"}'), final("Sorry."))
    response = answered(tmp_path, engine, tools=[{"type": "shell"}])
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert "tool.invalid_arguments" in decode(engine.prompts[1])


def test_arguments_that_do_not_fit_a_function_are_the_clients_to_judge(tmp_path: Path) -> None:
    response = answered(tmp_path, ScriptedEngine(calls("get_weather", '{"town": 7}')), tools=[WEATHER])
    assert response["output"][0]["arguments"] == '{"town": 7}'
    assert response["status"] == "completed"


def test_a_call_to_nobody_stays_between_the_server_and_the_model(tmp_path: Path) -> None:
    engine = ScriptedEngine(calls("no_such_tool", "{}"), final("I cannot."))
    response = answered(tmp_path, engine, tools=[WEATHER])
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert "no_such_tool" not in json.dumps(response)


def test_what_stayed_between_them_is_still_there_when_the_conversation_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(calls("no_such_tool", "{}"), calls("get_weather", "{}"), final("Done."))
        async with served(engine, tmp_path) as service:
            first = await create(service, input="Hi", tools=[WEATHER])
            output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
            continuations: list[dict[str, Any]] = [
                {"previous_response_id": first["id"], "input": [output]},
                {"input": [{"role": "user", "content": "Hi"}, *first["output"], output]},
            ]
            for continued in continuations:
                await create(service, tools=[WEATHER], **continued)
        # What the model saw before, it sees again, to the token.
        for prompt in engine.prompts[2:]:
            assert prompt[: len(engine.prompts[1])] == engine.prompts[1]

    asyncio.run(run())


# ── choices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_the_choice_none_a_call_is_not_handed_over(tmp_path: Path) -> None:
    engine = ScriptedEngine(calls("get_weather", "{}"), final("Without it."))
    response = answered(tmp_path, engine, tools=[WEATHER], tool_choice="none")
    assert "function_call" not in {item["type"] for item in response["output"]}
    assert text_of(response) == "Without it."


def test_only_allowed_tools_are_handed_over_and_all_are_declared(tmp_path: Path) -> None:
    other = {"type": "function", "name": "get_time", "parameters": None}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]}
    engine = ScriptedEngine(calls("get_weather", "{}"), calls("get_time", "{}"))
    response = answered(tmp_path, engine, tools=[WEATHER, other], tool_choice=choice)
    assert [item.get("name") for item in response["output"]] == [None, "get_time"]
    assert "type get_weather" in decode(engine.prompts[0])


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_demanded_call_that_is_not_made_is_the_models_failure(tmp_path: Path, choice: Any) -> None:
    # It is asked twice. The header of a named tool is begun for it the second time, and then this is a damaged call.
    other = {"type": "function", "name": "other"}
    response = answered(tmp_path, ScriptedEngine(final("No.")), tools=[WEATHER, other], tool_choice=choice)
    assert response["status"] == "failed"
    assert response["harmonia_reason"] == "tool_choice_not_met"
    assert text_of(response) == ("No." if choice == "required" else "")


def test_one_call_where_parallel_calls_are_not_wanted(tmp_path: Path) -> None:
    two = calls("get_weather", '{"city":"A"}') + "<|start|>assistant" + calls("get_weather", '{"city":"B"}')
    both = answered(tmp_path, ScriptedEngine(two), tools=[WEATHER])
    one = answered(tmp_path, ScriptedEngine(two), tools=[WEATHER], parallel_tool_calls=False)
    assert len(both["output"]) == 2
    assert [item["arguments"] for item in one["output"]] == ['{"city":"A"}']


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_one_call_also_where_the_first_ends_as_other_messages_do(tmp_path: Path, chunk: int, is_streamed: bool) -> None:
    first = calls("get_weather", '{"city":"A"}').replace("<|call|>", "<|end|>")
    two = first + "<|start|>assistant" + calls("get_weather", '{"city":"B"}')

    async def run() -> None:
        async with served(ScriptedEngine(two, chunk=chunk), tmp_path) as service:
            asked: dict[str, Any] = {"input": "Hi", "tools": [WEATHER]}
            for parallel, cities in ((None, "AB"), (False, "A")):
                asked["parallel_tool_calls"] = parallel
                ended = (await stream(service, **asked))[-1]["response"] if is_streamed else None
                response = ended or await create(service, **asked)
                assert response["status"] == "completed"
                assert [json.loads(item["arguments"])["city"] for item in response["output"]] == list(cities)

    asyncio.run(run())


class _CallsTwice:
    """A provider that does not know `parallel_tool_calls`."""

    name = "provider"
    traits = PROVIDER_TRAITS
    model = "m"

    async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
        two = "<|start|>assistant".join(calls("get_weather", f'{{"city":"{city}"}}') for city in "AB")
        for event in parse(say(two), role=Role.ASSISTANT).events:
            if not isinstance(event, TurnEnded):
                yield event
        yield Finish("stop", Usage(3, 7))

    async def close(self) -> None:
        pass


def test_one_call_also_of_a_provider_that_makes_two(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(_CallsTwice(), tmp_path) as service:
            for parallel, count in ((True, 2), (False, 1)):
                response = await create(service, input="Hi", tools=[WEATHER], parallel_tool_calls=parallel)
                assert [item["type"] for item in response["output"]] == ["function_call"] * count
                assert response["usage"]["output_tokens"] == 7  # what the second one cost is said, too

    asyncio.run(run())


# ── certainty ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_read_from_text_is_held_back_unless_the_operator_allows_it(tmp_path: Path) -> None:
    def engine() -> ScriptedEngine:
        return ScriptedEngine(calls("get_weather", '{"city":"Rome"}'), final("Held back."), is_text=True)

    held = answered(tmp_path, engine(), tools=[WEATHER])
    assert "function_call" not in {item["type"] for item in held["output"]}
    allowed = answered(tmp_path, engine(), tools=[WEATHER], settings={"calls": "unverified"})
    assert allowed["output"][0]["type"] == "function_call"


@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize(
    "damage", ["<|message|>", "<|channel|>", "<|reserved_200013|>", "<|start|>assistant<|channel|>final"]
)
def test_a_call_that_turns_out_damaged_ends_the_response_incomplete(tmp_path: Path, damage: str, chunk: int) -> None:
    begun = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city"'
    engine = ScriptedEngine(f"{begun}{damage}:1}}<|call|>", final("x"), chunk=chunk)
    response = answered(tmp_path, engine, tools=[WEATHER])
    assert response["status"] == "incomplete"
    assert response["harmonia_reason"] == "uncertain_call"
    assert response["output"][-1]["status"] == "incomplete"


def test_a_doubtful_header_is_no_call(tmp_path: Path) -> None:
    doubtful = (
        "<|channel|>commentary<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>"
    )
    response = answered(tmp_path, ScriptedEngine(doubtful, final("Sorry.")), tools=[WEATHER])
    assert "function_call" not in {item["type"] for item in response["output"]}
    assert text_of(response) == "Sorry."


# ── tools that run here ─────────────────────────────────────────────────────────────────────────────────────────────


def hosted(approval: str = "run", **results: Any) -> ServerTool:
    seen: list[Any] = results.setdefault("seen", [])

    def invoke(arguments: Any) -> str:
        seen.append(arguments)
        if results.get("fails"):
            raise ToolError(ErrorCode.TOOL_FAILED, "out of order")
        return "4 kB free"

    tool = Tool("disk___free", "Free space.", {"type": "object", "properties": {}}, invoke)
    return ServerTool("disk", "free", tool, approval)  # type: ignore[arg-type]


FREE = calls("disk___free", "{}")


def test_a_tool_of_the_operators_runs_here(tmp_path: Path) -> None:
    engine = ScriptedEngine(think("x") + FREE, final("4 kB."))
    response = answered(tmp_path, engine, hosted=[hosted()])
    assert [item["type"] for item in response["output"]] == ["reasoning", "mcp_call", "message"]
    call = response["output"][1]
    assert (call["server_label"], call["name"], call["output"], call["error"]) == ("disk", "free", "4 kB free", None)
    assert response["usage"]["input_tokens"] == sum(map(len, engine.prompts))


def test_a_tool_that_fails_is_told_to_the_model_and_shown(tmp_path: Path) -> None:
    response = answered(tmp_path, ScriptedEngine(FREE, final("Sorry.")), hosted=[hosted(fails=True)])
    assert response["output"][0]["status"] == "failed"
    assert response["output"][0]["output"] is None
    assert text_of(response) == "Sorry."


def test_a_run_with_tools_of_both_sides_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(FREE, think("y") + calls("get_weather", "{}"), final("Done."))
        async with served(engine, tmp_path, tools=[hosted()]) as service:
            first = await create(service, input="Hi", tools=[WEATHER])
            assert [item["type"] for item in first["output"]] == ["mcp_call", "reasoning", "function_call"]
            output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
            await create(service, previous_response_id=first["id"], input=[output], tools=[WEATHER])
        assert engine.prompts[2][: len(engine.prompts[1])] == engine.prompts[1]

    asyncio.run(run())


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("approve", [True, False])
def test_a_call_that_needs_an_approval_waits_for_it(tmp_path: Path, is_stored: bool, approve: bool) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(think("x") + FREE, final("As you wish."), final("Still there."))
        async with served(engine, tmp_path, tools=[hosted("ask", seen=seen)]) as service:
            first = await create(service, input="Hi", store=is_stored)
            request = first["output"][-1]
            assert (request["type"], request["name"], request["server_label"]) == (
                "mcp_approval_request",
                "free",
                "disk",
            )
            assert seen == []
            decision = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}
            history: list[Any] = [{"role": "user", "content": "Hi"}, *first["output"], decision]
            body: dict[str, Any] = {"input": history, "store": False}
            if is_stored:
                body = {"previous_response_id": first["id"], "input": [decision]}
            events = await stream(service, **body)
            second = events[-1]["response"]
            assert fold(events) == second["output"]
            assert len(seen) == (1 if approve else 0)
            prompt = decode(engine.prompts[1])
            assert ("4 kB free" in prompt) is approve
            assert ("the user refused" in prompt) is not approve
            if approve:
                assert second["output"][0]["approval_request_id"] == request["id"]
            # And the turn after that runs nothing again.
            body = {"input": [*history, *second["output"], {"role": "user", "content": "And?"}], "store": False}
            if is_stored:
                body = {"previous_response_id": second["id"], "input": "And?"}
            third = await create(service, **body)
            assert text_of(third) == "Still there."
            assert len(seen) == (1 if approve else 0)

    asyncio.run(run())


def test_an_approval_of_nothing_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=[hosted("ask")]) as service:
            item = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
            with pytest.raises(InputError) as caught:
                await create(service, input=[item])
            assert caught.value.at.path == "$.input[0].approval_request_id"

    asyncio.run(run())


def test_tools_that_a_server_does_not_have_cannot_be_the_allowed_ones(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path, tools=[hosted("run")]) as service:
            disk = {"type": "mcp", "server_label": "disk"}
            for allowed in (["fre"], {"tool_names": ["fre"]}):
                with pytest.raises(InputError) as caught:
                    await create(service, input="Hi", tools=[{**disk, "allowed_tools": allowed}])
                assert caught.value.code is ErrorCode.SERVE_INVALID_FIELD
                assert caught.value.at.path == "$.tools[0].allowed_tools"

    asyncio.run(run())


def test_a_server_of_the_clients_choice_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("x")), tmp_path) as service:
            tool = {"type": "mcp", "server_label": "evil", "server_url": "http://127.0.0.1:9/mcp"}
            with pytest.raises(InputError) as caught:
                await service.responses.create({"input": "Hi", "tools": [tool]}, Caller())
            assert caught.value.code is ErrorCode.SERVE_FORBIDDEN

    asyncio.run(run())


@pytest.mark.parametrize("change", [{"encrypted_content": None}, {"arguments": '{"path":"/"}'}, {"name": "other"}])
def test_only_what_the_model_called_can_be_approved(tmp_path: Path, change: dict[str, Any]) -> None:
    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(FREE, final("x")), tmp_path, tools=[hosted("ask", seen=seen)]) as service:
            first = await create(service, input="Hi", store=False)
            request = {**first["output"][-1], **change}
            decision = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
            with pytest.raises(InputError) as caught:
                await create(service, input=[{"role": "user", "content": "Hi"}, request, decision], store=False)
            assert caught.value.code is ErrorCode.SERVE_BAD_SEAL
            assert seen == []

    asyncio.run(run())
