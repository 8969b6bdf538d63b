"""`harmonia chat` with one question: what goes where, what is kept, and how it ends."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harmonia.cli import main
from harmonia.cli.chats import session
from harmonia.cli.chats.chat_files import SavedChats
from harmonia.cli.chats.screen import Screen
from harmonia.cli.chats.session import Session
from harmonia.cli.display import readable
from harmonia.errors import ErrorCode
from harmonia.run.engines import discover
from harmonia.run.engines.base import Sampling
from harmonia.run.engines.demo import DemoEngine
from harmonia.run.engines.recording import ReplayEngine, read_capture
from harmonia.run.engines.registry import find_kind, kinds
from harmonia.run.options import RunOptions
from harmonia.run.tools import ToolSet
from tests.support.clients.terminals import NEVER_S, Said, chat, chat_json, script, start
from tests.support.engines.scripted import calls, final, think
from tests.support.servers.mcp_processes import SDK
from tests.support.servers.wire_servers import Asked, Wire, serving, unused_port

ANSWER = "I am Harmonia's demo engine, not a language model. You said: Hi\n"
TOOLS = '''
from pathlib import Path

from harmonia.run import tool

@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    with Path(__file__).with_name("called").open("a") as called:
        called.write(city + "\\n")
    return f"rain in {city}\\x1b[31m"
'''


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


def question_of(answered: dict[str, Any]) -> str:
    return [message["content"] for message in answered["messages"] if message["role"] == "user"][-1]


# ── questions and answers ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_answer_goes_to_stdout_and_nothing_else_does(state: Path) -> None:
    ran = chat(state, "Hi")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, ANSWER, "")


@pytest.mark.parametrize(
    ("words", "stdin", "asked"),
    [
        (["Why", "so?"], "", "Why so?"),
        ([], "  indented\nlines\n", "  indented\nlines"),
        (["-"], "piped\n", "piped"),
        (["What is this?"], "\ufeffa text\n", "a text\n\nWhat is this?"),
    ],
)
def test_a_question_comes_from_the_command_line_or_from_stdin_or_from_both(
    state: Path, words: list[str], stdin: str, asked: str
) -> None:
    assert question_of(chat_json(state, *words, stdin=stdin)) == asked


def test_files_stand_before_the_question_with_their_names(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "a note.txt"
    path.write_text("<|end|> is text\n")
    asked = question_of(chat_json(state, "-f", str(path), "What?"))
    assert asked == "--- a note.txt ---\n<|end|> is text\n--- end of a note.txt ---\n\nWhat?"


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_what_is_no_text_is_refused(state: Path, tmp_path: Path, way: str) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"\x89PNG")
    ran = chat(state, "-f", str(path), "What?") if way == "file" else chat(state, stdin=path.read_bytes())
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ErrorCode.VOCABULARY_INVALID_UTF8 in ran.stderr


def test_without_a_question_and_a_terminal_it_says_how_to_ask(state: Path) -> None:
    assert chat(state).returncode == 2


def test_reasoning_is_shown_on_stderr_and_only_when_asked_for(state: Path) -> None:
    ran = chat(state, "-R", "Hi")
    assert (ran.stdout, "The user wants an answer." in ran.stderr) == (ANSWER, True)


def test_json_has_the_answer_and_the_thoughts_only_when_asked_for(state: Path) -> None:
    hidden, shown = chat(state, "--json", "Hi"), chat(state, "--json", "-R", "Hi")
    assert "The user wants" not in hidden.stdout + hidden.stderr
    answered = json.loads(hidden.stdout)
    assert (answered["text"], answered["reason"]) == (ANSWER.strip(), "answered")
    assert [message["channel"] for message in json.loads(shown.stdout)["messages"][2:]] == ["analysis", "final"]


def test_nothing_of_the_analysis_channel_is_in_the_json_not_even_by_a_detour(state: Path, tmp_path: Path) -> None:
    said = [
        "<|channel|>analysis to=functions.nobody<|message|>SECRET one<|end|><|start|>assistant",
        "<|channel|>analysis to=python<|message|>SECRET two<|end|><|start|>assistant",
        "<|channel|>musings<|message|>SECRET three<|end|><|start|>user<|message|>SECRET four<|end|><|start|>assistant",
        final("Done."),
    ]
    engine = script(tmp_path / "script", said, [final("Done.")])
    ran = chat(state, *engine, "--json", "Hi")
    answered = json.loads(ran.stdout)
    answered.pop("calls")  # these are shown, like all calls
    assert "SECRET" not in json.dumps(answered)
    assert "SECRET" in chat(state, *engine, "--json", "-R", "Hi").stdout


def test_usage_says_what_it_cost_and_how_much_of_the_context_it_fills(state: Path) -> None:
    ran = chat(state, "-u", "Hi")
    assert ran.stdout == ANSWER
    assert "(21 analysis, 23 final)" in ran.stderr
    assert " of 131,072 (< 1 %)" in ran.stderr


def test_the_tokens_by_channel_are_those_that_were_sampled(state: Path) -> None:
    usage = chat_json(state, "Hi")["usage"]
    assert sum(usage["by_channel"].values()) == usage["completion_tokens"]
    assert usage["context_used"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("question", ["/demo engine-error", "/demo broken-json", "Hi"])
@pytest.mark.parametrize("most", ["5", "30", "1000"])
def test_the_tokens_by_channel_are_those_that_were_sampled_also_where_it_was_cut_off(
    state: Path, question: str, most: str
) -> None:
    usage = chat_json(state, "-o", "max_tokens", most, question)["usage"]
    assert sum(usage["by_channel"].values()) == usage["completion_tokens"]


@pytest.mark.parametrize("most", [5, 25, 30])
def test_the_tokens_by_channel_of_an_answer_that_goes_on_are_those_of_the_rest(most: int) -> None:
    session = Session(
        DemoEngine(), Screen(reasoning=False, quiet=True), ToolSet([]), options=RunOptions(sampling=Sampling(most))
    )
    asyncio.run(session.ask("Hi"))
    assert session.screen.channel_tokens.total() == session.usage.completion_tokens == most
    session.change(sampling=Sampling())
    asyncio.run(session.resume())
    assert session.screen.channel_tokens.total() == session.usage.completion_tokens
    assert session.conversation[-1].text == ANSWER.strip()


def test_quiet_leaves_only_the_answer(state: Path, tools: Path) -> None:
    ran = chat(state, "-q", "-T", str(tools), "use get_weather for Paris")
    assert (ran.returncode, ran.stderr, called(tools)) == (0, "", ["Paris"])


def test_effort_instructions_and_settings_reach_the_engine(state: Path) -> None:
    answered = chat_json(state, "-r", "high", "-s", "Be kind.", "-o", "max_tokens", "3", "Hi")
    system, developer = (message["content"][0] for message in answered["messages"][:2])
    assert (system["reasoning_effort"], developer["instructions"]) == ("high", "Be kind.")
    assert (answered["reason"], answered["usage"]["completion_tokens"]) == ("length", 3)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["-o", "temperatur", "1"], 2),
        (["-o", "temperature", "hot"], 2),
        (["-o", "timing", "recorded"], 1),  # the demo engine has none
        (["-o", "context_tokens", "60"], 1),
        (["--record", "no/such/folder/capture.jsonl"], 1),
        (["-o", "delay_s", "-1"], 1),
        (["-T", "no_such_module:f"], 2),
        (["--approve", "ask"], 2),
        (["--cid", "../../etc/passwd"], 1),
        (["-c"], 1),
        (["-m", "nothing"], 1),
    ],
)
def test_wrong_options_are_errors_and_nothing_is_asked(state: Path, options: list[str], code: int) -> None:
    ran = chat(state, *options, "Hi")
    assert (ran.returncode, ran.stdout) == (code, "")
    assert "Traceback" not in ran.stderr
    assert "--function" not in ran.stderr  # which is the name of another verb's option


@pytest.mark.parametrize(("options", "more", "coloured"), [((), {}, False), (("--color", "always"), {}, True)])
def test_colours_are_for_terminals_unless_they_are_asked_for(
    state: Path, options: tuple[str, ...], more: dict[str, str], coloured: bool
) -> None:
    assert ("\x1b[" in chat(state, "-u", *options, "Hi", **more).stderr) == coloured


# ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("/demo only-reasoning", 1),
        ("/demo engine-error", 1),
        ("/demo missing-channel", 1),
        ("/demo broken-json", 0),
    ],
)
def test_a_fault_of_the_model_ends_with_a_word_about_it(state: Path, question: str, code: int) -> None:
    ran = chat(state, question)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert ran.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["/demo engine-error"],
        ["-o", "max_tokens", "1", "Hi"],
        ["-o", "max_tokens", "30", "Hi"],
        ["/demo broken-json"],  # which is refused, not mended
    ],
)
def test_that_a_stream_was_cut_off_is_not_said_to_be_mended(state: Path, options: list[str]) -> None:
    ran = chat(state, *options)
    assert (bool(ran.stderr), "repaired" in ran.stderr) == (True, False)


@pytest.mark.parametrize("error", [{"error": "EngineError", "code": "engine.died", "message": "gone"}, None])
def test_a_fault_of_the_model_that_was_mended_is_said(
    state: Path, tmp_path: Path, error: dict[str, str] | None
) -> None:
    said = "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Half an"
    ran = chat(state, *script(tmp_path / "script", [said], error=error), "Hi")
    assert (ran.stdout, ran.stderr.count("repaired")) == ("Half an\n", 1)


def test_nothing_is_said_to_be_mended_where_the_engine_refuses_at_once(state: Path, tmp_path: Path) -> None:
    error = {"error": "EngineError", "code": "engine.refused", "message": "no"}
    ran = chat(state, *script(tmp_path / "script", [], error=error), "Hi")
    assert (ran.returncode, "repaired" in ran.stderr) == (1, False)


def test_an_engine_that_dies_leaves_what_came(state: Path, tmp_path: Path) -> None:
    error = {"error": "EngineError", "code": "engine.died", "message": "gone"}
    engine = script(tmp_path / "script", ["<|channel|>final<|message|>Half an"], error=error)
    ran = chat(state, *engine, "Hi")
    assert (ran.returncode, ran.stdout) == (1, "Half an\n")
    answered = chat_json(state, *engine, "Hi")
    assert (answered["reason"], answered["text"], answered["error"]["code"]) == ("error", "Half an", "engine.died")


def test_nobody_there_is_exit_code_four(state: Path) -> None:
    ran = chat(state, "-m", f"vllm:http://127.0.0.1:{unused_port()}", "--model", "gpt-oss-20b", "Hi")
    assert (ran.returncode, ran.stdout) == (4, "")


def test_a_time_limit_ends_an_answer_that_does_not_end(state: Path, tmp_path: Path) -> None:
    engine = script(tmp_path / "script", ["<|channel|>final<|message|>One,", (NEVER_S, " two")])
    ran = chat(state, *engine, "--time-limit", "0.2", "--json", "Hi")
    answered = json.loads(ran.stdout)
    assert (ran.returncode, answered["limit"], answered["text"]) == (1, "time", "One,")


def test_ctrl_c_stops_the_answer_and_keeps_what_came(state: Path, tmp_path: Path) -> None:
    engine = script(tmp_path / "script", ["<|channel|>final<|message|>One,", (NEVER_S, " two")])
    with start(["chat", *engine, "Hi"], state) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "One,"
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.wait()) == ("\n", 130)
    _, conversation = SavedChats(state / "harmonia" / "chats").load()
    assert conversation[-1].text == "One,"


def test_ctrl_c_leaves_what_came_in_the_json_too(state: Path, tmp_path: Path) -> None:
    engine = script(tmp_path / "script", [think("Hm."), "<|channel|>final<|message|>One,", (NEVER_S, " two")])
    with start(["chat", *engine, "--json", "-R", "Hi"], state) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stderr.readline() == "Hm.\n"  # it is under way
        process.send_signal(signal.SIGINT)
        answered = json.loads(process.stdout.read())
        assert (process.wait(), answered["reason"]) == (130, "stopped")
    assert answered["text"] in ("", "One,")  # the signal may have been quicker than the next chunk


def test_a_reader_that_has_seen_enough_is_no_error_to_speak_of(state: Path) -> None:
    with start(["chat", "-m", "demo", "-o", "max_tokens", "20000", "/demo endless"], state) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 1
    assert "Traceback" not in said


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_is_called_and_its_result_used(state: Path, tools: Path) -> None:
    ran = chat(state, "-T", str(tools), "--json", "use get_weather for Paris")
    answered = json.loads(ran.stdout)
    (call,) = answered["calls"]
    assert (call["recipient"], call["arguments"], call["is_error"]) == (
        "functions.get_weather",
        {"city": "Paris"},
        False,
    )
    assert called(tools) == ["Paris"]
    assert "rain in Paris" in answered["text"]
    assert "\x1b" not in ran.stderr  # where the call and its result are shown


PRINTS = '''
import threading

print("PRINTED at import")

def loud(word: str) -> str:
    """Says it."""
    print("PRINTED", word)
    threading.Thread(target=print, args=["PRINTED later"]).start()
    return word

async def aloud(word: str) -> str:
    """Says it, too."""
    print("PRINTED", word)
    return word
'''


@pytest.mark.parametrize("name", ["loud", "aloud"])
def test_what_a_tool_prints_is_no_part_of_the_answer(state: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "prints.py"
    path.write_text(PRINTS)
    engine = script(tmp_path / "script", [calls(name, '{"word": "hey"}')], [final("Said.")])
    ran = chat(state, *engine, "-T", f"{path}:{name}", "Say it")
    assert (ran.stdout, "PRINTED hey" in ran.stderr, "PRINTED at import" in ran.stderr) == ("Said.\n", True, True)
    assert json.loads(chat(state, *engine, "-T", f"{path}:{name}", "--json", "Say it").stdout)["text"] == "Said."


@pytest.mark.parametrize(
    ("name", "said"), [("", "{}:loud,:aloud"), (":nothing", "{}hasnofunctionnothing;ithasloud,aloud")]
)
def test_a_file_without_the_tool_says_which_functions_it_has(state: Path, tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / "prints.py"
    path.write_text(PRINTS)
    ran = chat(state, "-T", f"{path}{name}", "Hi")
    words = "".join(ran.stderr.split())  # it is broken into lines
    assert (ran.returncode, said.format(path) in words, "@tool" in words) == (2, True, not name)


@pytest.mark.parametrize(("approve", "runs"), [(None, []), ("certain", []), ("all", ["Rome"])])
def test_a_call_that_was_read_from_text_runs_only_where_all_do(
    state: Path, tmp_path: Path, tools: Path, approve: str | None, runs: list[str]
) -> None:
    said: list[Sequence[Said]] = [[calls("get_weather", '{"city": "Rome"}')], [final("Wet.")]]
    engine = script(tmp_path / "script", *said, text=True)
    options = [] if approve is None else ["--approve", approve]
    answered = chat_json(state, *engine, "-T", str(tools), *options, "Weather?")
    assert (answered["text"], called(tools), answered["calls"][0]["is_error"]) == ("Wet.", runs, not runs)


def test_a_call_in_tokens_is_certain_and_runs(state: Path, tmp_path: Path, tools: Path) -> None:
    engine = script(tmp_path / "script", [calls("get_weather", '{"city": "Rome"}')], [final("Wet.")])
    chat(state, *engine, "-T", str(tools), "Weather?")
    assert called(tools) == ["Rome"]


def test_a_chat_that_goes_on_without_its_tools_says_so(state: Path, tools: Path) -> None:
    chat(state, "-T", str(tools), "Hi")
    assert "functions.get_weather" in chat(state, "-c", "Hi").stderr
    assert chat(state, "-c", "-T", str(tools), "Hi").stderr == ""


def test_a_run_with_tools_is_recorded_and_replayed(state: Path, tmp_path: Path, tools: Path) -> None:
    capture = tmp_path / "capture.jsonl"
    asked = ["-T", str(tools), "--no-save", "use get_weather for Paris"]
    recorded = chat(state, "--record", str(capture), *asked)
    replayed = chat(state, "-m", f"replay:{capture}", *asked)
    assert (recorded.stdout, recorded.returncode) == (replayed.stdout, replayed.returncode)
    assert len(read_capture(capture).runs) == 2


def test_a_server_that_fails_is_reported_once(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    server = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('BROKEN')"]}
    path.write_text(json.dumps({"mcpServers": {"web": server}}))
    ran = chat(state, "--mcp", str(path), "Hi")
    assert (ran.stdout, ran.stderr.count("the MCP server web")) == (ANSWER, 1)


def test_tools_of_servers_can_be_trusted_without_a_terminal(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    timeouts = {"connect_s": 120, "list_s": 120, "call_s": 120}
    server = {"command": sys.executable, "args": [SDK, "stdio"], "allowed_tools": ["echo"], "timeouts": timeouts}
    path.write_text(json.dumps({"mcpServers": {"sdk": server}}))
    asked = ["--mcp", str(path), "--json", 'sdk___echo(text="hello")']
    ran = chat(state, *asked)
    assert json.loads(ran.stdout)["calls"] == []
    assert ("--mcp-policy trust_first" in ran.stderr, "properties" in ran.stderr) == (True, False)
    ran = chat(state, "--mcp-policy", "trust_first", *asked)
    assert [call["is_error"] for call in json.loads(ran.stdout)["calls"]] == [False]
    assert [call["is_error"] for call in chat_json(state, *asked)["calls"]] == [False]  # it is pinned now


# ── what reaches a terminal ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_terminal_gets_nothing_that_controls_it_and_all_that_languages_need() -> None:
    harmless = "tab\tline\n10\u202fkm, a\xa0b, ❤\ufe0f, 👩\u200d🔬, नमस्ते"
    assert readable(harmless) == harmless
    unsafe = "\x1b]0;title\x07 \x9b31m \r \x08 \u202e \u2066 \x7f \U000e0041 \ud800"
    assert not set(readable(unsafe)) & set("\x1b\x07\x9b\r\x08\u202e\u2066\x7f\U000e0041\ud800")


# ── auto ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_auto_says_what_it_chose_and_why(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))

    async def answer(asked: Asked, wire: Wire) -> None:
        if asked.path == "/v1/models":
            await wire.answer(200, {"object": "list", "data": [{"id": "gpt-oss-20b", "object": "model"}]})
        elif asked.path == "/v1/completions":
            await wire.begin()
            await wire.event({"choices": [{"index": 0, "text": final("Hi!"), "finish_reason": "stop"}]}, b"[DONE]")
            await wire.end()
        else:
            await wire.answer(404, {})

    async def ask() -> tuple[int, str, str, str]:
        async with serving(answer) as server:
            monkeypatch.setattr(session, "discover", functools.partial(discover, ports=[server.port]))
            result = await asyncio.to_thread(CliRunner().invoke, main, ["chat", "Hello"])
            return result.exit_code, result.stdout, result.stderr, server.url

    code, out, err, url = asyncio.run(ask())
    assert (code, out) == (0, "Hi!\n")
    assert f"found completions:{url} (gpt-oss-20b): it speaks text only" in err


def test_a_server_that_wants_a_key_says_how_to_give_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.delenv("HARMONIA_API_KEY", raising=False)

    async def answer(_asked: Asked, wire: Wire) -> None:
        await wire.answer(401, {"error": "no key"})

    async def ask() -> tuple[int, str]:
        async with serving(answer) as server:
            result = await asyncio.to_thread(CliRunner().invoke, main, ["chat", "-m", server.url, "Hello"])
            return result.exit_code, result.stderr

    code, err = asyncio.run(ask())
    assert (code, "--api-key" in err) == (1, True)


@pytest.mark.parametrize(("kind", "engine"), [("demo", DemoEngine), ("replay", ReplayEngine)])
def test_the_settings_of_an_engine_are_those_that_it_takes(kind: str, engine: type) -> None:
    taken = set(inspect.signature(engine).parameters)
    known = find_kind(kind)
    assert known is not None
    assert set(known.options) == taken & {name for each in kinds() for name in each.options}


def test_auto_without_an_engine_is_exit_code_four(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setattr(session, "discover", functools.partial(discover, ports=[unused_port()]))
    result = CliRunner().invoke(main, ["chat", "Hello"])
    assert (result.exit_code, result.stdout) == (4, "")
    assert ErrorCode.ENGINE_NONE_FOUND in result.stderr


def test_help_does_not_load_what_only_a_chat_needs() -> None:
    code = (
        "import sys, harmonia.cli.chat; "
        "print([name for name in ('httpx2', 'jsonschema', 'mcp', 'prompt_toolkit', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_text_without_a_channel_is_hidden_with_a_reason_or_shown(state: Path) -> None:
    hidden = chat(state, "--no-save", "/demo missing-channel")
    assert (hidden.stdout, hidden.returncode) == ("", 1) and "hidden by default" in hidden.stderr
    shown = chat(state, "--no-save", "--guessed", "shown", "/demo missing-channel")
    assert shown.stdout.strip() and shown.returncode == 0
