"""What a person who tries the page for the first time stumbles over."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from harmonia.errors import EngineError, ErrorCode
from harmonia.serve.security.keys import new_api_key
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final, think
from tests.support.servers.server_processes import server_process

_FOCUS = "dispatchEvent(new Event('focus'))"


def test_a_tab_that_is_looked_at_again_has_what_another_one_did(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server()
    one = open_page(server)
    one.ask("The first question")
    one.wait_until_saved()
    other = open_page(server, "#" + one.page.url.partition("#")[2])
    expect(other.answers).to_have_count(1)
    other.ask("The second question")
    other.wait_until_saved()
    one.type("A draft")
    one.page.evaluate(_FOCUS)
    expect(one.answers).to_have_count(2)
    expect(one.messages.last).to_contain_text("The second question")
    expect(one.composer).to_have_value("A draft")


def test_a_message_of_a_stale_tab_is_not_sent_beside_what_another_one_said(
    start_server: StartServer, open_page: OpenPage
) -> None:
    server = start_server()
    one = open_page(server)
    one.ask("The first question")
    one.wait_until_saved()
    other = open_page(server, "#" + one.page.url.partition("#")[2])
    expect(other.answers).to_have_count(1)
    other.ask("The second question")
    other.wait_until_saved()
    one.page.clock.install()
    one.page.clock.fast_forward(60_000)
    one.type("The third question")
    one.page.keyboard.press("Enter")
    expect(one.alerts.first).to_contain_text("This chat was changed elsewhere")
    expect(one.messages.last).to_contain_text("The second question")
    expect(one.composer).to_have_value("The third question")
    one.page.keyboard.press("Enter")
    expect(one.messages).to_have_count(3)
    expect(one.page.get_by_role("group", name="Versions")).to_have_count(0)


def test_a_server_that_is_stopped_is_told_apart_from_a_person_who_stops(browser: Browser, tmp_path: Path) -> None:
    page_folder = os.environ.get("HARMONIA_PAGE_FOLDER")
    more = {} if page_folder is None else {"HARMONIA_PAGE_FOLDER": page_folder}
    with server_process("--analysis", "shown", folder=tmp_path, **more) as server:
        page = browser.new_page()
        try:
            page.goto(server.url)
            page.locator("textarea[data-composer]").fill("/demo endless")
            page.keyboard.press("Enter")
            expect(page.locator(".turn.from-assistant")).to_contain_text(re.compile(r"\w{3}"))
            expect(page.get_by_text("tokens/s")).to_be_visible()
            server.process.send_signal(signal.SIGINT)
            page.wait_for_timeout(300)
            server.process.send_signal(signal.SIGINT)
            answer = page.locator(".turn.from-assistant")
            expect(answer).to_contain_text("The server was stopped")
            expect(answer).not_to_contain_text("Stopped. What arrived is kept.")
            expect(answer.get_by_role("button", name="Retry")).to_be_visible()
            assert server.process.wait() == 130  # as Ctrl-C ends a program
        finally:
            page.close()


def test_an_engine_that_breaks_off_is_told_as_that_with_one_way_to_go_on(
    start_server: StartServer, open_page: OpenPage
) -> None:
    died = EngineError(ErrorCode.ENGINE_DIED, "it broke off")
    engine = ScriptedEngine([*think("Hm."), "<|start|>assistant<|channel|>final<|message|>Half an", died])
    visit = open_page(start_server(engine))
    visit.ask("Are you there?")
    expect(visit.last_answer).to_contain_text("The engine stopped in the middle")
    expect(visit.last_answer.get_by_role("button", name="Continue")).to_have_count(1)


def test_editing_an_answer_begins_in_its_text_and_the_edit_is_named(
    start_server: StartServer, open_page: OpenPage
) -> None:
    visit = open_page(start_server(ScriptedEngine(think("Hm.") + final("Yes."))))
    visit.ask("Is it so?")
    visit.act(visit.last_answer, "Edit the answer")
    expect(visit.page.get_by_label("Answer", exact=True).locator("xpath=self::textarea")).to_be_focused()
    visit.page.keyboard.type("No. ")
    visit.page.keyboard.press("Control+Enter")
    expect(visit.last_answer.locator(".turn-acts")).to_contain_text("edited by you")


def test_the_list_says_nothing_while_a_key_is_asked_for(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    new_api_key(tmp_path / "keys.json", "anna")
    visit = open_page(start_server(api_key_file=str(tmp_path / "keys.json")))
    expect(visit.page.get_by_role("dialog", name="API key")).to_be_visible()
    expect(visit.sidebar.locator(".problem")).to_have_count(0)
    visit.page.keyboard.press("Escape")
    expect(visit.sidebar.locator(".problem")).to_contain_text(re.compile(r"loaded\. [A-Z].*\."))


def test_chats_of_the_same_title_are_told_apart(visit: Visit) -> None:
    for _ in range(2):
        visit.ask("Hello")
        visit.wait_until_saved()
        visit.sidebar.get_by_role("button", name="New chat").click()
    visit.ask("Another one")
    expect(visit.sidebar.locator(".chat-time")).to_have_count(2)


def test_several_files_are_listed_and_their_outcomes_told(visit: Visit, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.txt"
    good.write_text('{"messages": [{"role": "user", "content": "Hi"}], "temperature": 1}')
    bad.write_text("What is this?")
    visit.sidebar.get_by_role("button", name="Import").click()
    dialog = visit.page.get_by_role("dialog", name="Import chats")
    dialog.get_by_label("Files").set_input_files([good, bad])
    assert httpx2.get(f"{visit.server.url}/v1/chats").json()["data"] == []
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.locator(".imported")).to_contain_text("read as: Chat Completions JSON")
    expect(dialog.locator(".imported")).to_contain_text("Dropped temperature")
    expect(dialog.locator(".problem")).to_contain_text("bad.txt was not imported")
    # What is imported cannot be imported once more by accident.
    expect(dialog.get_by_role("list", name="Chosen files").get_by_role("listitem")).to_have_count(1)


@pytest.fixture
def visit(start_server: StartServer, open_page: OpenPage) -> Visit:
    return open_page(start_server())
