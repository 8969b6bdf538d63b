"""A real Chromium, and servers for it. `make test-page` builds the page and installs the browser, where it may."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from harmonia.run.engines.demo import DemoEngine
from harmonia.run.sampling import Model
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.page import is_built
from tests.support.clients.page_views import WATCHDOG_MS, OpenPage, StartServer, Visit
from tests.support.servers.page_server import PageServer, page_server

# The headless shell is the same engine without windows, whose own pages cost more than ours: half the time.
_BROWSERS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
# No sandbox, because tests may run as root; and nothing that a browser does by itself in the background.
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

expect.set_options(timeout=WATCHDOG_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def _settings() -> Settings:
    return Settings(page_folder=os.environ.get("HARMONIA_PAGE_FOLDER"))


@pytest.fixture(scope="session")
def playwright() -> Generator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Generator[Browser]:
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium")
    if not is_built(_settings()):
        pytest.skip("the page is not built")
    started = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Generator[StartServer]:
    """Start servers: `start_server(engine, analysis="hidden", …)`. They end with the test."""
    with ExitStack() as stack:

        def start(engine: Model | None = None, **settings: Any) -> PageServer:
            folder = settings.pop("folder", tmp_path)
            given: dict[str, Any] = {"page_folder": _settings().page_folder, **settings}
            return stack.enter_context(page_server(engine or DemoEngine(), folder, **given))

        yield start


@pytest.fixture
def open_page(browser: Browser) -> Generator[OpenPage]:
    """Open a server's page: `open_page(server, "#/inspect", width=375, dark=True)`. What the page says to its console,
    and asks other servers for, is a fault at the end of the test, unless the visit was told to expect it."""
    with ExitStack() as stack:

        def open_(server: PageServer, at: str = "", **options: Any) -> Visit:
            return stack.enter_context(Visit.begin(browser, server, at, **options))

        yield open_
