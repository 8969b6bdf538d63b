"""The list of chats: opened, searched, renamed, deleted, exported, imported; and the key that a server may want."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from harmonia import parse
from harmonia.serve.security.keys import new_api_key
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final


@pytest.fixture
def visit(start_server: StartServer, open_page: OpenPage) -> Visit:
    return open_page(start_server())


def act(visit: Visit, chat: str, action: str) -> None:
    visit.sidebar.get_by_role("button", name=f"Actions for {chat}").click()
    visit.page.get_by_role("menuitem", name=action).click()


def test_a_chat_is_listed_and_found_again_after_a_reload(visit: Visit) -> None:
    visit.ask("What are you?")
    expect(visit.sidebar.get_by_role("link", name="What are you?")).to_be_visible()
    visit.page.reload()
    expect(visit.messages).to_contain_text("What are you?")
    expect(visit.answers).to_contain_text("demo engine")


def test_an_address_leads_to_a_chat_and_back_goes_back(visit: Visit) -> None:
    visit.ask("The first one")
    address = visit.page.url
    assert "#/chat/chat_" in address
    visit.sidebar.get_by_role("button", name="New chat").click()
    expect(visit.page.get_by_text("What would you like to ask?")).to_be_visible()
    visit.page.go_back()
    expect(visit.messages).to_contain_text("The first one")
    assert visit.page.url == address


def test_an_address_of_no_chat_says_so(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(), "#/chat/chat_that_is_not_there")
    expect(visit.page.get_by_role("alert").filter(has_text="Not found")).to_be_visible()


def test_search_finds_words_in_messages_and_opens_the_chat(visit: Visit) -> None:
    visit.ask("A question about zebras")
    visit.sidebar.get_by_role("button", name="New chat").click()
    visit.ask("A question about lions")
    visit.page.keyboard.press("Control+k")
    dialog = visit.page.get_by_role("dialog", name="Search the chats")
    dialog.get_by_role("combobox").fill("ZEBRAS")
    expect(dialog.get_by_role("option")).to_have_count(1)
    expect(dialog.locator("mark").first).to_have_text("zebras")
    visit.page.keyboard.press("Enter")
    expect(visit.messages).to_contain_text("zebras")
    expect(dialog).to_have_count(0)


def test_search_says_where_nothing_is_found_and_escape_closes_it(visit: Visit) -> None:
    visit.page.keyboard.press("Control+k")
    dialog = visit.page.get_by_role("dialog", name="Search the chats")
    dialog.get_by_role("combobox").fill("nobody said this")
    expect(dialog.get_by_text("No chat has these words.")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_chat_is_renamed(visit: Visit) -> None:
    visit.ask("Hello")
    act(visit, "Hello", "Rename")
    title = visit.page.get_by_role("dialog").get_by_label("Title")
    title.fill("A better name")
    title.press("Enter")
    expect(visit.sidebar.get_by_role("link", name="A better name")).to_be_visible()
    visit.page.reload()
    expect(visit.sidebar.get_by_role("link", name="A better name")).to_be_visible()


# The name of a window outlives a reload. What is sent while a page closes is held as well.
_HOLD_WHAT_IS_SAVED = """
  const ask = window.fetch;
  window.fetch = (address, options = {}) =>
    options.method === "PUT" && window.name === "held" ? new Promise(() => undefined) : ask(address, options);
