"""axe finds nothing serious on any view, in light and in dark, wide and narrow; and the views work without a mouse."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.sync_api import expect

from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.paths import ROOT

_AXE: Final = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
_MATTERS: Final = ("serious", "critical")
_SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_ANSWER: Final = (
    "# A heading\n\nSome **bold** text, `code` and a [link](https://example.org).\n\n"
    "```python\nprint('hello')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. one\n2. two\n\n> quoted\n\n$$x^2$$\n"
)
# In the dark nothing is another but colours, and these are the rules that look at them.
_OF_COLOURS: Final = ("color-contrast", "link-in-text-block")
_BROKEN: Final = (ROOT / "examples" / "broken-answer.txt").read_text()
_SCREENS: Final = [{"dark": False}, {"dark": True}, {"width": 375, "height": 720}]


def check(visit: Visit, where: str) -> None:
    """What axe says. It is put in by the debugger, which the policy of the page does not bind."""
    if not visit.page.evaluate("() => 'axe' in window"):
        visit.page.evaluate(_AXE.read_text())
    found: list[dict[str, Any]] = visit.page.evaluate(
        """async (ofColours) => {
          const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
          return (await axe.run(document, isDark ? {runOnly: ofColours} : {})).violations;
        }""",
        _OF_COLOURS,
    )
    serious = [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in _MATTERS
    ]
    assert not serious, (where, serious)


def weather(approval: Any = "run") -> ServerTool:
    tool = Tool("sky___weather", "The weather of a city.", _SCHEMA, lambda arguments: '{"celsius": 21}')
    return ServerTool("sky", "weather", tool, approval)


def engine() -> ScriptedEngine:
    first = "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant"
    call = calls("sky___weather", '{"city": "Paris"}')
    return ScriptedEngine(think("Paris, I think.") + first + call, think("So.") + final(_ANSWER))


@pytest.mark.parametrize("screen", _SCREENS, ids=["light", "dark", "narrow"])
def test_the_chat(start_server: StartServer, open_page: OpenPage, screen: dict[str, Any]) -> None:
    visit = open_page(start_server(engine(), tools=[weather()]), **screen)
    check(visit, "empty")
    visit.ask("What is the weather in Paris?")
    expect(visit.answers.last).to_contain_text("A heading")
    expect(visit.page.locator(".katex")).to_be_visible()
    check(visit, "answered")
    for summary in visit.answers.locator("summary").all():
        summary.click()
    check(visit, "opened")
    visit.page.get_by_role("button", name="Settings").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()
    check(visit, "settings")


@pytest.mark.parametrize("screen", _SCREENS, ids=["light", "dark", "narrow"])
def test_an_approval(start_server: StartServer, open_page: OpenPage, screen: dict[str, Any]) -> None:
    visit = open_page(start_server(engine(), tools=[weather("ask")]), **screen)
    visit.ask("What is the weather in Paris?")
    expect(visit.page.get_by_role("button", name="Run once")).to_be_visible()
    check(visit, "asked")
    visit.page.get_by_role("button", name="Edit the arguments").click()
    check(visit, "edited")


def test_the_dialogs(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server())
    visit.ask("Hello")
    visit.page.keyboard.press("Control+k")
    expect(visit.page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
    check(visit, "search")
    visit.page.keyboard.press("Escape")
    visit.sidebar.get_by_role("button", name="Import").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()
    check(visit, "import")
    visit.page.keyboard.press("Escape")
    for action in ("Rename", "Export", "Delete"):
        visit.sidebar.get_by_role("button", name="Actions for Hello").click()
        check(visit, "menu")
        visit.page.get_by_role("menuitem", name=action).click()
        expect(visit.page.get_by_role("dialog")).to_be_visible()
        check(visit, action)
        visit.page.keyboard.press("Escape")
    visit.page.get_by_role("button", name="Shortcuts and help").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()
    check(visit, "help")


@pytest.mark.parametrize("screen", _SCREENS, ids=["light", "dark", "narrow"])
def test_the_inspector(start_server: StartServer, open_page: OpenPage, screen: dict[str, Any]) -> None:
    visit = open_page(start_server(), "#/inspect", **screen)
    page = visit.page
    page.get_by_role("heading", name="Inspector").wait_for()
    check(visit, "empty")
    page.get_by_label("What to inspect").locator("textarea").first.fill(_BROKEN)
    page.get_by_role("button", name="Inspect", exact=True).click()
    page.get_by_role("tab", name="Messages").wait_for()
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel").locator(".quiet", has_text="Loading")).to_have_count(0)
        check(visit, tab.inner_text())


def test_everything_is_done_by_keyboard(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(engine(), tools=[weather("ask")]))
    page = visit.page
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Shift+Escape")
    expect(visit.composer).to_be_focused()
    page.keyboard.type("What is the weather in Paris?")
    page.keyboard.press("Enter")
    run = page.get_by_role("button", name="Run once")
    run.wait_for()
    run.focus()
    page.keyboard.press("Enter")
    expect(visit.answers.last).to_contain_text("A heading")
    thought = visit.answers.locator("summary").first
    thought.focus()
    page.keyboard.press("Enter")
    expect(visit.answers.first).to_contain_text("Paris, I think.")


def test_a_finished_answer_is_announced_once(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(ScriptedEngine(think("Hm.") + final("The answer is 42."))))
    visit.page.evaluate(
        """() => {
          window.told = [];
          const note = (records) => { for (const record of records) {
            const region = record.target.parentElement?.closest("[role=status], [role=log], [aria-live]")
              ?? (record.target.closest ? record.target.closest("[role=status], [role=log], [aria-live]") : null);
            if (region && region.textContent.trim()) window.told.push(region.textContent.trim());
          } };
          new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
        }"""
    )
    visit.ask("What is the answer?")
    visit.page.wait_for_function("() => window.told.some((text) => text.includes('42'))")
    told: list[str] = visit.page.evaluate("() => window.told.filter((text) => text.includes('42'))")
    assert len(set(told)) == 1 and told[0].startswith("Answer finished")
