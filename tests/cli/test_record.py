"""`harmonia record`: what it captures, what it prints, and that other verbs read the capture."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonia.cli import main
from harmonia.cli.record import Printer
from harmonia.interchange import format_named
from harmonia.messages import Conversation, Message, ReasoningEffort, ResponseFormat, ToolDescription
from harmonia.renderer import render
from harmonia.run.engines import Chunk
from harmonia.run.engines.recording import read_capture

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANSWER = "I am Harmonia's demo engine, not a language model. You said: Hi\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "capture.jsonl"


def record(path: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["record", "-o", str(path), "-m", "demo", *arguments], input=stdin)


def test_the_answer_goes_to_stdout_and_the_summary_to_stderr(path: Path) -> None:
    result = record(path, "Hi")
    assert (result.exit_code, result.stdout) == (0, ANSWER)
    assert result.stderr.startswith("recorded demo (demo): ")


@pytest.mark.parametrize("exists", [False, True])
def test_only_its_owner_can_read_a_capture(path: Path, exists: bool) -> None:
    before = os.umask(0)
    try:
        if exists:
            path.write_text("older")
        record(path, "Hi")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_capture(path).runs) == 1


def test_the_capture_has_the_prompt_and_the_request(path: Path) -> None:
    options = ("--max-tokens", "9", "--temperature", "0.5", "--seed", "3", "--logprobs", "2", "--effort", "high")
    record(path, "Hi", "--model", "gpt-oss-20b", "--tool-choice", "none", *options)
    capture = read_capture(path)
    (run,) = capture.runs
    assert capture.model == "gpt-oss-20b"
    sampling = run.request.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.seed, sampling.logprobs) == (9, 0.5, 3, 2)
    assert (run.request.tool_choice, run.request.reasoning_effort) == ("none", ReasoningEffort.HIGH)
    assert sum(len(timed.chunk.logprobs) for timed in run.chunks) == 9


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_conversation_is_rendered_and_its_tools_are_offered(path: Path, tmp_path: Path, way: str) -> None:
    tool = ToolDescription("get_weather", parameters=SCHEMA)
    conversation = Conversation(
        [Message.system(), Message.developer(functions=[tool]), Message.user("Weather in Rome")]
    )
    file = tmp_path / "conversation.json"
    file.write_text(conversation.to_json())
    if way == "file":
        result = record(path, str(file), "--raw")
    else:
        result = record(path, "-", "--raw", stdin=conversation.to_json())
    assert result.stdout.endswith('to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>\n')
    assert read_capture(path).runs[0].prompt == render(conversation).tokens
    assert read_capture(path).runs[0].request.reasoning_effort is ReasoningEffort.MEDIUM


def test_a_response_format_of_the_conversation_is_part_of_the_request(path: Path) -> None:
    form = ResponseFormat("place", SCHEMA)
    conversation = Conversation([Message.developer(response_formats=[form]), Message.user("Rome")])
    result = record(path, "-", stdin=conversation.to_json())
    assert read_capture(path).runs[0].request.response_format == form
    assert "city" in json.loads(result.stdout)


TOOL: dict[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
ITEMS = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}]


def test_a_body_of_chat_completions_is_read_with_its_tools(path: Path) -> None:
    body = {"model": "gpt-oss-20b", "messages": ITEMS, "tools": [TOOL]}
    result = record(path, "-", stdin=json.dumps(body))
    tool = ToolDescription("get_weather", parameters=SCHEMA)
    expected = [Message.system(), Message.developer("Be kind.", functions=[tool]), Message.user("Hi")]
    assert (result.exit_code, result.stdout) == (0, ANSWER)
    assert result.stderr.startswith("detected format: chat\nnote: dropped model")
    run = read_capture(path).runs[0]
    assert run.prompt == render(expected).tokens
    assert [tool.name for tool in run.request.tools] == ["functions.get_weather"]


def test_the_effort_of_a_body_and_of_the_command_both_count(path: Path) -> None:
    record(path, "-", stdin=json.dumps({"model": "m", "input": ITEMS, "reasoning": {"effort": "low"}}))
    assert read_capture(path).runs[0].request.reasoning_effort is ReasoningEffort.LOW
    record(path, "-", "-r", "high", stdin=json.dumps({"model": "m", "input": ITEMS}))
    assert read_capture(path).runs[0].request.reasoning_effort is ReasoningEffort.HIGH


@pytest.mark.parametrize("form", ["harmony", "tokens", "markdown", "harmony-json"])
def test_what_convert_writes_is_read(path: Path, form: str) -> None:
    conversation = Conversation([Message.system(), Message.user("Hi")])
    result = record(path, "-", stdin=format_named(form).write(conversation).text)
    assert (result.exit_code, result.stdout) == (0, ANSWER)
    assert result.stderr.startswith(f"detected format: {form}\n")
    assert read_capture(path).runs[0].prompt == render(conversation).tokens


def test_a_rendered_prompt_is_captured_as_it_is(path: Path) -> None:
    prompt = render([Message.system(), Message.user("Hi")])
    result = record(path, "-", stdin=prompt.text + "\n")
    assert "note: " not in result.stderr
    assert read_capture(path).runs[0].prompt == prompt.tokens


@pytest.mark.parametrize("text", ["42", "What is <|end|> for?", "# Title\n\n## user\n\nIs this good?", "1, 2, 3"])
def test_a_text_that_only_looks_like_a_format_stays_a_text(path: Path, text: str) -> None:
    record(path, "-", stdin=text)
    assert read_capture(path).runs[0].prompt == render([Message.system(), Message.user(text)]).tokens


@pytest.mark.parametrize("text", ["{}", "[[]", '{"city": "Rome"}'])
def test_json_that_is_no_conversation_is_an_error(path: Path, text: str) -> None:
    assert record(path, "-", stdin=text).exit_code == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (("Hi",), ""),
        (("it's $HOME",), ""),
        (("Hi", "-r", "high"), ""),
        (("-",), "Hi\n"),
        (("x" * 500,), ""),
        (("-", "-r", "low"), json.dumps({"model": "m", "messages": ITEMS, "tools": [TOOL]})),
    ],
)
def test_the_hint_replays_the_capture(tmp_path: Path, arguments: tuple[str, ...], stdin: str) -> None:
    path = tmp_path / "a capture.jsonl"
    result = record(path, *arguments, stdin=stdin)
    hint = result.stderr.splitlines()[-1].removeprefix("hint: harmonia ").partition(" replays it")[0]
    words = shlex.split(hint)
    said = ["anything"] if "strict" in words else []
    replayed = CliRunner().invoke(main, [*words, *said])
    assert (replayed.exit_code, replayed.stdout) == (0, result.stdout), replayed.stderr


@pytest.mark.parametrize("text", ["Hello", "Hello\n"])
def test_an_answer_ends_with_one_line_break(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer("visible")
    printer.feed(Chunk(text=f"<|channel|>final<|message|>{text}<|return|>"))
    printer.close()
    assert capsys.readouterr().out == "Hello\n"


def test_standard_input_may_be_a_text(path: Path) -> None:
    assert record(path, stdin="Hi\n").stdout == ANSWER


def test_the_summary_as_json(path: Path) -> None:
    summary = json.loads(record(path, "Hi", "--json").stdout)
    assert summary["file"] == str(path) and summary["reason"] == "stop"
    assert summary["sampled_tokens"] == summary["chunks"] == len(read_capture(path).runs[0].chunks)


def test_reasoning_is_not_printed(path: Path) -> None:
    assert record(path, "/demo only-reasoning").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("Hi", "--raw", "--json"), 2),
        (("no-such-file.json",), 2),
        (("",), 2),
        (("-",), 2),
        (("Hi", "--tool-choice", "required"), 1),
        (("Hi", "-m", "no such engine"), 1),
        (("/demo engine-error",), 1),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(path: Path, arguments: tuple[str, ...], code: int) -> None:
    assert record(path, *arguments).exit_code == code


def test_a_conversation_that_sets_its_own_effort_keeps_it(path: Path) -> None:
    assert record(path, "-", "-r", "low", stdin=Conversation([Message.system()]).to_json()).exit_code == 2
    record(path, "-", "-r", "low", stdin=Conversation([Message.user("Hi")]).to_json())
    assert read_capture(path).runs[0].request.reasoning_effort is ReasoningEffort.LOW


def test_what_came_before_an_error_is_printed_and_kept(path: Path) -> None:
    result = record(path, "/demo engine-error")
    assert result.stdout == "The engine dies in the\n"
    run = read_capture(path).runs[0]
    assert run.chunks and isinstance(run.end, Exception)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    assert record(tmp_path / "no" / "folder", "Hi").exit_code == 1


def test_a_capture_does_not_go_to_stdout_where_the_answer_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert record(Path("-"), "Hi").exit_code == 2
    assert not any(tmp_path.iterdir())


def test_a_capture_can_be_recorded_again(path: Path, tmp_path: Path) -> None:
    record(path, "Hi")
    again = tmp_path / "again.jsonl"
    assert record(again, "Hi", "-m", f"replay:{path}").stdout == ANSWER
    first, second = read_capture(path).runs[0], read_capture(again).runs[0]
    assert [timed.chunk for timed in first.chunks] == [timed.chunk for timed in second.chunks]
    assert first.end == second.end


def test_a_key_is_no_part_of_the_capture(path: Path) -> None:
    # The demo engine takes no key, so a server that is not there has to do: nothing may be written at all.
    result = record(path, "Hi", "-m", "vllm:http://127.0.0.1:9", "--model", "x", "--api-key", "very-secret")
    assert result.exit_code != 0 and "very-secret" not in result.output
    assert not path.exists() or b"very-secret" not in path.read_bytes()


def test_parse_and_inspect_read_a_capture(path: Path) -> None:
    record(path, "Hi")
    parsed = json.loads(CliRunner().invoke(main, ["parse", "--role", "assistant", str(path)]).stdout)
    assert [message["channel"] for message in parsed["messages"]] == ["analysis", "final"]
    inspected = CliRunner().invoke(main, ["inspect", "--check", "--role", "assistant", str(path)])
    assert inspected.exit_code == 0 and inspected.stdout.startswith("dump: 2 messages")


def test_of_several_runs_parse_reads_the_first_and_says_so(path: Path) -> None:
    record(path, "Hi")
    first = path.read_text()
    more = [line.replace('"run":0', '"run":1') for line in first.splitlines()[1:]]
    path.write_text(first + "\n".join(more) + "\n")
    parsed = json.loads(CliRunner().invoke(main, ["parse", "--role", "assistant", str(path)]).stdout)
    assert len(parsed["messages"]) == 2 and len(parsed["notes"]) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_keeps_what_came(path: Path) -> None:
    command = [sys.executable, "-m", "harmonia", "record", "-o", str(path), "-m", "demo", "--raw", "/demo endless"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    run = read_capture(path).runs[0]
    assert run.chunks and run.end == "cancelled"
