"""Streams: the bytes of events, and every way in which a stream ends."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from harmonia.errors import EngineError, ErrorCode
from harmonia.grammar import Demand, WrittenGrammar, grammar_for
from harmonia.run.constraints import attempts
from harmonia.schema.work_budget import spend
from harmonia.serve.config.settings import Limits
from harmonia.serve.http import running_requests
from harmonia.serve.wire.event_stream import StreamEvent
from tests.support.engines.masked import MaskedEngine
from tests.support.servers.event_loops import Run
from tests.support.servers.http_servers import (
    Client,
    FakeService,
    Generated,
    Server,
    emit,
    hang_behind,
    numbered,
    request_of,
    running,
)
from tests.support.servers.served import served

LONG_S = 60  # for a test that fails; nothing waits so long
TICKS = [b'event: response.tick\ndata: {"n":%d}\n\n' % number for number in range(3)]


async def flood(_: Generated) -> AsyncGenerator[StreamEvent, None]:
    """Without an end, and without ever waiting."""
    for number in count():
        yield StreamEvent(b'{"n":%d,"text":"%s"}' % (number, b"x" * 200), "response.tick")


async def begin(server: Server, path: str = "/v1/responses", **headers: str) -> tuple[Client, Generated]:
    client = await server.connect()
    await client.send("POST", path, {"stream": True}, **headers)
    status, _ = await client.read_head()
    assert status == 200
    service = server.service.chat_completions if path.endswith("completions") else server.service.responses
    return client, await service.started.get()


@pytest.mark.parametrize(
    ("path", "headers", "end"),
    [
        ("/v1/responses", {}, []),
        ("/v1/responses", {"harmonia_dialect": "open-responses"}, [b"data: [DONE]\n\n"]),
        ("/v1/chat/completions", {}, [b"data: [DONE]\n\n"]),
    ],
)
def test_each_event_is_one_write_and_the_end_is_the_apis(
    run: Run, path: str, headers: dict[str, str], end: list[bytes]
) -> None:
    async def play() -> None:
        async with running() as server:
            client, generated = await begin(server, path, **headers)
            assert [chunk async for chunk in client.chunks()] == [*TICKS, *end]
            assert generated.is_finished
            # The same connection serves the next request.
            await client.send("GET", "/health")
            assert (await client.read()).status == 200
            client.close()

    run(play())


def test_an_event_without_a_name_has_no_event_line(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.chat_completions.script = emit([StreamEvent(b"{}")])
            client, _ = await begin(server, "/v1/chat/completions")
            assert [chunk async for chunk in client.chunks()] == [b"data: {}\n\n", b"data: [DONE]\n\n"]
            client.close()

    run(play())


def test_a_stream_says_what_it_is_and_that_nobody_should_keep_it(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            answer = await server.ask("POST", "/v1/responses", {"stream": True}, x_request_id="a.B-1_")
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-request-id"] == "a.B-1_"
            assert b"\r" not in answer.body

    run(play())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_cancels_its_generation(run: Run, stream: bool) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = hang_behind(numbered(3))
            client = await server.connect()
            await client.send("POST", "/v1/responses", {"stream": stream})
            generated = await server.service.responses.started.get()
            if stream:
                await client.read_head()
                chunks = client.chunks()
                assert [await anext(chunks) for _ in range(3)] == TICKS
                await chunks.aclose()
            client.close()
            await generated.closed.wait()
            assert not generated.is_finished
        assert b'harmonia_cancellations_total{why="gone"} 1.0' in server.app.metrics.write()

    run(play())


def test_a_client_that_leaves_while_events_come_without_end_cancels_them(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = flood
            client, generated = await begin(server)
            client.abort()
            await generated.closed.wait()

    run(play())


def test_a_client_that_leaves_ends_the_work_on_its_grammar_and_what_waits_for_its_share(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    first_began, first_ended = threading.Event(), threading.Event()

    def write(demand: Demand, *_: object) -> WrittenGrammar:
        assert demand.response_format is not None
        began.append(demand.response_format.name)
        if demand.response_format.name != "short":
            first_began.set()
            try:
                while True:
                    spend(1)
                    time.sleep(0.001)
            finally:
                first_ended.set()
        return grammar_for(demand, "llguidance")

    async def play() -> None:
        # A name of its own for the test's run: grammars are kept.
        schema = {"type": "object", "properties": {tmp_path.name: {"type": "string"}}}

        async def send(server: Server, name: str) -> Client:
            form = {"type": "json_schema", "name": name, "schema": schema, "strict": True}
            client = await server.connect()
            body = {"input": "Hi", "store": False, "max_output_tokens": 50, "text": {"format": form}}
            await client.send("POST", "/v1/responses", body)
            return client

        async with (
            served(MaskedEngine(1), tmp_path) as service,
            running(cast("FakeService", service)) as server,
        ):
            first = await send(server, "long")
            assert await asyncio.to_thread(first_began.wait, LONG_S)
            second = await send(server, "waits")
            await server.ask("GET", "/health")  # what was sent before has arrived
            second.close()
            await server.ask("GET", "/health")
            first.close()
            assert await asyncio.to_thread(first_ended.wait, LONG_S)
            # The place of this share is free again.
            third = await send(server, "short")
            assert (await third.read()).status == 200

    monkeypatch.setattr(attempts, "grammar_for", write)
    run(play())
    assert began == ["long", "short"]


def test_a_client_that_leaves_while_its_request_is_begun_is_not_waited_for(run: Run) -> None:
    async def play() -> None:
        entered, left = asyncio.Event(), asyncio.Event()

        async def create(value: object, caller: object) -> Generated:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
            raise AssertionError

        service = FakeService()
        service.responses.create = create
        async with running(service) as server:
            client = await server.connect()
            await client.send("POST", "/v1/responses", {})
            await entered.wait()
            client.close()
            await left.wait()

    run(play())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_does_not_read_is_cut_off_and_nothing_piles_up(run: Run, stream: bool) -> None:
    async def much(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        for event in range(1 if not stream else 10**9):
            yield StreamEvent(b"%d" % event + b" " * (50_000_000 if not stream else 2_000))
            generated.output_tokens = event

    async def play() -> None:
        async with running(limits=Limits(send_s=0.1)) as server:
            server.service.responses.script = much
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                await loop.sock_sendall(client, request_of("POST", "/v1/responses", {"stream": stream}))
                generated = await server.service.responses.started.get()
                await generated.closed.wait()
                while not server.lines():
                    await asyncio.sleep(0)
                line = server.lines()[-1]
                assert (line["code"], line["cut"]) == ("serve.too_slow", True)
                # What the kernels hold is all that was ever written: the sender waited.
                assert (generated.output_tokens or 0) < 10_000
                assert not [line for line in server.lines() if line["level"] == "error"]
        assert b'harmonia_cancellations_total{why="slow"} 1.0' in server.app.metrics.write()

    run(play())


def test_a_slow_reader_that_does_read_gets_everything(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = emit([StreamEvent(b"%05d" % n + b" " * 5000) for n in range(2000)])
            client, generated = await begin(server)
            chunks = [chunk async for chunk in client.chunks()]
            assert [int(chunk[6:11]) for chunk in chunks] == list(range(2000))
            assert generated.is_finished
            client.close()

    run(play())


def test_silence_is_filled_with_comments_and_events_stay_in_order(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(keep_alive_s=0.01)) as server:
            go_on = asyncio.Event()

            async def wait(_: Generated) -> AsyncGenerator[StreamEvent, None]:
                yield numbered(1)[0]
                await go_on.wait()
                for event in numbered(3)[1:]:
                    yield event

            server.service.responses.script = wait
            client, _ = await begin(server)
            seen: list[bytes] = []
            async for chunk in client.chunks():
                seen.append(chunk)
                if seen.count(b": keep-alive\n\n") == 3:
                    go_on.set()
            assert [chunk for chunk in seen if chunk in TICKS] == TICKS
            assert set(seen) - set(TICKS) == {b": keep-alive\n\n"}
            assert seen[0] == TICKS[0]
            client.close()

    run(play())


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_whose_time_is_up_comes_to_its_terminal_event(run: Run, stream: bool) -> None:
    async def play() -> None:
        async with running(limits=Limits(request_s=0.05)) as server:
            server.service.responses.script = hang_behind(numbered(1))
            answer = await server.ask("POST", "/v1/responses", {"stream": stream})
            assert answer.status == 200
            assert answer.body.rstrip(b"\n]").endswith(b'{"end":true}')
            assert (await server.service.responses.started.get()).is_finished

    run(play())


@pytest.mark.parametrize(
    ("path", "stream"), [("/v1/responses", True), ("/v1/chat/completions", True), ("/v1/responses", False)]
)
def test_a_generation_that_does_not_end_when_asked_is_cancelled_and_the_client_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: str, stream: bool
) -> None:
    monkeypatch.setattr(running_requests, "GRACE_S", 0.01)

    async def stubborn(_: Generated) -> AsyncGenerator[StreamEvent, None]:
        yield numbered(1)[0]
        await asyncio.Event().wait()

    async def play() -> None:
        async with running(limits=Limits(request_s=0.01)) as server:
            server.service.responses.script = server.service.chat_completions.script = stubborn
            answer = await server.ask("POST", path, {"stream": stream})
            assert b'"code":"engine_stalled"' in answer.body
            if stream:
                assert answer.status == 200
                assert answer.body.count(b"\nevent: error\n") == (1 if path == "/v1/responses" else 0)
            else:
                assert answer.status == 504

    run(play())


def test_when_the_server_stops_running_streams_get_their_terminal_event(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(drain_s=0.0)) as server:
            server.service.responses.script = hang_behind(numbered(1))
            started = [await begin(server) for _ in range(5)]
            server.stop.set()
            for client, generated in started:
                chunks = [chunk async for chunk in client.chunks()]
                assert chunks[-1] == b'event: response.incomplete\ndata: {"end":true}\n\n'
                assert generated.is_finished
                assert await client.is_closed()
                client.close()

    run(play())


def test_when_the_server_stops_what_runs_may_end_by_itself_and_nothing_new_begins(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(drain_s=600.0)) as server:
            server.service.chat_completions.script = hang_behind(numbered(1))
            client, generated = await begin(server, "/v1/chat/completions")
            server.stop.set()
            while (await server.ask("GET", "/ready")).json.get("because") != "the server is stopping":
                await asyncio.sleep(0)
            refused = await server.ask("POST", "/v1/responses", {})
            assert (refused.status, refused.code) == (503, "server_stopping")
            assert not generated.cancelled.is_set()
            generated.cancelled.set()  # it ends, and nobody asked it to
            assert [chunk async for chunk in client.chunks()][-1] == b"data: [DONE]\n\n"
            assert await client.is_closed()

    run(play())


def test_an_answer_that_is_not_whole_when_the_server_stops_does_not_look_whole(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(drain_s=0.0)) as server:
            server.service.chat_completions.script = server.service.responses.script = hang_behind(numbered(1))
            streamed, _ = await begin(server, "/v1/chat/completions")
            plain = [await server.connect() for _ in range(2)]
            for client, path in zip(plain, ("/v1/chat/completions", "/v1/responses"), strict=True):
                await client.send("POST", path, {})
            begun = [await server.service.chat_completions.started.get(), await server.service.responses.started.get()]
            server.stop.set()
            for client in plain:
                answer = await client.read()
                assert (answer.status, answer.code) == (503, "server_stopping")
            *_, last = [chunk async for chunk in streamed.chunks()]
            assert b'"code":"server_stopping"' in last
            for generated in begun:
                await generated.closed.wait()

    run(play())


def test_a_client_that_leaves_behind_the_terminal_event_is_not_cut(run: Run) -> None:
    left = asyncio.Event()

    async def script(_: Generated) -> AsyncGenerator[StreamEvent, None]:
        yield StreamEvent(b"{}", "response.completed")
        await left.wait()

    async def play() -> None:
        async with running() as server:
            server.service.responses.script = script
            client, generated = await begin(server)
            await anext(client.chunks())
            client.abort()
            # The server has seen that the client left when it has answered another one, twice.
            for _ in range(2):
                await server.ask("GET", "/health")
            left.set()
            await generated.closed.wait()
        (line,) = [line for line in server.lines() if line["route"] == "/v1/responses"]
        assert generated.is_finished
        assert "cut" not in line

    run(play())


def test_a_bug_in_the_middle_of_a_stream_is_told_and_its_words_are_not(run: Run) -> None:
    async def break_down(_: Generated) -> AsyncGenerator[StreamEvent, None]:
        for event in numbered(2):
            yield event
        raise RuntimeError("SECRET")

    async def play() -> None:
        async with running() as server:
            server.service.responses.script = server.service.chat_completions.script = break_down
            for path in ("/v1/responses", "/v1/chat/completions"):
                client, generated = await begin(server, path)
                *before, last = [chunk async for chunk in client.chunks()]
                assert before == TICKS[:2]
                assert b'"code":"server_error"' in last
                assert last.startswith(b"event: error\n") is (path == "/v1/responses")
                assert generated.closed.is_set()
                client.close()
        assert "SECRET" not in server.log.getvalue()
        assert [line["event"] for line in server.lines()].count("bug") == 2

    run(play())


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_bug_that_the_events_tell_is_logged_once_under_the_id_of_the_request(run: Run, is_stream: bool) -> None:
    async def fail(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        generated.failure = KeyError("SECRET")
        yield StreamEvent(b"{}", "response.failed")
        if not is_stream:
            raise generated.failure

    async def play() -> None:
        async with running() as server:
            server.service.responses.script = fail
            answer = await server.ask("POST", "/v1/responses", {"stream": is_stream}, x_request_id="mine")
            assert answer.status == (200 if is_stream else 500)
        bug, line = server.lines()
        assert (bug["event"], bug["request_id"], bug["error"]) == ("bug", "mine", "KeyError")
        assert (line["event"], line["code"]) == ("request", "serve.bug")
        assert "SECRET" not in server.log.getvalue()
        assert b"harmonia_bugs_total 1.0" in server.app.metrics.write()

    run(play())


def test_a_failure_that_the_events_tell_is_in_the_log_and_the_metrics(run: Run) -> None:
    async def fail(generated: Generated) -> AsyncGenerator[StreamEvent, None]:
        generated.failure = EngineError(ErrorCode.ENGINE_DIED, "it said SECRET")
        generated.output_tokens = 17
        yield StreamEvent(b"{}", "response.failed")

    async def play() -> None:
        async with running() as server:
            server.service.responses.script = fail
            assert (await server.ask("POST", "/v1/responses", {"stream": True})).status == 200
        (line,) = server.lines()
        assert line["level"] == "warning"
        assert (line["status"], line["code"], line["tokens"], line["events"]) == (200, "engine.died", 17, 1)
        assert "SECRET" not in server.log.getvalue()
        figures = server.app.metrics.write()
        assert b'harmonia_engine_errors_total{code="engine.died"} 1.0' in figures
        assert b'harmonia_output_tokens_total{route="/v1/responses"} 17.0' in figures
        assert b'harmonia_first_event_seconds_count{route="/v1/responses"} 1.0' in figures

    run(play())


def test_streams_that_never_wait_let_each_other_live(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = flood
            first, _ = await begin(server)
            second, _ = await begin(server)

            async def read(client: Client) -> None:
                chunks = client.chunks()
                for _ in range(500):
                    await anext(chunks)
                await chunks.aclose()
                client.close()

            await asyncio.gather(read(first), read(second))
            assert (await server.ask("GET", "/health")).status == 200

    run(play())
