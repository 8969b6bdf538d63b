"""What is missing is told or done without: parts that do not load, storage that is switched off, room for a bar."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.clients.page_views import OpenPage, StartServer, Visit

_NO_STORAGE = """
for (const name of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError"); } });
}
"""


@pytest.fixture
def visit(start_server: StartServer, open_page: OpenPage) -> Visit:
    return open_page(start_server())


@pytest.mark.parametrize("ending", ["css", "js"])
def test_settings_that_do_not_load_say_so_and_can_be_closed(
    start_server: StartServer, open_page: OpenPage, ending: str
) -> None:
    visit = open_page(start_server())
    visit.page.route(re.compile(rf"settings_dialog.*\.{ending}$"), lambda route: route.abort())
    visit.page.get_by_role("button", name="Settings").click()
    told = visit.page.get_by_role("alert").filter(has_text="settings")
    expect(told).to_be_visible()
    told.get_by_role("button", name="Close").click()
    expect(told).to_have_count(0)


@pytest.mark.parametrize("part", ["search_dialog", "help_dialog", "import_dialog"])
def test_a_dialog_that_does_not_load_is_told(start_server: StartServer, open_page: OpenPage, part: str) -> None:
    visit = open_page(start_server())
    visit.page.route(re.compile(rf"{part}.*"), lambda route: route.abort())
    name = {"search_dialog": "Search", "help_dialog": "Shortcuts and help", "import_dialog": "Import"}[part]
    visit.page.get_by_role("button", name=name).click()
    expect(visit.page.get_by_role("alert").filter(has_text="Reload the page")).to_be_visible()


def test_what_is_typed_and_attached_outlives_the_inspector_without_storage(
    start_server: StartServer, open_page: OpenPage
) -> None:
    visit = open_page(start_server(), init_script=_NO_STORAGE)
    box = visit.page.get_by_label("Message", exact=True)
    box.fill("Read this file")
    chooser = visit.page.locator(".composer input[type=file]")
    chooser.set_input_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"some notes"})
    expect(visit.page.get_by_role("button", name="Remove notes.txt")).to_be_visible()
    visit.page.get_by_role("link", name="Inspector").click()
    expect(visit.page.get_by_role("heading", name="Inspector")).to_be_visible()
    visit.page.get_by_role("link", name="Chat", exact=True).click()
    expect(box).to_have_value("Read this file")
    expect(visit.page.get_by_role("button", name="Remove notes.txt")).to_be_visible()


def test_the_way_back_from_the_inspector_leads_to_the_chat_that_was_open(visit: Visit) -> None:
    visit.ask("Hello")
    visit.page.get_by_role("link", name="Inspector").click()
    expect(visit.page).to_have_title("Inspector · Harmonia")
    visit.page.get_by_role("link", name="Chat", exact=True).click()
    expect(visit.page).to_have_title("Hello · Harmonia")
    expect(visit.answers).to_have_count(1)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_the_bar_is_one_row_on_narrow_screens(start_server: StartServer, open_page: OpenPage, width: int) -> None:
    visit = open_page(start_server(), width=width, height=700)
    bar = visit.page.locator("header.bar").bounding_box()
    assert bar is not None and bar["height"] < 60
    assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for name in ("Chats", "Search", "New chat", "Theme", "Shortcuts and help"):
        button = visit.page.locator("header.bar").get_by_role("button", name=name)
        expect(button).to_be_in_viewport(ratio=1)
