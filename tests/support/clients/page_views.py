"""A visit to the page: a tab in a context of its own, what it complains about, and where things are on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

from tests.support.servers.page_server import PageServer

# Against a hang; nothing is measured with it.
WATCHDOG_MS = 60_000
# What a browser itself says of an answer that is an error; the page tells it in words.
_EXPECTED_WORDS = ("Failed to load resource",)
# How many times slower the browser computes, for a hunt for races: a test that does not wait for what it needs, or a
# page that takes a key by what it drew last, fails in a slow browser.
_SLOWER = float(os.environ.get("HARMONIA_TEST_SLOW_BROWSER", "1"))
_DELAY_MS_EACH = 10
# How much longer what the page stores is on its way, for another hunt: what was just said must be there all the same.
_STORING_MS = int(os.environ.get("HARMONIA_TEST_SLOW_STORING", "0"))
# What is sent while the page closes cannot wait.
_STORE_LATER = """
  const ask = window.fetch;
  window.fetch = async (address, options = {}) => {
    const isStoring = String(address).includes("/v1/chats/") && (options.method ?? "GET") !== "GET";
    if (isStoring && !options.keepalive) await new Promise((resolve) => setTimeout(resolve, DELAY));
    return ask(address, options);
  };
"""


def _slow_down(context: BrowserContext, page: Page) -> None:
    if _SLOWER == 1:
        return
    # The name of an instruction and a dictionary: Playwright has no closer type for it.
    devtools: Any = context.new_cdp_session(page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    devtools.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": _SLOWER * _DELAY_MS_EACH, "downloadThroughput": -1, "uploadThroughput": -1},
    )


@dataclass
class Visit:
    """One tab. `complaints` are errors of the page and of its policy, `strayed` requests to other servers."""

    page: Page
    server: PageServer
    context: BrowserContext
    complaints: list[str] = field(default_factory=list[str])
    strayed: list[str] = field(default_factory=list[str])
    expects_complaints: bool = False

    @classmethod
    @contextmanager
    def begin(
        cls,
        browser: Browser,
        server: PageServer,
        at: str = "",
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        reduced_motion: Literal["reduce", "no-preference"] = "reduce",
        init_script: str | None = None,
    ) -> Generator[Self]:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion=reduced_motion,
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(WATCHDOG_MS)
        if _STORING_MS:
            context.add_init_script(_STORE_LATER.replace("DELAY", str(_STORING_MS)))
        if init_script is not None:
            context.add_init_script(init_script)
        page = context.new_page()
        _slow_down(context, page)
        visit = cls(page, server, context)
        page.on("console", visit._note_console)
        page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
        page.on("request", visit._note_request)
        try:
            page.goto(f"{server.url}/{at}")
            page.wait_for_selector("main")
            yield visit
            assert visit.expects_complaints or not visit.complaints, visit.complaints
            assert not visit.strayed, visit.strayed
        finally:
            context.close()

    def ask(self, text: str) -> None:
        """Send a message, and wait until the answer is there."""
        before = self.answers.count()
        self.type(text)
        self.page.keyboard.press("Enter")
        self.answers.nth(before).wait_for()
        self.wait_until_idle()

    def type(self, text: str) -> None:
        self.composer.click()
        self.composer.fill(text)

    def begin_to_ask(self, text: str) -> Locator:
        """Send a message whose answer an engine holds up. Gives the answer's place."""
        before = self.answers.count()
        self.type(text)
        self.page.keyboard.press("Enter")
        place = self.answers.nth(before)
        place.wait_for()
        return place

    def inspect(self, text: str) -> None:
        """Paste a trace into the inspector, and wait until the server has read it."""
        self.open_input()
        self.trace.fill(text)
        self.trace.press("Control+Enter")
        self.page.locator(".input-line").wait_for()

    def open_input(self) -> None:
        """The form of the inspector, which is behind a button once something was read; the view may be loading yet."""
        form, change = self.page.locator(".input-form"), self.page.locator("#change-input")
        form.or_(change).first.wait_for()
        if change.is_visible():
            change.click()
        form.wait_for()

    def open_tab(self, name: str) -> Locator:
        """A tab of the inspector, once its view is there."""
        tab = self.page.get_by_role("tab", name=name)
        tab.click()
        panel = self.page.get_by_role("tabpanel", name=name)
        panel.locator(":scope > :not(p.quiet)").first.wait_for()
        return panel

    @property
    def trace(self) -> Locator:
        """The field of the inspector."""
        return self.page.locator("#trace")

    @property
    def heads(self) -> Locator:
        """The headings of the inspected messages that are in the page: number, role, channel, recipient."""
        return self.page.locator(".message h3")

    def wait_until_idle(self) -> None:
        self.page.get_by_role("button", name="Stop").wait_for(state="detached")

    def wait_until_saved(self) -> None:
        """The server has all of the chat: only then do reloads and other tabs show it."""
        self.wait_until_idle()
        self.page.locator(".chat-head", has_not_text="Saving").wait_for()
        self.page.locator(".chat-head", has_not_text="Not saved").wait_for()

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that the engine does and no page shows."""
        for _ in range(WATCHDOG_MS // 10):
            if happened():
                return
            self.page.wait_for_timeout(10)
        raise AssertionError("it did not happen")

    @contextmanager
    def settings(self) -> Generator[Locator]:
        """The settings of the chat, which are closed again behind the block."""
        self.page.get_by_role("button", name="Settings", exact=True).click()
        dialog = self.page.get_by_role("dialog", name="Settings of this chat")
        dialog.wait_for()
        yield dialog
        self.page.keyboard.press("Escape")
        dialog.wait_for(state="detached")

    def act(self, turn: Locator, action: str) -> None:
        """Press a button of a turn, by its whole word."""
        turn.get_by_role("button", name=action, exact=True).first.click()

    def open(self, accordion: Locator) -> Locator:
        """Open an accordion, and give what is inside."""
        accordion.locator("> summary").click()
        inside = accordion.locator("> .accordion-body")
        inside.wait_for()
        return inside

    @property
    def last_answer(self) -> Locator:
        return self.answers.last

    @property
    def composer(self) -> Locator:
        return self.page.locator("textarea[data-composer]")

    @property
    def answers(self) -> Locator:
        """The turns of the model that are shown."""
        return self.page.locator(".turn.from-assistant")

    @property
    def messages(self) -> Locator:
        """The turns of the person that are shown."""
        return self.page.locator(".turn.from-user")

    @property
    def alerts(self) -> Locator:
        """What is told at once to everybody, where there is something to tell."""
        return self.page.locator("[role=alert]:not(:empty)")

    @property
    def sidebar(self) -> Locator:
        return self.page.get_by_role("complementary", name="Chats")

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_EXPECTED_WORDS):
            self.complaints.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.server.url, "blob:", "data:", "about:")):
            self.strayed.append(request.url)


# What the fixtures of these names give.
StartServer = Callable[..., PageServer]
OpenPage = Callable[..., Visit]
