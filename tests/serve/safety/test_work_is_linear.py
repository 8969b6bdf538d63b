"""No request makes work out of proportion to its size, and no client that does not read makes the server hold memory.

Work is counted in calls of functions, in Python and out of it, not in seconds: twice the size may be twice the calls.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harmonia import encode
from harmonia.run.engines import Chunk, Finish, Request, Traits
from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.app import Application
from harmonia.serve.config.settings import Limits
from harmonia.serve.security.keys import new_id
from tests.support.call_counts import counting_calls
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.full_requests import SCHEMA
from tests.support.servers.http_servers import Answer, request_of
from tests.support.servers.in_process import application, ask
from tests.support.servers.real_servers import real_server

Json = dict[str, Any]

ANSWER = think("x") + final("{}")
# Four times the size may be as many times the calls, and a little more where buffers grow.
GROWTH = 4
SLACK = 1.4


async def _calls_of(app: Application, path: str, body: Any, status: int) -> int:
    with counting_calls() as counter:
        answer = await ask(app, "POST", path, body)
    assert answer.status == status, answer.body[:500]
    return counter.calls


def _message(at: int) -> Json:
    return {"role": "user" if at % 2 else "assistant", "content": f"Message {at}"}


def _calls(number: int) -> list[Json]:
    items: list[Json] = []
    for at in range(number):
        items.append({"type": "function_call", "call_id": f"call_{at}", "name": "f", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"call_{at}", "output": "x"})
    return items


def _tools(number: int) -> list[Json]:
    return [{"type": "function", "name": f"tool_{at}", "parameters": SCHEMA} for at in range(number)]


def _expanding(levels: int) -> Json:
    defs = {
        f"D{at}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/D{at + 1}"} for side in ("a", "b")}}
        for at in range(levels)
    }
    return {"$ref": "#/$defs/D0", "$defs": {**defs, f"D{levels}": {"type": "string"}}}


def _wide(number: int) -> Json:
    return {"type": "object", "properties": {f"p{at}": {"type": "string", "description": "d"} for at in range(number)}}


def _response(**fields: Any) -> tuple[str, Json]:
    return "/v1/responses", {"input": "Hi", "store": False, **fields}


def _chat(**fields: Any) -> tuple[str, Json]:
    return "/v1/chat/completions", {"model": "script", "messages": [_message(1)], **fields}


def _function(schema: Json) -> Json:
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


# By name: how a body of a size is made, the smaller size, and the status of the answer.
GROWING: dict[str, tuple[Callable[[int], tuple[str, Json]], int, int]] = {
    "messages": (lambda n: _response(input=[_message(at) for at in range(n)]), 200, 200),
    "parts": (
        lambda n: _response(input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}] * n}]),
        500,
        200,
    ),
    "calls and results": (lambda n: _response(input=[*_calls(n), _message(1)]), 100, 200),
    "developer messages": (lambda n: _response(input=[{"role": "developer", "content": "x"}] * n), 200, 200),
    "seals that do not open": (
        lambda n: _response(input=[{"type": "reasoning", "summary": [], "encrypted_content": "hs1." + "0" * n}]),
        5000,
        400,
    ),
    "tools": (lambda n: _response(tools=_tools(n)), 20, 200),
    "too many tools": (
        lambda n: _response(tools=[{"type": "function", "name": f"f{at}"} for at in range(n)]),
        2500,
        413,
    ),
    "too many tools in a namespace": (
        lambda n: _response(tools=[{"type": "namespace", "name": "x", "tools": _tools(n)}]),
        600,
        413,
    ),
    "tools with references": (
        lambda n: _response(
            tools=[{"type": "function", "name": f"f{at}", "parameters": _expanding(3)} for at in range(n)]
        ),
        20,
        200,
    ),
    "schemas that expand together": (
        lambda n: _response(
            tools=[{"type": "function", "name": f"f{at}", "parameters": _expanding(9)} for at in range(n)]
        ),
        20,
        400,
    ),
    "chat schemas that expand together": (
        lambda n: _chat(
            tools=[{"type": "function", "function": {"name": f"f{at}", "parameters": _expanding(9)}} for at in range(n)]
        ),
        20,
        400,
    ),
    "rendered schemas that expand together": (
        lambda n: (
            "/v1/harmony/render",
            {
                **_chat(
                    tools=[
                        {"type": "function", "function": {"name": f"f{at}", "parameters": _expanding(9)}}
                        for at in range(n)
                    ]
                )[1],
                "format": "chat",
            },
        ),
        20,
        400,
    ),
    "a schema that expands": (
        lambda n: _response(tools=[{"type": "function", "name": "f", "parameters": _expanding(n)}]),
        12,
        400,
    ),
    "a wide schema": (lambda n: _response(tools=[{"type": "function", "name": "f", "parameters": _wide(n)}]), 100, 200),
    "a format that expands": (
        lambda n: _response(text={"format": {"type": "json_schema", "name": "x", "schema": _expanding(n)}}),
        12,
        400,
    ),
    "metadata that is too much": (lambda n: _response(metadata={str(at): "x" for at in range(n)}), 500, 400),
    "chat messages": (lambda n: _chat(messages=[_message(at) for at in range(n)]), 200, 200),
    "chat results": (
        lambda n: _chat(
            messages=[
                {"role": "assistant", "tool_calls": [{"id": f"c{at}", "function": {"name": "f"}} for at in range(n)]},
                *({"role": "tool", "tool_call_id": f"c{at}", "content": "x"} for at in range(n)),
            ]
        ),
        100,
        200,
    ),
    "chat tools": (
        lambda n: _chat(tools=[{"type": "function", "function": {"name": f"t{at}"}} for at in range(n)]),
        50,
        200,
    ),
    "a chat schema that expands": (lambda n: _chat(tools=[_function(_expanding(n))]), 12, 400),
    "stops": (lambda n: _chat(stop=["x" * n]), 500, 200),
    "text to parse": (lambda n: ("/v1/harmony/parse", {"text": "<|start|>" * n, "role": "assistant"}), 100, 200),
    "faults to inspect": (lambda n: ("/v1/harmony/inspect", {"tokens": [200006, 200012] * n}), 100, 200),
    "a turn to trace": (
        lambda n: (
            "/v1/harmony/trace",
            {
                "request": {"input": [_message(at) for at in range(n)]},
                "output": [{"type": "message", "role": "assistant", "content": "x"}] * n,
            },
        ),
        50,
        200,
    ),
    "conversation to render": (
        lambda n: ("/v1/harmony/render", {"messages": [_message(at) for at in range(n)]}),
        100,
        200,
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_work_grows_with_the_size_of_a_body(tmp_path: Path, name: str) -> None:
    make, size, status = GROWING[name]

    async def main() -> None:
        async def count(size: int) -> int:
            # A service of its own each: a renderer remembers what it has rendered.
            folder = tmp_path / new_id("folder")
            folder.mkdir()
            async with application(ScriptedEngine(ANSWER), folder) as (app, _):
                return await _calls_of(app, *make(size), status)

        # Imports, and what is made once. Until it has had some work, the vocabulary does it another way.
        encode(" ".join(map(str, range(50_000))))
        await count(GROWTH * size)
        small = await count(size)
        assert await count(GROWTH * size) <= GROWTH * SLACK * small

    asyncio.run(main())


def test_schemas_that_expand_are_refused_where_they_become_too_much(tmp_path: Path) -> None:
    """Each would do by itself; together they are many times what was sent. Many small ones are taken."""

    async def main() -> None:
        async with application(ScriptedEngine(ANSWER), tmp_path) as (app, _):

            async def send(number: int, levels: int) -> Answer:
                schema = _expanding(levels)
                tools = [{"type": "function", "name": f"f{at}", "parameters": schema} for at in range(number)]
                return await ask(app, "POST", *_response(tools=tools))

            assert (await send(1, 8)).status == 200
            assert (await send(400, 3)).status == 200
            refused = await send(20, 8)
            assert (refused.status, refused.code) == (400, "schema.too_large")
            assert re.match(r"tools\[[0-9]+\]\.parameters", refused.json["error"]["param"])

    asyncio.run(main())


def test_tools_in_namespaces_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with application(ScriptedEngine(ANSWER), tmp_path, limits=Limits(tools=10)) as (app, _):
            tools = [{"type": "function", "name": f"f{at}"} for at in range(10)]
            answer = await ask(app, "POST", *_response(tools=[{"type": "namespace", "name": "x", "tools": tools}]))
            assert (answer.status, answer.json["error"]["param"]) == (413, "tools[0].tools[9]")

    asyncio.run(main())


def test_the_count_would_see_quadratic_work(tmp_path: Path) -> None:
    def work(size: int) -> int:
        with counting_calls() as counter:
            for _ in range(size):
                for _ in range(size):
                    abs(1)
        return counter.calls

    assert work(4 * 20) > GROWTH * SLACK * work(20)


def test_a_long_chain_of_responses_costs_its_length(tmp_path: Path) -> None:
    async def main() -> None:
        async with application(ScriptedEngine(final("Hello")), tmp_path) as (app, _):
            previous: str | None = None
            costs: list[int] = []
            for _ in range(80):
                body: Json = {"input": "Hi", **({} if previous is None else {"previous_response_id": previous})}
                with counting_calls() as counter:
                    answer = await ask(app, "POST", "/v1/responses", body)
                previous = answer.json["id"]
                costs.append(counter.calls)
            assert costs[79] <= GROWTH * SLACK * costs[19]

    asyncio.run(main())


# ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

SLOW_PATTERNS = ["^(a+)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "^(a|a)*$", "(.*)*(.*)*(.*)*=", "^(a|aa)+$"]


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
def test_no_expression_of_a_client_is_run_against_a_text(tmp_path: Path, pattern: str) -> None:
    """Not against what the model gives to a client's tool, nor against an answer; a hang is the watchdog's to see."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}, "y": {"pattern": pattern}}}
    arguments = '{"x": "' + "a" * 60 + '!", "y": "' + "x" * 60 + '"}'

    async def main() -> None:
        tool = {"type": "function", "name": "f", "parameters": schema}
        text = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
        grammar = {
            "type": "custom",
            "name": "c",
            "format": {"type": "grammar", "syntax": "regex", "definition": pattern},
        }
        for engine in (
            ScriptedEngine(calls("f", arguments), final(arguments)),
            ScriptedEngine(calls("c", "a" * 60 + "!"), final(arguments)),
            DemoEngine("script"),
        ):
            folder = tmp_path / f"{id(engine)}"
            folder.mkdir()
            async with application(engine, folder) as (app, _):
                for _ in range(2):
                    answer = await ask(
                        app, "POST", "/v1/responses", {"input": "Hi", "tools": [tool, grammar], "text": text}
                    )
                    assert answer.status == 200
                    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                    asked = {"tools": [_function(schema)], "response_format": form}
                    assert (await ask(app, "POST", *_chat(**asked))).status == 200

    asyncio.run(main())


