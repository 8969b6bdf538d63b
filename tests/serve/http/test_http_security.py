"""Hosts, origins and keys: who is let in, and which headers everybody gets."""

from __future__ import annotations

import asyncio

import pytest

from harmonia.serve.config.settings import Settings
from harmonia.serve.http.authorization import AccessPolicy
from harmonia.serve.http.request_state import Exchange
from tests.support.servers.http_servers import FakeService, request_of, running


async def nothing(*_: object) -> None:
    raise AssertionError


def lets_in(settings: Settings, path: str = "/v1/models", method: str = "GET", **headers: str) -> bool:
    """The gate alone, without a server."""
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw, "scheme": "http"}
    exchange = Exchange(scope, nothing, nothing, "openai")  # type: ignore[arg-type]
    try:
        AccessPolicy(settings, None).check(exchange)
    except Exception as error:
        assert getattr(error, "code", None) == "serve.forbidden"
        return False
    return True


@pytest.mark.parametrize(
    ("bound", "host", "expected"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "localhost:8765", True),
        ("127.0.0.1", "LOCALHOST.:8765", True),
        ("127.0.0.1", "127.0.0.1:1", True),
        ("127.0.0.1", "127.8.8.8", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "192.168.1.5", False),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "evil.example:80@localhost", False),
        ("127.0.0.1", "localhost/evil", False),
        ("127.0.0.1", "", False),
        ("192.168.1.5", "192.168.1.5:8765", True),
        ("192.168.1.5", "localhost", True),
        ("192.168.1.5", "192.168.1.6", False),
        ("0.0.0.0", "192.168.1.6", True),
        ("::", "[fe80::1]:8765", True),
        ("0.0.0.0", "box.local", False),
        ("0.0.0.0", "api.example.com", True),  # in `hosts`
        ("127.0.0.1", "API.example.com:443", True),
        ("box.local", "box.local:8765", True),
    ],
)
def test_a_host_must_be_one_that_means_this_server(bound: str, host: str, expected: bool) -> None:
    settings = Settings(host=bound, hosts=("api.example.com", "other.example:8765"))
    assert lets_in(settings, host=host) is expected
    assert lets_in(settings, "/health", host=host)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, True),
        ({"origin": "http://localhost:8765"}, True),
        ({"origin": "https://localhost:8765"}, True),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://[bad"}, False),
        ({"origin": "https://app.example"}, True),  # in `origins`
        ({"origin": "https://app.example.evil.example"}, False),
        ({"origin": "https://app.example", "sec_fetch_site": "cross-site"}, True),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/health"])
def test_a_page_must_be_the_servers_own_or_one_that_is_set(path: str, headers: dict[str, str], expected: bool) -> None:
    settings = Settings(origins=("https://app.example/",))
    assert lets_in(settings, path, host="localhost:8765", **headers) is expected


def test_who_is_refused_is_told_which_flag_lets_him_in() -> None:
    async def play() -> None:
        async with running() as server:
            for headers, flag in (
                ({"host": "evil.test"}, "--allow-host"),
                ({"origin": "http://a.test"}, "--allow-origin"),
            ):
                answer = await server.ask("GET", "/metrics", **headers)
                assert (answer.status, flag in answer.json["error"]["message"]) == (403, True)

    asyncio.run(play())


def test_a_host_that_is_there_twice_or_not_at_all_is_refused() -> None:
    async def play() -> None:
        async with running() as server:
            assert (await server.ask("GET", "/metrics", host="")).status in (400, 403)
            twice = await server.connect()
            await twice.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n")
            assert (await twice.read()).status in (400, 403)

    asyncio.run(play())


