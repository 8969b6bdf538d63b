"""Reading a trace in the inspector: what it was taken for, messages, problems, tokens, filters and search."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.clients.page_views import OpenPage, StartServer

BROKEN = (
    "<|start|>user<|message|>Rain in Zürich? 🦜<|end|>"
    '<|start|>assistant to=functions.a<|channel|>commentary to=functions.b <|constrain|>json<|message|>{"x": 1}<|call|>'
    "commentary<|start|>assistant<|channel|>final<|message|>Yes.<|end|><|return|>"
)


@pytest.fixture
def inspector(start_server: StartServer, open_page: OpenPage) -> Page:
    page = open_page(start_server(), "#/inspect").page
    page.wait_for_selector("#trace")
    return page


def inspect(page: Page, text: str) -> None:
    page.fill("#trace", text)
    page.press("#trace", "Control+Enter")
    page.wait_for_selector(".input-line")


def test_it_says_what_it_took_the_input_for(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    expect(inspector.locator(".input-line")).to_contain_text("Read as raw Harmony text")
    expect(inspector.locator(".message")).to_have_count(3)
    inspector.get_by_role("button", name="Change").click()
    expect(inspector.locator("#trace")).to_be_focused()
    expect(inspector.locator("#trace")).to_have_value(BROKEN)


def test_a_conversation_of_a_jsonl_file_can_be_chosen(inspector: Page, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(f'{{"messages": [{{"role": "user", "content": "Question {n}"}}]}}\n' for n in range(3)))
    inspector.set_input_files("input[type=file]", file)
    expect(inspector.locator(".body-text")).to_have_text("Question 0")
    inspector.get_by_label("Conversation").select_option("2")
    expect(inspector.locator(".body-text")).to_have_text("Question 2")
    inspector.get_by_role("button", name="Previous", exact=True).click()
    expect(inspector.locator(".body-text")).to_have_text("Question 1")


def test_problems_stand_at_their_places_and_keys_walk_them(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    first = inspector.locator(".message", has=inspector.locator("#problem-0"))
    expect(first.locator("h3")).to_contain_text("assistant")
    expect(inspector.locator(".outside #problem-1")).to_contain_text("stream.text_outside")
    for wanted in ("problem-0", "problem-1", "problem-2", "problem-0"):
        inspector.keyboard.press("n")
        expect(inspector.locator(f"#{wanted}")).to_be_focused()
    inspector.keyboard.press("p")
    expect(inspector.locator("#problem-2")).to_be_focused()
    problem = inspector.locator("#problem-0")
    for words in ("header.repeated_recipient", "What it means", "Repair made", "Strict parser", "^~~"):
        expect(problem).to_contain_text(words)


def test_header_and_body_are_apart_and_special_tokens_marked(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    call = inspector.locator(".message").nth(1)
    expect(call.locator(".message-header .special")).to_have_text(
        ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"]
    )
    expect(call.locator(".message-header dd").nth(2)).to_have_text("functions.b")
    expect(call.locator(".body-text")).to_have_text('{"x": 1}')


def test_a_split_character_is_one_group_with_the_bytes_of_its_tokens(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    inspector.get_by_role("tab", name="Tokens").click()
    group = inspector.locator(".split").first
    expect(group.locator(".split-text")).to_have_text("·🦜")
    expect(group.locator(".token")).to_have_text(["20 f0 9f", "a6", "9c"])
    inspector.get_by_label("Ids").check()
    expect(group.locator(".token")).to_have_text(["9552", "99", "250"])


def test_arrow_keys_walk_tokens(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    inspector.get_by_role("tab", name="Tokens").click()
    listed = inspector.get_by_role("listbox", name="Tokens")
    listed.focus()
    detail = inspector.locator(".token-detail")
    inspector.keyboard.press("ArrowRight")
    expect(detail).to_contain_text("200006")
    inspector.keyboard.press("ArrowRight")
    expect(detail).to_contain_text("1428")
    expect(listed).to_have_attribute("aria-activedescendant", "token-1")
    inspector.keyboard.press("End")
    expect(detail).to_contain_text("part of no message")
    inspector.keyboard.press("Home")
    inspector.keyboard.press("ArrowDown")
    expect(inspector.locator(".token.current")).to_have_count(1)
    expect(detail).to_contain_text("message 2")


def test_filters_and_search(inspector: Page) -> None:
    inspect(inspector, BROKEN)
    inspector.get_by_label("Channel", exact=True).select_option("final")
    expect(inspector.locator(".message")).to_have_count(1)
    inspector.get_by_role("button", name="All", exact=True).click()
    inspector.get_by_label("Problem", exact=True).select_option("any")
    expect(inspector.locator(".message")).to_have_count(1)
    expect(inspector.locator(".outside")).to_have_count(2)
    # What is filtered away is shown again when one goes to it.
    inspector.get_by_label("Problem", exact=True).select_option("header.repeated_recipient")
    inspector.keyboard.press("Escape")
    inspector.locator("h1").click()
    inspector.keyboard.press("p")
    expect(inspector.locator("#problem-2")).to_be_focused()
    expect(inspector.get_by_label("Problem", exact=True)).to_have_value("*")
    inspector.keyboard.press("/")
    inspector.keyboard.type("assist")
    expect(inspector.locator(".count")).to_have_text("2")
    inspector.keyboard.press("Enter")
    expect(inspector.locator(".count")).to_have_text("1 of 2")
    expect(inspector.locator("mark.current")).to_have_text("assist")
    inspector.get_by_label("Search in").select_option("ids")
    inspector.fill("#inspector-search", "200006 173781")
    expect(inspector.locator(".count")).to_have_text("2")


def test_a_failure_is_told_with_what_to_do_and_keeps_the_text(inspector: Page) -> None:
    inspector.fill("#trace", "{broken")
    inspector.get_by_label("What it is").select_option("chat")
    inspector.get_by_role("button", name="Inspect", exact=True).click()
    expect(inspector.locator(".failure")).to_contain_text("cannot read this")
    expect(inspector.locator("#trace")).to_have_value("{broken")


def test_print_has_every_message_and_all_of_a_long_body(inspector: Page) -> None:
    long = "x" * 1500
    inspect(inspector, "".join(f"<|start|>user<|message|>{n} {long}<|end|>" for n in range(30)))
    inspector.locator(".message").first.wait_for()
    assert inspector.locator(".message").count() < 30
    inspector.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(inspector.locator(".message")).to_have_count(30)
    expect(inspector.locator(".body-text").last).to_have_text(f"29 {long}")
    inspector.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(inspector.locator(".message").nth(29)).to_have_count(0)


def test_a_file_can_be_dropped(inspector: Page) -> None:
    inspector.evaluate(
        """(text) => {
          const given = new DataTransfer();
          given.items.add(new File([text], "trace.txt", { type: "text/plain" }));
          const form = document.querySelector(".input-form");
          form.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
        }""",
        BROKEN,
    )
    expect(inspector.locator(".message")).to_have_count(3)


def test_a_long_text_that_is_pasted_is_kept_out_of_the_field(inspector: Page) -> None:
    inspector.evaluate("(text) => navigator.clipboard.writeText(text)", BROKEN * 300)
    inspector.focus("#trace")
    inspector.keyboard.press("Control+V")
    expect(inspector.locator(".long-text")).to_contain_text("characters")
    expect(inspector.locator("#trace")).to_have_count(0)
    inspector.get_by_role("button", name="Inspect", exact=True).click()
    expect(inspector.locator(".input-line")).to_contain_text("900 messages")


def test_what_a_trace_says_is_only_text(inspector: Page) -> None:
    nasty = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    inspect(inspector, f"{nasty}<|start|>assistant to={nasty}<|channel|>{nasty}<|message|>{nasty}<|end|>{nasty}")
    expect(inspector.locator(".message").first).to_be_visible()
    assert inspector.locator(".inspector :is(img, script)").count() == 0
    inspector.get_by_role("tab", name="Tokens").click()
    expect(inspector.locator(".token").first).to_be_visible()
    inspector.get_by_role("tab", name="Overview").click()
    expect(inspector.locator(".totals")).to_be_visible()
    assert inspector.locator(".inspector :is(img, script)").count() == 0
