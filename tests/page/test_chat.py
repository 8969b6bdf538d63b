"""A conversation: how it is asked for, stopped, gone on with, said otherwise, and found again."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2
import pytest
from playwright.sync_api import Page, expect

from harmonia import decode
from harmonia.run.engines import Finish, Traits, Usage
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, final, think

_FINAL: Final = "<|channel|>final<|message|>"


def prompt_of(engine: ScriptedEngine, at: int = -1) -> str:
    return decode(engine.prompts[at])


def turns_of(visit: Visit) -> list[dict[str, object]]:
    """The turns of the open chat, as the server has them."""
    chat = visit.page.url.split("/chat/")[1].split("/")[0]
    return httpx2.get(f"{visit.server.url}/v1/chats/{chat}").raise_for_status().json()["turns"]


def draws(page: Page, text: str) -> None:
    expect(page.locator(".turns")).to_contain_text(text)


# ── how it is asked for ──


def test_what_is_set_reaches_the_model(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("One."), final("Two."), final("Three."))
    engine.traits = Traits(context_tokens=1000)
    visit = open_page(start_server(engine))
    page = visit.page
    # Who answers is told before anything is asked, and above it all afterwards.
    expect(page.locator(".empty-chat")).to_contain_text("script")
    expect(page.locator(".empty-chat")).to_contain_text("1,000 tokens")
    expect(page.locator(".bar .model")).to_have_text("script · scripted")
    page.locator(".composer").get_by_label("Effort").select_option("high")
    with visit.settings() as dialog:
        dialog.get_by_label("System prompt (identity)").fill("You are Anne Bonny.")
        dialog.get_by_label("Instructions").fill("Answer like a pirate.")
        dialog.get_by_label("Temperature").fill("0,25")
        dialog.get_by_label("Top p").fill("0.5")
        dialog.get_by_label("Token limit").fill("77")
    visit.ask("First")
    prompt = prompt_of(engine)
    assert "Reasoning: high" in prompt
    assert prompt.startswith("<|start|>system<|message|>You are Anne Bonny.\nKnowledge cutoff:")
    assert re.search(r"<\|start\|>developer<\|message\|># Instructions\s+Answer like a pirate\.", prompt)
    sampling = engine.requests[-1].sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.25, 0.5, 77)

    page.locator(".composer").get_by_label("Effort").select_option("low")
    with visit.settings() as dialog:
        dialog.get_by_label("Temperature").fill("9")
        expect(dialog.get_by_text("Write a number from 0 to 2")).to_be_visible()
        dialog.get_by_label("Temperature").fill("")
    visit.ask("Second")
    assert "Reasoning: low" in prompt_of(engine) and "First" in prompt_of(engine) and "One." in prompt_of(engine)
    assert engine.requests[-1].sampling.temperature == 1.0  # what the API takes where nothing is said

    # They are the chat's: they are there again, and a new chat has none.
    visit.wait_until_saved()
    page.reload()
    draws(page, "Two.")
    expect(page.locator(".composer").get_by_label("Effort")).to_have_value("low")
    with visit.settings() as dialog:
        expect(dialog.get_by_label("System prompt (identity)")).to_have_value("You are Anne Bonny.")
        expect(dialog.get_by_label("Instructions")).to_have_value("Answer like a pirate.")
    visit.sidebar.get_by_role("button", name="New chat").click()
    visit.ask("Third")
    assert prompt_of(engine).startswith("<|start|>system<|message|>You are ChatGPT,")
    assert "pirate" not in prompt_of(engine) and engine.requests[-1].sampling.max_tokens is None


def test_a_file_goes_along_as_text_and_others_are_refused(
    start_server: StartServer, open_page: OpenPage, tmp_path: Path
) -> None:
    engine = ScriptedEngine(final("Read."), final("Again."))
    visit = open_page(start_server(engine))
    (tmp_path / "notes.md").write_text("The secret word is <|end|> grüße.\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    visit.page.locator(".composer input[type=file]").set_input_files([tmp_path / "notes.md", tmp_path / "picture.png"])
    expect(visit.page.locator(".composer").get_by_role("alert")).to_contain_text("picture.png is not a text file")
    expect(visit.page.locator(".composer .chip")).to_contain_text("notes.md")
    visit.ask("What does it say?")
    assert "grüße" in prompt_of(engine) and "notes.md" in prompt_of(engine)
    expect(visit.page.locator(".composer .chip")).to_have_count(0)
    file = visit.messages.last.locator("details.file")
    expect(file).to_contain_text("notes.md")
    expect(visit.open(file)).to_contain_text("The secret word is <|end|> grüße.")
    # A file alone is a message too, and a file stays with a message that is said otherwise.
    visit.act(visit.messages.last, "Edit and resend")
    visit.messages.last.get_by_role("textbox").fill("Say it again")
    visit.page.get_by_role("button", name="Resend").click()
    draws(visit.page, "Again.")
    assert "grüße" in prompt_of(engine) and "Say it again" in prompt_of(engine)
    assert "What does it say?" not in prompt_of(engine)


def test_tokens_speed_and_context_are_told(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(think("Some thoughts.") + final("Some words to say."))
    engine.traits = Traits(context_tokens=1000)
    visit = open_page(start_server(engine))
    visit.type("How much?")
    expect(visit.page.locator(".prompt-count")).to_have_text(re.compile(r"^about \d+ tokens, \d+ % of the context$"))
    visit.ask("How much?")
    line = visit.last_answer.locator("button.facts-line")
    expect(line).to_have_text(re.compile(rf"^{len(engine.sampled[0])} tokens"))
    before = line.bounding_box()
    line.click()
    inside = visit.last_answer.locator("dl.facts")
    expect(inside).to_be_visible()
    # What opens it stays where it is: a second click closes it.
    after = line.bounding_box()
    assert before is not None and after is not None and (before["x"], before["width"]) == (after["x"], after["width"])
    expect(inside).to_contain_text(re.compile(r"reasoning \d+, answer \d+"))
    expect(inside).to_contain_text(f"{len(engine.prompts[0])} tokens")
    expect(inside).to_contain_text(re.compile(r"first token .* s, all .* s"))
    used = len(engine.prompts[0]) + len(engine.sampled[0])
    expect(inside).to_contain_text(f"{used} of 1,000 tokens, {round(used / 10)} %")
    expect(inside.get_by_role("meter")).to_have_count(1)


def test_a_full_context_is_said_before_anything_is_sent(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("Some words to say."), final("More."))
    engine.traits = Traits(context_tokens=150)
    visit = open_page(start_server(engine))
    send = visit.page.get_by_role("button", name="Send", exact=True)
    visit.ask("Hello")
    # Between messages it says how full it is.
    used = len(engine.prompts[0]) + len(engine.sampled[0])
    count = visit.page.locator(".prompt-count")
    expect(count).to_have_text(f"{used} tokens, {round(used / 1.5)} % of the context")
    expect(count.get_by_role("meter")).to_have_count(1)
    visit.type("word " * 300)
    warning = visit.page.locator(".composer [role=alert]", has_text="The context is full")
    expect(warning).to_contain_text("the model reads at most 150")
    expect(count).to_have_text(re.compile(r"^about \d+ tokens, [2-9]\d\d % of the context$"))
    assert count.evaluate("(node) => getComputedStyle(node).color") == warning.evaluate(
        "(node) => getComputedStyle(node).color"
    )
    expect(send).to_be_disabled()
    visit.page.keyboard.press("Enter")
    expect(visit.messages).to_have_count(1)
    visit.composer.fill("short")
    expect(send).to_be_enabled()
    visit.ask("short")
    assert len(engine.prompts) == 2


def test_speed_is_told_where_it_can_be_measured(start_server: StartServer, open_page: OpenPage) -> None:
    rest = asyncio.Event()
    spoken = " and one more" * 30
    visit = open_page(start_server(ScriptedEngine([_FINAL + f"One{spoken}", rest, " four.<|return|>"])))
    answer = visit.begin_to_ask("How fast?")
    # It is counted anew each second also where nothing comes.
    expect(answer.locator(".progress")).to_have_text(re.compile(r"about \d+ tokens, \d+ tokens/s"))
    visit.server.set(rest)
    visit.wait_until_idle()
    answer.locator("button.facts-line").click()
    expect(answer.locator("dl.facts")).to_contain_text(re.compile(r"\d+ tokens/s"))


# ── stopped, and gone on with ──


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_stopping_keeps_what_came_and_stops_the_engine(
    start_server: StartServer, open_page: OpenPage, way: str
) -> None:
    never = asyncio.Event()
    engine = ScriptedEngine([think("Hm.") + _FINAL + "It begins so", never, " and never ends.<|return|>"])
    visit = open_page(start_server(engine))
    answer = visit.begin_to_ask("Talk")
    expect(answer).to_contain_text("It begins so")
    # What is typed meanwhile is not sent, and not lost.
    visit.type("The next question")
    visit.page.keyboard.press("Enter")
    if way == "button":
        visit.page.get_by_role("button", name="Stop").click()
    else:
        visit.page.keyboard.press("Escape")
    visit.wait_until_idle()
    expect(answer).to_contain_text("It begins so")
    expect(answer).to_contain_text("Stopped. What arrived is kept.")
    expect(visit.composer).to_have_value("The next question")
    visit.wait_until(lambda: (engine.running, engine.closed_early) == (0, 1))
    visit.act(answer, "Copy the answer")
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert visit.page.evaluate("() => navigator.clipboard.readText()") == "It begins so"
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.answers).to_contain_text("It begins so")
    expect(visit.answers).to_contain_text("Stopped. What arrived is kept.")


def test_stopping_before_the_first_token_leaves_a_question_that_can_be_asked_again(
    start_server: StartServer, open_page: OpenPage
) -> None:
    never = asyncio.Event()
    engine = ScriptedEngine([never], final("Now."))
    visit = open_page(start_server(engine))
    answer = visit.begin_to_ask("Talk")
    expect(answer).to_contain_text("Waiting for the first token")
    visit.wait_until(lambda: engine.running == 1)
    visit.page.keyboard.press("Escape")
    expect(answer).to_contain_text("Stopped.")
    expect(answer.get_by_role("button", name="Continue")).to_have_count(0)
    visit.wait_until(lambda: (engine.running, engine.closed_early) == (0, 1))
    visit.act(answer, "Regenerate")
    expect(visit.last_answer).to_contain_text("Now.")


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
def test_an_answer_that_was_cut_off_is_gone_on_with(
    start_server: StartServer, open_page: OpenPage, analysis: str
) -> None:
    cut = [think("Count.") + _FINAL + "One, two,", Finish("length", Usage(10, 12))]
    engine = ScriptedEngine(cut, " three, four.<|return|>", final("Nothing."))
    visit = open_page(start_server(engine, analysis=analysis))
    visit.ask("Count to four")
    expect(visit.last_answer).to_contain_text("Cut off: the answer reached its token limit.")
    visit.act(visit.last_answer.locator(".turn-state"), "Continue")
    visit.wait_until_idle()
    expect(visit.last_answer.locator(".markdown")).to_have_text("One, two, three, four.")
    expect(visit.answers).to_have_count(1)
    expect(visit.last_answer.locator(".turn-state")).to_have_count(0)
    assert prompt_of(engine).endswith("<|channel|>final<|message|>One, two,")
    assert "Count.<|end|>" in prompt_of(engine)
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.answers.locator(".markdown")).to_have_text("One, two, three, four.")
    visit.ask("What else?")
    assert "<|message|>One, two, three, four.<|end|>" in prompt_of(engine)


def test_reasoning_that_was_stopped_is_gone_on_with(start_server: StartServer, open_page: OpenPage) -> None:
    never = asyncio.Event()
    engine = ScriptedEngine(
        ["<|channel|>analysis<|message|>First I", never], f" look.<|end|><|start|>assistant{final('Seen.')}"
    )
    visit = open_page(start_server(engine))
    answer = visit.begin_to_ask("Look")
    expect(visit.open(answer.locator("details.of-analysis"))).to_have_text("First I")
    visit.page.keyboard.press("Escape")
    visit.wait_until_idle()
    visit.act(answer.locator(".turn-state"), "Continue")
    expect(answer).to_contain_text("Seen.")
    assert prompt_of(engine).endswith("<|channel|>analysis<|message|>First I")
    expect(answer.locator("details.of-analysis")).to_have_count(1)
    expect(answer.locator("details.of-analysis .accordion-body")).to_have_text("First I look.")


# ── said otherwise ──


def test_regenerating_makes_versions_that_can_be_walked(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("Red."), final("Blue."), final("Because."), final("Green."))
    visit = open_page(start_server(engine))
    visit.ask("Which colour?")
    visit.act(visit.last_answer, "Regenerate")
    expect(visit.answers).to_contain_text("Blue.")
    visit.ask("Why?")
    assert "Blue." in prompt_of(engine) and "Red." not in prompt_of(engine)
    first = visit.answers.first
    expect(first.locator(".walker")).to_have_text("2 of 2")
    visit.act(first, "Previous version")
    expect(visit.answers).to_have_text([re.compile("Red.")])
    expect(visit.messages).to_have_count(1)
    visit.act(visit.answers.first, "Next version")
    expect(visit.answers).to_have_text([re.compile("Blue."), re.compile("Because.")])
    visit.act(visit.answers.first, "Regenerate with another effort")
    visit.page.get_by_role("group", name="Regenerate with effort").get_by_role("button", name="high").click()
    expect(visit.answers).to_have_text([re.compile("Green.")])
    assert "Reasoning: high" in prompt_of(engine)
    expect(visit.answers.first.locator(".walker")).to_have_text("3 of 3")


def test_a_message_is_said_otherwise_and_both_versions_stay(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("Of cats."), final("Of dogs."))
    visit = open_page(start_server(engine))
    visit.ask("Tell of cats")
    visit.act(visit.messages.last, "Edit and resend")
    box = visit.messages.last.get_by_role("textbox")
    expect(box).to_be_focused()
    box.fill("Nothing of this stays")
    box.press("Escape")
    expect(visit.messages).to_have_text([re.compile("Tell of cats")])
    visit.act(visit.messages.last, "Edit and resend")
    box.fill("Tell of dogs")
    box.press("Control+Enter")
    expect(visit.answers).to_have_text([re.compile("Of dogs.")])
    assert "Tell of cats" not in prompt_of(engine)
    visit.act(visit.messages.last, "Previous version")
    expect(visit.answers).to_have_text([re.compile("Of cats.")])
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.answers).to_have_text([re.compile("Of cats.")])
    expect(visit.messages.last.locator(".walker")).to_have_text("1 of 2")


def test_an_answer_and_its_reasoning_are_rewritten(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(think("It is blue.") + final("Blue."), final("So be it."))
    visit = open_page(start_server(engine))
    visit.ask("Which colour?")
    visit.act(visit.last_answer, "Edit the answer")
    visit.last_answer.get_by_label("Reasoning").fill("It is red.")
    visit.last_answer.get_by_role("textbox", name="Answer", exact=True).fill("Red.")
    visit.last_answer.get_by_role("button", name="Save as a new version").click()
    expect(visit.last_answer.locator(".markdown")).to_have_text("Red.")
    expect(visit.last_answer.locator(".walker")).to_have_text("2 of 2")
    expect(visit.open(visit.last_answer.locator("details.of-analysis"))).to_have_text("It is red.")
    assert len(engine.prompts) == 1
    visit.ask("Why?")
    assert "<|message|>Red.<|end|>" in prompt_of(engine) and "Blue." not in prompt_of(engine)
    visit.act(visit.answers.first, "Previous version")
    expect(visit.last_answer.locator(".markdown")).to_have_text("Blue.")


def test_deleting_takes_a_turn_and_what_follows(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("One."), final("Two."), final("Three."))
    visit = open_page(start_server(engine))
    visit.ask("First")
    visit.ask("Second")
    visit.act(visit.messages.last, "Delete")
    ask = visit.page.get_by_role("group", name="Delete")
    expect(ask).to_contain_text("Delete this and everything after it?")
    ask.get_by_role("button", name="Keep").click()
    expect(visit.answers).to_have_count(2)
    visit.act(visit.messages.last, "Delete")
    visit.act(ask, "Delete")
    expect(visit.answers).to_have_text([re.compile("One.")])
    visit.wait_until_saved()
    assert len(turns_of(visit)) == 2
    # A question whose answer is deleted can be asked again.
    visit.act(visit.last_answer, "Delete")
    visit.act(ask, "Delete")
    expect(visit.answers).to_have_count(0)
    visit.page.get_by_role("button", name="Ask the model").click()
    expect(visit.answers).to_have_text([re.compile("Three.")])
    assert "Second" not in prompt_of(engine)


# ── found again ──


def test_an_address_leads_to_a_branch_and_inspect_to_the_turn(start_server: StartServer, open_page: OpenPage) -> None:
    server = start_server(ScriptedEngine(think("Red it is.") + final("Red."), final("Blue.")))
    visit = open_page(server)
    visit.ask("Which colour?")
    red = visit.last_answer.get_attribute("id")
    visit.act(visit.last_answer, "Regenerate")
    expect(visit.answers).to_contain_text("Blue.")
    visit.wait_until_saved()
    chat = visit.page.url.split("#")[1]
    other = open_page(server, f"#{chat}/{red}")
    expect(other.answers).to_have_text([re.compile("Red.")])
    other.last_answer.get_by_role("link", name="Inspect").click()
    expect(other.page.locator(".message").last).to_contain_text("Red.")
    expect(other.page.locator(".message h3")).to_contain_text(["system", "user", "analysis", "final"])
    assert red is not None and other.page.url.endswith(red) and "#/inspect/" in other.page.url
    other.page.go_back()
    expect(other.answers).to_have_text([re.compile("Red.")])


def test_a_reload_in_the_middle_keeps_what_came(start_server: StartServer, open_page: OpenPage) -> None:
    never = asyncio.Event()
    engine = ScriptedEngine([_FINAL + "It begins so", never], " and ends.<|return|>")
    visit = open_page(start_server(engine))
    expect(visit.begin_to_ask("Talk")).to_contain_text("It begins so")
    visit.page.reload()
    expect(visit.answers).to_contain_text("It begins so")
    visit.act(visit.last_answer.locator(".turn-state"), "Continue")
    visit.wait_until_idle()
    expect(visit.last_answer.locator(".markdown")).to_have_text("It begins so and ends.")
    assert engine.running == 0


def test_what_was_typed_outlives_a_reload_and_other_chats(start_server: StartServer, open_page: OpenPage) -> None:
    visit = open_page(start_server(ScriptedEngine(final("Hello."))))
    visit.ask("Hello")
    visit.wait_until_saved()
    visit.type("Half a thought")
    visit.page.reload()
    expect(visit.answers).to_contain_text("Hello.")
    expect(visit.composer).to_have_value("Half a thought")
    visit.sidebar.get_by_role("button", name="New chat").click()
    expect(visit.composer).to_have_value("")
    visit.sidebar.get_by_role("link", name="Hello").click()
    expect(visit.composer).to_have_value("Half a thought")


def test_two_tabs_do_not_lose_each_others_turns(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("One."), final("Two."), final("Three."))
    server = start_server(engine)
    first = open_page(server)
    # However slow this machine is, the first tab heard of the chat a moment ago, and sends without looking again.
    first.page.clock.set_fixed_time(datetime.now(UTC))
    first.ask("First")
    first.wait_until_saved()
    second = open_page(server, f"#{first.page.url.split('#')[1]}")
    expect(second.answers).to_contain_text("One.")
    second.ask("From the second tab")
    second.wait_until_saved()
    first.ask("From the first tab")
    first.wait_until_saved()
    assert "second tab" not in prompt_of(engine)
    # Both are there, as branches beside each other.
    assert len(turns_of(first)) == 6
    first.page.reload()
    expect(first.answers).to_have_count(2)
    expect(first.messages.last.locator(".walker")).to_have_text(re.compile("of 2"))


def test_an_answer_goes_on_while_another_chat_is_open(start_server: StartServer, open_page: OpenPage) -> None:
    rest = asyncio.Event()
    engine = ScriptedEngine([_FINAL + "It begins so", rest, " and ends.<|return|>"], final("Meanwhile."))
    visit = open_page(start_server(engine))
    expect(visit.begin_to_ask("Talk")).to_contain_text("It begins so")
    visit.sidebar.get_by_role("button", name="New chat").click()
    visit.ask("Something else")
    expect(visit.answers).to_contain_text("Meanwhile.")
    visit.sidebar.get_by_role("link", name="Talk").click()
    expect(visit.answers).to_contain_text("It begins so")
    visit.server.set(rest)
    expect(visit.answers).to_contain_text("It begins so and ends.")


def test_each_branch_has_an_address(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("One."), final("Two."))
    visit = open_page(start_server(engine))
    page = visit.page
    visit.ask("Hello")
    visit.act(visit.last_answer, "Regenerate")
    expect(visit.last_answer).to_contain_text("Two.")
    visit.wait_until_saved()
    visit.act(visit.last_answer, "Previous version")
    expect(visit.last_answer).to_contain_text("One.")
    first = page.url
    visit.act(visit.last_answer, "Next version")
    expect(visit.last_answer).to_contain_text("Two.")
    second = page.url
    assert re.search("#/chat/chat_[^/]+/turn_", first) and first != second
    # The link of the menu is that of the branch that is shown.
    visit.sidebar.get_by_role("button", name="Actions for Hello").click()
    page.get_by_role("menuitem", name="Copy link").click()
    expect(page.get_by_text("The link was copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == second
    visit.wait_until_saved()
    other = open_page(visit.server, first.partition("/#")[2].join(["#", ""]))
    expect(other.last_answer).to_contain_text("One.")
    # An address that names another branch than the one that is shown would lead astray.
    visit.act(visit.last_answer, "Delete")
    visit.last_answer.get_by_role("group", name="Delete").get_by_role("button", name="Delete").click()
    expect(visit.last_answer).to_contain_text("One.")
    expect(page).to_have_url(first)
