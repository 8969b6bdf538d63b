"""What a person may do with a call that waits: change its arguments, answer it by hand; and what nobody may do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode
from harmonia.errors import ErrorCode, InputError
from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.served import create, fold, served, stream, text_of

Json = dict[str, Any]

HI: Json = {"role": "user", "content": "Hi"}
ASKS = calls("disk___free", '{"path": "/"}')
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def disk(seen: list[Any], approval: str = "ask", **options: Any) -> ServerTool:
    def invoke(arguments: Any) -> str:
        seen.append(arguments)
        return "4 kB free"

    return ServerTool("disk", "free", Tool("disk___free", "Free space.", SCHEMA, invoke, **options), approval)  # type: ignore[arg-type]


def decision(request: Json, **fields: Any) -> Json:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True, **fields}


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize(
    ("fields", "arguments", "ran", "result"),
    [
        ({"harmonia_arguments": '{"path": "/tmp"}'}, '{"path": "/tmp"}', [{"path": "/tmp"}], "4 kB free"),
        ({"harmonia_output": "By hand."}, '{"path": "/"}', [], "By hand."),
        ({"harmonia_output": ""}, '{"path": "/"}', [], ""),
        (
            {"harmonia_arguments": '{"path": "/tmp"}', "harmonia_output": "By hand."},
            '{"path": "/tmp"}',
            [],
            "By hand.",
        ),
        ({"harmonia_arguments": '{"path": "<|call|>"}'}, '{"path": "<|call|>"}', [{"path": "<|call|>"}], "4 kB free"),
    ],
)
def test_a_call_is_run_or_answered_as_the_person_says_and_once(
    tmp_path: Path, is_stored: bool, fields: Json, arguments: str, ran: list[Any], result: str
) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(think("x") + ASKS, final("As you wish."), final("Still there."))
        async with served(engine, tmp_path, tools=[disk(seen)]) as service:
            first = await create(service, input="Hi", store=is_stored)
            decided = decision(first["output"][-1], **fields)
            history: list[Json] = [HI, *first["output"], decided]
            body: Json = {"input": history, "store": False}
            if is_stored:
                body = {"previous_response_id": first["id"], "input": [decided]}
            events = await stream(service, **body)
            second = events[-1]["response"]
            assert fold(events) == second["output"]
            call = second["output"][0]
            assert (call["type"], call["arguments"], call["output"]) == ("mcp_call", arguments, result)
            assert call.get("harmonia_by_hand", False) is ("harmonia_output" in fields)
            assert seen == ran
            told = f"<|message|>{arguments}<|call|><|start|>functions.disk___free to=assistant"
            told += f"<|channel|>commentary<|message|>{result}<|end|>"
            assert told in decode(engine.prompts[1])
            # The turn after that says the same, and runs nothing again.
            later = [*history, *second["output"], {"role": "user", "content": "And?"}]
            body = {"input": later, "store": False}
            if is_stored:
                body = {"previous_response_id": second["id"], "input": "And?"}
            assert text_of(await create(service, **body)) == "Still there."
            assert seen == ran
            assert told in decode(engine.prompts[2])

    asyncio.run(run())


def test_a_client_that_forgets_the_decision_still_has_a_call_that_fits_its_result(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(ASKS, final("Yes."))
        async with served(engine, tmp_path, tools=[disk(seen)]) as service:
            first = await create(service, input="Hi", store=False)
            history: list[Json] = [HI, *first["output"]]
            decided = decision(first["output"][-1], harmonia_arguments='{"path": "/tmp"}')
            second = await create(service, input=[*history, decided], store=False)
            await create(service, input=[*history, *second["output"], HI], store=False)
        prompt = decode(engine.prompts[2])
        assert '{"path": "/tmp"}<|call|><|start|>functions.disk___free' in prompt
        assert '{"path": "/"}' not in prompt

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"harmonia_arguments": '{"path": 7}'}, "harmonia_arguments"),
        ({"harmonia_arguments": "{}"}, "harmonia_arguments"),
        ({"harmonia_arguments": "[]"}, "harmonia_arguments"),
        ({"harmonia_arguments": '{"path":'}, "harmonia_arguments"),
        ({"harmonia_arguments": ""}, "harmonia_arguments"),
        ({"harmonia_arguments": '{"path": "/"}', "approve": False}, "harmonia_arguments"),
        ({"harmonia_output": "x", "approve": False}, "harmonia_output"),
        ({"harmonia_output": 7}, "harmonia_output"),
        ({"harmonia_result": "x"}, "harmonia_result"),
    ],
)
def test_what_does_not_fit_is_the_callers_error(tmp_path: Path, fields: Json, field: str) -> None:
    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(ASKS, final("x")), tmp_path, tools=[disk(seen)]) as service:
            first = await create(service, input="Hi", store=False)
            history = [HI, *first["output"], decision(first["output"][-1], **fields)]
            with pytest.raises(InputError) as refused:
                await create(service, input=history, store=False)
            assert refused.value.at.path == f"$.input[{len(history) - 1}].{field}"
            expected = ErrorCode.SERVE_UNKNOWN_FIELD if field == "harmonia_result" else ErrorCode.SERVE_INVALID_FIELD
            assert refused.value.code is expected
            assert seen == []

    asyncio.run(run())


def test_a_tool_that_checks_itself_still_gets_an_object(tmp_path: Path) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(ASKS, final("x"))
        async with served(engine, tmp_path, tools=[disk(seen, checks_arguments=False)]) as service:
            first = await create(service, input="Hi", store=False)
            for arguments in ("[]", "no JSON"):
                decided = decision(first["output"][-1], harmonia_arguments=arguments)
                with pytest.raises(InputError) as refused:
                    await create(service, input=[HI, *first["output"], decided], store=False)
                assert refused.value.code is ErrorCode.SERVE_INVALID_FIELD
            decided = decision(first["output"][-1], harmonia_arguments='{"other": 1}')
            await create(service, input=[HI, *first["output"], decided], store=False)
            assert seen == [{"other": 1}]

    asyncio.run(run())


@pytest.mark.parametrize("change", [{"encrypted_content": None}, {"arguments": '{"path": "/etc"}'}, {"name": "wipe"}])
@pytest.mark.parametrize("fields", [{"harmonia_arguments": '{"path": "/etc"}'}, {"harmonia_output": "x"}])
def test_only_what_the_model_called_can_be_changed_or_answered(tmp_path: Path, change: Json, fields: Json) -> None:
    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(ASKS, final("x")), tmp_path, tools=[disk(seen)]) as service:
            first = await create(service, input="Hi", store=False)
            request = {**first["output"][-1], **change}
            with pytest.raises(InputError) as refused:
                await create(service, input=[HI, request, decision(request, **fields)], store=False)
            assert refused.value.code is ErrorCode.SERVE_BAD_SEAL
            assert seen == []

    asyncio.run(run())


NEVER: list[Any] = [
    "never",
    {"never": {"tool_names": ["free"]}},
    {"never": {"tool_names": ["free"]}, "always": {"tool_names": []}},
]


@pytest.mark.parametrize("require_approval", [None, *NEVER])
def test_no_request_overrides_an_operator_who_wants_to_be_asked(tmp_path: Path, require_approval: Any) -> None:
    """`always` on a page is an answer that the page gives by itself, each time."""

    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(ASKS, final("x")), tmp_path, tools=[disk(seen)]) as service:
            tool = {"type": "mcp", "server_label": "disk", "require_approval": require_approval}
            response = await create(service, input="Hi", tools=[tool])
            assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_approval_request"]
            assert seen == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("require_approval", "asks"),
    [("always", True), ({"always": {"tool_names": ["free"]}}, True), *((never, False) for never in NEVER)],
)
def test_a_request_may_ask_where_the_operator_does_not(tmp_path: Path, require_approval: Any, asks: bool) -> None:
    async def run() -> None:
        seen: list[Any] = []
        async with served(ScriptedEngine(ASKS, final("x")), tmp_path, tools=[disk(seen, "run")]) as service:
            tool = {"type": "mcp", "server_label": "disk", "require_approval": require_approval}
            response = await create(service, input="Hi", tools=[tool])
            kinds = [item["type"] for item in response["output"]]
            assert kinds == ["mcp_list_tools", *(["mcp_approval_request"] if asks else ["mcp_call", "message"])]
            assert len(seen) == (0 if asks else 1)

    asyncio.run(run())
