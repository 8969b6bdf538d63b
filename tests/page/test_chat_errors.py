"""What goes wrong is told in words with what to do, and nothing that was typed or said is lost by it."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import expect

from harmonia import decode
from harmonia.errors import EngineError, ErrorCode
from harmonia.serve.config.settings import Limits
from harmonia.serve.security.keys import new_api_key
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import Line, ScriptedEngine, final, think

_FINAL: Final = "<|channel|>final<|message|>"
_UNREACHABLE: Final = EngineError(ErrorCode.ENGINE_UNREACHABLE, "nobody is at http://10.1.2.3:8000")
_AT_ONCE: Final = 6
_DIED: Final = EngineError(ErrorCode.ENGINE_DIED, "it broke off")
_FULL: Final = EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, "131073 tokens are too many")


def port_of(visit: Visit) -> int:
    port = urlsplit(visit.server.url).port
    assert port is not None
    return port


@pytest.mark.parametrize(
    ("error", "title", "what_to_do"),
    [
        (_UNREACHABLE, "The model's engine does not answer", "Check the engine, then try again."),
        (_FULL, "The conversation is too long for the model", "Shorten or delete messages, or start a new chat."),
        (ValueError("a bug"), "The server failed", "You can try again."),
    ],
    ids=["engine gone", "context full", "a bug"],
)
def test_an_error_before_the_answer_is_told_and_tried_again(
    start_server: StartServer, open_page: OpenPage, error: Exception, title: str, what_to_do: str
) -> None:
    engine = ScriptedEngine([error], [error], final("Here I am."))
    visit = open_page(start_server(engine))
    visit.ask("Are you there?")
    alert = visit.alerts
    expect(alert).to_contain_text(title)
    expect(alert).to_contain_text(what_to_do)
    expect(visit.alerts).to_have_count(1)
    assert "10.1.2.3" not in visit.page.content()
    # After a reload it is still told, and still tried again.
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.last_answer).to_contain_text(f"Failed: {title}")
    visit.type("What I write meanwhile")
    visit.act(visit.last_answer, "Retry")
    expect(visit.alerts).to_contain_text(title)
    visit.act(visit.last_answer, "Retry")
    expect(visit.last_answer).to_contain_text("Here I am.")
    expect(visit.composer).to_have_value("What I write meanwhile")
    expect(visit.messages).to_have_count(1)
    assert decode(engine.prompts[-1]).count("Are you there?") == 1
    expect(visit.alerts).to_have_count(0)


def test_an_engine_that_dies_in_the_middle_leaves_what_it_said(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(
        [think("Hm.") + _FINAL + "It begins", _DIED], final("It begins anew."), " and goes on.<|return|>"
    )
    visit = open_page(start_server(engine))
    visit.ask("Talk")
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins")
    expect(visit.alerts).to_contain_text("The engine stopped in the middle")
    # Trying again makes a version beside it; what came stays, and can also be gone on with.
    visit.act(visit.last_answer, "Retry")
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins anew.")
    expect(visit.last_answer.locator(".walker")).to_have_text("2 of 2")
    visit.act(visit.last_answer, "Previous version")
    visit.act(visit.last_answer.locator(".turn-state"), "Continue")
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins and goes on.")
    assert decode(engine.prompts[-1]).endswith("<|message|>It begins")


def test_a_server_that_is_gone_loses_nothing_that_was_typed(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("Back again."), final("And again."))
    visit = open_page(start_server(engine))
    visit.server.stop()
    visit.type("A long question")
    visit.page.keyboard.press("Enter")
    alert = visit.alerts.filter(has_text="The server does not answer")
    expect(alert).to_contain_text("Check that it runs, then try again.")
    expect(visit.composer).to_have_value("A long question")
    expect(visit.messages).to_have_count(0)
    start_server(engine, port=port_of(visit))
    alert.get_by_role("button", name="Retry").click()
    expect(visit.answers).to_contain_text("Back again.")
    expect(visit.messages).to_have_text([re.compile("A long question")])
    expect(visit.composer).to_have_value("")
    expect(visit.alerts).to_have_count(0)


def test_a_server_that_goes_in_the_middle_leaves_what_it_said(start_server: StartServer, open_page: OpenPage) -> None:
    never = asyncio.Event()
    engine = ScriptedEngine([_FINAL + "It begins", never], " and goes on.<|return|>")
    visit = open_page(start_server(engine, limits=Limits(drain_s=0)))
    expect(visit.begin_to_ask("Talk")).to_contain_text("It begins")
    visit.server.stop()
    expect(visit.alerts).to_contain_text("The server was stopped")
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins")
    expect(visit.page.locator(".chat-head")).to_contain_text("Not saved yet")
    start_server(engine, port=port_of(visit))
    visit.act(visit.last_answer.locator(".turn-state"), "Continue")
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins and goes on.")
    save = visit.page.get_by_role("button", name="Save now")
    unsaved = visit.page.locator(".chat-head", has_text="Not saved")
    visit.wait_until(lambda: unsaved.count() == 0 or save.is_visible())
    if save.is_visible():
        save.click()
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.answers.locator(".markdown")).to_have_text("It begins and goes on.")
    expect(visit.messages).to_have_text([re.compile("Talk")])


def test_a_key_that_is_not_known_any_more_is_asked_for(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    first = new_api_key(tmp_path / "keys.txt", "ann")
    engine = ScriptedEngine(final("Hello Ann."), final("Hello again."))
    visit = open_page(start_server(engine, api_key_file=str(tmp_path / "keys.txt")))
    dialog = visit.page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key").fill(first)
    dialog.get_by_role("button", name="Use this key").click()
    visit.ask("Hello")
    visit.wait_until_saved()
    visit.server.stop()
    second = new_api_key(tmp_path / "other-keys.txt", "ann")
    start_server(engine, api_key_file=str(tmp_path / "other-keys.txt"), port=port_of(visit))
    visit.type("Do you know me?")
    visit.page.keyboard.press("Enter")
    dialog.get_by_label("Key").fill(second)
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_have_count(0)
    # What was typed is sent once the key is accepted, and nothing says any more that it is wrong.
    expect(visit.last_answer).to_contain_text("Hello again.")
    expect(visit.page.get_by_text("The API key is missing or wrong")).to_have_count(0)
    expect(visit.messages).to_have_text([re.compile("Hello"), re.compile("Do you know me?")])
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.last_answer).to_contain_text("Hello again.")


def test_a_busy_server_is_told(start_server: StartServer, open_page: OpenPage) -> None:
    never = asyncio.Event()
    held: list[list[Line]] = [[_FINAL + "I am busy", never] for _ in range(_AT_ONCE)]
    server = start_server(ScriptedEngine(*held, final("Now I have time.")), limits=Limits(concurrent=_AT_ONCE))
    visit = open_page(server)
    with ExitStack() as stack:
        for _ in range(_AT_ONCE):
            asked = {"input": "Talk", "stream": True, "store": False}
            stack.enter_context(httpx2.stream("POST", f"{server.url}/v1/responses", json=asked))
        visit.type("Me too")
        visit.page.keyboard.press("Enter")
        expect(visit.alerts).to_contain_text("The server is busy")
        expect(visit.alerts).to_contain_text("Wait a moment, then try again.")
    visit.alerts.get_by_role("button", name="Retry").click()
    expect(visit.answers).to_contain_text("Now I have time.")
    expect(visit.messages).to_have_text([re.compile("Me too")])


def test_seals_that_the_server_cannot_open_any_more_are_left_out_and_it_is_said(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    engine = ScriptedEngine(think("Hidden.") + final("One."), final("Two."), final("Three."))
    visit = open_page(start_server(engine, analysis="hidden"))
    visit.ask("First")
    visit.wait_until_saved()
    visit.server.stop()
    (tmp_path / "seal-keys.json").unlink()
    start_server(engine, analysis="hidden", port=port_of(visit))
    visit.ask("Second")
    expect(visit.last_answer).to_contain_text("Two.")
    expect(visit.last_answer).to_contain_text("Warning: The server could not open the sealed reasoning")
    assert "One." in decode(engine.prompts[-1])
    # It is not tried in vain again, and not told again.
    visit.ask("Third")
    expect(visit.last_answer).to_contain_text("Three.")
    expect(visit.last_answer).not_to_contain_text("Warning")
