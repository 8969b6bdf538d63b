"""`harmonia convert`: data to stdout, losses to stderr, JSON lines one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harmonia import Conversation
from harmonia.cli import main
from harmonia.interchange import FORMATS, to_chat_body, write_markdown
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "weather.json"
CONVERSATION = Conversation.from_json(EXAMPLE.read_text())
CHAT = '{"messages":[{"role":"user","content":"Hi"}]}'


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["convert", *arguments], input=stdin)


def test_it_writes_what_the_library_writes_and_says_what_is_lost() -> None:
    result = run(str(EXAMPLE), "--to", "chat")
    exported = to_chat_body(CONVERSATION)
    assert json.loads(result.stdout) == exported.value
    assert result.stderr.splitlines() == [
        "detected format: harmony-json",
        *(f"note: {loss}" for loss in exported.losses),
    ]
    assert (result.exit_code, len(exported.losses)) == (0, 1)
    assert run(str(EXAMPLE), "--to", "chat", "-q").stderr == ""


@pytest.mark.parametrize("name", FORMATS)
def test_what_it_writes_it_reads(name: str) -> None:
    written = run(str(EXAMPLE), "-t", name, "-q").stdout
    back = run("-f", name, "-t", "harmony-json", "-q", stdin=written)
    assert json.loads(back.stdout) == json.loads(
        FORMATS["harmony-json"].write(FORMATS[name].read(written).conversation).text
    )
    assert run("-t", name, "-q", stdin=back.stdout).stdout == written


def test_markdown_comes_back_whole() -> None:
    text = run(str(EXAMPLE), "-t", "markdown").stdout
    assert text == write_markdown(CONVERSATION).text
    assert Conversation.from_json(run("-t", "harmony-json", stdin=text).stdout) == CONVERSATION


def test_json_has_the_output_and_the_losses() -> None:
    value = json.loads(run(str(EXAMPLE), "-t", "markdown", "--json").stdout)
    assert value == {"output": write_markdown(CONVERSATION).text, "losses": []}
    (loss,) = json.loads(run(str(EXAMPLE), "-t", "chat", "--json").stdout)["losses"]
    assert (loss["message"], loss["what"]) == (0, "conversation_start_date")


def test_strict_writes_nothing_where_something_is_lost(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("before")
    result = run(str(EXAMPLE), "-t", "chat", "--strict", "-q", "-o", str(target))
    assert (result.exit_code, result.stdout, target.read_text()) == (1, "", "before")
    assert "note: $.messages[0].content.conversation_start_date" in result.stderr
    described = json.loads(run(str(EXAMPLE), "-t", "chat", "--strict", "--json").stdout)
    assert described["output"] is None and len(described["losses"]) == 1
    assert run(str(EXAMPLE), "-t", "markdown", "--strict").exit_code == 0


def test_output_goes_to_a_file_which_may_be_the_input(tmp_path: Path) -> None:
    target = tmp_path / "conversation"
    target.write_text(CHAT)
    result = run(str(target), "-t", "markdown", "-o", str(target))
    assert (result.stdout, target.read_text()) == ("", "## user\n\nHi\n")


def test_a_system_message_may_stay_one() -> None:
    system = '[{"role":"system","content":"Be kind."}]'
    assert run("-t", "harmony", stdin=system).stdout.startswith("<|start|>developer<|message|># Instructions")
    kept = run("-t", "harmony", "--system", "system", stdin=system).stdout
    assert kept == "<|start|>system<|message|>Be kind.<|end|>\n"


def test_ids_of_calls_go_from_one_api_to_the_other() -> None:
    call = {"id": "abc", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = run("-t", "responses", stdin=json.dumps([{"role": "assistant", "content": None, "tool_calls": [call]}]))
    assert json.loads(result.stdout)["input"][0]["call_id"] == "abc"
    assert "note" not in result.stderr


def test_lines_are_converted_one_by_one_with_their_number() -> None:
    lines = f'{CHAT}\n\n{{"messages":[{{"role":"system","content":[{{"type":"image"}}]}}]}}\n'
    result = run("-t", "harmony", stdin=lines)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        "<|start|>user<|message|>Hi<|end|>",
        "<|start|>developer<|message|># Instructions\n\n[image]<|end|>",
    ]
    assert result.stderr.splitlines()[0] == "detected format: chat"
    assert result.stderr.splitlines()[1].startswith("note: line 3: $.messages[0].content[0]: ")
    assert run("-t", "chat", "-q", stdin=run("-t", "harmony", "-q", stdin=f"{CHAT}\n{CHAT}").stdout).stdout == (
        f"{CHAT}\n{CHAT}\n"
    )


def test_an_error_in_a_line_names_it_and_keeps_the_lines_before() -> None:
    result = run("-t", "chat", stdin=f'{CHAT}\n{CHAT}\n{{"messages":[{{"role":"tool","tool_call_id":"x"}}]}}\n')
    assert (result.exit_code, result.stdout) == (1, f"{CHAT}\n{CHAT}\n")
    assert "error: line 3: " in result.stderr and "interchange.unknown_call" in result.stderr


def test_lines_cannot_be_written_over_themselves(tmp_path: Path) -> None:
    target = tmp_path / "lines.jsonl"
    target.write_text(f"{CHAT}\n{CHAT}\n")
    assert run(str(target), "-t", "chat", "-o", str(target)).exit_code == 2
    assert target.read_text() == f"{CHAT}\n{CHAT}\n"


def test_json_over_several_lines_is_one_conversation() -> None:
    pretty = json.dumps(json.loads(CHAT), indent=2)
    assert run("-t", "chat", "-q", stdin="\ufeff" + pretty + "\n\n").stdout == CHAT + "\n"


def test_what_it_cannot_read_is_an_error() -> None:
    assert run("-t", "chat", stdin="Hello").exit_code == 1
    assert run("-t", "chat", stdin=b"\xff").exit_code == 1
    assert run("-t", "yaml", stdin=CHAT).exit_code == 2
    assert run(stdin=CHAT).exit_code == 2
    ambiguous = run("-t", "harmony", stdin='[{"role":"user","content":"<|end|>"}]')
    assert (ambiguous.exit_code, ambiguous.stdout) == (1, "")


def test_the_hint_for_a_text_that_spells_a_token_is_one_that_this_verb_can_follow() -> None:
    typed = '{"messages":[{"role":"user","content":"<|end|>"}]}'
    for given in (typed, f"{typed}\n{typed}"):
        result = run("-t", "harmony", stdin=given)
        assert result.exit_code == 1 and "hint: use --to tokens" in result.stderr
    assert run("-t", "tokens", stdin=typed).exit_code == 0
