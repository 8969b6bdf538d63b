"""The page's files over HTTP: who gets them, how they are kept, and what stands around them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.http_servers import FakeService, Server, running

_INDEX = "<!doctype html><title>Harmonia</title>" + "<p>" * 200
_SCRIPT = "export const answer = 42;\n" * 100
_HTML = "text/html,application/xhtml+xml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page").mkdir()
    (tmp_path / "index.html").write_text(_INDEX)
    (tmp_path / "page" / "index-1a2b.js").write_text(_SCRIPT)
    (tmp_path / "page" / "notes.txt").write_text("not a part of the page")
    (tmp_path.parent / "secret.js").write_text("hidden words")
    return tmp_path


def visit(play: Callable[[Server], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with running(**settings) as server:
            await play(server)

    asyncio.run(run())


def test_a_browser_gets_the_page_and_a_program_gets_json(folder: Path) -> None:
    async def play(server: Server) -> None:
        page = await server.ask("GET", "/", accept=_HTML)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.body.decode() == _INDEX
        for accept in ("", "*/*", "application/json"):
            answer = await server.ask("GET", "/", accept=accept)
            assert (answer.json["server"], answer.json["page"]) == ("harmonia", "/")
            assert "accept" in answer.headers["vary"]

    visit(play, page_folder=str(folder))


def test_the_page_has_a_strict_policy(folder: Path) -> None:
    async def play(server: Server) -> None:
        for path in ("/", "/page/index-1a2b.js"):
            headers = (await server.ask("GET", path, accept=_HTML)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
            assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-opener-policy"] == "same-origin"

    visit(play, page_folder=str(folder))


def test_files_are_kept_for_good_and_the_page_is_asked_for_again(folder: Path) -> None:
    async def play(server: Server) -> None:
        script = await server.ask("GET", "/page/index-1a2b.js")
        assert "immutable" in script.headers["cache-control"]
        page = await server.ask("GET", "/", accept=_HTML)
        assert page.headers["cache-control"] == "no-cache"
        again = await server.ask("GET", "/", accept=_HTML, if_none_match=page.headers["etag"])
        assert (again.status, again.body) == (304, b"")

    visit(play, page_folder=str(folder))


def test_what_can_be_packed_is_packed_for_those_who_take_it(folder: Path) -> None:
    async def play(server: Server) -> None:
        packed = await server.ask("GET", "/page/index-1a2b.js", accept_encoding="gzip, br")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body).decode() == _SCRIPT
        plain = await server.ask("GET", "/page/index-1a2b.js")
        assert "content-encoding" not in plain.headers and plain.body.decode() == _SCRIPT

    visit(play, page_folder=str(folder))


@pytest.mark.parametrize(
    "path",
    [
        "/page/none.js",
        "/page/notes.txt",
        "/page/..%2f..%2fsecret.js",
        "/page/../../secret.js",
        "/page/%2e%2e/secret.js",
        "/page/..%5c..%5csecret.js",
        "/page/index-1a2b.js%00",
        "/page//etc/passwd",
        "/page",
    ],
)
def test_nothing_but_the_files_of_the_page_is_found(folder: Path, path: str) -> None:
    async def play(server: Server) -> None:
        answer = await server.ask("GET", path)
        assert (answer.status, answer.code) == (404, "not_found")
        assert b"hidden words" not in answer.body

    visit(play, page_folder=str(folder))


def test_the_page_needs_no_key_and_the_api_does(folder: Path) -> None:
    async def run() -> None:
        async with running(FakeService({"key": "ann"}), page_folder=str(folder)) as server:
            assert (await server.ask("GET", "/", accept=_HTML)).status == 200
            assert (await server.ask("GET", "/page/index-1a2b.js")).status == 200
            for path in ("/v1/models", "/docs", "/openapi.json", "/metrics"):
                assert (await server.ask("GET", path)).status == 401

    asyncio.run(run())


def test_a_link_elsewhere_leads_to_the_page_and_to_nothing_else(folder: Path) -> None:
    following = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}

    async def play(server: Server) -> None:
        assert (await server.ask("GET", "/", accept=_HTML, **following)).status == 200
        framed = {**following, "sec_fetch_dest": "iframe"}
        assert (await server.ask("GET", "/", accept=_HTML, **framed)).status == 403
        fetched = {**following, "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}
        assert (await server.ask("GET", "/page/index-1a2b.js", **fetched)).status == 403
        assert (await server.ask("GET", "/v1/models", **following)).status == 403

    visit(play, page_folder=str(folder))


@pytest.mark.parametrize(("settings", "words"), [({"page": False}, "--no-page"), ({}, "make page")])
def test_without_a_page_a_browser_is_told_how_to_get_it(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    async def play(server: Server) -> None:
        answer = await server.ask("GET", "/", accept=_HTML)
        assert answer.status == 200 and words in answer.body.decode()
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert (await server.ask("GET", "/")).json["page"] is None

    visit(play, page_folder=str(tmp_path), **settings)
