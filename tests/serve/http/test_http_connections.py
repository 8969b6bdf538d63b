"""Connections of clients that do not behave: what uvicorn leaves open, closed."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.serve import server as server_module
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.ports import bind
from harmonia.serve.server import Listening
from tests.support.paths import ROOT
from tests.support.servers.event_loops import Run
from tests.support.servers.http_servers import emit, hang_behind, numbered, request_of, running


def test_a_long_answer_is_not_kept_for_a_client_that_does_not_read_it(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(send_s=0.05)) as server:
            text = "<|channel|>" * 16_000  # whose events are more than the buffers of two sockets take
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_of("POST", "/v1/harmony/parse", {"text": text, "output": "events"}))
            while not server.lines():
                await asyncio.sleep(0.01)
            (line,) = server.lines()
            assert (line["status"], line["code"], line["cut"]) == (200, "serve.too_slow", True)
            writer.close()

    run(play())


def test_a_head_that_does_not_end_is_refused_and_the_client_can_read_why(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            await client.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
            for number in range(40):
                await client.write(b"x-%d: " % number + b"y" * 8000 + b"\r\n")
            answer = await client.read()
            assert answer.status in (400, 413)
            assert answer.code in ("request_too_large", "invalid_json")
            assert await client.is_closed()

    run(play())


def test_what_stands_behind_a_body_is_no_header(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            head = request_of(
                "POST", "/v1/responses", b"", content_length="", content_type="", transfer_encoding="chunked"
            )
            await client.write(head + b"2\r\n{}\r\n0\r\ncontent-type: application/json\r\nx-request-id: mine\r\n\r\n")
            answer = await client.read()
            assert (answer.status, answer.code) == (400, "invalid_json")
            assert answer.headers["x-request-id"] != "mine"

    run(play())


@pytest.mark.parametrize("endless", [b"x-trailer: " + b"y" * 8000 + b"\r\n", b"y" * 8000])
def test_what_stands_behind_a_body_and_does_not_end_is_refused(run: Run, endless: bytes) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            head = request_of("POST", "/v1/responses", b"", content_length="", transfer_encoding="chunked")
            await client.write(head + b"2\r\n{}\r\n0\r\nx-first: ")
            for _ in range(40):
                await client.write(endless)
            answer = await client.read()
            assert answer.status in (400, 413)
            assert answer.code in ("request_too_large", "invalid_json")
            assert await client.is_closed()

    run(play())


def test_a_head_that_is_too_large_or_has_too_many_headers_is_refused(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            for head in (
                b"x-a: " + b"y" * 70_000 + b"\r\n",
                b"".join(b"x-%d: y\r\n" % number for number in range(300)),
            ):
                client = await server.connect()
                await client.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n")
                answer = await client.read()
                assert answer.status in (400, 413)
                assert set(answer.json["error"]) == {"message", "type", "param", "code"}

    run(play())


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_in_our_shape_and_the_server_lives(run: Run, junk: bytes) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            await client.write(junk)
            answer = await client.read()
            assert 400 <= answer.status < 500
            assert set(answer.json["error"]) == {"message", "type", "param", "code"}
            client.close()
            assert (await server.ask("GET", "/health")).status == 200
        assert not [line for line in server.lines() if line["level"] == "error"]

    run(play())


def test_a_body_whose_chunks_are_broken_is_refused_and_nobody_waits_for_its_rest(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(concurrent=1)) as server:
            client = await server.connect()
            await client.write(
                b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"
            )
            await client.write(b"nonsense\r\n")
            answer = await client.read()
            assert (answer.status, answer.code) == (400, "invalid_json")
            assert (await server.ask("POST", "/v1/responses", {})).status == 200
        assert not [line for line in server.lines() if line["level"] == "error"]

    run(play())


def test_junk_behind_a_request_does_not_get_into_its_answer(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = hang_behind(numbered(1))
            client = await server.connect()
            await client.write(request_of("POST", "/v1/responses", {"stream": True}) + b"\x00junk\r\n\r\n")
            generated = await server.service.responses.started.get()
            generated.cancel()
            rest = b""
            with suppress(ConnectionError):
                rest = await client.reader.read()
            # Either it was cut, or the junk was looked at behind the answer.
            answer, _, behind = rest.partition(b"0\r\n\r\n")
            assert b"HTTP/1.1 4" not in answer
            assert not behind or behind.startswith(b"HTTP/1.1 400")
            await generated.closed.wait()

    run(play())


def test_pipelined_requests_are_answered_in_order(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            requests = [request_of("POST", "/v1/responses", {"stream": True}), request_of("GET", "/v1/responses/r2")]
            await client.write(b"".join(requests))
            assert b'{"n":2}' in (await client.read()).body
            assert (await client.read()).json["of"] == "r2"

    run(play())


def test_a_client_that_leaves_behind_pipelined_requests_leaves_all_of_them(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(keep_alive_s=0.01)) as server:
            server.service.responses.script = hang_behind(numbered(1))
            client = await server.connect()
            one = request_of("POST", "/v1/responses", {"stream": True})
            await client.write(one + one + one)
            generated = await server.service.responses.started.get()
            client.abort()
            await generated.closed.wait()
            assert server.service.responses.started.empty()

    run(play())


def test_a_connection_that_says_nothing_is_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "KEEP_ALIVE_S", 0)

    async def play() -> None:
        async with running(limits=Limits(head_s=0.05)) as server:
            silent, halting = await server.connect(), await server.connect()
            await halting.write(b"GET /health HTTP/1.1\r\nhost: loc")
            assert await silent.is_closed()
            assert await halting.is_closed()

    run(play())


def test_a_client_that_does_not_read_its_end_is_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = asyncio.Event()
    connection_lost = server_module._GuardedProtocol.connection_lost  # pyright: ignore[reportPrivateUsage]

    def note_loss(self: Any, error: Exception | None) -> None:
        connection_lost(self, error)
        lost.set()

    monkeypatch.setattr(server_module._GuardedProtocol, "connection_lost", note_loss)  # pyright: ignore[reportPrivateUsage]

    async def play() -> None:
        async with running(limits=Limits(send_s=0.05)) as server:
            # An answer of one piece, too large for the kernels: it is complete for the server and then only waits.
            monkeypatch.setattr(server.service.responses, "retrieve", retrieve_much)
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                await loop.sock_sendall(client, request_of("GET", "/v1/responses/r", connection="close"))
                await lost.wait()
                received = 0
                with suppress(ConnectionError):
                    while piece := await loop.sock_recv(client, 1 << 20):
                        received += len(piece)
                assert received < 30_000_000

    run(play())


async def retrieve_much(*_: object) -> bytes:
    return b"x" * 30_000_000


def test_a_client_that_waits_for_100_continue_gets_it_or_the_refusal(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(body_bytes=100)) as server:
            client = await server.connect()
            await client.write(request_of("POST", "/v1/responses", b"", content_length="2", expect="100-continue"))
            assert (await client.read_head())[0] == 100
            await client.write(b"{}")
            assert (await client.read()).status == 200
            await client.write(request_of("POST", "/v1/responses", b"", content_length="999", expect="100-continue"))
            assert (await client.read_head())[0] == 413

    run(play())


def test_a_request_for_a_web_socket_is_told_that_there_are_none(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            for path in ("/v1/responses", "/v1/nothing"):
                client = await server.connect()
                await client.send("GET", path, None, upgrade="websocket", connection="Upgrade")
                answer = await client.read()
                assert (answer.status, answer.code) == (426, "websocket_not_supported")
                assert await client.is_closed()
        assert [line["event"] for line in server.lines()] == ["request"] * 2

    run(play())


def test_a_port_that_is_taken_is_the_operators_to_change() -> None:
    (taken,) = bind("127.0.0.1", 0)
    with taken:
        with pytest.raises(InputError) as caught:
            bind("127.0.0.1", taken.getsockname()[1])
        assert caught.value.code is ErrorCode.SERVE_INVALID_OPTION
        assert caught.value.at.path == "$.port"
    with pytest.raises(InputError) as caught:
        bind("no.such.host.invalid", 0)
    assert caught.value.at.path == "$.host"


def test_all_addresses_of_a_host_have_the_same_port() -> None:
    sockets = bind("localhost", 0)
    assert len({each.getsockname()[1] for each in sockets}) == 1
    for each in sockets:
        each.close()


def test_the_url_of_a_listener_is_one_that_a_client_can_use() -> None:
    assert Listening("0.0.0.0", 1).url == "http://127.0.0.1:1"
    assert Listening("::", 1).url == "http://[::1]:1"
    assert Listening("box", 1).url == "http://box:1"


SERVE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from tests.support.servers.http_servers import FakeService, hang_behind, numbered
from harmonia.serve.server import loop_factory, serve
from harmonia.serve.config.settings import Limits, Settings

service = FakeService()
service.responses.script = hang_behind(numbered(1))

async def main():
    settings = Settings(port=0, limits=Limits(drain_s=float(sys.argv[2])))
    await serve(service, settings, on_listening=lambda at: print(at.port, flush=True))
    print("closed properly", flush=True)

with asyncio.Runner(loop_factory=loop_factory()) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("drain_s", "signals"), [("0", 1), ("600", 2)])  # the second one does not wait
def test_a_signal_ends_streams_properly_and_what_called_serve_goes_on(
    number: signal.Signals, drain_s: str, signals: int
) -> None:
    async def play() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SERVE, str(ROOT), drain_s),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            assert process.stdout is not None
            port = int(await process.stdout.readline())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_of("POST", "/v1/responses", {"stream": True}))
            await reader.readuntil(b'{"n":0}')
            assert process.stderr is not None
            for sent in range(signals):
                process.send_signal(number)
                if sent < signals - 1:
                    await process.stderr.readuntil(b"stopping")
            assert b"event: response.incomplete" in await reader.read()
            writer.close()
            out, err = await process.communicate()
        assert (process.returncode, out) == (0, b"closed properly\n"), err

    asyncio.run(play())


def test_an_answer_is_not_mixed_with_another_on_one_connection(run: Run) -> None:
    async def play() -> None:
        async with running() as server:
            server.service.responses.script = emit(numbered(100))
            client = await server.connect()
            for _ in range(20):
                await client.send("POST", "/v1/responses", {"stream": True})
                assert (await client.read()).body.count(b"event: ") == 100
                await client.send("POST", "/v1/responses", {})
                assert len((await client.read()).json) == 100

    run(play())
