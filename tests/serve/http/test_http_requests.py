"""Requests that come in: routes, methods, bodies, limits, and the one error shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from harmonia.errors import (
    EngineError,
    ErrorCode,
    HarmonyError,
    InputError,
    Position,
    StoreError,
    StreamError,
)
from harmonia.run.engines import VllmEngine
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent
from tests.support.servers.http_servers import (
    FakeService,
    Generated,
    Server,
    emit,
    hang_behind,
    numbered,
    request_of,
    running,
)
from tests.support.servers.wire_servers import SHORT, Asked, Wire, serving


def is_problem(body: bytes) -> bool:
    return set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_every_route_reaches_its_service(prefix: str) -> None:
    async def play() -> None:
        async with running() as server:
            for method, path, what, of in (
                ("GET", "/responses/r1?order=asc&include[]=a", "retrieve", "r1"),
                ("DELETE", "/responses/r2", "delete", "r2"),
                ("POST", "/responses/r3/cancel", "cancel", "r3"),
                ("GET", "/responses/r4/input_items?limit=2&limit=3", "input_items", "r4"),
            ):
                answer = await server.ask(method, prefix + path)
                assert answer.status == 200
                assert (answer.json["what"], answer.json["of"]) == (what, of)
            answer = await server.ask("POST", prefix + "/responses/input_tokens", {"a": 1})
            assert answer.json["of"] == {"a": 1}
            answer = await server.ask("POST", prefix + "/responses", {"n": 1})
            assert answer.json == [{"n": 0}, {"n": 1}, {"n": 2}]
            answer = await server.ask("POST", prefix + "/chat/completions", {"n": 2})
            assert answer.json == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert [value for value, _ in server.service.responses.asked] == [{"n": 1}]
            assert [value for value, _ in server.service.chat_completions.asked] == [{"n": 2}]

    asyncio.run(play())


def test_a_query_keeps_repeated_parameters_and_those_with_brackets_as_lists() -> None:
    async def play() -> None:
        async with running() as server:
            answer = await server.ask("GET", "/v1/responses/r?a=1&b=2&b=3&c[]=4&d=%C3%A9&e=")
            assert answer.json["query"] == {"a": "1", "b": ["2", "3"], "c": ["4"], "d": "é", "e": ""}
            answer = await server.ask("GET", "/v1/responses/r?" + "&".join(f"a{n}=1" for n in range(200)))
            assert (answer.status, answer.code) == (400, "invalid_value")

    asyncio.run(play())


def test_what_is_not_there_and_what_is_not_allowed_have_the_one_error_shape() -> None:
    async def play() -> None:
        async with running() as server:
            for path in (
                "/v2/responses",
                "/v1/responses/a/b/c",
                "/%00",
                "/v1/responses/%2e%2e/x",
            ):
                answer = await server.ask("GET", path)
                assert (answer.status, answer.code) == (404, "not_found"), path
                assert is_problem(answer.body)
            answer = await server.ask("POST", "/v1/embeddings")
            message = answer.json["error"]["message"]
            assert message.startswith("POST /v1/embeddings does not exist; this server has POST /v1/responses, ")
            for path in ("/v1/responses/compact", "/responses/compact"):
                answer = await server.ask("POST", path)
                assert (answer.status, answer.code) == (404, "not_found")
                assert answer.json["error"]["message"].startswith(f"POST {path} is not supported yet: ")
            answer = await server.ask("PUT", "/v1/responses/r1")
            assert (answer.status, answer.code) == (405, "method_not_allowed")
            assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"
            answer = await server.ask("GET", "/v1/chat/completions")
            message = answer.json["error"]["message"]
            assert message == "GET /v1/chat/completions is not supported; allowed are OPTIONS, POST"
            answer = await server.ask("GET", "/v1/responses")
            assert (answer.status, answer.headers["allow"]) == (405, "OPTIONS, POST")
            answer = await server.ask("BREW", "/health")
            assert answer.status in (400, 405)
            assert is_problem(answer.body)
            answer = await server.ask("OPTIONS", "/v1/responses")
            assert (answer.status, answer.headers["allow"], answer.body) == (204, "OPTIONS, POST", b"")

    asyncio.run(play())


def test_head_is_get_without_a_body_and_the_connection_goes_on() -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            await client.send("HEAD", "/health")
            length = (await client.read(is_head=True)).headers["content-length"]
            await client.send("GET", "/health")
            answer = await client.read()
            assert answer.json == {"status": "ok", "server": "harmonia"}
            assert len(answer.body) == int(length)
            client.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}),
        (b"{", {}),
        (b'{"a": 1, "a": 2}', {}),
        (b"{}", {"content_type": "text/plain"}),
        (b"{}", {"content_type": ""}),
        (b"{}", {"content_type": "application/json; charset=latin-1"}),
        (b"{}", {"content_encoding": "gzip"}),
    ],
)
def test_a_body_that_is_not_json_or_not_announced_as_such_is_refused(body: bytes, headers: dict[str, str]) -> None:
    async def play() -> None:
        async with running() as server:
            for path in ("/v1/responses", "/v1/chat/completions", "/v1/responses/input_tokens"):
                answer = await server.ask("POST", path, body, **headers)
                assert (answer.status, answer.code) == (400, "invalid_json")
            assert server.service.responses.asked == []
            answer = await server.ask("POST", "/v1/responses", b"{}", content_type='Application/JSON; charset="UTF-8"')
            assert answer.status == 200

    asyncio.run(play())


def test_a_large_body_is_read_whole() -> None:
    async def play() -> None:
        async with running() as server:
            value = {"text": "x" * 3_000_000}
            assert (await server.ask("POST", "/v1/responses", value)).status == 200
            assert server.service.responses.asked[0][0] == value

    asyncio.run(play())


def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes() -> None:
    async def play() -> None:
        async with running(limits=Limits(body_bytes=1000)) as server:
            client = await server.connect()
            await client.write(request_of("POST", "/v1/responses", b"{", content_length="9" * 17))
            status, headers = await client.read_head()
            assert (status, headers["connection"]) == (413, "close")
            client.close()

    asyncio.run(play())


def test_a_body_that_becomes_too_large_is_refused_and_the_client_can_read_why() -> None:
    async def play() -> None:
        async with running(limits=Limits(body_bytes=1000)) as server:
            client = await server.connect()
            chunked = {"transfer_encoding": "chunked", "content_length": "", "content_type": "application/json"}
            await client.write(request_of("POST", "/v1/responses", None, **chunked))
            # It sends all of it before it reads; the answer is there nevertheless, and then the end.
            for _ in range(100):
                await client.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await client.write(b"0\r\n\r\n")
            answer = await client.read()
            assert (answer.status, answer.code) == (413, "request_too_large")
            assert await client.reader.read() == b""
            client.close()

    asyncio.run(play())


def test_a_body_that_does_not_come_is_waited_for_no_longer_than_allowed() -> None:
    async def play() -> None:
        async with running(limits=Limits(receive_s=0.05)) as server:
            client = await server.connect()
            await client.write(request_of("POST", "/v1/responses", b"{}", content_length="100"))
            answer = await client.read()
            assert (answer.status, answer.code) == (408, "request_timeout")
            assert await client.is_closed()
            assert server.service.responses.asked == []

    asyncio.run(play())


def test_a_client_that_leaves_in_the_middle_of_its_body_is_only_noted() -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            await client.write(request_of("POST", "/v1/responses", b"{}", content_length="100"))
            client.close()
            await client.writer.wait_closed()
            # Its place is free again when the line is written.
            while not server.lines():
                await asyncio.sleep(0)
            (line,) = server.lines()
            assert (line["status"], line["cut"]) == (499, True)
            assert "error" not in line

    asyncio.run(play())


@pytest.mark.parametrize(
    "error",
    [
        InputError(ErrorCode.SERVE_UNKNOWN_FIELD, "what", Position(path="$.input[2].content")),
        InputError(ErrorCode.SERVE_UNKNOWN_MODEL, "what"),
        InputError(ErrorCode.SERVE_BUSY, "what"),
        InputError(ErrorCode.SERVE_TOO_LARGE, "what"),
        EngineError(ErrorCode.ENGINE_UNREACHABLE, "at 10.0.0.1"),
        StreamError(ErrorCode.HEADER_UNKNOWN_ROLE, "it said SECRET"),
        StoreError(ErrorCode.STORE_UNAVAILABLE, "disk full"),
    ],
    ids=lambda error: error.code.value,
)
def test_what_a_service_raises_is_told_as_its_problem(error: HarmonyError) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.refuses = error
            expected = api_error_of(error)
            for method, path, body in (
                ("POST", "/v1/responses", b"{}"),
                ("GET", "/v1/responses/r", None),
                ("POST", "/v1/responses/input_tokens", b"{}"),
            ):
                answer = await server.ask(method, path, body)
                assert answer.status == expected.status
                assert answer.json == {"error": expected.to_dict()}
                assert answer.headers.get("retry-after") == (
                    None if expected.retry_after_s is None else str(expected.retry_after_s)
                )

    asyncio.run(play())


def test_a_bug_is_a_500_that_says_nothing_and_a_stack_in_the_log() -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.refuses = ValueError("SECRET")
            answer = await server.ask("POST", "/v1/responses", {}, x_request_id="mine-1")
            assert (answer.status, answer.code) == (500, "server_error")
            assert b"SECRET" not in answer.body
        bug, line = server.lines()
        assert (bug["event"], bug["request_id"], bug["error"]) == ("bug", "mine-1", "ValueError")
        assert any("in create" in frame for frame in bug["stack"])
        assert (line["status"], line["code"]) == (500, "serve.bug")
        assert "SECRET" not in server.log.getvalue()

    asyncio.run(play())


def test_the_dialect_is_the_headers_or_the_settings() -> None:
    async def play() -> None:
        async with running(dialect="open-responses") as server:
            await server.ask("POST", "/v1/responses", {})
            await server.ask("POST", "/v1/responses", {}, harmonia_dialect="openai")
            assert [caller.dialect for _, caller in server.service.responses.asked] == ["open-responses", "openai"]
            answer = await server.ask("POST", "/v1/responses", {}, harmonia_dialect="esperanto")
            assert (answer.status, answer.code) == (400, "invalid_value")

    asyncio.run(play())


def test_only_so_many_generate_at_once_and_the_next_may_when_one_has_ended() -> None:
    async def play() -> None:
        async with running(limits=Limits(concurrent=1)) as server:
            responses = server.service.responses
            responses.script = hang_behind(numbered(1))
            first = await server.connect()
            await first.send("POST", "/v1/responses", {"stream": True})
            await first.read_head()
            generated = await responses.started.get()
            answer = await server.ask("POST", "/v1/chat/completions", {})
            assert (answer.status, answer.code) == (429, "rate_limit_exceeded")
            assert int(answer.headers["retry-after"]) >= 1
            assert (await server.ask("GET", "/v1/responses/r")).status == 200
            generated.cancel()
            assert [chunk async for chunk in first.chunks()][-1].startswith(b"event: response.incomplete")
            assert (await server.ask("POST", "/v1/chat/completions", {})).status == 200
            first.close()

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/responses/input_tokens", "/v1/harmony/tokenize"])
def test_what_works_without_the_model_takes_one_of_the_same_places(path: str) -> None:
    async def play() -> None:
        async with running(limits=Limits(concurrent=1)) as server:
            responses = server.service.responses
            responses.script = hang_behind(numbered(1))
            first = await server.connect()
            await first.send("POST", "/v1/responses", {"stream": True})
            await first.read_head()
            generated = await responses.started.get()
            assert (await server.ask("POST", path, {"text": "x"})).status == 429
            generated.cancel()
            assert [chunk async for chunk in first.chunks()]
            assert (await server.ask("POST", path, {"text": "x"})).status == 200
            assert (await server.ask("POST", path, b"{")).status == 400
            assert (await server.ask("POST", path, {"text": "x"})).status == 200

    asyncio.run(play())


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_path_of_its_own_is_no_id(prefix: str) -> None:
    async def play() -> None:
        async with running() as server:
            path = f"{prefix}/responses/input_tokens"
            for method in ("OPTIONS", "GET", "DELETE"):
                answer = await server.ask(method, path)
                assert (answer.status, answer.headers["allow"]) == (
                    204 if method == "OPTIONS" else 405,
                    "OPTIONS, POST",
                )
            other = await server.ask("OPTIONS", f"{prefix}/responses/resp_1")
            assert other.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"

    asyncio.run(play())


def test_ready_looks_at_the_store_and_the_engine_and_needs_no_key() -> None:
    async def ask(service: FakeService) -> tuple[int, Any]:
        async with running(service) as server:
            answer = await server.ask("GET", "/ready")
            return answer.status, answer.json

    async def play() -> None:
        service = FakeService(keys={"k": "alice"})
        assert await ask(service) == (200, {"status": "ready"})
        service.store.problem = StoreError(ErrorCode.STORE_UNAVAILABLE, "disk full")
        assert await ask(service) == (503, {"status": "not ready", "because": "the store cannot be written"})

    asyncio.run(play())


def test_ready_asks_an_engine_that_is_a_server_once_for_all_who_want_to_know() -> None:
    async def play() -> None:
        asked: list[str] = []

        async def answer(question: Asked, wire: Wire) -> None:
            asked.append(question.path)
            await wire.answer(404, {})

        service = FakeService()
        async with serving(answer) as engine:
            service.model = VllmEngine(engine.url, "gpt-oss", patience=SHORT)
            async with running(service) as server:
                answers = await asyncio.gather(*(server.ask("GET", "/ready") for _ in range(5)))
                assert [each.status for each in answers] == [200] * 5
                assert len(asked) == 1
        async with running(service) as server:
            gone = await server.ask("GET", "/ready")
            assert (gone.status, gone.json["because"]) == (503, "the engine cannot be reached")
        (line,) = server.lines()
        assert (line["level"], line["code"]) == ("warning", "engine.unreachable")
        await service.model.close()

    asyncio.run(play())


def test_a_prompt_that_does_not_fit_is_no_warning_and_its_size_is_told() -> None:
    async def play() -> None:
        async with running() as server:
            words = "http://engine:8080: request (9000 tokens) exceeds the available context size (8192 tokens)"
            server.service.responses.refuses = EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, words)
            answer = await server.ask("POST", "/v1/responses", {})
            assert (answer.status, answer.code) == (400, "context_length_exceeded")
            message = answer.json["error"]["message"]
            assert "9000" in message and "8192" in message and "8080" not in message
        (line,) = server.lines()
        assert (line["level"], line["code"], "stack" in line) == ("info", "engine.out_of_context", False)

    asyncio.run(play())


def test_the_root_says_what_this_is_and_a_slash_at_the_end_changes_nothing() -> None:
    async def play() -> None:
        async with running() as server:
            root = await server.ask("GET", "/")
            assert (root.status, root.json["server"], root.json["docs"]) == (200, "harmonia", "/docs")
            assert (await server.ask("POST", "/v1/responses/", {})).status == 200
            assert (await server.ask("GET", "/v1/responses/r1/")).json["of"] == "r1"

    asyncio.run(play())


def test_the_answer_of_a_generation_that_failed_is_counted_and_logged_once() -> None:
    error = EngineError(ErrorCode.ENGINE_UNREACHABLE, "nothing answers at http://engine")

    async def fail(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        generated.failure = error
        for event in numbered(0):
            yield event
        raise error

    async def play() -> Server:
        async with running() as server:
            server.service.responses.script = fail
            answer = await server.ask("POST", "/v1/responses", {})
            assert (answer.status, answer.code) == (503, "engine_unreachable")
            return server

    server = asyncio.run(play())
    (line,) = server.lines()
    assert (line["level"], line["code"], line["because"]) == ("warning", "engine.unreachable", error.message)
    assert "stack" not in line
    assert b'harmonia_engine_errors_total{code="engine.unreachable"} 1.0' in server.app.metrics.write()


def test_a_whole_answer_is_as_long_as_it_is_said_to_be() -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = emit([StreamEvent(b'"' + b"x" * 500_000 + b'"')])
            answer = await server.ask("POST", "/v1/responses", {})
            assert len(answer.json[0]) == 500_000

    asyncio.run(play())
