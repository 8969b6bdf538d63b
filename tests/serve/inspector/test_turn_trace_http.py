"""What the page asks of a server beside the two APIs: a turn to inspect, and what there is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harmonia.errors import ErrorCode, ToolError
from harmonia.run.tools import Tool
from harmonia.serve.inspector.routes import LARGE_TOKENS
from harmonia.serve.models.server_tools import ServerTool, describe_servers
from harmonia.serve.security.keys import new_api_key
from harmonia.serve.wire.work_limits import MOST_TOKENS
from tests.support.engines.scripted import ScriptedEngine, final, say, think
from tests.support.servers.in_process import application, ask
from tests.support.servers.real_servers import real_server

Json = dict[str, Any]

ASKED: Json = {"input": [{"role": "user", "content": "Hi"}], "store": False, "include": ["harmonia.encrypted_content"]}
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
def test_a_turn_is_inspected_with_its_prompt(tmp_path: Path, analysis: Any) -> None:
    async def talk() -> None:
        engine = ScriptedEngine(think("Secret.") + final("Yes."))
        async with application(engine, tmp_path, analysis=analysis) as (app, _):
            output = (await ask(app, "POST", "/v1/responses", ASKED)).json["output"]
            body = {"request": ASKED, "output": output, "include": ["ids", "text"]}
            answer = await ask(app, "POST", "/v1/harmony/trace", body)
            assert answer.status == 200, answer.body
            traced = answer.json
            assert traced["prompt_tokens"] == len(engine.prompts[0])
            assert traced["diagnostics"] == []
            channels = [message["channel"] for message in traced["messages"] if message["role"] == "assistant"]
            left_out = say("<|start|>assistant<|channel|>analysis<|message|>Secret.<|end|>")
            if analysis == "shown":
                assert (channels, traced["left_out"]) == (["analysis", "final"], None)
                assert traced["tokens"] == len(engine.prompts[0]) + len(engine.sampled[0])
            else:
                assert channels == ["final"]
                assert traced["left_out"] == {"messages": 1, "tokens": len(left_out)}
                assert b"Secret" not in answer.body

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({"output": []}, "request"),
        ({"request": "Hi"}, "request"),
        ({"request": {"input": "Hi"}, "include": ["nonsense"]}, "include[0]"),
        ({"request": {"input": "Hi"}, "nonsense": 1}, "nonsense"),
        ({"request": {"input": "Hi", "nonsense": 1}}, "request.nonsense"),
        ({"request": {"input": "Hi"}, "output": [{"type": "nonsense"}]}, "output[0].type"),
    ],
)
def test_what_is_wrong_has_its_place(tmp_path: Path, body: Any, param: str | None) -> None:
    async def talk() -> None:
        async with application(ScriptedEngine(final("Hi")), tmp_path) as (app, _):
            answer = await ask(app, "POST", "/v1/harmony/trace", body)
            assert (answer.status, answer.json["error"]["param"]) == (400, param)

    asyncio.run(talk())


def test_a_long_turn_goes_to_a_thread_and_one_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def talk() -> None:
        async with application(ScriptedEngine(final("Hi")), tmp_path) as (app, _):
            for words, status in ((LARGE_TOKENS, 200), (MOST_TOKENS, 413)):
                answer = await ask(app, "POST", "/v1/harmony/trace", {"request": {"input": " word" * words}})
                assert answer.status == status, answer.body

    asyncio.run(talk())


def test_the_server_says_what_a_client_must_know(tmp_path: Path) -> None:
    async def talk() -> None:
        tools = [
            ServerTool("disk", "free", Tool("disk___free", "Free space.", SCHEMA, lambda _: ""), "ask"),
            ServerTool("disk", "wipe", Tool("disk___wipe", None, None, lambda _: ""), "run"),
        ]
        engine = ScriptedEngine(final("Hi"))
        async with application(engine, tmp_path, tools=tools, analysis="shown", aliases=("small",)) as (app, _):
            info = (await ask(app, "GET", "/v1/harmony/server")).json
        version = info.pop("version")
        assert version and isinstance(version, str)
        assert info == {
            "object": "harmonia.server",
            "models": ["script", "small"],
            "engine": "scripted",
            "context_tokens": engine.traits.context_tokens,
            "speaks_tokens": True,
            "analysis": "shown",
            "guessed": "hidden",
            "calls": "certain",
            "mcp_servers": [
                {
                    "label": "disk",
                    "tools": [
                        {"name": "free", "description": "Free space.", "parameters": SCHEMA, "approval": "ask"},
                        {"name": "wipe", "description": None, "parameters": None, "approval": "run"},
                    ],
                    "error": None,
                }
            ],
        }

    asyncio.run(talk())


def test_a_server_that_is_not_there_is_named_and_nothing_of_its_configuration_is() -> None:
    secret = "/home/operator/bin/server --token=hunter2: no such file; authorization: Bearer hunter2"
    failures = {"files": ToolError(ErrorCode.TOOL_FAILED, secret), "disk": None}
    described = describe_servers([], failures)
    assert [each["label"] for each in described] == ["files", "disk"]
    assert described[1] == {"label": "disk", "tools": [], "error": None}
    error = described[0]["error"]
    assert ErrorCode.TOOL_FAILED.value in error
    assert not any(word in json.dumps(described) for word in ("hunter2", "operator", "bin/", "authorization"))


def test_a_key_is_asked_for_where_there_are_keys(tmp_path: Path) -> None:
    async def talk() -> None:
        file = tmp_path / "keys"
        key = new_api_key(file, "alice")
        async with real_server(ScriptedEngine(final("Hi")), tmp_path, key_file=file) as server:
            headers = {"authorization": f"Bearer {key}"}
            for method, path, body in (
                ("GET", "/v1/harmony/server", None),
                ("POST", "/v1/harmony/trace", {"request": {"input": "Hi"}}),
            ):
                assert (await server.ask(method, path, body)).status == 401
                assert (await server.ask(method, path, body, **headers)).status == 200

    asyncio.run(talk())