"""


def test_a_reload_while_a_chat_is_saved_loses_nothing(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(), init_script=_HOLD_WHAT_IS_SAVED)
    visit.ask("First")
    visit.wait_until_saved()
    visit.page.evaluate("() => void (window.name = 'held')")
    visit.ask("Second")
    visit.page.reload()
    expect(visit.answers).to_have_count(2)
    expect(visit.messages.last).to_contain_text("Second")
    visit.page.evaluate("() => void (window.name = '')")
    visit.page.reload()
    expect(visit.answers).to_have_count(2)
    visit.wait_until_saved()
    (chat,) = httpx2.get(f"{visit.server.url}/v1/chats").json()["data"]
    assert chat["turns"] == 4


def test_a_chat_is_deleted_only_when_that_is_said_twice(visit: Visit) -> None:
    visit.ask("Hello")
    act(visit, "Hello", "Delete")
    visit.page.get_by_role("button", name="Keep it").click()
    expect(visit.sidebar.get_by_role("link", name="Hello")).to_be_visible()
    act(visit, "Hello", "Delete")
    visit.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(visit.sidebar.get_by_role("link", name="Hello")).to_have_count(0)
    expect(visit.page.get_by_text("What would you like to ask?")).to_be_visible()
    assert httpx2.get(f"{visit.server.url}/v1/chats").json()["data"] == []


def save(visit: Visit, chat: str, kind: str) -> str:
    act(visit, chat, "Export")
    with visit.page.expect_download() as download:
        visit.page.get_by_role("dialog").get_by_role("button", name=kind, exact=True).click()
    visit.page.keyboard.press("Escape")
    text = Path(download.value.path()).read_text()
    assert download.value.suggested_filename.startswith(chat)
    return text


def test_a_chat_is_exported_in_each_format(visit: Visit) -> None:
    visit.ask("Hello there")
    assert "Hello there" in save(visit, "Hello there", "Markdown")
    harmony = save(visit, "Hello there", "Raw Harmony")
    assert "<|start|>user<|message|>Hello there<|end|>" in harmony
    tokens = json.loads(save(visit, "Hello there", "Token ids"))
    said = parse(tokens).messages
    assert said[-1].channel == "final" and "demo engine" in said[-1].text
    assert any(message.channel == "analysis" for message in said)
    assert json.loads(save(visit, "Hello there", "JSON"))["format"] == "harmonia-chat"


def test_what_was_exported_can_be_imported_again(visit: Visit, tmp_path: Path) -> None:
    visit.ask("Hello there")
    exported = tmp_path / "chat.json"
    exported.write_text(save(visit, "Hello there", "JSON"))
    visit.sidebar.get_by_role("button", name="Import").click()
    dialog = visit.page.get_by_role("dialog", name="Import chats")
    dialog.get_by_label("Files").set_input_files(exported)
    expect(dialog.get_by_role("list", name="Chosen files")).to_contain_text("chat.json")
    expect(visit.sidebar.get_by_role("link", name="Hello there")).to_have_count(1)
    before = visit.page.url
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog).to_have_count(0)
    assert visit.page.url != before
    expect(visit.page.locator(".notice").filter(has_text="Imported")).to_be_visible()
    expect(visit.answers).to_contain_text("demo engine")
    expect(visit.sidebar.get_by_role("link", name="Hello there")).to_have_count(2)


@pytest.mark.parametrize(
    "pasted",
    [
        {"messages": [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]},
        {
            "input": [
                {"type": "message", "role": "user", "content": "Two and two?"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]},
            ]
        },
    ],
    ids=["chat completions", "responses"],
)
def test_conversations_of_the_apis_are_imported_and_go_on(visit: Visit, pasted: object) -> None:
    visit.sidebar.get_by_role("button", name="Import").click()
    dialog = visit.page.get_by_role("dialog", name="Import chats")
    dialog.get_by_label("Or paste it here").fill(json.dumps(pasted))
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(visit.answers).to_contain_text("Four.")
    visit.ask("And three?")
    expect(visit.answers).to_have_count(2)


def test_what_cannot_be_imported_is_refused_in_words(visit: Visit) -> None:
    visit.sidebar.get_by_role("button", name="Import").click()
    dialog = visit.page.get_by_role("dialog", name="Import chats")
    dialog.get_by_label("Or paste it here").fill('{"half": ')
    dialog.get_by_role("button", name="Import", exact=True).click()
    problem = dialog.locator(".problem")
    expect(problem).to_contain_text("invalid at character 9")
    expect(problem).to_contain_text("Chat Completions JSON")
    expect(problem).not_to_contain_text("harmony-json")
    assert httpx2.get(f"{visit.server.url}/v1/chats").json()["data"] == []


def test_a_search_leads_to_the_words(start_server: StartServer, open_page: OpenPage) -> None:
    text = "\n\n".join(f"## Chapter {number}\n\n{'Long is the way. ' * 60}" for number in range(1, 21))
    visit = open_page(start_server(ScriptedEngine(final(text), chunk=50)))
    visit.ask("Tell me all of it")
    visit.wait_until_saved()
    visit.sidebar.get_by_role("button", name="New chat").click()
    expect(visit.page.get_by_text("What would you like to ask?")).to_be_visible()
    visit.page.keyboard.press("Control+k")
    dialog = visit.page.get_by_role("dialog", name="Search the chats")
    dialog.get_by_role("combobox").fill("chapter 13")
    expect(dialog.get_by_role("option")).to_contain_text("Chapter 13")
    visit.page.keyboard.press("Enter")
    heading = visit.page.get_by_role("heading", name="Chapter 13")
    expect(heading).to_be_in_viewport()
    assert "/turn_" in visit.page.url
    marked = "[...CSS.highlights.get('search-words') ?? []].map(String)"
    visit.wait_until(lambda: visit.page.evaluate(marked) == ["Chapter 13"])
    expect(visit.page.get_by_role("heading", name="Chapter 20")).not_to_be_in_viewport()


def test_an_address_of_a_turn_shows_its_beginning(start_server: StartServer, open_page: OpenPage) -> None:
    text = "\n\n".join(f"Paragraph {number}." for number in range(100))
    visit = open_page(start_server(ScriptedEngine(final(text), chunk=50)))
    visit.ask("Talk")
    visit.wait_until_saved()
    turn = visit.last_answer.get_attribute("id")
    chat = visit.page.url.split("#")[1]
    other = open_page(visit.server, f"#{chat}/{turn}")
    expect(other.page.get_by_text("Paragraph 0.")).to_be_in_viewport()


def test_another_name_does_not_move_a_chat(visit: Visit) -> None:
    for name in ("The old one", "The new one"):
        visit.sidebar.get_by_role("button", name="New chat").click()
        visit.ask(name)
    links = visit.sidebar.locator(".chat-row > a")
    act(visit, "The old one", "Rename")
    dialog = visit.page.get_by_role("dialog", name="Rename the chat")
    dialog.get_by_label("Title").fill("Another name")
    dialog.get_by_role("button", name="Rename").click()
    expect(links).to_have_text(["The new one", "Another name"])
    visit.wait_until_saved()
    visit.page.reload()
    expect(links).to_have_text(["The new one", "Another name"])


def test_the_times_of_chats_with_one_long_title_are_not_cut_off(visit: Visit) -> None:
    for _ in range(2):
        visit.sidebar.get_by_role("button", name="New chat").click()
        visit.ask("Write a long text about everything that there is")
    times = visit.sidebar.locator(".chat-time")
    expect(times).to_have_count(2)
    for time in times.all():
        row, box = time.locator("xpath=..").bounding_box(), time.bounding_box()
        assert row is not None and box is not None
        assert box["width"] > 0 and box["x"] + box["width"] <= row["x"] + row["width"]


@pytest.mark.parametrize("dark", [False, True])
def test_the_open_chat_is_seen_in_the_list(start_server: StartServer, open_page: OpenPage, dark: bool) -> None:
    visit = open_page(start_server(), dark=dark)
    visit.ask("Hello")
    row = visit.sidebar.locator(".chat-row[data-open=true]")
    expect(row).to_be_visible()
    visit.composer.click()
    ratio = """([one, other]) => {
      const light = (colour) => {
        const canvas = document.createElement("canvas").getContext("2d");
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    }"""
    style = "(node, name) => getComputedStyle(node)[name]"
    ground = row.evaluate(style, "backgroundColor")
    around = visit.page.locator("body").evaluate(style, "backgroundColor")
    ink = row.locator("a").evaluate(style, "color")
    assert visit.page.evaluate(ratio, [ground, around]) >= 1.3
    assert visit.page.evaluate(ratio, [ground, ink]) >= 4.5
    assert "inset" in row.evaluate(style, "boxShadow")  # the bar: not by a shade alone


def test_an_imported_result_of_a_tool_is_not_said_to_be_ours(visit: Visit) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    messages = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Rain"},
        {"role": "assistant", "content": "It rains."},
    ]
    visit.sidebar.get_by_role("button", name="Import").click()
    dialog = visit.page.get_by_role("dialog", name="Import chats")
    dialog.get_by_label("Or paste it here").fill(json.dumps({"messages": messages}))
    dialog.get_by_role("button", name="Import", exact=True).click()
    summary = visit.page.locator("details.of-tool > summary")
    expect(summary).to_contain_text("done")
    expect(summary).not_to_contain_text("by you")


def test_a_key_that_is_accepted_sends_what_was_typed(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    made = new_api_key(tmp_path / "keys.txt", "ann")
    visit = open_page(start_server(api_key_file=str(tmp_path / "keys.txt")))
    dialog = visit.page.get_by_role("dialog", name="API key")
    dialog.wait_for()
    visit.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    visit.type("Hello there")
    visit.page.keyboard.press("Enter")
    dialog.get_by_label("Key").fill(made)
    dialog.get_by_role("button", name="Use this key").click()
    expect(visit.answers).to_contain_text("demo engine")
    expect(visit.page.locator(".trouble")).to_have_count(0)
    expect(visit.messages).to_contain_text("Hello there")
    expect(visit.composer).to_have_value("")
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.composer).to_have_value("")
    # A browser sends no key with a link, so the reference is fetched with it.
    visit.page.get_by_role("button", name="Shortcuts and help").click()
    help_dialog = visit.page.get_by_role("dialog", name="Shortcuts and help")
    expect(help_dialog.get_by_role("link")).to_have_count(0)
    with visit.page.expect_download() as saved:
        help_dialog.get_by_role("button", name="Save the API reference").click()
    assert "/v1/responses" in saved.value.path().read_text()


def test_a_server_with_keys_asks_for_one_and_nothing_typed_is_lost(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    made = new_api_key(tmp_path / "keys.txt", "ann")
    visit = open_page(start_server(api_key_file=str(tmp_path / "keys.txt")))
    dialog = visit.page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key").fill("wrong")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog.get_by_role("alert")).to_have_text("The server does not accept this key.")
    dialog.get_by_label("Key").fill(made)
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_have_count(0)
    visit.ask("Hello")
    expect(visit.sidebar.get_by_role("link", name="Hello")).to_be_visible()
    visit.page.reload()
    expect(visit.answers).to_contain_text("demo engine")


def test_the_keys_are_listed(visit: Visit) -> None:
    visit.page.locator("h2", has_text="What would you like to ask?").click()  # out of the text field
    visit.page.keyboard.press("?")
    expect(visit.page.get_by_role("dialog", name="Shortcuts and help")).to_contain_text("Search all chats")


def test_on_a_narrow_screen_the_list_opens_and_closes(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(), width=375, height=700)
    visit.ask("Hello")
    expect(visit.sidebar).to_be_hidden()
    visit.page.get_by_role("button", name="Chats", exact=True).click()
    visit.sidebar.get_by_role("link", name="Hello").click()
    expect(visit.sidebar).to_be_hidden()
    expect(visit.answers).to_be_visible()
