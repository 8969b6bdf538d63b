"""An answer while it comes: reasoning, notes and the final text, each as its own kind, and without flicker."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, cast

import httpx2
from playwright.sync_api import expect

from harmonia import encode
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final, think

_MARK: Final = "ZEBRASECRET"
_FINAL: Final = "<|channel|>final<|message|>"
_NOTE: Final = "<|channel|>commentary<|message|>{}<|end|><|start|>assistant"
# Keeps everything that the page is sent, also of streams, as text.
_KEEP_BODIES: Final = """
  window.bodies = [];
  const asked = window.fetch;
  window.fetch = async (...given) => {
    const response = await asked(...given);
    response.clone().text().then((text) => window.bodies.push(text), () => undefined);
    return response;
  };
"""


def test_an_answer_is_streamed_over_responses(start_server: StartServer, open_page: OpenPage) -> None:
    rest = asyncio.Event()
    engine = ScriptedEngine([_FINAL + "The first half,", rest, " and the second.<|return|>"])
    visit = open_page(start_server(engine))
    with visit.page.expect_request("**/v1/responses") as asked:
        answer = visit.begin_to_ask("Hello")
    expect(answer).to_contain_text("The first half,")
    expect(answer).to_have_attribute("aria-busy", "true")
    expect(visit.page.get_by_role("button", name="Stop")).to_be_visible()
    visit.server.set(rest)
    expect(answer).to_contain_text("The first half, and the second.")
    expect(answer).to_have_attribute("aria-busy", "false")
    request = cast("dict[str, Any]", asked.value.post_data_json)
    assert request["stream"] is True and request["store"] is False
    assert [item["content"] for item in request["input"]] == ["Hello"]


def test_reasoning_is_a_closed_accordion_with_nothing_inside(start_server: StartServer, open_page: OpenPage) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    thought = f"{_MARK} is what I think about."
    engine = ScriptedEngine([think(thought).removesuffix("<|end|><|start|>assistant"), first,
                             " More.<|end|><|start|>assistant", second, final("Done.")])  # fmt: skip
    visit = open_page(start_server(engine))
    answer = visit.begin_to_ask("Think")
    accordion = answer.locator("details.of-analysis")
    expect(accordion.locator("summary")).to_contain_text("Thinking for")
    assert _MARK not in visit.page.content()
    visit.server.set(first)
    expect(accordion.locator("summary")).to_contain_text(re.compile(r"Thought (briefly|for)"))
    visit.server.set(second)
    visit.wait_until_idle()
    # The message as the model wrote it: with its channel and its end.
    tokens = len(encode(f"<|channel|>analysis<|message|>{thought} More.<|end|>", special="all"))
    expect(accordion.locator("summary")).to_have_text(re.compile(rf"^Thought (briefly|for .* s), {tokens} tokens$"))
    assert _MARK not in visit.page.content()
    expect(visit.open(accordion)).to_have_text(thought + " More.")
    accordion.locator("> summary").click()
    expect(accordion.locator(".accordion-body")).to_have_count(0)
    assert _MARK not in visit.page.content()


def test_an_open_accordion_shows_reasoning_as_it_comes_and_stays_open(
    start_server: StartServer, open_page: OpenPage
) -> None:
    rest = asyncio.Event()
    engine = ScriptedEngine(
        ["<|channel|>analysis<|message|>One", rest, f" two.<|end|><|start|>assistant{final('Ok.')}"]
    )
    visit = open_page(start_server(engine))
    answer = visit.begin_to_ask("Think")
    inside = visit.open(answer.locator("details.of-analysis"))
    expect(inside).to_have_text("One")
    visit.server.set(rest)
    expect(inside).to_have_text("One two.")
    visit.wait_until_idle()
    expect(inside).to_be_visible()


def everything(visit: Visit) -> str:
    """All that this page holds: what is drawn, what is stored, and what it was ever sent."""
    page = visit.page
    stored = page.evaluate("() => JSON.stringify([{...sessionStorage}, {...localStorage}, window.bodies])")
    return page.content() + stored


def test_hidden_reasoning_reaches_no_browser(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(think(f"{_MARK} one.") + final("Public."), think(f"{_MARK} two.") + final("Also public."))
    server = start_server(engine, analysis="hidden")
    visit = open_page(server, init_script=_KEEP_BODIES)
    visit.ask("Hello")
    expect(visit.last_answer.locator(".of-analysis")).to_have_text(
        re.compile(r"^Thought (briefly|for .* s), \d+ tokens; this server does not show reasoning$")
    )
    visit.ask("Again")
    visit.wait_until_saved()
    held = everything(visit)
    assert "Also public." in held and '"reasoning"' in held.replace("\\", "") and _MARK not in held
    # The seal went back as it came, though nobody can read it: the model goes on from what it thought.
    assert "encrypted_content" in held
    visit.page.reload()
    expect(visit.answers).to_have_count(2)
    visit.last_answer.get_by_role("link", name="Inspect").click()
    expect(visit.page.locator(".input-note")).to_contain_text("of reasoning")
    held = everything(visit)
    assert "Also public." in held and _MARK not in held


def test_a_note_is_a_kind_of_its_own(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(think("Hm.") + _NOTE.format("I will look it **up**.") + final("Here it is."))
    visit = open_page(start_server(engine))
    visit.ask("Look")
    note = visit.last_answer.locator(".note")
    expect(note).to_contain_text("Note")
    expect(note.locator("strong")).to_have_text("up")
    expect(note).not_to_contain_text("Here it is.")
    assert visit.page.locator("details .note").count() == 0


def test_what_is_finished_is_not_drawn_again(start_server: StartServer, open_page: OpenPage) -> None:
    blocks = [
        "# A heading\n\n", "A *paragraph* with `code`.\n\n", "- one\n- two\n\n", "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "```python\nprint('hello')\n```\n\n", "The ", "end", " of it.",
    ]  # fmt: skip
    gates = [asyncio.Event() for _ in blocks]
    script: list[Any] = [_FINAL]
    for block, gate in zip(blocks, gates, strict=True):
        script += [block, gate]
    visit = open_page(start_server(ScriptedEngine([*script, "<|return|>"])))
    answer = visit.begin_to_ask("Write")
    signs = ["h1, h2, h3, h4", "em", "li:nth-child(2)", "td:nth-child(2)", "pre", "p:has-text('The')"]
    for sign, gate in zip(signs, gates, strict=False):
        answer.locator(f".markdown {sign}").first.wait_for()
        visit.server.set(gate)
    # All but the block at the end is whole: its nodes stay the very same, and nothing changes in them but colours.
    visit.page.evaluate(
        """() => {
          const text = document.querySelector(".from-assistant .markdown");
          window.kept = [...text.querySelectorAll("h1, h2, h3, h4, p, em, li, td, pre")]
            .filter((each) => !each.textContent.startsWith("The"));
          window.lost = 0;
          new MutationObserver((records) => {
            for (const { target, removedNodes } of records)
              if (!target.closest?.("pre")) window.lost += removedNodes.length;
          }).observe(text, {subtree: true, childList: true});
        }"""
    )
    visit.server.set(gates[-3])
    visit.server.set(gates[-2])
    expect(answer).to_contain_text("The end of it.")
    visit.server.set(gates[-1])
    visit.wait_until_idle()
    assert visit.page.evaluate("() => [window.kept.length > 8, window.kept.every((each) => each.isConnected)]") == [
        True,
        True,
    ]
    assert visit.page.evaluate("() => window.lost") <= len(blocks[-3:])


def test_citations_are_links(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server(ScriptedEngine(final("Read [the paper](https://example.org/paper), it says.")))
    visit = open_page(server)
    visit.ask("Where?")
    link = visit.last_answer.get_by_role("link", name="the paper")
    expect(link).to_have_attribute("href", "https://example.org/paper")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    expect(link).to_have_attribute("target", "_blank")
    # As the Responses API marks them.
    text = "It rains\u30101\u2020L2\u3011 today."
    cited = {
        "type": "url_citation",
        "url": "https://example.org/rain",
        "title": "Rain",
        "start_index": 8,
        "end_index": 14,
    }
    part = {"type": "output_text", "text": text, "annotations": [cited]}
    item = {"type": "message", "role": "assistant", "phase": "final_answer", "content": [part]}
    turn = {"id": "turn_1", "parent": None, "role": "assistant", "items": [item], "status": "completed"}
    chat = httpx2.post(f"{server.url}/v1/chats", json={"title": "Cited"}).raise_for_status().json()["id"]
    saved: dict[str, Any] = {**turn, "created_at": 1, "details": {}}
    httpx2.put(f"{server.url}/v1/chats/{chat}/turns/turn_1", json=saved).raise_for_status()
    visit.page.goto(f"{server.url}/#/chat/{chat}")
    expect(visit.last_answer).to_contain_text("It rains")
    expect(visit.last_answer.locator(".markdown a")).to_have_attribute("href", "https://example.org/rain")
