"""`harmonia parse --model` and `harmonia inspect --model`: the answers of models that do not speak Harmony."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harmonia.cli import main

ANSWER = (
    '<think>\nHm.\n</think>\n\nSure.\n<tool_call>\n{"name": "get_time", "arguments": {"zone": "UTC"}}\n</tool_call>'
)
HARMONY = "<|channel|>final<|message|>Four.<|return|>"
BROKEN = '<tool_call>{"name": "f", "arguments": {}}'
OWN = '[[profile]]\nname = "mine"\npattern = "my-model"\nfamily = "mine"\nformat = "text"\ntemplate = "plain"\n'


@pytest.fixture(autouse=True)
def no_profiles_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(verb: str, *arguments: str, stdin: str | bytes = ANSWER) -> Result:
    return CliRunner().invoke(main, [verb, *arguments], input=stdin)


def parts(*arguments: str, stdin: str = ANSWER) -> list[dict[str, Any]]:
    result = run("parse", "-o", "parts", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_profile_of_the_model_says_how_its_answer_is_read() -> None:
    found = parts("--model", "Qwen/Qwen3-8B")
    assert [part["type"] for part in found] == ["think", "text", "tool_call"]
    assert (found[2]["name"], found[2]["arguments"], found[2]["status"]) == ("get_time", {"zone": "UTC"}, "unverified")
    assert "profile" in run("parse", "--model", "Qwen/Qwen3-8B").stderr
    assert run("parse", "--quiet", "--model", "Qwen/Qwen3-8B").stderr == ""


def test_all_outputs_work() -> None:
    model = ("--model", "qwen3:8b")
    messages = json.loads(run("parse", *model).stdout)
    assert [message["channel"] for message in messages["messages"]] == ["analysis", "final", "commentary"]
    normal = json.loads(run("parse", *model, "-o", "normalized").stdout)
    assert normal[2]["args"] == {"zone": "UTC"}
    events = [json.loads(line) for line in run("parse", *model, "-o", "events").stdout.splitlines()]
    assert events[-1]["type"] == "turn_ended" and events[0]["type"] == "message_started"


def test_a_model_that_speaks_harmony_is_read_as_ever() -> None:
    asked = ("--role", "assistant", "-o", "normalized")
    assert (
        run("parse", *asked, "--model", "gpt-oss-20b", stdin=HARMONY).stdout
        == run("parse", *asked, stdin=HARMONY).stdout
    )


def test_strict_and_check_are_about_the_faults_of_the_family() -> None:
    result = run("parse", "--model", "qwen3", "--strict", stdin=BROKEN)
    assert result.exit_code == 3 and json.loads(result.stdout)["error"] == "family.unclosed"
    assert run("parse", "--model", "qwen3", "--check", stdin=BROKEN).exit_code == 3
    assert run("parse", "--model", "qwen3", "--check").exit_code == 0
    (diagnostic,) = json.loads(run("parse", "--model", "qwen3", stdin=BROKEN).stdout)["diagnostics"]
    assert diagnostic["repair"] and diagnostic["at"]["character"] == len(BROKEN)


def test_a_saved_stream_is_read_chunk_by_chunk() -> None:
    stream = "".join(
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': ANSWER[at : at + 5]}}]})}\n\n"
        for at in range(0, len(ANSWER), 5)
    )
    assert parts("--model", "qwen3", stdin=f"{stream}data: [DONE]\n\n") == parts("--model", "qwen3")


@pytest.mark.parametrize(
    "text", ["[1, 2, 3]", "12 13", '{"tokens": [1]}', '"a string"', "analysisWe think.assistantfinalHi"]
)
def test_what_looks_like_something_else_is_still_what_the_model_wrote(text: str) -> None:
    assert [part["text"] for part in parts("--model", "unheard-of", stdin=text)] == [text]


def test_tools_from_a_file_give_arguments_their_names_and_types(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    file.write_text(json.dumps([{"type": "function", "function": {"name": "get_time", "parameters": schema}}]))
    (part,) = parts("--model", "unheard-of", "--tools", str(file), stdin="Action: get_time\nAction Input: 5")
    assert (part["arguments"], part["kind"]) == ({"zone": "5"}, "declared")


def test_a_thought_may_have_been_opened_by_the_prompt_or_not() -> None:
    opened = parts("--model", "qwen3", "--thought-opened", stdin="Hm.</think>Four.")
    assert [(part["type"], part["text"]) for part in opened] == [("think", "Hm."), ("text", "Four.")]
    assert [part["type"] for part in parts("--model", "qwen3", "--no-thought-opened", stdin="Four.")] == ["text"]


def test_profiles_of_ones_own_come_first(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    given = ("--model", "my-model-hermes")
    assert [part["type"] for part in parts(*given, stdin="Thought: hm")] == ["text"]
    assert [part["type"] for part in parts(*given, "--profiles", str(file), stdin="Thought: hm")] == ["think"]
    assert run("parse", *given, "--profiles", str(tmp_path / "none.toml")).exit_code != 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--profiles", "x.toml"),
        ("--thought-opened",),
        ("--model", "qwen3", "--as", "tokens"),
        ("--model", "qwen3", "--as", "stripped"),
        ("--model", "qwen3", "--role", "user"),
        ("--model", "qwen3", "--stop-swallowed"),
        ("--model", ""),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    for verb in ("parse", "inspect"):
        result = run(verb, *arguments)
        assert result.exit_code == 2 and "Error:" in result.stderr, result.output


def test_inspect_shows_the_messages_and_what_is_wrong() -> None:
    result = run("inspect", "--model", "qwen3", "--width", "100")
    assert result.exit_code == 0 and "to functions.get_time" in result.stdout and "<|call|>" not in result.stdout
    broken = run("inspect", "--model", "qwen3", "--check", stdin=BROKEN)
    assert broken.exit_code == 3 and "family.unclosed" in broken.stdout and "docs/reference/errors.md" in broken.stdout
    described = json.loads(run("inspect", "--model", "qwen3", "--json", stdin=BROKEN).stdout)
    assert described["diagnostics"][0]["code"] == "family.unclosed"


def test_no_token_ids_of_gpt_oss_are_shown_for_other_models() -> None:
    result = run("inspect", "--model", "qwen3", "--ids")
    assert result.exit_code == 2 and "--ids" in result.stderr


def test_a_closing_mark_that_none_opened_shows_no_reasoning() -> None:
    text = "reasoning here</think>Hi"
    assert parts("--model", "qwen3", stdin=text) == [
        {"type": "think", "text": "reasoning here"},
        {"type": "text", "text": "Hi"},
    ]
    shown = run("inspect", "--model", "qwen3", stdin=text).stdout
    assert "hidden · guessed" in shown and "family.stray_mark" in shown


def test_the_json_names_the_profile() -> None:
    assert json.loads(run("parse", "--model", "qwen3").stdout)["profile"] == "qwen3"
    assert json.loads(run("inspect", "--model", "qwen3", "--json").stdout)["profile"] == "qwen3"
    assert "profile" not in json.loads(run("parse", "--role", "assistant", stdin=HARMONY).stdout)


@pytest.mark.parametrize("verb", ["parse", "inspect"])
def test_what_another_model_wrote_is_told_from_harmony(verb: str) -> None:
    assert "--model NAME" in run(verb).stderr
    assert "--model NAME" not in run(verb, "--model", "qwen3").stderr
    assert "--model NAME" not in run(verb, "--role", "assistant", stdin=f"<tool_call>{HARMONY}").stderr
    assert "--model NAME" not in run(verb, "--role", "assistant", stdin=HARMONY).stderr


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}}]}, ""),
        ({"choices": [{"index": 0, "text": "Hi", "token_ids": [1, 2]}]}, "vocabulary"),
    ],
)
def test_a_stream_that_has_no_text_to_read_is_read_as_text_with_a_note(stream: dict[str, Any], words: str) -> None:
    result = run("parse", "--model", "qwen3", stdin=f"data: {json.dumps(stream)}\n\ndata: [DONE]\n\n")
    assert "note: this looks like a saved stream" in result.stderr and words in result.stderr
    (note,) = json.loads(result.stdout)["notes"]
    assert "read as text" in note


def test_a_model_that_no_profile_fits_is_told_of() -> None:
    assert "no profile matches nosuchmodel" in run("parse", "--model", "nosuchmodel", stdin="Hi").stderr
    assert "no profile fits" not in run("parse", "--model", "openai", stdin="Hi").stderr
    assert run("parse", "-q", "--model", "nosuchmodel", stdin="Hi").stderr == ""


def test_an_opened_thought_is_nothing_that_harmony_has() -> None:
    result = run("parse", "--model", "gpt-oss", "--thought-opened", stdin=HARMONY)
    assert result.exit_code == 2 and "--thought-opened" in result.stderr


def test_calls_of_llama_4_are_read_between_its_marks() -> None:
    (call,) = parts("--model", "llama4", stdin="<|python_start|>[f(x=1)]<|python_end|><|eot|>")
    assert (call["name"], call["arguments"]) == ("f", {"x": 1})
