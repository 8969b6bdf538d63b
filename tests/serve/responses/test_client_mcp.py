"""MCP servers that clients name (`allow_client_mcp`): what is reached, what is refused, and what it may cost."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.run.tools import mcp
from harmonia.run.tools.mcp import public_http
from harmonia.run.tools.mcp.public_http import PublicTransport, is_public
from tests.support.engines.scripted import ScriptedEngine, final
from tests.support.servers.served import create, served

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer | None = None) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A server on loopback, and the heads of the requests that reached it."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                if answer is not None:
                    await answer(writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


async def ask(folder: Path, *urls: str, headers: dict[str, str] | None = None, **settings: Any) -> HarmonyError:
    tools = [
        {"type": "mcp", "server_label": f"s{at}", "server_url": url, "headers": headers} for at, url in enumerate(urls)
    ]
    async with served(ScriptedEngine(final("Hi.")), folder, allow_client_mcp=True, **settings) as service:
        with pytest.raises(HarmonyError) as caught:
            await create(service, input="Hi", tools=tools)
    return caught.value


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "LOCALHOST", "127.1", "2130706433", "0x7f000001", "0.0.0.0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"),
    ],
)
def test_this_machine_is_not_reached(tmp_path: Path, host: str) -> None:
    async def play() -> None:
        async with listening() as (port, heads):
            error = await ask(tmp_path, f"http://{host}:{port}/mcp")
            assert error.code is ErrorCode.SERVE_MCP_UNREACHABLE
            assert heads == []

    asyncio.run(play())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        *((each, False) for each in ("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254")),
        *((each, False) for each in ("0.0.0.0", "127.8.9.1", "224.0.0.1", "255.255.255.255", "192.0.2.1")),
        *((each, False) for each in ("::", "::1", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1")),
        *((each, False) for each in ("2002:7f00:1::", "64:ff9b::a00:1", "2001:db8::1")),
    ],
)
def test_which_addresses_are_public(address: str, expected: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) == expected


class Recorder(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append((request.url.host, request.headers["host"], request.extensions.get("sni_hostname")))
        return httpx2.Response(200, stream=Nothing())


class Nothing(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b""


def test_a_name_that_changes_its_address_reaches_nothing_private(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        answers = [["8.8.8.8"], ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"]]

        async def resolve(_loop: object, _host: str, port: int, **_: object) -> list[Any]:
            return [(0, 0, 0, "", (address, port)) for address in answers.pop(0)]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
        transport, recorder = PublicTransport(()), Recorder()
        monkeypatch.setattr(transport, "_inner", recorder)
        async with httpx2.AsyncClient(transport=transport) as client:
            await client.get("https://tools.example/mcp")
            for _ in range(2):
                with pytest.raises(httpx2.ConnectError):
                    await client.get("https://tools.example/mcp")
        # It goes to the address that was checked, and TLS still asks for the name.
        assert recorder.asked == [("8.8.8.8", "tools.example", "tools.example")]

    asyncio.run(play())


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening() as (inside, reached):

            async def redirect(writer: asyncio.StreamWriter) -> None:
                head = f"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://localhost:{inside}/\r\n"
                writer.write(f"{head}content-length: 0\r\n\r\n".encode())
                await writer.drain()

            async with listening(redirect) as (port, heads):
                error = await ask(tmp_path, f"http://127.0.0.1:{port}/mcp", client_mcp_hosts=("127.0.0.1",))
                assert error.code is ErrorCode.SERVE_MCP_UNREACHABLE
                assert heads and not reached

    asyncio.run(play())


def test_an_answer_without_an_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_http, "MAX_ANSWER_BYTES", 1_000_000)

    async def play() -> None:
        sent = 0

        async def pour(writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            while sent < 200_000_000:
                writer.write(b" " * 65536)
                await writer.drain()
                sent += 65536

        async with listening(pour) as (port, _):
            error = await ask(tmp_path, f"http://127.0.0.1:{port}/mcp", client_mcp_hosts=("127.0.0.1",))
            assert error.code is ErrorCode.SERVE_MCP_UNREACHABLE
            assert sent < 50_000_000

    asyncio.run(play())


def test_a_server_that_says_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = mcp.Timeouts(connect_s=0.2, list_s=0.2, call_s=0.2)
    monkeypatch.setattr(mcp, "HttpServer", partial(mcp.HttpServer, timeouts=short))

    async def play() -> None:
        async def hang(writer: asyncio.StreamWriter) -> None:
            await asyncio.Event().wait()

        async with listening(hang) as (port, _):
            error = await ask(tmp_path, f"http://127.0.0.1:{port}/mcp", client_mcp_hosts=("127.0.0.1",))
            assert error.code is ErrorCode.SERVE_MCP_UNREACHABLE

    asyncio.run(play())


def test_a_request_names_few_servers(tmp_path: Path) -> None:
    async def play() -> None:
        error = await ask(tmp_path, *(f"http://s{at}.example/mcp" for at in range(9)))
        assert isinstance(error, InputError)
        assert (error.code, error.at.path) == (ErrorCode.SERVE_INVALID_FIELD, "$.tools[8].server_url")

    asyncio.run(play())


def test_a_header_cannot_bring_another_one(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening() as (port, heads):
            url = f"http://127.0.0.1:{port}/mcp"
            error = await ask(tmp_path, url, headers={"x": "a\r\nhost: b"}, client_mcp_hosts=("127.0.0.1",))
            assert isinstance(error, InputError)
            assert heads == []

    asyncio.run(play())


def test_the_password_of_a_url_is_not_repeated(tmp_path: Path) -> None:
    async def play() -> None:
        async def refuse(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()

        async with listening(refuse) as (port, _):
            for host in ("127.0.0.1", "localhost"):
                url = f"http://ann:hushed@{host}:{port}/mcp?key=hushed"
                error = await ask(tmp_path, url, client_mcp_hosts=("127.0.0.1",))
                assert "hushed" not in str(error) + str(getattr(error, "__notes__", ""))

    asyncio.run(play())
