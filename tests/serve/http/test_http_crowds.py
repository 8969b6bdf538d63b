"""More connections than the server takes: who is let in, who is closed, and who is refused."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harmonia.serve.config.settings import Limits
from harmonia.serve.http import connections
from harmonia.serve.http import request_state as bodies
from harmonia.serve.http.connections import Budgets, Connections, Group, address_of
from tests.support.commands import run_harmonia
from tests.support.servers.event_loops import Run
from tests.support.servers.http_servers import Client, FakeService, Server, hang_behind, numbered, request_of, running
from tests.support.servers.server_processes import server_process

KEY = "Bearer right"
KEYS = {"right": "alice"}


@pytest.fixture(autouse=True)
def _small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(connections, "SILENT_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "UNKNOWN_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "FURTHER_CONNECTIONS", 2)


async def hold(server: Server, first: bytes, number: int = 12) -> list[Client]:
    clients: list[Client] = []
    for _ in range(number):
        client = await server.connect()
        clients.append(client)
        await client.write(first)
        if first.endswith(b"\r\n\r\n"):
            await client.read()
    return clients


async def check_all_are_answered(server: Server) -> None:
    for path in ("/health", "/ready"):
        assert (await server.ask("GET", path)).status in (200, 503)
    for path in ("/metrics", "/v1/models", "/v1/responses/r1"):
        assert (await server.ask("GET", path, authorization=KEY)).status == 200
    assert (await server.ask("POST", "/v1/responses", {}, authorization=KEY)).status == 200


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /health HTTP/1.1\r\nhost: loc",
        request_of("GET", "/v1/models"),
        request_of("GET", "/health"),
        request_of("GET", "/v1/models", authorization="Bearer wrong"),
    ],
    ids=["silent", "half a head", "no key", "health", "wrong key"],
)
def test_connections_without_a_key_shut_nobody_out(run: Run, first: bytes) -> None:
    async def play() -> None:
        async with running(FakeService(KEYS), limits=Limits(concurrent=2)) as server:
            kept = await server.connect()
            await kept.send("GET", "/v1/models", authorization=KEY)
            assert (await kept.read()).status == 200
            held = await hold(server, first)
            await check_all_are_answered(server)
            # The client with a key kept its connection, and the oldest without one lost theirs.
            await kept.send("GET", "/v1/models", authorization=KEY)
            assert (await kept.read()).status == 200
            assert await held[0].is_closed()
            figures = (await server.ask("GET", "/metrics", authorization=KEY)).body.decode()
            group = "silent" if not first.endswith(b"\r\n\r\n") else "unknown"
            assert f'harmonia_connections_closed_total{{group="{group}"}}' in figures

    run(play())


def test_a_client_with_a_key_takes_the_place_of_one_that_is_idle(run: Run) -> None:
    async def play() -> None:
        async with running(FakeService(KEYS), limits=Limits(concurrent=2)) as server:
            held = await hold(server, request_of("GET", "/v1/models", authorization=KEY), 4)
            assert (await server.ask("GET", "/v1/models", authorization=KEY)).status == 200
            assert await held[0].is_closed()
            await held[3].send("GET", "/v1/models", authorization=KEY)
            assert (await held[3].read()).status == 200

    run(play())


def test_where_nobody_is_idle_requests_are_refused_but_those_of_operators(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FURTHER_CONNECTIONS", 0)

    async def play() -> None:
        async with running(FakeService(KEYS), limits=Limits(concurrent=3)) as server:
            server.service.responses.script = hang_behind(numbered(1))
            for _ in range(3):
                client = await server.connect()
                await client.send("POST", "/v1/responses", {"stream": True}, authorization=KEY)
                await client.read_head()
            refused = await server.ask("GET", "/v1/models", authorization=KEY)
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            for path in ("/health", "/metrics"):
                assert (await server.ask("GET", path, authorization=KEY)).status == 200

    run(play())


def test_a_head_that_follows_an_answer_may_not_take_longer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harmonia.serve.server.KEEP_ALIVE_S", 0)

    async def play() -> None:
        async with running(limits=Limits(head_s=0.05)) as server:
            client = await server.connect()
            await client.send("GET", "/health")
            await client.read()
            await client.write(b"GET /hea")
            assert await client.is_closed()

    run(play())


def test_an_address_may_have_no_more_than_its_share_where_one_is_set(run: Run) -> None:
    async def play() -> None:
        limits = Limits(concurrent=8, address_connections=3)
        async with running(FakeService(KEYS), limits=limits) as server:
            server.service.responses.script = hang_behind(numbered(1))
            held = await hold(server, b"", 4)
            assert await held[0].is_closed()
            for _ in range(3):
                client = await server.connect()
                await client.send("POST", "/v1/responses", {"stream": True}, authorization=KEY)
                await client.read_head()
            refused = await server.ask("POST", "/v1/responses", {}, authorization=KEY)
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            assert (await server.ask("GET", "/health")).status == 200

    run(play())


def test_bodies_that_do_not_arrive_give_up_their_places(run: Run) -> None:
    async def play() -> None:
        async with running(limits=Limits(concurrent=2)) as server:
            slow: list[Client] = []
            for _ in range(2):
                client = await server.connect()
                await client.write(request_of("POST", "/v1/responses", b"{", content_length="50"))
                slow.append(client)
                while server.app.running.taken < len(slow):
                    await asyncio.sleep(0)
            for _ in range(3):
                assert (await server.ask("POST", "/v1/responses", {})).status == 200
            answer = await slow[0].read()
            assert (answer.status, answer.code) == (408, "request_timeout")
            assert await slow[0].is_closed()
            # One place was enough: the other one may still send its body.
            await slow[1].write(b" " * 48 + b"}")
            assert (await slow[1].read()).status == 200

    run(play())


def test_a_body_must_arrive_at_a_rate_and_may_take_long_if_it_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_FIRST_S", 0.01)

    async def play() -> None:
        async with running() as server:
            slow = await server.connect()
            await slow.write(request_of("POST", "/v1/responses", b"{", content_length="50"))
            answer = await slow.read()
            assert (answer.status, answer.code) == (408, "request_timeout")
            # The same time after enough bytes for a minute.
            steady = await server.connect()
            await steady.write(request_of("POST", "/v1/responses", b" " * 60_000, content_length="60002"))
            another = await server.connect()
            await another.write(request_of("POST", "/v1/responses", b"{", content_length="50"))
            assert (await another.read()).status == 408
            await steady.write(b"{}")
            assert (await steady.read()).status == 200

    run(play())


class FakeTransport(asyncio.Transport):
    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.is_closed = False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True


def test_the_address_with_most_connections_loses_its_oldest_first() -> None:
    registry = Connections(Budgets(silent=4, unknown=1, known=1), None)
    first = FakeTransport("10.0.0.1")
    crowd = [FakeTransport("10.0.0.2") for _ in range(20)]
    for transport in (first, *crowd):
        registry.open(transport, lambda: True)
    assert not first.is_closed
    assert [transport.is_closed for transport in crowd] == [True] * 17 + [False] * 3
    assert registry.count(Group.SILENT) == 4


def test_an_address_of_ipv6_counts_as_its_network() -> None:
    addresses = ["2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1"]
    found = [address_of(FakeTransport(address)) for address in addresses]
    assert found[0] == found[1] != found[2]
    assert found[3] == found[4] == "10.0.0.1"


def test_a_process_that_may_open_few_files_keeps_fewer_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    limits = Limits()
    assert Budgets.of(limits, None) == Budgets.of(limits, 100_000) == Budgets(1024, 256, 1024)
    few = Budgets.of(limits, 256)
    assert few.total <= 256 * 0.75
    assert min(few.silent, few.unknown, few.known) > 10


def test_a_thousand_silent_connections_shut_nobody_out_of_a_real_server(tmp_path: Path) -> None:
    key_file = tmp_path / "keys.json"
    key = run_harmonia("keys", "new", "alice", "--file", str(key_file), folder=tmp_path).stdout.strip()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3000, hard))
    with server_process("--api-key-file", str(key_file), folder=tmp_path) as server, ExitStack() as held:
        url = urlsplit(server.url)
        address = (url.hostname or "", url.port or 0)
        for _ in range(1100):
            held.enter_context(socket.create_connection(address, 60))
        for path, status in (("/health", 200), ("/ready", 200), ("/v1/models", 401)):
            assert _status(address, request_of("GET", path)) == status
        for path in ("/health", "/ready", "/metrics", "/v1/models"):
            assert _status(address, request_of("GET", path, authorization=f"Bearer {key}")) == 200
        body = {"model": "demo", "input": "Hello", "store": False}
        assert _status(address, request_of("POST", "/v1/responses", body, authorization=f"Bearer {key}")) == 200


def _status(address: tuple[str, int], request: bytes) -> int:
    with socket.create_connection(address, 60) as connected:
        connected.sendall(request)
        return int(connected.recv(65536).split(b" ", 2)[1])
