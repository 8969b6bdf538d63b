"""A turn of a chat in the inspector: the prompt that the model got, where its answer begins, and what was left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Route, expect

from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final, think
from tests.support.servers.page_server import PageServer


def chat_with_an_answer(server: PageServer) -> str:
    """The address of a turn that the demo engine answered."""
    question = {"type": "message", "role": "user", "content": "Hello!"}
    with httpx2.Client(base_url=server.url) as client:
        asked = {"input": [question], "store": False, "include": ["harmonia.encrypted_content"]}
        answer = client.post("/v1/responses", json={"model": "demo", **asked}).raise_for_status().json()
        chat = client.post("/v1/chats", json={"title": "A greeting"}).raise_for_status().json()["id"]
        parent = None
        for turn, role, items in (("turn_1", "user", [question]), ("turn_2", "assistant", answer["output"])):
            saved: dict[str, Any] = {"id": turn, "parent": parent, "role": role, "items": items, "status": "completed"}
            saved |= {"created_at": 1, "details": {"effort": "low"}}
            client.put(f"/v1/chats/{chat}/turns/{turn}", json=saved).raise_for_status()
            parent = turn
    return f"#/inspect/{chat}/turn_2"


def test_the_prompt_and_the_answer_are_told_apart(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server()
    page = open_page(server, chat_with_an_answer(server)).page
    expect(page.locator(".input-line")).to_contain_text("A turn of A greeting")
    expect(page.locator(".message h3")).to_contain_text(["system", "user", "analysis", "final"])
    expect(page.locator(".message").first).to_contain_text("Reasoning: low")
    rows = page.locator(".rows > li").all_inner_texts()
    assert [at for at, words in enumerate(rows) if "The answer begins" in words] == [2]
    page.get_by_role("tab", name="Tokens").click()
    # The prompt ends `<|start|>assistant`: the first token of the answer is behind it, in the same header.
    begin = page.locator(".boundary")
    expect(begin).to_have_count(1)
    expect(begin.locator("xpath=preceding-sibling::*[1]")).to_have_text("assistant")
    expect(begin.locator("xpath=following-sibling::*[1]")).to_have_text("<|channel|>")


def test_hidden_reasoning_is_not_there_and_it_is_said(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server(analysis="hidden")
    page = open_page(server, chat_with_an_answer(server)).page
    expect(page.locator(".message h3")).to_contain_text(["system", "user", "final"])
    expect(page.locator(".input-note")).to_contain_text("1 message of reasoning")


MARKER = "the-marker-of-the-reasoning"
# A copy of the body of each answer, as the page's own script gets it.
_KEEP_WHAT_IS_FETCHED = """
  window.fetched = [];
  const ask = window.fetch;
  window.fetch = async (...given) => {
    const answer = await ask(...given);
    window.fetched.push(answer.clone().text().then((body) => [answer.url, body], () => [answer.url, ""]));
    return answer;
  };
"""


def marked_engine() -> ScriptedEngine:
    said = final("Hello there.")
    return ScriptedEngine(think(f"First, {MARKER}.") + said, think(f"Then, {MARKER}.") + said)


def asked_twice(visit: Visit) -> None:
    """A chat with two answers, and the second of them in the inspector."""
    visit.ask("Hello?")
    visit.ask("And again?")
    inspect_last(visit)


def inspect_last(visit: Visit) -> None:
    visit.answers.last.get_by_role("link", name="Inspect").or_(
        visit.answers.last.get_by_role("button", name="Inspect")
    ).click()
    visit.page.locator(".input-line").wait_for()


def test_shown_reasoning_is_in_the_turn_and_what_the_next_prompt_drops_has_its_reason(
    start_server: StartServer, open_page: OpenPage
) -> None:
    visit = open_page(start_server(marked_engine()))
    asked_twice(visit)
    assert re.search(r"#/inspect/chat_[^/]+/[^/]+$", visit.page.url)
    # The reasoning of the first answer is no part of the second prompt.
    expect(visit.heads).to_contain_text(["system", "user", "final", "user", "analysis", "final"])
    expect(visit.page.locator(".body-text", has_text=MARKER)).to_have_text(f"Then, {MARKER}.")
    panel = visit.open_tab("Compare")
    panel.get_by_role("button", name="Compare this turn with the one before").click()
    dropped = panel.locator(".tool-list", has_text=f"First, {MARKER}.").first
    expect(dropped).to_contain_text("Message 3")
    expect(dropped).not_to_contain_text("No reason is known")
    visit.page.go_back()
    expect(visit.answers).to_have_count(2)


def test_a_turn_can_be_inspected_and_exported_while_it_is_saved(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(ScriptedEngine(final("One."), final("Two."))))
    visit.ask("First")
    visit.wait_until_saved()
    waiting: list[Route] = []
    # One is saved behind the other, so that all wait for the first.
    visit.page.route("**/v1/chats/*/turns/*", lambda route: waiting.append(route), times=1)
    visit.ask("Second")
    inspect_last(visit)
    expect(visit.heads).to_contain_text(["system", "user", "final", "user", "final"])
    expect(visit.page.locator(".body-text").last).to_have_text("Two.")
    visit.page.go_back()
    visit.sidebar.get_by_role("button", name="Actions for First").click()
    visit.page.get_by_role("menuitem", name="Export").click()
    with visit.page.expect_download() as downloading:
        visit.page.get_by_role("button", name="Markdown").click()
        visit.wait_until(lambda: bool(waiting))
        waiting[0].continue_()
    assert "Two." in Path(downloading.value.path()).read_text()


def test_hidden_reasoning_reaches_the_browser_nowhere(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(marked_engine(), analysis="hidden"), init_script=_KEEP_WHAT_IS_FETCHED)
    asked_twice(visit)
    expect(visit.page.locator(".input-note")).to_contain_text("Left out: 1 message of reasoning")
    for name in ("Messages", "Overview", "Tokens", "Edit", "Compare", "Injection lens", "Replay"):
        if name == "Replay":
            with visit.page.expect_response("**/v1/harmony/replay"):
                panel = visit.open_tab(name)
        else:
            panel = visit.open_tab(name)
        if name == "Compare":
            panel.get_by_role("button", name="Compare this turn with the one before").click()
            panel.get_by_role("heading", name="What they share").wait_for()
        assert MARKER not in visit.page.content(), name
    received: list[list[str]] = visit.page.evaluate("async () => await Promise.all(window.fetched)")
    for part in ("v1/responses", "v1/chats", "v1/harmony/trace", "v1/harmony/diff", "v1/harmony/replay"):
        assert any(part in url and body for url, body in received), part
    assert not [url for url, body in received if MARKER in body]


def test_a_turn_that_is_not_there_is_told(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server()
    page = open_page(server, chat_with_an_answer(server).replace("turn_2", "turn_3")).page
    expect(page.locator(".failure")).to_contain_text("Not found.")
    expect(page.locator("#trace")).to_be_visible()
