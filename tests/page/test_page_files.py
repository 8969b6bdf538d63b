"""The page loads under its policy, from this server alone, and is small."""

from __future__ import annotations

import gzip
import re

import httpx2
from playwright.sync_api import expect

from tests.support.clients.page_views import OpenPage, StartServer

_MOST_SCRIPT_BYTES = 60_000


def test_the_page_loads_without_a_complaint(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server())
    assert visit.page.title() == "Harmonia"
    expect(visit.page.get_by_role("link", name="Inspector")).to_be_visible()


def test_the_script_of_the_first_load_is_small(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server()
    loaded: list[str] = []
    visit = open_page(server)
    visit.page.on("request", lambda request: loaded.append(request.url))
    visit.page.reload()
    visit.page.wait_for_load_state("networkidle")
    scripts = [url for url in loaded if url.endswith(".js")]
    assert scripts
    sizes = {url.rpartition("/")[2]: len(gzip.compress(httpx2.get(url).content, 9)) for url in scripts}
    assert sum(sizes.values()) < _MOST_SCRIPT_BYTES, sizes


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(start_server: StartServer) -> None:
    server = start_server()
    answer = httpx2.get(f"{server.url}/", headers={"accept": "text/html"})
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy and "*" not in policy and "data:" not in policy and "http" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|style=", answer.text)
