"""The command: what goes to stdout, what to stderr, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import harmonia
from harmonia.cli import main
from harmonia.vocabulary.ranks import read_shipped, write_tiktoken_file
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "weather.json"
HELLO = '{"messages":[{"role":"user","content":"Hello"}]}'


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


def test_render_prints_the_prompt() -> None:
    result = run("render", "-", stdin=HELLO)
    assert result.stdout == "<|start|>user<|message|>Hello<|end|><|start|>assistant\n"
    assert (result.exit_code, result.stderr) == (0, "")


def test_render_reads_standard_input_by_default_and_files_by_name() -> None:
    assert run("render", stdin=HELLO).stdout == run("render", "-", stdin=HELLO).stdout
    conversation = harmonia.Conversation.from_json(EXAMPLE.read_text())
    assert run("render", str(EXAMPLE)).stdout == harmonia.render(conversation).text + "\n"


def test_render_prints_tokens_that_detokenize_to_the_text() -> None:
    tokens = run("render", str(EXAMPLE), "--output", "tokens").stdout
    assert run("detokenize", stdin=tokens).stdout + "\n" == run("render", str(EXAMPLE)).stdout


def test_render_sets_effort_and_date_and_adds_a_system_message_where_there_is_none() -> None:
    text = run("render", "--effort", "low", "--date", "2026-11-15", stdin=HELLO).stdout
    assert text.startswith("<|start|>system<|message|>You are ChatGPT")
    assert "\nCurrent date: 2026-11-15\n\nReasoning: low\n" in text
    assert "Reasoning: low" in run("render", str(EXAMPLE), "-r", "low").stdout


def test_render_cannot_set_the_effort_of_a_plain_text_system_message() -> None:
    result = run("render", "-r", "low", stdin='[{"role":"system","content":"plain"}]')
    assert result.exit_code == 2


def test_settings_find_the_system_content_wherever_it_stands() -> None:
    contents = [{"type": "system_content"}, {"type": "text", "text": "!"}]
    later = [{"role": "user", "content": "x"}, {"role": "system", "content": contents}]
    text = run("render", "-r", "low", stdin=json.dumps(later)).stdout
    assert text.count("<|start|>system") == 1 and "Reasoning: low" in text


@pytest.mark.parametrize("date", ["2025-99-99", "x y", "yesterday"])
def test_a_date_is_a_date(date: str) -> None:
    assert run("render", "--date", date, stdin=HELLO).exit_code == 2


def test_a_byte_order_mark_is_no_part_of_the_json() -> None:
    assert run("render", stdin="\ufeff" + HELLO).exit_code == 0


def test_render_today_is_a_date() -> None:
    assert "Current date: 20" in run("render", "--date", "today", stdin=HELLO).stdout


def test_render_json_has_tokens_text_spans_and_the_mask() -> None:
    conversation = '[{"role":"user","content":"2+2?"},{"role":"assistant","channel":"final","content":"4"}]'
    value = json.loads(run("render", "--training", "--json", stdin=conversation).stdout)
    assert value["text"].endswith("<|channel|>final<|message|>4<|return|>")
    assert harmonia.decode(value["tokens"]) == value["text"]
    assert len(value["mask"]) == len(value["tokens"])
    assert [span["message"] for span in value["spans"]] == [0, 1]


def test_render_refuses_ambiguous_text_and_gives_a_hint() -> None:
    spelled = '[{"role":"user","content":"a <|end|> b"}]'
    result = run("render", stdin=spelled)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "[render.ambiguous_text]" in result.stderr and "\nhint: " in result.stderr
    assert "a <\\|end|> b" in run("render", "--escape", stdin=spelled).stdout
    value = json.loads(run("render", "--json", stdin=spelled).stdout)
    assert value["text"] is None and value["text_error"]["code"] == "render.ambiguous_text"
    assert "<\\|end|>" in json.loads(run("render", "--json", "--escape", stdin=spelled).stdout)["text"]


def test_render_json_says_what_schemas_lost() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "not": True}}
    content = {"type": "developer_content", "tools": {"functions": {"name": "functions", "tools": [tool]}}}
    stdin = json.dumps([{"role": "developer", "content": [content]}])
    (loss,) = json.loads(run("render", "--json", stdin=stdin).stdout)["losses"]
    assert loss["keyword"] == "not" and loss["path"].startswith("$.messages[0].content[0].tools.functions")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--next-role", "none"], "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>\n"),
        (
            ["--next-role", "none", "--recipient-section", "channel", "--call-stop", "end"],
            "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|end|>\n",
        ),
        (
            ["--next-role", "tool", "--exact-reference"],
            "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|><|start|>tool\n",
        ),
    ],
)
def test_render_has_the_librarys_options(options: list[str], expected: str) -> None:
    call = '[{"role":"assistant","channel":"commentary","recipient":"functions.f","content":"{}"}]'
    assert run("render", *options, stdin=call).stdout == expected


@pytest.mark.parametrize(
    ("stdin", "code"),
    [
        ("{", "messages.invalid_json"),
        ('{"messages":[{"role":"usr","content":""}]}', "messages.invalid_value"),
        (b"\xff", "vocabulary.invalid_utf8"),
        ('[{"role":"user","channel":"a b","content":""}]', "render.unsafe_header"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(stdin: str | bytes, code: str) -> None:
    result = run("render", stdin=stdin)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ") and f"[{code}]\n" in result.stderr
    assert "Traceback" not in result.stderr


def test_tokenize_takes_special_tokens_only_when_told() -> None:
    assert run("tokenize", "-t", "<|end|>").stdout == " ".join(map(str, harmonia.encode("<|end|>"))) + "\n"
    assert run("tokenize", "--special", "-t", "<|end|>").stdout == "200007\n"


def test_tokenize_counts_and_describes() -> None:
    assert run("tokenize", "--count", stdin="Hello there\n").stdout == "3\n"
    parrot = json.loads(run("tokenize", "--json", "-t", "🦜").stdout)
    assert bytes.fromhex("".join(token["bytes"] for token in parrot)).decode() == "🦜"
    assert json.loads(run("tokenize", "--special", "--json", "-t", "<|call|>").stdout) == [
        {"id": 200012, "bytes": "3c7c63616c6c7c3e", "text": "<|call|>", "special": True}
    ]


@pytest.mark.parametrize("written", ["13225 1354", "[13225, 1354]", "[13225,1354]\n", "13225,1354", "\n13225\n1354\n"])
def test_detokenize_reads_lists_however_they_are_written(written: str) -> None:
    assert run("detokenize", stdin=written).stdout == "Hello there"
    assert run("detokenize", "-i", written).stdout == "Hello there"


def test_detokenize_writes_the_bytes_as_they_are_unless_told_to_be_strict() -> None:
    half = str(harmonia.encode("🦜")[0])
    assert run("detokenize", stdin=half).stdout_bytes == "🦜".encode()[:2]
    strict = run("detokenize", "--strict", stdin=half)
    assert strict.exit_code == 1 and "[vocabulary.invalid_utf8]" in strict.stderr


def test_detokenize_prints_json() -> None:
    assert json.loads(run("detokenize", "--json", "-i", "13225").stdout) == {"text": "Hello", "bytes": b"Hello".hex()}


@pytest.mark.parametrize("arguments", [("tokenize", "-t", "x"), ("detokenize", "-i", "1")])
def test_a_file_and_an_option_in_its_place_are_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, str(EXAMPLE)).exit_code == 2


def test_two_kinds_of_answer_are_wrong_usage() -> None:
    assert run("tokenize", "--count", "--json", "-t", "x").exit_code == 2


@pytest.mark.parametrize(
    "written", ["hello", "1 2 x", "[1, [2]]", "-1", "99999999", "1.5", "[1, 2", "1 - 2", "9" * 5000, "١"]
)
def test_detokenize_refuses_what_is_no_list_of_tokens(written: str) -> None:
    result = run("detokenize", "-i", written)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "[vocabulary.unknown_token]" in result.stderr


def test_a_vocabulary_file_of_the_users_is_used_or_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.tiktoken", tmp_path / "bad.tiktoken"
    write_tiktoken_file(read_shipped(), good)
    bad.write_text("IQ== 0\n")
    assert run("tokenize", "--vocabulary", str(good), "-t", "Hello there").stdout == "13225 1354\n"
    result = run("tokenize", "--vocabulary", str(bad), "-t", "x")
    assert result.exit_code == 1 and "[vocabulary.wrong_file]" in result.stderr
    assert run("tokenize", "--vocabulary", str(tmp_path / "none"), "-t", "x").exit_code == 2


def test_the_module_is_the_command_too() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "harmonia", "tokenize", "-t", "Hello there"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "13225 1354\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_what_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "harmonia", "tokenize", "-t", "x"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: ") and "Traceback" not in ran.stderr


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_options: object) -> list[int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(harmonia.Vocabulary, "encode", interrupted)
    result = run("tokenize", "-t", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_help_lists_every_verb_and_an_unknown_one_is_wrong_usage() -> None:
    help_text = run("--help").stdout
    assert all(verb in help_text for verb in ("render", "tokenize", "detokenize"))
    assert run("dance").exit_code == 2
    assert run("--version").stdout.startswith("harmonia ")
