"""A turn as the model had it: the prompt of a request and what was sampled behind it, token by token."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harmonia import decode, parse
from harmonia.errors import ErrorCode, InputError
from harmonia.serve.inspector.turn_trace import RenderedTurn
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from tests.serve.responses.test_response_tools import FREE, hosted
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, create, served

Json = dict[str, Any]
SEALED = ["harmonia.encrypted_content"]
HI: list[Json] = [{"type": "message", "role": "user", "content": "Hi"}]


async def turn_of(service: Service, request: Json) -> tuple[RenderedTurn, Json]:
    """The answer to a request, and the turn that it makes."""
    body: Json = {"store": False, "include": SEALED, **request}
    response = await create(service, **body)
    return await service.render_turn(Caller(), body, response["output"]), response


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_turn_is_the_prompt_and_what_was_sampled(tmp_path: Path, is_sealed: bool) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("Hm.") + final("Yes."))
        async with served(engine, tmp_path, analysis="shown") as service:
            body: Json = {"input": HI, "tools": [WEATHER], "reasoning": {"effort": "low"}}
            turn, _ = await turn_of(service, body | ({} if is_sealed else {"include": []}))
        assert turn.prompt_tokens == len(engine.prompts[0])
        assert turn.tokens[: turn.prompt_tokens] == engine.prompts[0]
        sampled = engine.sampled[0] if is_sealed else engine.sampled[0][:-1] + say("<|end|>")
        assert turn.tokens[turn.prompt_tokens :] == sampled
        assert (turn.left_out, turn.left_out_tokens) == (0, 0)

    asyncio.run(run())


def test_a_turn_with_tools_is_one_list_through_all_its_samplings(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("Hm.") + FREE, think("So.") + final("4 kB."))
        async with served(engine, tmp_path, tools=[hosted()], analysis="shown") as service:
            turn, _ = await turn_of(service, {"input": HI})
        assert turn.prompt_tokens == len(engine.prompts[0])
        assert turn.tokens == engine.prompts[1] + engine.sampled[1]

    asyncio.run(run())


def test_where_reasoning_is_hidden_it_is_left_out_and_counted(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine(think("Secret.") + FREE, calls("nobody", '{"secret": 1}'), final("4 kB."))
        async with served(engine, tmp_path, tools=[hosted()]) as service:
            turn, response = await turn_of(service, {"input": HI})
            assert "ecret" not in decode(turn.tokens)
            assert "<|start|>functions.nobody" not in decode(turn.tokens)
            assert (turn.left_out, turn.tokens[: turn.prompt_tokens]) == (3, engine.prompts[0])
            assert turn.left_out_tokens > 10
            assert [message.recipient for message in parse(turn.tokens).messages[-3:]] == [
                "functions.disk___free",
                "assistant",
                None,
            ]
            # Nor does it come out of the prompt of the next one.
            later = {"input": [*HI, *response["output"][:2], *HI], "store": False}
            turn = await service.render_turn(Caller(), later, [])
            assert "ecret" not in decode(turn.tokens)
            assert (turn.left_out, len(turn.tokens)) == (1, turn.prompt_tokens)

    asyncio.run(run())


@pytest.mark.parametrize("tools", [[], [{"type": "mcp", "server_label": "disk"}]], ids=["unnamed", "listed"])
def test_nothing_is_run_and_what_an_approved_call_gave_is_part_of_the_prompt(tmp_path: Path, tools: list[Json]) -> None:
    async def run() -> None:
        seen: list[Any] = []
        engine = ScriptedEngine(think("x") + FREE, final("4 kB."))
        async with served(engine, tmp_path, tools=[hosted("ask", seen=seen)], analysis="shown") as service:
            first, response = await turn_of(service, {"input": HI})
            assert first.tokens == engine.prompts[0] + engine.sampled[0]
            decided: list[Json] = [
                *HI,
                *response["output"],
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": response["output"][-1]["id"],
                    "approve": True,
                },
            ]
            await service.render_turn(Caller(), {"input": decided}, [])
            assert seen == []
            second, answer = await turn_of(service, {"input": decided, "tools": tools})
            assert answer["output"][0]["type"] == ("mcp_list_tools" if tools else "mcp_call")
            assert seen == [{}]
        assert second.prompt_tokens == len(engine.prompts[1])
        assert second.tokens == engine.prompts[1] + engine.sampled[1]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "output", "path"),
    [
        ({"input": [{"type": "message", "role": "nobody"}]}, [], "$.request.input[0].role"),
        ({"input": "Hi", "nonsense": 1}, [], "$.request.nonsense"),
        ({"input": "Hi"}, [{"type": "message", "role": "nobody"}], "$.output[0].role"),
        ({"input": "Hi"}, [{"type": "reasoning", "encrypted_content": "hs1."}], "$.output[0].encrypted_content"),
        ({"input": "Hi", "previous_response_id": "resp_no"}, [], "$.request.previous_response_id"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_the_body(
    tmp_path: Path, request_: Json, output: Sequence[Json], path: str
) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(final("Hi")), tmp_path) as service:
            with pytest.raises(InputError) as refused:
                await service.render_turn(Caller(), request_, output)
            assert refused.value.at.path == path

    asyncio.run(run())


def test_a_seal_of_another_key_is_not_opened(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(think("x") + final("Hi")), tmp_path, analysis="shown") as service:
            _, response = await turn_of(service, {"input": HI})
            with pytest.raises(InputError) as refused:
                await service.render_turn(Caller("another"), {"input": HI}, response["output"])
            assert refused.value.code is ErrorCode.SERVE_BAD_SEAL

    asyncio.run(run())
