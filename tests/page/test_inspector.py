"""What the inspector takes, what it takes it for, and how it tells what it found: in words, numbers and places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import pytest
from playwright.sync_api import Page, expect

from harmonia import encode, parse
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.provider_streams import ANSWER, STREAMS, THOUGHT, WHOLE, Said
from tests.support.paths import ROOT

BROKEN: Final = (ROOT / "examples" / "broken-answer.txt").read_text()
WILD: Final = [json.loads(line) for line in (ROOT / "tests" / "data" / "wild-traces.jsonl").read_text().splitlines()]

RAW: Final = (
    "<|start|>user<|message|>Rain in Zürich? 🦜<|end|><|start|>assistant<|channel|>analysis<|message|>Look.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.forecast "
    '<|constrain|>json<|message|>{"city": "Zürich"}<|call|>'
    "<|start|>functions.forecast to=assistant<|channel|>commentary<|message|>4 mm<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
)
_SAID: Final = [
    {"role": "user", "content": "Two and two?"},
    {"role": "assistant", "channel": "final", "content": "Four."},
]
_TOOL: Final = {"type": "object", "properties": {"city": {"type": "string"}}}


class Kind(NamedTuple):
    """Something to inspect, what it is taken for, and the messages of it."""

    text: str
    taken_for: str
    heads: list[str]


def ids(text: str) -> list[int]:
    return encode(text, special="all")


KINDS: Final = {
    "raw.txt": Kind(RAW, "raw Harmony text", ["user", "analysis", "commentary", "tool", "final"]),
    "ids.json": Kind(json.dumps(ids(RAW)), "token ids", ["user", "analysis", "commentary", "tool", "final"]),
    "ids.txt": Kind(" ".join(map(str, ids(RAW))), "token ids", ["user", "analysis", "commentary", "tool", "final"]),
    "stripped.txt": Kind(
        "analysisThe user greets. I greet back.assistantfinalHello! What can I do for you?",
        "text whose special tokens were removed",
        ["analysis", "final"],
    ),
    "conversation.json": Kind(json.dumps({"messages": _SAID}), "a conversation as Harmony JSON", ["user", "final"]),
    "conversations.jsonl": Kind(
        "".join(json.dumps({"messages": _SAID}) + "\n" for _ in range(2)), "2 conversations as JSONL", ["user", "final"]
    ),
    "responses-request.json": Kind(
        json.dumps({"model": "m", "instructions": "Be brief.", "input": "Two and two?"}),
        "a Responses request",
        ["developer", "user"],
    ),
    "response.json": Kind(json.dumps(WHOLE[2][1]), "a Responses response", ["analysis", "final"]),
    "chat-request.json": Kind(
        json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": "Two and two?"}],
                "tools": [{"type": "function", "function": {"name": "forecast", "parameters": _TOOL}}],
            }
        ),
        "a Chat Completions request",
        ["developer", "user"],
    ),
    "chat.json": Kind(json.dumps(WHOLE[0][1]), "a Chat Completions answer", ["analysis", "final"]),
    "chat.sse": Kind(STREAMS[0].content.decode(), "a stream of Chat Completions", ["analysis", "final"]),
}

_DROP: Final = """([name, text]) => {
  const given = new DataTransfer();
  given.items.add(new File([text], name));
  const form = document.querySelector(".input-form");
  form.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
}"""
_IS_WIDER: Final = """() => [document.documentElement, document.querySelector("main")]
  .some((element) => element.scrollWidth > element.clientWidth)"""


@pytest.fixture
def visit(start_server: StartServer, open_page: OpenPage) -> Visit:
    visit = open_page(start_server(), "#/inspect")
    visit.trace.wait_for()
    return visit


def clear(page: Page) -> None:
    page.get_by_role("button", name="Change").click()
    page.get_by_role("button", name="Clear").click()


def check(visit: Visit, name: str, kind: Kind) -> None:
    expect(visit.page.locator(".input-line"), name).to_contain_text(f"Read as {kind.taken_for}")
    expect(visit.heads, name).to_contain_text(kind.heads)


def test_each_kind_is_taken_for_what_it_is_when_it_is_pasted(visit: Visit) -> None:
    for name, kind in KINDS.items():
        visit.page.evaluate("(text) => navigator.clipboard.writeText(text)", kind.text)
        visit.trace.focus()
        visit.page.keyboard.press("Control+V")
        visit.page.keyboard.press("Control+Enter")
        check(visit, name, kind)
        clear(visit.page)


def test_each_kind_is_taken_for_what_it_is_from_a_file_and_when_it_is_dropped(visit: Visit, tmp_path: Path) -> None:
    for at, (name, kind) in enumerate(KINDS.items()):
        if at % 2 == 0:
            file = tmp_path / name
            file.write_text(kind.text)
            visit.page.get_by_label("File to inspect").set_input_files(file)
        else:
            visit.page.evaluate(_DROP, [name, kind.text])
        check(visit, name, kind)
        clear(visit.page)


def heads_of(said: tuple[Said, ...]) -> list[str]:
    return [f"{channel}{'' if recipient is None else f'to {recipient}'}" for channel, recipient, _, _ in said]


def test_the_streams_of_all_dialects_are_put_together(visit: Visit) -> None:
    page = visit.page
    for stream in STREAMS[::3]:
        page.evaluate(_DROP, ["dump.sse", stream.content.decode()])
        words = "a stream of Responses" if stream.api == "responses" else "a stream of Chat Completions"
        expect(page.locator(".input-line"), str(stream)).to_contain_text(words)
        expect(page.locator(".input-note"), str(stream)).to_contain_text("not the ones that the model sampled")
        if stream.said[0][2] == THOUGHT:
            expect(visit.heads, str(stream)).to_contain_text(heads_of(stream.said))
            expect(page.locator(".body-text"), str(stream)).to_have_text([text for _, _, text, _ in stream.said])
        clear(page)
    assert ANSWER in STREAMS[0].said[-1]


def test_another_conversation_of_a_file_is_chosen_and_stays_chosen_in_the_tools(visit: Visit) -> None:
    page = visit.page
    lines = [{"messages": [{"role": "user", "content": f"Question {number}"}]} for number in range(3)]
    visit.inspect("\n".join(json.dumps(line) for line in lines))
    page.get_by_label("Conversation").select_option("1")
    expect(page.locator(".body-text")).to_have_text("Question 1")
    panel = visit.open_tab("Edit")
    expect(panel.locator(".tool-messages")).to_contain_text("Question 1")


def test_what_it_is_can_be_told(visit: Visit) -> None:
    visit.page.get_by_label("What it is").select_option("text")
    visit.inspect("200006 1428 200008")
    expect(visit.page.locator(".input-line")).to_contain_text("Read as text")
    expect(visit.page.locator(".body-text")).to_have_text("200006 1428 200008")


def test_what_cannot_be_read_is_refused_in_words_and_what_was_open_stays(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    visit.trace.press("Control+Enter")
    expect(page.locator(".form-error")).to_contain_text("nothing to inspect yet")
    visit.inspect(RAW)
    page.get_by_role("button", name="Change").click()
    visit.trace.fill('{"messages": [{"role": "nobody", "content": "Hi"}]}')
    visit.trace.press("Control+Enter")
    failure = page.locator(".failure")
    expect(failure).to_contain_text("Unknown role 'nobody'")
    expect(failure).to_contain_text("$.messages[0].role")
    expect(visit.heads).to_have_count(5)
    large = tmp_path / "large.txt"
    large.write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    page.get_by_label("File to inspect").set_input_files(large)
    expect(page.locator(".form-error")).to_contain_text("larger than 8 MiB")
    visit.server.stop()
    visit.trace.fill(BROKEN)
    visit.trace.press("Control+Enter")
    expect(failure).to_contain_text("Check that the server runs")
    expect(visit.trace).to_have_value(BROKEN)


def test_channels_read_without_colour(visit: Visit) -> None:
    visit.inspect(RAW)
    expect(visit.heads).to_have_text(
        [
            "1user",
            "2assistantanalysis",
            "3assistantcommentaryto functions.forecast",
            "4toolcommentaryto assistant",
            "5assistantfinal",
        ]
    )
    # Each tone is a letter and a kind of line as well, and no two of them are the same.
    shapes: list[list[str]] = visit.page.evaluate(
        """() => [...document.querySelectorAll(".message")].map((message) => {
          const badge = message.querySelector(".badge");
          return [badge.textContent, getComputedStyle(message).borderLeftStyle];
        })"""
    )
    assert len({letter for letter, _ in shapes}) == len(shapes)
    assert {style for _, style in shapes} >= {"solid", "dotted", "dashed"}


def test_counts_by_message_channel_header_and_body_and_the_share_of_the_context(visit: Visit) -> None:
    visit.inspect(json.dumps(ids(RAW)))
    expect(visit.page.locator(".message-counts").nth(2)).to_have_text("23 tokens: 14 header, 8 body, 1 stop")
    panel = visit.open_tab("Overview")
    total = len(ids(RAW))
    context = httpx2.get(f"{visit.server.url}/v1/harmony/server").json()["context_tokens"]
    expect(panel.locator(".totals")).to_contain_text(f"Tokens{total}")
    expect(panel).to_contain_text(f"{total} of the {context:,} tokens")
    assert total / context < 0.001
    expect(panel.locator(".totals")).to_contain_text("Of the context< 0.1 %")
    rows = [row.split("\t") for row in panel.locator("tbody tr").all_inner_texts()]
    assert sum(int(row[2]) for row in rows) == total
    assert all(int(row[2]) == int(row[3]) + int(row[4]) + int(row[5]) for row in rows)
    assert [row[0].split()[-1] for row in rows] == ["(user)", "analysis", "commentary", "final"]


def test_a_token_tells_its_id_its_bytes_and_that_it_is_special(visit: Visit) -> None:
    page = visit.page
    visit.inspect(json.dumps(ids(RAW)))
    panel = visit.open_tab("Tokens")
    panel.get_by_label("Both").check()
    first = panel.locator(".token").first
    expect(first).to_have_text("<|start|>200006")
    assert first.evaluate("(token) => getComputedStyle(token).borderTopStyle") == "double"
    first.click()
    detail = page.locator(".token-detail")
    expect(detail).to_contain_text("Kindspecial token")
    panel.locator(".split .token").nth(1).click()
    expect(detail).to_contain_text("Shared by3 tokens, this is number 2")
    expect(detail).to_contain_text("Bytesa6")
    expect(detail).to_contain_text("Inbody of message 1, user")


def test_the_example_of_the_guide_tells_all_its_faults_at_their_places(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 1280, "height": 3000})
    visit.page.get_by_label("A completion").check()
    visit.inspect(BROKEN)
    faults = parse(BROKEN, role="assistant").diagnostics
    assert len(faults) >= 4
    cards = visit.page.locator(".trace-fault")
    expect(cards).to_have_count(len(faults))
    for at, fault in enumerate(faults):
        card = cards.nth(at)
        expect(card.locator(".problem-title code")).to_have_text(fault.code)
        expect(card).to_contain_text(f"character {fault.at.character}")
        for name in ("What it means", "Repair made", "Strict parser"):
            words = card.locator("dt", has_text=name).locator("xpath=following-sibling::dd[1]")
            assert len(words.inner_text().split()) > 1, (fault.code, name)
    panel = visit.open_tab("Overview")
    expect(panel).to_contain_text(f"It stops at {faults[0].code}")
    panel.locator(".problem-list button").last.click()
    expect(cards.last).to_be_focused()


def test_faults_of_the_wild_are_all_told(visit: Visit) -> None:
    """Every fault that the parser finds in what models wrote is on the page, with its code, once."""
    visit.page.set_viewport_size({"width": 1280, "height": 3000})
    told = 0
    for case in [case for case in WILD if "stripped" not in case["kind"]][::9]:
        page = visit.page
        visit.open_input()
        page.get_by_label("A completion").set_checked(bool(case["prefill"]))
        visit.inspect(case["raw"])
        codes = [fault.code for fault in parse(case["raw"], "assistant" if case["prefill"] else None).diagnostics]
        expect(page.locator(".trace-fault .problem-title code"), case["id"]).to_have_text(codes)
        told += len(codes)
    assert told > 10


def test_filters_by_role_and_tool_meet(visit: Visit) -> None:
    visit.inspect(RAW)
    bar = visit.page.locator(".filter-bar")
    bar.get_by_label("Tool", exact=True).select_option("functions.forecast")
    expect(visit.heads).to_contain_text(["commentary", "tool"])
    bar.get_by_label("Role", exact=True).select_option("tool")
    expect(visit.heads).to_contain_text(["tool"])
    expect(bar.get_by_role("status")).to_contain_text("1 of ")
    bar.get_by_label("Tool", exact=True).select_option("*")
    bar.get_by_label("Role", exact=True).select_option("assistant")
    expect(visit.heads).to_contain_text(["analysis", "commentary", "final"])
    # The tokens are filtered alike.
    visit.open_tab("Tokens")
    expect(visit.page.locator(".block-name", has_text="user")).to_have_count(0)
    expect(visit.page.locator(".block-name", has_text="final")).to_have_count(1)


def test_a_search_opens_what_is_folded(visit: Visit) -> None:
    visit.inspect(f"<|start|>user<|message|>{'word ' * 2000}needle<|end|>")
    body = visit.page.locator(".body-text")
    expect(body).to_be_visible()
    expect(body).not_to_contain_text("needle")
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("NEEDLE")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("mark.current")).to_have_text("needle")
    expect(visit.page.locator("mark.current")).to_be_in_viewport()


_TABS: Final = ("Messages", "Overview", "Tokens", "Edit", "Compare", "Injection lens", "Tools' cost", "Replay")


@pytest.mark.parametrize("screen", [{"width": 320, "height": 640}, {"width": 320, "height": 640, "dark": True}])
def test_a_narrow_screen_does_not_scroll_sideways(
    start_server: StartServer, open_page: OpenPage, screen: dict[str, Any]
) -> None:
    visit = open_page(start_server(), "#/inspect", **screen)
    visit.trace.wait_for()
    assert not visit.page.evaluate(_IS_WIDER), "empty"
    # With tools, spellings, long words, faults and a character in pieces.
    visit.inspect(json.dumps({"messages": [{"role": "user", "content": "Hi <|end|>"}], "tools": TOOLS}))
    for name in _TABS:
        visit.open_tab(name)
        assert not visit.page.evaluate(_IS_WIDER), name
    visit.inspect(BROKEN + RAW + f"<|start|>user<|message|>{'x' * 400}<|end|>")
    for name in _TABS:
        visit.open_tab(name)
        assert not visit.page.evaluate(_IS_WIDER), name


TOOLS: Final = [
    {"type": "function", "function": {"name": f"a_tool_with_a_long_name_{number}", "parameters": _TOOL}}
    for number in range(3)
]


def test_what_is_printed_is_dark_on_light_and_has_no_bars(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(), "#/inspect", dark=True)
    visit.inspect(BROKEN)
    visit.page.emulate_media(media="print")
    expect(visit.page.locator(".filter-bar")).to_be_hidden()
    expect(visit.page.get_by_role("tablist")).to_be_hidden()
    expect(visit.page.locator(".trace-fault").first).to_be_visible()
    ink, paper = visit.page.evaluate(
        """() => { const style = getComputedStyle(document.querySelector(".body-text"));
          const paper = getComputedStyle(document.querySelector(".message"));
          return [style.color, paper.backgroundColor].map((colour) =>
            colour.match(/[\\d.]+/g).slice(0, 3).map(Number).reduce((sum, part) => sum + part)); }"""
    )
    assert ink < 200 and paper > 700, (ink, paper)


# Three keys in one task of the page: it cannot draw between them, as under a held key on a slow machine.
_QUICK_KEYS: Final = """(element, keys) => { for (const key of keys) document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })); }"""


def test_keys_that_come_quicker_than_the_page_is_drawn_all_count(visit: Visit) -> None:
    visit.inspect(RAW)
    visit.open_tab("Replay").page.get_by_role("tab", name="Replay").focus()
    visit.page.get_by_role("tablist").evaluate(_QUICK_KEYS, ["Home", "ArrowRight", "ArrowRight"])
    expect(visit.page.get_by_role("tab", name="Tokens")).to_have_attribute("aria-selected", "true")
    listed = visit.page.get_by_role("listbox", name="Tokens")
    listed.focus()
    listed.evaluate(_QUICK_KEYS, ["Home", "ArrowRight", "ArrowRight"])
    expect(listed).to_have_attribute("aria-activedescendant", "token-2")


def test_a_text_that_is_pasted_as_soon_as_the_form_is_there_stays(visit: Visit) -> None:
    visit.inspect("<|start|>user<|message|>First<|end|>")
    # All in one task: no frame is drawn between the form's coming and the paste.
    visit.page.evaluate(
        """async () => {
          document.querySelector("#change-input").click();
          while (document.querySelector("#trace") === null) await Promise.resolve();
          const field = document.querySelector("#trace");
          field.value = "<|start|>user<|message|>Second<|end|>";
          field.dispatchEvent(new InputEvent("input", { bubbles: true }));
        }"""
    )
    visit.page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 50)))")
    expect(visit.trace).to_have_value("<|start|>user<|message|>Second<|end|>")
    visit.trace.press("Control+Enter")
    expect(visit.page.locator(".body-text")).to_have_text("Second")


def test_a_whole_walk_by_keyboard_alone(visit: Visit) -> None:
    page, keyboard = visit.page, visit.page.keyboard
    visit.trace.focus()
    given = RAW.replace("<|start|>functions", "stray<|start|>functions")
    keyboard.insert_text(given)
    keyboard.press("Control+Enter")
    page.locator(".input-line").wait_for()
    # From where the form was, the Tab key goes on to the tabs.
    tab = page.get_by_role("tab", name="Messages")
    for _ in range(4):
        keyboard.press("Tab")
        if tab.evaluate("(tab) => tab === document.activeElement"):
            break
    expect(tab).to_be_focused()
    keyboard.press("n")
    expect(page.locator("#problem-0")).to_be_focused()
    keyboard.press("/")
    keyboard.type("umbrella")
    expect(page.locator(".count")).to_have_text("Not found")
    keyboard.press("Escape")
    tab.focus()
    for name in _TABS[1:]:
        keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("max", str(len(ids(given))))
    slider.focus()
    keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", f"{len(ids(given))} of {len(ids(given))} tokens")
    expect(page.get_by_role("region", name="Events so far, newest first")).to_contain_text("message_ended")
    page.get_by_role("tab", name="Replay").focus()
    keyboard.press("Home")
    # The problem that was gone to is in sight again, and the focus stays where the reader is.
    expect(page.locator("#problem-0")).to_be_in_viewport()
    page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    expect(tab).to_be_focused()
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    listed = page.get_by_role("listbox", name="Tokens")
    listed.wait_for()
    listed.focus()
    # It begins at the problem that was gone to.
    keyboard.press("Home")
    expect(page.locator(".token-detail")).to_contain_text("200006")
    keyboard.press("ArrowRight")
    expect(page.locator(".token-detail")).to_contain_text("1428")


def test_counts_agree_between_the_tabs_and_filters_count_messages(
    start_server: StartServer, open_page: OpenPage
) -> None:
    text = BROKEN.rstrip("\n")
    number = len(encode(text, special="all"))
    visit = open_page(start_server(), "#/inspect")
    visit.inspect(text)
    page = visit.page
    expect(page.locator(".input-line")).to_contain_text(f"about {number} tokens")
    expect(visit.open_tab("Overview").locator(".totals")).to_contain_text(f"Tokens{number}")
    panel = visit.open_tab("Tokens")
    expect(panel).to_contain_text(f"about {number} tokens")
    expect(panel.locator("[data-token]")).to_have_count(number)
    # The stray word is drawn as the tokens that it is.
    stray = panel.locator(".token.outside").all_inner_texts()
    assert stray[stray.index("comment") + 1] == "ary"
    expect(visit.open_tab("Replay")).to_contain_text(f"of {number}")
    visit.open_tab("Messages").get_by_label("Channel", exact=True).select_option("analysis")
    messages = len(parse(text, "assistant").messages)
    expect(page.get_by_text(f"1 of {messages} messages shown")).to_be_visible()
