"""`harmonia chat` as a person sees it: in a real terminal, with keys."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harmonia.cli.chats.chat_files import SavedChats
from harmonia.messages import Conversation
from tests.support.clients.terminals import CTRL_C, CTRL_D, ENTER, NEVER_S, Said, Terminal, run, script
from tests.support.engines.scripted import calls, final, think
from tests.support.servers.mcp_processes import SDK

TOOLS = '''
from pathlib import Path

from harmonia.run import tool

@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    with Path(__file__).with_name("called").open("a") as called:
        called.write(city + "\\n")
    return f"rain in {city}"
'''
CHOICES = "[w] write the result yourself:"
COSTS = "tokens/s"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "weather.py"
    path.write_text(TOOLS)
    return path


def called(tools: Path) -> list[str]:
    path = tools.with_name("called")
    return path.read_text().split() if path.exists() else []


def saved(state: Path) -> Conversation:
    return SavedChats(state / "harmonia" / "chats").load()[1]


def results(state: Path) -> list[str]:
    return [message.text for message in saved(state) if message.role == "tool"]


def wants_weather(path: Path, *cities: str, text: bool = False) -> list[str]:
    """An engine that calls for the weather once for each city, then answers."""
    said: list[Sequence[Said]] = [[calls("get_weather", json.dumps({"city": city}))] for city in cities]
    return script(path, *said, [final("Done.")], text=text)


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_questions_are_answered_and_remembered_and_ctrl_d_leaves(state: Path) -> None:
    with Terminal(["chat", "-m", "demo"], state) as terminal:
        terminal.ask("first")
        terminal.until("You said: first\n")
        terminal.until(COSTS)
        terminal.ask("second")
        terminal.until("You said: second\n")
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "The user wants" not in terminal.text  # a thought
    assert [message.text for message in saved(state) if message.role == "user"] == ["first", "second"]
    questions = state / "harmonia" / "questions"
    assert (questions.stat().st_mode & 0o777, "second" in questions.read_text()) == (0o600, True)


def test_answers_go_to_stdout_and_the_rest_of_the_conversation_does_not(state: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out, Terminal(["chat", "-m", "demo", "-R"], state, out) as terminal:
        terminal.ask("Hi")
        terminal.until(COSTS)
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    answer = "I am Harmonia's demo engine, not a language model. You said: Hi\n"
    assert (tmp_path / "out").read_text() == answer


def test_pasted_lines_are_one_question(state: Path) -> None:
    with Terminal(["chat", "-m", "demo"], state) as terminal:
        terminal.until_prompt()
        terminal.type("\x1b[200~one\ntwo\x1b[201~" + ENTER)
        terminal.until(COSTS)
    assert saved(state)[1].text == "one\ntwo"


def test_without_the_line_editor_plain_lines_do(state: Path, tools: Path, tmp_path: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Rome", "Oslo")
    with Terminal(["chat", *engine, "-T", str(tools)], state, without="prompt_toolkit") as terminal:
        terminal.until_prompt()
        terminal.type(CTRL_C)
        terminal.until("press Ctrl-D to leave")
        terminal.until_prompt()
        terminal.type("Weather?\n")
        terminal.until(CHOICES)
        terminal.type("y\n")
        terminal.until(CHOICES)
        terminal.type(CTRL_C)
        terminal.until("stopped")
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert called(tools) == ["Rome"]


def test_what_controls_a_terminal_does_not_reach_it(state: Path, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x9b31m"
    engine = script(tmp_path / "script", [think(evil), final(f"{evil}10\u202fkm\tdone")])
    with Terminal(["chat", *engine, "-R", "Hi"], state) as terminal:
        assert terminal.end() == 0
        assert b"owned" in terminal.raw
        assert not any(each in terminal.raw for each in (b"\x1b]0", b"\x07", "\x9b".encode()))
        assert "10\u202fkm" in terminal.text


def test_no_color_means_none(state: Path) -> None:
    with Terminal(["chat", "-m", "demo", "-R", "Hi"], state, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert b"\x1b[2m" not in terminal.raw
    with Terminal(["chat", "-m", "demo", "-R", "Hi"], state) as terminal:
        assert terminal.end() == 0
        assert b"\x1b[2m" in terminal.raw


# ── Ctrl-C ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_stops_an_answer_keeps_what_came_and_gives_the_prompt_back(state: Path, tmp_path: Path) -> None:
    engine = script(
        tmp_path / "script",
        ["<|channel|>final<|message|>One,", (NEVER_S, " never")],
        [" two.<|return|>"],
        [final("Three.")],
    )
    with Terminal(["chat", *engine], state) as terminal:
        terminal.ask("Count")
        terminal.until("One,")
        terminal.type(CTRL_C)
        terminal.until("stopped")
        terminal.ask("/continue")
        terminal.until(" two.")
        terminal.ask("Go on")
        terminal.until("Three.")
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [message.text for message in saved(state)[1:]] == ["Count", "One, two.", "Go on", "Three."]


def test_ctrl_c_stops_the_demo_engine_in_its_words(state: Path) -> None:
    with Terminal(["chat", "-m", "demo", "-o", "delay_s", "0.01"], state) as terminal:
        terminal.ask("//demo endless")
        terminal.until("and so on")
        terminal.type(CTRL_C)
        terminal.until("stopped")
        terminal.ask("Hi")
        terminal.until("You said: Hi")
    assert saved(state)[1].text == "/demo endless"


def test_ctrl_c_still_works_after_a_call_was_approved(state: Path, tmp_path: Path, tools: Path) -> None:
    said: list[Sequence[Said]] = [
        [calls("get_weather", '{"city": "Rome"}')],
        ["<|channel|>final<|message|>It", (NEVER_S, " never")],
    ]
    with Terminal(["chat", *script(tmp_path / "script", *said), "-T", str(tools), "Weather?"], state) as terminal:
        terminal.until(CHOICES)
        terminal.type("y" + ENTER)
        terminal.until("It")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert (called(tools), saved(state)[-1].text) == (["Rome"], "It")


def test_ctrl_c_at_a_call_stops_the_answer_and_the_call_has_a_result(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Rome")
    with Terminal(["chat", *engine, "-T", str(tools)], state) as terminal:
        terminal.ask("Weather?")
        terminal.until(CHOICES)
        terminal.type(CTRL_C)
        terminal.until("stopped")
        terminal.ask("And now?")
        terminal.until("Done.")
        terminal.until_prompt()
    assert called(tools) == []
    assert [message.role.value for message in saved(state)[-4:]] == ["assistant", "tool", "user", "assistant"]


def test_ctrl_c_at_the_prompt_leaves_nothing_and_says_what_does(state: Path) -> None:
    with Terminal(["chat", "-m", "demo"], state) as terminal:
        terminal.until_prompt()
        terminal.type("half a thought" + CTRL_C)
        terminal.until("press Ctrl-D to leave")
        terminal.ask("whole")
        terminal.until("You said: whole")


# ── approval ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_run_refused_edited_or_answered_by_hand_as_the_person_says(
    state: Path, tmp_path: Path, tools: Path
) -> None:
    engine = wants_weather(tmp_path / "script", "Rome", "Oslo", "Bonn", "Kyiv")
    with Terminal(["chat", *engine, "-T", str(tools)], state) as terminal:
        terminal.ask("Weather?")
        terminal.until('"city": "Rome"')
        terminal.until(CHOICES)
        terminal.type("y" + ENTER)
        terminal.until("rain in Rome")
        terminal.until(CHOICES)
        terminal.type("what?" + ENTER)  # is asked again
        terminal.until(CHOICES)
        terminal.type("n" + ENTER)
        terminal.until("reason (optional):")
        terminal.type("too far" + ENTER)
        terminal.until('"city": "Bonn"')
        terminal.until(CHOICES)
        terminal.type("e" + ENTER)
        terminal.until("arguments:")
        terminal.type("\x15" + "no JSON" + ENTER)  # Ctrl-U takes the line away
        terminal.until("not valid JSON")
        terminal.until(CHOICES)
        terminal.type("e" + ENTER)
        terminal.until("arguments:")
        terminal.until("no JSON")  # it is not thrown away
        terminal.type("\x15" + '{"city": "Graz"}' + ENTER)
        terminal.until("rain in Graz")
        terminal.until(CHOICES)
        terminal.type("w" + ENTER)
        terminal.until("result:")
        terminal.type("snow" + ENTER)
        terminal.until("Done.")
        terminal.until_prompt()
    assert called(tools) == ["Rome", "Graz"]
    first, second, third, fourth = results(state)
    assert (first, third, fourth) == ("rain in Rome", "rain in Graz", "snow")
    assert "too far" in second
    asked = [message.text for message in saved(state) if message.recipient == "functions.get_weather"]
    assert [json.loads(text)["city"] for text in asked] == ["Rome", "Oslo", "Graz", "Kyiv"]


def test_always_asks_no_more_about_that_tool(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Rome", "Oslo")
    with Terminal(["chat", *engine, "-T", str(tools)], state) as terminal:
        terminal.ask("Weather?")
        terminal.until(CHOICES)
        terminal.type("a" + ENTER)
        terminal.until("Done.")
        terminal.until_prompt()
        assert terminal.text.count("the model wants to call") == 1
    assert called(tools) == ["Rome", "Oslo"]


def test_always_does_not_hold_for_calls_that_nobody_is_sure_of(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Rome", "Oslo", text=True)
    with Terminal(["chat", *engine, "-T", str(tools)], state) as terminal:
        terminal.ask("Weather?")
        terminal.until("careful")
        terminal.until(CHOICES)
        terminal.type("a" + ENTER)
        terminal.until("careful")
        terminal.until(CHOICES)
        terminal.type(CTRL_D)  # no answer is no
        terminal.until("Done.")
        terminal.until_prompt()
    assert called(tools) == ["Rome"]


PIPED = "Weather? Now call every tool that you have."


@pytest.mark.parametrize("editor", [True, False])
@pytest.mark.parametrize(("answer", "runs"), [("y", ["Rome"]), ("n", [])])
def test_where_the_question_comes_from_a_pipe_the_person_at_the_terminal_is_asked_all_the_same(
    state: Path, tmp_path: Path, tools: Path, answer: str, runs: list[str], editor: bool
) -> None:
    engine = wants_weather(tmp_path / "script", "Rome")
    without = "" if editor else "prompt_toolkit"
    with (
        (tmp_path / "out").open("wb") as out,
        (tmp_path / "err").open("wb") as err,
        Terminal(
            ["chat", *engine, "-T", str(tools)], state, out, without, piped=PIPED.encode(), stderr=err
        ) as terminal,
    ):
        terminal.until('"city": "Rome"')  # also where stderr is a file
        terminal.until(CHOICES)
        terminal.type(answer + "\r")
        if answer == "n":
            terminal.until("reason (optional):")
            terminal.type("\r")
        assert terminal.end() == 0
    assert (called(tools), (tmp_path / "out").read_text()) == (runs, "Done.\n")


def test_a_call_that_was_not_run_is_shown_and_has_no_time(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Oslo")
    with Terminal(["chat", *engine, "-T", str(tools), "Weather?"], state) as terminal:
        terminal.until(CHOICES)
        terminal.type("n" + ENTER)
        terminal.until("reason (optional):")
        terminal.type(ENTER)
        terminal.until('→ functions.get_weather {"city": "Oslo"}')
        terminal.until("✗ ")
        assert " s)" not in terminal.until("Done.")


def test_continue_asks_the_model_again_where_a_call_was_stopped(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = wants_weather(tmp_path / "script", "Rome")
    with Terminal(["chat", *engine, "-T", str(tools)], state) as terminal:
        terminal.ask("Weather?")
        terminal.until(CHOICES)
        terminal.type(CTRL_C)
        terminal.until("stopped")
        terminal.ask("/continue")
        terminal.until("Done.")
        terminal.until_prompt()
    assert [message.role.value for message in saved(state)[-3:]] == ["assistant", "tool", "assistant"]


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_commands_do_what_help_says(state: Path, tmp_path: Path, tools: Path) -> None:
    note, export = tmp_path / "a note.txt", tmp_path / "chat.md"
    note.write_text("remember the milk")
    with Terminal(["chat", "-m", "demo", "-T", str(tools)], state) as terminal:
        terminal.ask("/help")
        terminal.until("keeps what arrived")
        terminal.ask("/nonsense")
        terminal.until("unknown command")
        terminal.ask("/undo")
        terminal.until("there is no question yet")
        terminal.ask("/continue")
        terminal.until("error:")
        terminal.ask("/save")
        terminal.until("usage: /save PATH")
        terminal.ask("/effort")
        terminal.until("effort: the default")
        terminal.ask("/effort extreme")
        terminal.until("error:")
        terminal.ask("/effort high")
        terminal.until("effort: high")
        terminal.ask("/reasoning")
        terminal.until("reasoning is shown")
        terminal.ask("/tools")
        terminal.until("functions.get_weather  The weather of a city.")
        terminal.ask("/file nowhere.txt")
        terminal.until("cannot read")
        terminal.ask(f"/file '{note}'")
        terminal.until("with the next question:")
        terminal.ask("What now?")
        terminal.until("The user")  # a thought
        terminal.until(COSTS)
        terminal.ask("/retry")
        terminal.until(COSTS)
        terminal.ask("/budget")
        terminal.until("in all")
        terminal.until("in the next prompt")
        terminal.ask(f"/save {export}")
        terminal.until(": 1 question")
        terminal.ask("/save nowhere/chat.md")
        terminal.until("cannot write")
        terminal.ask("/save chat.docx")
        terminal.until("is not a known file format")
        terminal.ask("/fork")
        terminal.until("this chat is now")
        terminal.ask("/undo")
        terminal.until("removed the last question")
        terminal.ask("Another")
        terminal.until(COSTS)
        terminal.ask("/exit")
        assert terminal.end() == 0
    assert "remember the milk" in export.read_text()
    first, second = SavedChats(state / "harmonia" / "chats").list()
    assert (first.question, second.question) == ("What now?", "Another")
    assert first.messages == second.messages == 5  # system, developer, question, thought, answer: asked once each


def test_files_of_the_command_line_wait_for_the_first_question(state: Path, tmp_path: Path) -> None:
    note = tmp_path / "a note.txt"
    note.write_text("milk")
    with Terminal(["chat", "-m", "demo", "-f", str(note), "--no-save"], state) as terminal:
        terminal.until("a note.txt")
        terminal.ask("What?")
        terminal.until("milk")
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [path for path in state.rglob("*") if path.is_file()] == []


# ── MCP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def servers(tmp_path: Path) -> list[str]:
    """The option that names a server with the tools `echo` and `die`."""
    allowed = ["echo", "die"]
    timeouts = {"connect_s": 120, "list_s": 120, "call_s": 120}
    server = {
        "command": sys.executable,
        "args": [SDK, "stdio"],
        "env": {"ECHO_DESCRIPTION": str(tmp_path / "description")},
        "allowed_tools": allowed,
        "timeouts": timeouts,
    }
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"sdk": server}}))
    return ["--mcp", str(path)]


def test_tools_of_servers_need_consent_once_and_again_when_they_change(
    state: Path, tmp_path: Path, servers: list[str]
) -> None:
    said: list[Sequence[Said]] = [
        [calls("sdk___die", "{}")],
        [final("It died.")],
        [calls("sdk___echo", '{"text": "hello"}')],
        [final("Asked again.")],
    ]
    engine = script(tmp_path / "script", *said)
    with Terminal(["chat", *engine, *servers, "--approve", "certain"], state) as terminal:
        for _ in range(2):
            terminal.until("agree to this tool? [y/n]:")
            terminal.type("y" + ENTER)
        terminal.until_prompt()
        (tmp_path / "description").write_text("Says it \x1b[31mdifferently.")
        terminal.type("Die" + ENTER)
        terminal.until("It died.")
        terminal.ask("Echo")
        terminal.until("a changed tool")
        terminal.until("agree to this tool? [y/n]:")
        terminal.type("n" + ENTER)
        terminal.until("no longer offered: sdk___echo")
        terminal.until("Asked again.")
        assert b"\x1b[31m" not in terminal.raw
    pins = state / "harmonia" / "mcp-pins.json"
    assert pins.stat().st_mode & 0o777 == 0o600
    assert "differently" not in pins.read_text()

    # Without a terminal, what was agreed to is offered, and what was not is not.
    ran = run(["chat", "-m", "demo", *servers, "--json", "use sdk___echo for hello"], state)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["calls"] == []
    (tmp_path / "description").unlink()
    ran = run(["chat", "-m", "demo", *servers, "--json", 'sdk___echo(text="hello")'], state)
    assert [call["is_error"] for call in json.loads(ran.stdout)["calls"]] == [False]
