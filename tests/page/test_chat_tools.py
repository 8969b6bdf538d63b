"""Tools in the chat: what was called with what, what came back, which are offered, and who decides about a call."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from harmonia import decode
from harmonia.errors import EngineError, ErrorCode
from harmonia.run.tools import Tool
from harmonia.run.tools.mcp import StdioServer
from harmonia.serve.models.server_tools import ServerTool
from tests.support.clients.page_views import OpenPage, StartServer, Visit
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.mcp_processes import sdk_server

_SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_PARIS: Final = '{"city":"Paris"}'
_CALL: Final = calls("sky___weather", _PARIS)


class Sky:
    """A server of tools that keeps what it was called with."""

    def __init__(self, approval: Any = "run", wait: asyncio.Event | None = None) -> None:
        self.called: list[Any] = []
        self.ended = 0
        self._wait = wait
        weather = Tool("sky___weather", "The weather of a city.", _SCHEMA, self._look, checks_arguments=False)
        moon = Tool("sky___moon", "The phase of the moon.", {"type": "object"}, self._fail)
        self.tools = [ServerTool("sky", "weather", weather, approval), ServerTool("sky", "moon", moon, approval)]

    async def _look(self, arguments: Any) -> str:
        self.called.append(arguments)
        try:
            if self._wait is not None:
                await self._wait.wait()
        finally:
            self.ended += 1
        return json.dumps({"celsius": 20 + len(self.called), "city": arguments.get("city")})

    def _fail(self, _arguments: Any) -> str:
        raise ValueError("clouds before it")


def prompt_of(engine: ScriptedEngine) -> str:
    return decode(engine.prompts[-1])


def test_a_call_shows_its_arguments_state_duration_and_result(start_server: StartServer, open_page: OpenPage) -> None:
    rest = asyncio.Event()
    sky = Sky(wait=rest)
    engine = ScriptedEngine(think("Paris.") + _CALL, final("It is 21 degrees."))
    visit = open_page(start_server(engine, tools=sky.tools))
    answer = visit.begin_to_ask("What is the weather?")
    call = answer.locator("details.of-tool")
    expect(call.locator("summary")).to_have_text(re.compile(r"weather\s*from sky\s*running …, .* s"))
    expect(call.locator(".accordion-body")).to_have_count(0)
    visit.server.set(rest)
    visit.wait_until_idle()
    expect(call.locator("summary")).to_have_text(re.compile(r"weather\s*from sky\s*done, .* s"))
    inside = visit.open(call)
    arguments = inside.locator(".call-part", has_text="Arguments")
    expect(arguments.locator("pre")).to_have_text('{\n  "city": "Paris"\n}', use_inner_text=True)
    arguments.get_by_label("Raw").check()
    expect(arguments.locator("pre")).to_have_text(_PARIS)
    expect(arguments).to_contain_text("The arguments fit the tool's schema.")
    expect(inside.locator(".call-part", has_text="Result")).to_contain_text('"celsius": 21')
    expect(answer).to_contain_text("It is 21 degrees.")
    assert sky.called == [{"city": "Paris"}]


def test_arguments_that_do_not_fit_and_tools_that_fail_are_told(start_server: StartServer, open_page: OpenPage) -> None:
    misfit = calls("sky___weather", '{"city":3,"when":"now"}')
    engine = ScriptedEngine(misfit, calls("sky___moon", "{}"), final("I cannot say."))
    visit = open_page(start_server(engine, tools=Sky().tools))
    visit.ask("What is the weather?")
    weather, moon = visit.last_answer.locator("details.of-tool").all()
    inside = visit.open(weather)
    expect(inside).to_contain_text("The arguments do not fit the tool's schema:")
    expect(inside.locator(".schema-check li")).to_contain_text(["city"])
    expect(moon.locator("summary")).to_contain_text("failed")
    expect(visit.open(moon).locator(".call-part", has_text="Error")).to_contain_text("clouds before it")


def test_stopping_while_a_tool_runs_ends_the_tool(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky(wait=asyncio.Event())
    engine = ScriptedEngine(_CALL, final("Anew."))
    visit = open_page(start_server(engine, tools=sky.tools))
    answer = visit.begin_to_ask("What is the weather?")
    call = answer.locator("details.of-tool summary")
    expect(call).to_contain_text("running …")
    visit.page.keyboard.press("Escape")
    visit.wait_until_idle()
    expect(answer).to_contain_text("Stopped. What arrived is kept.")
    expect(call).not_to_contain_text("running")
    assert sky.ended == 1
    # What was not finished does not go back to the model.
    visit.ask("Once more")
    expect(visit.last_answer).to_contain_text("Anew.")


def test_tools_are_switched_on_and_off(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(final("One."), final("Two."), final("Three."))
    other = Tool("sea___tide", "The tide.", {"type": "object"}, lambda arguments: "high")
    visit = open_page(start_server(engine, tools=[*Sky().tools, ServerTool("sea", "tide", other)]))
    visit.ask("First")
    assert all(name in prompt_of(engine) for name in ("sky___weather", "sky___moon", "sea___tide"))
    with visit.settings() as dialog:
        expect(dialog.get_by_text("The phase of the moon.")).to_be_visible()
        dialog.get_by_role("checkbox", name="moon").uncheck()
        dialog.get_by_role("checkbox", name=re.compile("^sea")).uncheck()
    visit.ask("Second")
    offered = [tool.name for tool in engine.requests[-1].tools]
    assert offered == ["functions.sky___weather"]
    with visit.settings() as dialog:
        expect(dialog.get_by_role("checkbox", name="tide")).not_to_be_checked()
        dialog.get_by_role("checkbox", name=re.compile("^sky")).uncheck()
    visit.ask("Third")
    assert engine.requests[-1].tools == () and "sky___" not in prompt_of(engine)


def test_real_mcp_servers_are_listed_called_and_missed(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(calls("sdk___echo", '{"text": "Hello from a process"}'), final("It said it."))
    gone = StdioServer("gone", "/nowhere/to/be/found")
    visit = open_page(start_server(engine, mcp_servers=[sdk_server(), gone]))
    with visit.settings() as dialog:
        expect(dialog.get_by_role("checkbox", name=re.compile("^sdk"))).to_be_checked()
        expect(dialog.get_by_text("Says it again.")).to_be_visible()
        expect(dialog.get_by_role("checkbox", name=re.compile("^gone"))).to_be_disabled()
        expect(dialog.get_by_text("Not available: the server could not be reached or started")).to_be_visible()
    visit.ask("Say it")
    call = visit.last_answer.locator("details.of-tool")
    expect(call.locator("summary")).to_contain_text("from sdk")
    expect(visit.open(call).locator(".call-part", has_text="Result")).to_contain_text("Hello from a process")


# ── approvals ──


def ask_for_approval(
    start_server: StartServer, open_page: OpenPage, sky: Sky, *more: str
) -> tuple[Visit, ScriptedEngine]:
    engine = ScriptedEngine(think("Paris.") + _CALL, *more)
    visit = open_page(start_server(engine, tools=sky.tools))
    visit.ask("What is the weather?")
    card = visit.page.get_by_role("group", name=re.compile("The model wants to run weather from sky"))
    expect(card).to_contain_text('"city": "Paris"')
    expect(card).to_contain_text("The weather of a city.")
    assert sky.called == []
    return visit, engine


def test_a_call_is_run_once_and_the_next_is_asked_again(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, _CALL, final("21 degrees."))
    visit.page.get_by_role("button", name="Run once").click()
    expect(visit.last_answer.get_by_role("button", name="Run once")).to_be_visible()
    assert len(sky.called) == 1
    visit.page.get_by_role("button", name="Run once").click()
    expect(visit.last_answer).to_contain_text("21 degrees.")
    assert len(sky.called) == 2 and '"celsius": 22' in prompt_of(engine)
    # Each call is one card, where it was asked for, and the whole is one answer with one row.
    expect(visit.page.locator("details.of-tool summary")).to_contain_text(
        ["allowed by you, done", "allowed by you, done"]
    )
    expect(visit.page.locator("details.of-tool")).to_have_count(2)
    expect(visit.answers.locator(".turn-acts")).to_have_count(1)
    call = visit.open(visit.answers.first.locator("details.of-tool"))
    expect(call.locator(".call-part", has_text="Result")).to_contain_text('"celsius": 21')


def test_a_tool_that_is_always_run_is_not_asked_about_again(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, _ = ask_for_approval(start_server, open_page, sky, _CALL, final("22 degrees."), _CALL, final("23 degrees."))
    visit.page.get_by_role("button", name="Always run in this chat").click()
    expect(visit.last_answer).to_contain_text("22 degrees.")
    visit.wait_until_saved()
    visit.page.reload()
    visit.ask("And now?")
    expect(visit.last_answer).to_contain_text("23 degrees.")
    assert len(sky.called) == 3
    with visit.settings() as dialog:
        expect(dialog.locator(".always li")).to_contain_text("sky.weather")
        dialog.get_by_role("button", name="Ask again for sky.weather").click()
        expect(dialog.get_by_text("Run without asking")).to_have_count(0)


def test_a_call_is_refused_with_a_reason(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, final("Then not."))
    visit.page.get_by_role("button", name="Refuse").click()
    visit.page.get_by_label("Reason").fill("It is none of your business")
    visit.page.get_by_role("button", name="Refuse").click()
    expect(visit.last_answer).to_contain_text("Then not.")
    assert sky.called == [] and "It is none of your business" in prompt_of(engine)
    call = visit.answers.first.locator("details.of-tool")
    expect(call.locator("summary")).to_contain_text("refused by you")
    expect(visit.open(call)).to_contain_text("It is none of your business")


def test_the_arguments_are_edited(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, final("In Rome it is 21."))
    visit.page.get_by_role("button", name="Edit the arguments").click()
    box = visit.page.get_by_label("Arguments", exact=True)
    run = visit.page.get_by_role("button", name="Run with these arguments")
    box.fill('{"city": ')
    expect(visit.page.get_by_text("Not valid JSON")).to_be_visible()
    expect(run).to_be_disabled()
    box.fill('{"town": "Rome"}')
    expect(visit.page.get_by_text("do not fit the tool's schema")).to_be_visible()
    box.fill('{"city": "Rome"}')
    run.click()
    expect(visit.last_answer).to_contain_text("In Rome it is 21.")
    assert sky.called == [{"city": "Rome"}] and "Rome" in prompt_of(engine)
    call = visit.answers.first.locator("details.of-tool")
    expect(call.locator("summary")).to_contain_text("with other arguments")
    # What the model asked for stays: with the call, in the chat as it is stored, and in the inspector.
    visit.wait_until_saved()
    visit.page.reload()
    inside = visit.open(call)
    asked, ran = inside.locator(".call-part", has_text="Asked for"), inside.locator(".call-part", has_text="Run with")
    expect(asked.locator("pre")).to_contain_text("Paris")
    expect(ran.locator("pre")).to_contain_text("Rome")
    asked.get_by_label("Raw").check()
    expect(asked.locator("pre")).to_have_text(_PARIS)
    visit.last_answer.get_by_role("link", name="Inspect").click()
    note = visit.page.locator(".input-note", has_text="you changed the arguments of sky.weather")
    expect(note).to_contain_text(f"the model asked for {_PARIS}, and it was run with")


def test_behind_the_last_decision_what_is_typed_goes_into_the_text_field(
    start_server: StartServer, open_page: OpenPage
) -> None:
    visit, _ = ask_for_approval(start_server, open_page, Sky("ask"), final("21 degrees."))
    visit.page.get_by_role("button", name="Run once").press("Enter")
    expect(visit.last_answer).to_contain_text("21 degrees.")
    expect(visit.composer).to_be_focused()
    visit.page.keyboard.type("And tomorrow?")
    expect(visit.composer).to_have_value("And tomorrow?")


def test_between_a_call_and_the_answer_under_it_is_a_gap(start_server: StartServer, open_page: OpenPage) -> None:
    visit, _ = ask_for_approval(start_server, open_page, Sky("ask"), final("21 degrees."))
    visit.page.get_by_role("button", name="Run once").click()
    expect(visit.last_answer).to_contain_text("21 degrees.")
    call = visit.answers.first.locator("details.of-tool").bounding_box()
    answer = visit.last_answer.locator(".markdown").bounding_box()
    assert call is not None and answer is not None and answer["y"] - (call["y"] + call["height"]) >= 8


def test_nothing_covers_the_buttons_of_a_card(start_server: StartServer, open_page: OpenPage) -> None:
    engine = ScriptedEngine(think("Paris.") + _CALL, final("21 degrees."))
    visit = open_page(start_server(engine, tools=Sky("ask").tools), width=700, height=420)
    visit.begin_to_ask("What is the weather?\n" * 30)
    visit.page.get_by_role("button", name="Edit the arguments").click()
    back = visit.page.get_by_role("button", name="Back")
    visit.page.locator(".chat-scroll").evaluate("(place) => { place.scrollTop -= 60; }")
    jump = visit.page.get_by_role("button", name="Jump to the latest")
    expect(jump).to_be_visible()
    column, over = visit.page.locator(".chat-scroll").bounding_box(), jump.bounding_box()
    assert column is not None and over is not None and over["y"] >= column["y"] + column["height"]
    back.click()  # which fails where something else would get the click
    expect(visit.page.get_by_role("button", name="Run once")).to_be_visible()


def test_a_call_is_answered_by_hand_and_not_run(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, final("Said by hand."))
    visit.page.get_by_role("button", name="Answer by hand").click()
    visit.page.get_by_label("Your answer").fill("Seven degrees, I looked")
    visit.page.get_by_role("button", name="Send the answer").click()
    expect(visit.last_answer).to_contain_text("Said by hand.")
    assert sky.called == [] and "Seven degrees, I looked" in prompt_of(engine)
    call = visit.answers.first.locator("details.of-tool")
    expect(call.locator("summary")).to_contain_text("answered by you")
    visit.wait_until_saved()
    visit.page.reload()
    expect(visit.open(call)).to_contain_text("Seven degrees, I looked")


def test_a_message_in_the_place_of_a_decision_goes_on(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, final("As you like."))
    visit.ask("Forget it")
    expect(visit.last_answer).to_contain_text("As you like.")
    expect(visit.page.get_by_role("button", name="Run once")).to_have_count(0)
    assert sky.called == [] and "Forget it" in prompt_of(engine)


def test_a_decision_waits_over_a_reload(start_server: StartServer, open_page: OpenPage) -> None:
    sky = Sky("ask")
    visit, _ = ask_for_approval(start_server, open_page, sky, final("21 degrees."))
    visit.wait_until_saved()
    visit.page.reload()
    visit.page.get_by_role("button", name="Run once").click()
    expect(visit.last_answer).to_contain_text("21 degrees.")
    assert sky.called == [{"city": "Paris"}]


def test_after_an_approved_call_answers_are_asked_for_again_and_the_tool_runs_once(
    start_server: StartServer, open_page: OpenPage
) -> None:
    sky = Sky("ask")
    answers = [final(text) for text in ("One.", "Two.", "Three.", "Four.", "Five.")]
    visit, engine = ask_for_approval(start_server, open_page, sky, *answers)
    visit.page.get_by_role("button", name="Run once").click()
    expect(visit.last_answer).to_contain_text("One.")
    first = engine.prompts[-1]
    call = visit.answers.first.locator("details.of-tool")
    for text in ("Two.", "Three."):
        visit.act(visit.last_answer, "Regenerate")
        expect(visit.last_answer).to_contain_text(text)
        visit.wait_until_saved()
        assert engine.prompts[-1] == first
        expect(visit.page.locator("details.of-tool")).to_have_count(1)
        expect(call.locator("summary")).to_contain_text("allowed by you, done")
        visit.page.reload()
    expect(visit.open(call).locator(".call-part", has_text="Result")).to_contain_text('"celsius": 21')
    visit.ask("And tomorrow?")
    expect(visit.last_answer).to_contain_text("Four.")
    visit.act(visit.last_answer, "Regenerate")
    expect(visit.last_answer).to_contain_text("Five.")
    assert prompt_of(engine).count('"celsius": 21') == 1
    assert len(sky.called) == 1
    expect(visit.alerts).to_have_count(0)


@pytest.mark.parametrize("by_hand", [True, False])
def test_after_a_refusal_or_an_answer_by_hand_answers_are_asked_for_again(
    start_server: StartServer, open_page: OpenPage, by_hand: bool
) -> None:
    sky = Sky("ask")
    visit, engine = ask_for_approval(start_server, open_page, sky, final("One."), final("Two."), final("Three."))
    visit.page.get_by_role("button", name="Answer by hand" if by_hand else "Refuse").click()
    visit.page.get_by_label("Your answer" if by_hand else "Reason").fill("Look out of the window")
    visit.page.get_by_role("button", name="Send the answer" if by_hand else "Refuse").click()
    expect(visit.last_answer).to_contain_text("One.")
    first = engine.prompts[-1]
    for text in ("Two.", "Three."):
        visit.wait_until_saved()
        visit.page.reload()
        visit.act(visit.last_answer, "Regenerate")
        expect(visit.last_answer).to_contain_text(text)
        assert engine.prompts[-1] == first and "Look out of the window" in prompt_of(engine)
        words = "answered by you" if by_hand else "refused by you"
        expect(visit.answers.first.locator("details.of-tool summary")).to_contain_text(words)
    assert sky.called == []


@pytest.mark.parametrize("writes", [True, False])
def test_after_an_approved_call_is_stopped_the_chat_continues_and_it_is_not_run_again(
    start_server: StartServer, open_page: OpenPage, writes: bool
) -> None:
    sky = Sky("ask", wait=asyncio.Event())
    visit, engine = ask_for_approval(start_server, open_page, sky, final("I do not know."))
    visit.page.get_by_role("button", name="Run once").click()
    visit.wait_until(lambda: len(sky.called) == 1)
    visit.page.keyboard.press("Escape")
    visit.wait_until_idle()
    visit.wait_until_saved()
    visit.page.reload()
    if writes:
        visit.ask("Go on")
    else:
        visit.act(visit.last_answer, "Regenerate")
    expect(visit.last_answer).to_contain_text("I do not know.")
    assert prompt_of(engine).count("its result is not known") == 1
    expect(visit.open(visit.answers.first.locator("details.of-tool"))).to_contain_text("its result is not known")
    assert len(sky.called) == 1


@pytest.mark.parametrize("button", ["Retry", "Continue"])
def test_an_engine_that_fails_behind_an_approved_call_is_asked_again_in_the_same_place(
    start_server: StartServer, open_page: OpenPage, button: str
) -> None:
    sky = Sky("ask")
    broken: Any = [EngineError(ErrorCode.ENGINE_DIED, "it broke")]
    visit, engine = ask_for_approval(start_server, open_page, sky, broken, final("21 degrees."))
    visit.page.get_by_role("button", name="Run once").click()
    visit.page.get_by_role("button", name=button, exact=True).click()
    expect(visit.last_answer).to_contain_text("21 degrees.")
    assert engine.prompts[-1] == engine.prompts[-2] and len(sky.called) == 1
    expect(visit.page.locator("details.of-tool")).to_have_count(1)


@pytest.mark.parametrize("analysis", ["shown", "hidden"])
def test_functions_of_the_person_are_answered_by_hand(
    start_server: StartServer, open_page: OpenPage, analysis: str
) -> None:
    engine = ScriptedEngine(think("Ask.") + calls("get_weather", _PARIS), final("It rains."))
    visit = open_page(start_server(engine, analysis=analysis))
    with visit.settings() as dialog:
        functions = dialog.get_by_label("Functions of your own")
        functions.fill('[{"name": ')
        expect(dialog.get_by_text("Not valid JSON yet")).to_be_visible()
        functions.fill("")
        dialog.get_by_role("button", name="Insert example").click()
        expect(dialog.get_by_text("Functions: get_weather.")).to_be_visible()
    visit.ask("What is the weather?")
    assert "type get_weather = " in prompt_of(engine)
    card = visit.page.get_by_role("group", name=re.compile("The model calls your function get_weather"))
    expect(card).to_contain_text("The arguments fit the tool's schema.")
    card.get_by_label("Your answer").fill("Rain")
    card.get_by_role("button", name="Send the answer").click()
    expect(visit.last_answer).to_contain_text("It rains.")
    assert "<|start|>functions.get_weather to=assistant" in prompt_of(engine) and "Rain<|end|>" in prompt_of(engine)
    call = visit.answers.first.locator("details.of-tool")
    expect(call.locator("summary")).to_have_text(re.compile(r"get_weather\s*your function\s*answered by you"))
    expect(visit.open(call)).to_contain_text("Rain")
