"""Large traces stay smooth: what is in the page, and what a step adds to it, does not grow with the trace. Counted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from harmonia import encode
from tests.support.clients.page_views import OpenPage, StartServer, Visit

pytestmark = pytest.mark.exhaustive

# The large one may have a little more, because its numbers are longer; it may not have more rows.
_RATIO: Final = 1.25

_FORMS: Final = (
    "<|start|>user<|message|>{}<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>{}<|end|>",
    '<|start|>assistant<|channel|>commentary to=functions.find <|constrain|>json<|message|>{{"text": "{}"}}<|call|>',
    "<|start|>functions.find to=assistant<|channel|>commentary<|message|>{}<|end|>",
    "<|start|>assistant<|channel|>final<|message|>{}<|return|>",
)
_WORDS: Final = " ".join(("alpha", "beta", "gamma", "delta") * 11)
_COUNT: Final = "() => document.querySelectorAll('main *').length"
_SCROLL: Final = """async (part) => {
  const main = document.querySelector("main");
  main.scrollTop = main.scrollHeight * part;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return document.querySelectorAll("main *").length;
}"""


def trace(messages: int) -> str:
    return "".join(_FORMS[at % len(_FORMS)].format(f"{at + 1:05} {_WORDS}") for at in range(messages))


@pytest.fixture
def inspector(start_server: StartServer, open_page: OpenPage) -> Visit:
    visit = open_page(start_server(), "#/inspect")
    visit.trace.wait_for()
    return visit


def give(visit: Visit, text: str, folder: Path) -> None:
    file = folder / "trace.txt"
    file.write_text(text)
    visit.open_input()
    visit.page.get_by_label("File to inspect").set_input_files(file)
    visit.page.locator(".input-form").wait_for(state="detached")


def most_nodes(page: Page) -> int:
    """The most elements that are in the page on the way from its top to its bottom."""
    return max(page.evaluate(_SCROLL, at / 12) for at in range(13))


def nodes_by_tab(visit: Visit) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in ("Messages", "Tokens", "Overview", "Edit", "Replay", "Injection lens"):
        panel = visit.open_tab(name)
        expect(panel.get_by_text("Loading")).to_have_count(0)
        if name == "Replay":
            expect(panel.get_by_role("slider")).not_to_have_attribute("max", "1")
            panel.get_by_role("slider").focus()
            visit.page.keyboard.press("End")
            panel.get_by_role("button", name="Play again").wait_for()
        if name == "Edit":
            panel.get_by_text("Nothing changed").wait_for()
        counts[name] = most_nodes(visit.page)
    return counts


def test_ten_times_the_messages_are_no_more_elements(inspector: Visit, tmp_path: Path) -> None:
    small, large = trace(200), trace(2_000)
    assert len(encode(large, special="all")) >= 100_000
    give(inspector, small, tmp_path)
    few = nodes_by_tab(inspector)
    give(inspector, large, tmp_path)
    expect(inspector.page.locator(".input-line")).to_contain_text("2,000 messages")
    many = nodes_by_tab(inspector)
    assert not {name: (few[name], many[name]) for name in few if many[name] > few[name] * _RATIO}


def test_the_last_message_and_the_last_token_are_reached(inspector: Visit, tmp_path: Path) -> None:
    page = inspector.page
    give(inspector, trace(2_000), tmp_path)
    page.locator("#inspector-search").wait_for()
    last = page.locator(".message", has=page.locator("#message-1999"))
    expect(last).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("02000 alpha")
    page.keyboard.press("Enter")
    expect(last).to_be_in_viewport()
    expect(last.locator("mark.current")).to_have_text("02000 alpha")
    # A common word has many hits, and going backwards begins with the last.
    page.locator("#inspector-search").fill("gamma")
    expect(page.locator(".count")).to_contain_text("10,000 or more")
    page.locator("#inspector-search").fill("00001")
    page.keyboard.press("Enter")
    expect(page.locator("#message-0")).to_be_in_viewport()
    inspector.open_tab("Tokens")
    listed = page.get_by_role("listbox", name="Tokens")
    listed.focus()
    page.keyboard.press("End")
    expect(page.locator(".token.current")).to_have_text("<|return|>")
    expect(page.locator(".token.current")).to_be_in_viewport()
    expect(page.locator(".token-detail")).to_contain_text("message 2000")


def test_the_replay_works_at_the_end_of_it(inspector: Visit, tmp_path: Path) -> None:
    text = trace(2_000)
    total = len(encode(text, special="all"))
    give(inspector, text, tmp_path)
    asked: list[str] = []
    inspector.page.on("request", lambda request: asked.append(request.url))
    panel = inspector.open_tab("Replay")
    expect(panel).to_contain_text(f"Read 0 of {total:,} tokens")
    panel.get_by_role("slider").focus()
    inspector.page.keyboard.press("End")
    expect(panel.get_by_role("region", name="Events of this step")).to_contain_text("turn_ended")
    expect(panel.locator(".tool-states [aria-current=step]")).to_contain_text("START")
    panel.get_by_role("button", name="Previous message").click()
    expect(panel.locator(".tool-facts")).to_contain_text("Message2000")
    panel.get_by_role("button", name="Back one token").click()
    expect(panel).to_contain_text(f"of {total:,} tokens")
    # Not the whole of it was fetched to see its end.
    assert sum("/replay" in url for url in asked) <= 6
    panel.get_by_role("button", name="Show message 1999 in the list").click()
    expect(inspector.page.locator("#message-1998")).to_be_in_viewport()


def test_one_message_of_a_hundred_thousand_tokens(inspector: Visit, tmp_path: Path) -> None:
    page = inspector.page
    body = " ".join(f"word{at % 10}" for at in range(50_000)) + " needle"
    give(inspector, f"<|start|>user<|message|>{body}<|end|>", tmp_path)
    assert page.evaluate(_COUNT) < 1_000
    inspector.open_tab("Tokens")
    assert most_nodes(page) < 8_000
    page.get_by_role("listbox", name="Tokens").focus()
    page.keyboard.press("End")
    expect(page.locator(".token.current")).to_have_text("<|end|>")
    expect(page.locator(".token.current")).to_be_in_viewport()
    inspector.open_tab("Messages")
    page.locator("#inspector-search").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    expect(page.locator("mark.current")).to_be_in_viewport()