# ── clients that do not read ────────────────────────────────────────────────────────────────────────────────────────


class EndlessEngine:
    """It never stops by itself. `said` is how many tokens it was asked for."""

    name = "endless"
    model = "script"
    traits = Traits()

    def __init__(self) -> None:
        self.said = 0
        self.running = 0
        self.most = 5_000_000

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        self.running += 1
        try:
            yield Chunk(say("<|channel|>final<|message|>"))
            while self.said < self.most:
                self.said += 1
                yield Chunk([13225])
            yield Finish("length")
        finally:
            self.running -= 1

    async def close(self) -> None:
        pass


BUFFER_BYTES = 16 * 1024
# An event is some hundred bytes; the kernel's buffers and ours are some hundred kilobytes. Without a limit it would be
# all that the engine can say.
MOST_TOKENS = 100_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "Hi", "stream": True}),
        ("/v1/responses", {"input": "Hi", "stream": True, "store": False}),
        ("/v1/chat/completions", {"model": "script", "messages": [{"role": "user", "content": "Hi"}], "stream": True}),
        (
            "/v1/chat/completions",
            {"model": "script", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "n": 4},
        ),
    ],
    ids=["responses", "not stored", "chat", "four choices"],
)
def test_the_engine_is_asked_for_no_more_than_a_client_reads(tmp_path: Path, path: str, body: Json) -> None:
    async def main() -> None:
        engine = EndlessEngine()
        async with real_server(engine, tmp_path) as server:
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                await loop.sock_sendall(client, request_of("POST", path, body))
                held = await _until_still(engine)
                assert 0 < held < MOST_TOKENS
                # It goes on when the client does.
                for _ in range(200):
                    await loop.sock_recv(client, 64 * 1024)
                assert await _until_still(engine) > held
            # And it ends when the client leaves, which closes the socket.
            while engine.running:
                await asyncio.sleep(0)

    asyncio.run(main())


async def _until_still(engine: EndlessEngine) -> int:
    """How much the engine has said when it is asked for nothing more, however often the loop goes round."""
    said, still = -1, 0
    while still < 2000:
        await asyncio.sleep(0)
        still = still + 1 if engine.said == said and said > 0 else 0
        said = engine.said
    return said