def test_only_configured_origins_get_cors_headers_and_preflights_need_no_key() -> None:
    async def play() -> None:
        async with running(FakeService(keys={"k" * 20: "alice"}), origins=("https://app.example",)) as server:
            asks = {
                "access_control_request_method": "POST",
                "access_control_request_headers": "authorization, x-stainless-os",
            }
            allowed = await server.ask("OPTIONS", "/v1/responses", origin="https://app.example", **asks)
            assert allowed.status == 204
            assert allowed.headers["access-control-allow-origin"] == "https://app.example"
            assert allowed.headers["access-control-allow-headers"] == "authorization, x-stainless-os"
            assert "POST" in allowed.headers["access-control-allow-methods"]
            refused = await server.ask("OPTIONS", "/v1/responses", origin="https://evil.example", **asks)
            assert (refused.status, refused.code) == (403, "forbidden")
            assert not [name for name in refused.headers if name.startswith("access-control")]
            # The page may read why it was refused.
            answer = await server.ask("POST", "/v1/responses", {}, origin="https://app.example")
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, "https://app.example")
            own = await server.ask("GET", "/health", origin="http://localhost")
            assert own.status == 200
            assert not [name for name in own.headers if name.startswith("access-control")]

    asyncio.run(play())


def test_a_page_of_a_configured_origin_may_use_chats_and_read_the_names_of_files() -> None:
    async def play() -> None:
        async with running(origins=("https://app.example",)) as server:
            for path, methods in (
                ("/v1/chats", {"GET", "POST"}),
                ("/v1/chats/c", {"GET", "PATCH", "DELETE"}),
                ("/v1/chats/c/turns/t", {"PUT", "DELETE"}),
            ):
                asks = {"origin": "https://app.example", "access_control_request_method": "PUT"}
                allowed = await server.ask("OPTIONS", path, **asks)
                assert methods <= set(allowed.headers["access-control-allow-methods"].split(", ")), path
                exposed = allowed.headers["access-control-expose-headers"].split(", ")
                assert {"content-disposition", "harmonia-left-out"} <= set(exposed)

    asyncio.run(play())


def test_with_keys_everything_needs_one_but_health_ready_and_the_page() -> None:
    async def play() -> None:
        async with running(FakeService(keys={"k" * 20: "alice"})) as server:
            for path in ("/health", "/ready", "/"):
                assert (await server.ask("GET", path)).status in (200, 503)
            for path in ("/page/nothing.js", "/page/../v1/models", "/page/%2e%2e/v1/models", "/page//v1/models"):
                assert (await server.ask("GET", path)).status == 404
            paths = {route.path.replace("{id}", "r") for route in server.app.routes}
            paths -= {"/health", "/ready", "/", "/page/{file}"}
            for path in (*sorted(paths), "/nowhere", "/page", "/pages/x", "//v1/models"):
                for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic " + "k" * 20}):
                    answer = await server.ask("GET", path, **wrong)
                    assert (answer.status, answer.code) == (401, "invalid_api_key"), path
                    assert answer.headers["www-authenticate"].startswith("Bearer")
            answer = await server.ask("GET", "/v1/responses/r", authorization="Bearer " + "k" * 20)
            assert answer.json["owner"] == "alice"
        assert {line.get("owner") for line in server.lines() if line["status"] == 200} == {"alice", "nobody"}
        assert "kkkk" not in server.log.getvalue()

    asyncio.run(play())


def test_without_keys_credentials_are_not_looked_at() -> None:
    async def play() -> None:
        async with running() as server:
            answer = await server.ask("GET", "/v1/responses/r", authorization="Bearer anything")
            assert (answer.status, answer.json["owner"]) == (200, "nobody")

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/health", "/metrics", "/nowhere", "/v1/responses/r"])
def test_every_answer_tells_browsers_to_keep_their_hands_off(path: str) -> None:
    async def play() -> None:
        async with running() as server:
            headers = (await server.ask("GET", path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-frame-options"] == "DENY"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["cache-control"] == "no-store"
            assert headers["x-request-id"].startswith("req_")
            assert "server" not in headers

    asyncio.run(play())


@pytest.mark.parametrize(
    ("given", "is_kept"), [("abc.DEF-1_2", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("é", False)]
)
def test_a_clients_own_request_id_is_kept_where_it_is_plain(given: str, is_kept: bool) -> None:
    async def play() -> None:
        async with running() as server:
            client = await server.connect()
            await client.write(request_of("GET", "/health", x_request_id=given))
            assert ((await client.read()).headers["x-request-id"] == given) is is_kept

    asyncio.run(play())
