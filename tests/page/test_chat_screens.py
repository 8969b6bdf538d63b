"""The chat on screens and on paper: narrow, dark, printed, and without motion."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from playwright.sync_api import expect

from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, calls, final, think

_LONG: Final = "Pneumono" * 40
_ANSWER: Final = (
    f"# A heading\n\n{_LONG}\n\n```python\nprint('{_LONG}')\n```\n\n"
    + "|" + " column |" * 12 + "\n|" + "---|" * 12 + "\n|" + " value |" * 12 + "\n\n"
    + f"$${'x + ' * 60} y$$\n\n[{_LONG}](https://example.org/{_LONG})\n\nThe end."
)  # fmt: skip


def talk(start_server: StartServer, open_page: OpenPage, **screen: object) -> Visit:
    """A chat with every kind of thing in it, and words that are longer than any line."""
    look = Tool("sky___look", "Looks.", {"type": "object"}, lambda arguments: _LONG)
    call = calls("sky___look", f'{{"at": "{_LONG}"}}')
    note = f"<|channel|>commentary<|message|>{_LONG}<|end|><|start|>assistant"
    engine = ScriptedEngine(think(_LONG) + note + call, think("So.") + final(_ANSWER))
    visit = open_page(start_server(engine, tools=[ServerTool("sky", "look", look)]), **screen)
    visit.ask(f"Look at {_LONG}")
    expect(visit.last_answer).to_contain_text("The end.")
    # What is set and coloured behind the answer moves what stands below it, also away from a pointer.
    visit.last_answer.locator(".math-display.math-set .katex").wait_for()
    visit.last_answer.locator(".hljs-built_in").first.wait_for()
    visit.page.evaluate("() => document.fonts.ready.then(() => null)")
    return visit


def overflow(visit: Visit) -> int:
    """By how many pixels the page, or the column of turns, can be scrolled sideways."""
    return visit.page.evaluate(
        """() => Math.max(...[...document.querySelectorAll("html, body, main, .chat, .chat-scroll")]
          .map((each) => each.scrollWidth - each.clientWidth))"""
    )


def test_nothing_is_wider_than_a_narrow_screen(start_server: StartServer, open_page: OpenPage) -> None:
    visit = talk(start_server, open_page, width=320, height=640)
    assert overflow(visit) <= 0
    for accordion in visit.page.locator(".turns details.accordion").all():
        visit.open(accordion)
    for line in visit.page.locator("button.facts-line").all():
        line.click()
    assert overflow(visit) <= 0
    visit.act(visit.messages.last, "Edit and resend")
    visit.act(visit.last_answer, "Delete")
    assert overflow(visit) <= 0
    visit.page.keyboard.press("Escape")
    with visit.settings() as dialog:
        assert overflow(visit) <= 0
        box = dialog.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 320
    # Everything that can be pressed is large enough to be pressed, and inside of the screen.
    for button in visit.page.locator(".composer button:visible, .chat-head button:visible").all():
        box = button.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 320 and box["height"] >= 24


def test_paper_has_the_words_and_nothing_to_press(start_server: StartServer, open_page: OpenPage) -> None:
    visit = talk(start_server, open_page, dark=True)
    page = visit.page
    page.emulate_media(media="print")
    for part in (".bar", ".sidebar", ".composer", ".turn-row", ".chat-head button"):
        assert page.locator(f"{part}:visible").count() == 0, part
    for words in ("Look at", "A heading", "The end."):
        expect(page.locator(".turns").get_by_text(words).first).to_be_visible()
    # The whole conversation is on the page, not only what a scrolled box shows; and in dark ink on light paper.
    sizes = page.evaluate(
        """() => {
          const box = document.querySelector(".chat-scroll");
          return [box.scrollHeight - box.clientHeight, document.documentElement.scrollHeight - box.scrollHeight];
        }"""
    )
    assert sizes[0] <= 1 and sizes[1] >= 0
    ink, paper = page.evaluate(
        """() => {
          const light = (name) => {
            const [red, green, blue] = getComputedStyle(document.body)[name].match(/[\\d.]+/g).map(Number);
            return red + green + blue;
          };
          return [light("color"), light("backgroundColor")];
        }"""
    )
    assert ink < 255 < 510 < paper


def test_dark_and_light_are_chosen_and_stay(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(), dark=True)
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = visit.page.evaluate(background)
    visit.page.get_by_role("button", name=re.compile("Theme")).click()
    expect(visit.page.get_by_role("button", name="Theme: Light")).to_be_visible()
    light = visit.page.evaluate(background)
    assert dark != light
    visit.page.reload()
    expect(visit.page.get_by_role("button", name="Theme: Light")).to_be_visible()
    assert visit.page.evaluate(background) == light


def test_nothing_moves_for_those_who_do_not_want_it(start_server: StartServer, open_page: OpenPage) -> None:
    moving = """() => document.getAnimations().filter((each) => {
      const { duration, iterations } = each.effect.getComputedTiming();
      return each.playState === "running" && duration * iterations > 50;
    }).length"""
    never = asyncio.Event()
    server = start_server(ScriptedEngine(["<|channel|>analysis<|message|>Hm", never]))
    still = open_page(server, reduced_motion="reduce")
    still.begin_to_ask("Think").locator(".progress").wait_for()
    assert still.page.evaluate(moving) == 0
    server.set(never)
