"""A trace of 100,000 tokens in 2,000 messages: what is in the page, and what a scroll costs, counted and not timed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.clients.page_views import OpenPage, StartServer

pytestmark = pytest.mark.exhaustive

MESSAGES = 2_000
# More than fit on any screen, and far fewer than the trace has.
MOST_NODES = 6_000
MOST_ADDED = 4_000

_WORDS = ("alpha", "beta", "gamma", "delta", "rain", "city", "weather", "model", "🦜", "Zürich", "token", "stream")
_FORMS = (
    "<|start|>user<|message|>{}<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>{}<|end|>",
    "<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}<|call|>",
    "<|start|>assistant<|channel|>final<|message|>{}<|return|>",
)

# Counts the nodes that the page puts in, so that the work of a step can be told.
_COUNT_ADDED = """() => {
  window.added = 0;
  new MutationObserver((changes) => {
    for (const change of changes)
      for (const node of change.addedNodes) window.added += 1 + (node.querySelectorAll?.("*").length ?? 0);
  }).observe(document.querySelector("main"), { childList: true, subtree: true });
}"""
_FIRST_IN_SIGHT = """() => {
  const row = [...document.querySelectorAll("li[data-row]")].find((one) => one.getBoundingClientRect().top > 250);
  return [row.dataset.key, row.getBoundingClientRect().top];
}"""
_TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def large_trace() -> str:
    pieces: list[str] = []
    for number in range(MESSAGES):
        length = (8, 20, 40, 110)[number * 7 % 4]
        body = " ".join(_WORDS[(number + at * at) % len(_WORDS)] for at in range(length))
        pieces.append(_FORMS[number % 4].format(f"{number}: {body}"))
        if number % 100 == 9:
            pieces.append("stray words")
    return "".join(pieces)


@pytest.fixture
def large(start_server: StartServer, open_page: OpenPage, tmp_path: Path) -> Page:
    file = tmp_path / "large.txt"
    file.write_text(large_trace())
    page = open_page(start_server(), "#/inspect").page
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector(".message", timeout=60_000)
    return page


def tokens_of(page: Page) -> int:
    words = page.locator(".input-line .quiet").first.inner_text()
    number = re.match(r"(?:about )?([\d,]+) token", words)
    assert number, words
    return int(number[1].replace(",", ""))


def scrolled_through(page: Page) -> tuple[int, int]:
    """The most nodes there were, and the most that one step added, on the way from the top to the bottom."""
    page.evaluate(_COUNT_ADDED)
    most_nodes = most_added = 0
    for step in range(40):
        page.evaluate("window.added = 0")
        page.evaluate(
            "(part) => { const main = document.querySelector('main'); main.scrollTop = main.scrollHeight * part; }",
            step / 39,
        )
        page.evaluate(_TWO_FRAMES)
        most_nodes = max(most_nodes, page.evaluate("document.querySelectorAll('main *').length"))
        most_added = max(most_added, page.evaluate("window.added"))
    return most_nodes, most_added


def test_messages_in_the_page_are_those_in_sight(large: Page) -> None:
    assert tokens_of(large) >= 100_000
    nodes, added = scrolled_through(large)
    assert nodes < MOST_NODES
    assert added < MOST_ADDED
    expect(large.locator("li[data-row]").last).to_contain_text("The turn ends")


def test_tokens_in_the_page_are_those_in_sight(large: Page) -> None:
    large.get_by_role("tab", name="Tokens").click()
    large.wait_for_selector(".token-list .token")
    nodes, added = scrolled_through(large)
    assert nodes < MOST_NODES
    assert added < MOST_ADDED
    large.get_by_role("listbox", name="Tokens").focus()
    large.keyboard.press("End")
    expect(large.locator(".token.current")).to_have_text("<|return|>")
    expect(large.locator(".token.current")).to_be_in_viewport()
    expect(large.locator(".token-detail")).to_contain_text("stop of message")


def test_going_far_away_arrives_there(large: Page) -> None:
    large.keyboard.press("p")
    problem = large.locator(".trace-fault.current")
    expect(problem).to_be_focused()
    expect(problem).to_be_in_viewport()
    large.fill("#inspector-search", f"{MESSAGES // 2}: ")
    large.keyboard.press("Enter")
    expect(large.locator("mark.current")).to_be_in_viewport()
    expect(large.locator(".message.current .body-text")).to_contain_text(f"{MESSAGES // 2}: ")


def test_what_is_measured_above_does_not_move_what_is_in_sight(large: Page) -> None:
    large.fill("#inspector-search", f"{MESSAGES - 100}: ")
    large.keyboard.press("Enter")
    expect(large.locator("mark.current")).to_be_in_viewport()
    for _ in range(15):
        key, before = large.evaluate(_FIRST_IN_SIGHT)
        large.evaluate("document.querySelector('main').scrollTop -= 150")
        large.evaluate(_TWO_FRAMES)
        large.evaluate(_TWO_FRAMES)
        after = large.evaluate(
            "(key) => document.querySelector(`li[data-key=${key}]`).getBoundingClientRect().top", key
        )
        assert abs(after - before - 150) < 2
