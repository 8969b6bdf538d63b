"""The pictures of the README, taken of the real page. `make screenshots` writes them to docs/images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.paths import ROOT

_EXAMPLES: Final = ROOT / "examples"
_NOTE: Final = "<|channel|>commentary<|message|>Let me look at both forecasts first.<|end|><|start|>assistant"
_ANSWER: Final = """\
Take the **Saturday** train: it stays dry in both cities, and the walk from the station is short.

| | Paris | Lyon |
|---|---|---|
| Saturday | 21 °C, dry | 24 °C, dry |
| Sunday | 17 °C, rain | 23 °C, dry |

The mean of the four is $\\bar{t} = \\tfrac{1}{4}\\sum_i t_i = 21.25$ °C, or in Python:

```python
temperatures = [21, 17, 24, 23]
print(sum(temperatures) / len(temperatures))
```
"""
_SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(os.environ.get("HARMONIA_TEST_SCREENSHOTS") or tmp_path)


def take(visit: Visit, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    visit.page.mouse.move(0, 0)
    visit.page.evaluate("() => document.activeElement?.blur()")
    visit.page.evaluate("() => document.fonts.ready")
    visit.page.screenshot(path=path)
    # A page that did not come is one colour, and such a picture is small.
    assert path.stat().st_size > 20_000


def engine() -> ScriptedEngine:
    look = think("Two cities, two days. I need the forecast of each.") + _NOTE
    return ScriptedEngine(
        look + calls("forecast___weekend", '{"city": "Paris"}'),
        calls("forecast___weekend", '{"city": "Lyon"}'),
        think("Saturday is dry in both; Sunday rains in Paris.") + final(_ANSWER),
    )


def forecast() -> ServerTool:
    tool = Tool(
        "forecast___weekend", "The weather of the weekend.", _SCHEMA, lambda _: '{"saturday": 21, "sunday": 17}'
    )
    return ServerTool("forecast", "weekend", tool)


def test_the_chat(start_server: StartServer, open_page: OpenPage, folder: Path) -> None:
    server = start_server(engine(), tools=[forecast()], model="gpt-oss-20b")
    visit = open_page(server, width=1180, height=960)
    visit.ask("Paris or Lyon this weekend?")
    expect(visit.answers.last.locator(".katex")).to_be_visible()
    expect(visit.answers.last.locator(".hljs-built_in").first).to_be_visible()
    take(visit, folder / "chat.png")


def test_the_chat_on_a_phone_in_the_dark(start_server: StartServer, open_page: OpenPage, folder: Path) -> None:
    server = start_server(engine(), tools=[forecast()], model="gpt-oss-20b")
    visit = open_page(server, width=390, height=844, dark=True)
    visit.ask("Paris or Lyon this weekend?")
    expect(visit.answers.last.locator(".katex")).to_be_visible()
    take(visit, folder / "chat-phone.png")


def test_the_inspector(start_server: StartServer, open_page: OpenPage, folder: Path) -> None:
    visit = open_page(start_server(), "#/inspect", width=1180, height=1000)
    page = visit.page
    page.get_by_label("What to inspect").locator("textarea").first.fill((_EXAMPLES / "broken-answer.txt").read_text())
    page.get_by_role("button", name="Inspect", exact=True).click()
    expect(page.get_by_role("group", name="Problem 1")).to_be_visible()
    take(visit, folder / "inspector.png")
