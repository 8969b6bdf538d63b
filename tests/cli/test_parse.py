"""`harmonia parse`: what the input is taken for, what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import harmonia
from harmonia.cli import main
from harmonia.inspection.inputs import As, recognise

TEXT = "<|channel|>analysis<|message|>Sum: 4<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>"
TOKENS = harmonia.encode(TEXT, special="all")
CALL = '<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"a": 1}<|call|>'
CUT = "<|channel|>final<|message|>Fo"
STRIPPED = "analysisWe need a number.assistantfinalFour."
PIECES = ["<|chan", "nel|>final<|mess", "age|>Four.", "<|return|>"]


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["parse", *arguments], input=stdin)


def parsed(*arguments: str, stdin: str | bytes) -> dict[str, Any]:
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout.count("\n")) == (0, 1), result.output
    return json.loads(result.stdout)


def contents(value: dict[str, Any]) -> list[tuple[str | None, str]]:
    return [(message["channel"], message["content"]) for message in value["messages"]]


def sse(*objects: object) -> str:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in objects) + "data: [DONE]\n\n"


# ── what the input is ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(TOKENS),
        " ".join(map(str, TOKENS)),
        ",".join(map(str, TOKENS)),
        "\n".join(map(str, TOKENS)) + "\n",
        ", ".join(map(str, TOKENS)) + ",",
        json.dumps({"tokens": TOKENS}),
        json.dumps({"token_ids": TOKENS, "model": "gpt-oss-20b"}, indent=1),
        "\ufeff" + json.dumps(TOKENS),
    ],
)
def test_token_ids_are_recognised_however_they_are_written(written: str) -> None:
    result = run("--role", "assistant", stdin=written)
    assert result.stderr == f"detected input: token ids ({len(TOKENS)})\n"
    value = json.loads(result.stdout)
    assert value["input"] == "tokens"
    assert contents(value) == [("analysis", "Sum: 4"), ("final", "Four.")]
    assert value["messages"][0]["source"] == "tokens"


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (TEXT, "text"),
        ("", "text"),
        (" \n", "text"),
        ("[]", "tokens"),
        ("-1 99999999", "tokens"),
        ("9" * 40, "text"),
        ("1.5", "text"),
        ("1 - 2", "text"),
        ("[1, [2]]", "text"),
        ('{"status":"ok"}', "text"),
        ('{"response":"ok"}', "text"),
        ('{"tokens":["a"]}', "text"),
        ("Note: data: nothing", "text"),
        ("data: nothing", "text"),
        (STRIPPED, "stripped"),
        (f"{STRIPPED} <|end|>", "text"),
        ("The final word on the analysis.", "text"),
        (sse({"choices": [{"delta": {"content": "a"}}]}), "sse"),
        (f"{TEXT}\ndata: {{}}\n", "text"),
    ],
)
def test_each_kind_is_recognised(written: str, kind: str) -> None:
    assert recognise(written.encode()).kind == kind


@pytest.mark.parametrize("as_", ["text", "tokens", "stripped", "sse"])
def test_what_the_input_is_can_be_told(as_: As) -> None:
    data = {"text": "12", "tokens": "12", "stripped": "hello", "sse": sse({"choices": [{"text": "a"}]})}[as_]
    result = run("--as", as_, stdin=data)
    assert json.loads(result.stdout)["input"] == as_
    assert "took the input" not in result.stderr


@pytest.mark.parametrize("written", ["hello", "1 2 x", "1.5", '{"tokens":["x"]}'])
def test_what_is_no_list_of_ids_cannot_be_taken_for_one(written: str) -> None:
    result = run("--as", "tokens", stdin=written)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "[parse.invalid_input]" in result.stderr and "--as text" in result.stderr


def test_quiet_says_nothing() -> None:
    assert run("-q", stdin=TEXT).stderr == ""


def test_a_completion_without_its_role_is_told_about_it() -> None:
    assert "hint: the input begins inside a header" in run(stdin=TEXT).stderr
    assert "hint" not in run("--role", "assistant", stdin=TEXT).stderr


def test_byte_order_marks_are_no_part_of_the_text() -> None:
    plain = parsed("--role", "assistant", stdin=TEXT)
    assert parsed("--role", "assistant", stdin="\ufeff" + TEXT) == plain
    assert parsed("--role", "assistant", stdin=TEXT.encode("utf-16")) == plain


@pytest.mark.parametrize("written", [json.dumps(TEXT), f" {json.dumps(TEXT)}\n"])
def test_a_json_string_is_the_text_that_it_stands_for(written: str) -> None:
    result = run("--role", "assistant", stdin=written)
    assert result.stderr == "detected input: the text of a JSON string\n"
    assert json.loads(result.stdout)["diagnostics"] == []
    assert contents(json.loads(result.stdout)) == [("analysis", "Sum: 4"), ("final", "Four.")]
    assert recognise(json.dumps(STRIPPED).encode()).kind == "stripped"
    assert contents(parsed("--as", "text", stdin='"a"')) == [(None, '"a"')]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps([TOKENS[:3], [], TOKENS[3:]]),
        json.dumps([TOKENS]),
        "".join(f"{json.dumps(part)}\n" for part in (TOKENS[:3], TOKENS[3:])),
    ],
)
def test_lists_of_ids_in_a_list_are_one(written: str) -> None:
    for options in ((), ("--as", "tokens")):
        value = parsed("--role", "assistant", *options, stdin=written)
        assert (value["input"], value["notes"], len(value["messages"])) == ("tokens", [], 2)
    assert f"token ids ({len(TOKENS)} in " in run(stdin=written).stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"output": "<|channel|>final<|message|>Four.<|return|>"}', "the input is JSON without a known field"),
        ('{"a": 1}\n{"a": 2}\n', "the input is JSON without a known field"),
        ('["a", "b"]', "jq -r"),
        (f"# Traces\n\n```harmony a\n{TEXT}\n```\n", "read it with harmonia.read_traces"),
        ("a\0b\0c\0", "the input looks like a binary file"),
        ('{"cut": ', None),
        ("true", None),
        ("Four.\n", None),
        (f"{TEXT}\n```harmony a\n```\n", None),
        ("\x1b[31mred\x1b[0m\tand\r\n" * 20, None),
    ],
)
def test_an_input_that_no_model_samples_is_noted(written: str, said: str | None) -> None:
    result = run("--role", "assistant", stdin=written)
    assert result.exit_code == 0
    if said is None:
        assert "note" not in result.stderr and json.loads(result.stdout)["notes"] == []
    else:
        assert "note: " in result.stderr and said in result.stderr and said in json.loads(result.stdout)["notes"][0]
        assert json.loads(result.stdout)["input"] == "text"


def test_the_help_says_what_a_stream_is_and_that_a_line_break_counts() -> None:
    for verb in ("parse", "inspect"):
        said = " ".join(CliRunner().invoke(main, [verb, "--help"]).output.split())
        assert "A line break at the end of the input is part of it." in said
        for name in ("server-sent events or JSON lines", "Responses, llama.cpp or Ollama", "token ids are used"):
            assert name in said


# ── dumps ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CHAT = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in PIECES]
COMPLETIONS = [{"choices": [{"index": 0, "text": piece}]} for piece in PIECES]
RESPONSES = [{"type": "response.output_text.delta", "delta": piece} for piece in PIECES]
LLAMA = [{"content": piece, "stop": False} for piece in PIECES]
GENERATE = [{"model": "m", "response": piece, "done": False} for piece in PIECES]
OLLAMA_CHAT = [{"message": {"role": "assistant", "content": piece}, "done": False} for piece in PIECES]


@pytest.mark.parametrize("chunks", [CHAT, COMPLETIONS, RESPONSES, LLAMA, GENERATE, OLLAMA_CHAT])
@pytest.mark.parametrize("form", ["sse", "tight", "crlf", "no blank lines", "json lines", "with fields"])
def test_dumps_of_every_dialect_in_every_form(chunks: list[object], form: str) -> None:
    written = sse(*chunks)
    match form:
        case "tight":
            written = written.replace("data: ", "data:")
        case "crlf":
            written = written.replace("\n", "\r\n")
        case "no blank lines":
            written = written.replace("\n\n", "\n")
        case "json lines":
            written = "".join(json.dumps(chunk) + "\n" for chunk in chunks)
        case "with fields":
            head = "HTTP/1.1 200 OK\ncontent-type: text/event-stream\n\n: ping\n\n"
            written = head + written.replace("data: {", "event: message\nid: 7\ndata: {")
        case _:
            pass
    result = run("--role", "assistant", stdin=written)
    assert result.stderr.startswith("detected input: a saved stream of "), result.stderr
    value = json.loads(result.stdout)
    assert (value["input"], value["diagnostics"]) == ("sse", [])
    assert contents(value) == [("final", "Four.")]


def test_a_dumps_token_ids_win_over_its_text() -> None:
    vllm = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "token_ids": None}]},
        *({"choices": [{"delta": {"reasoning_content": "x"}, "token_ids": [token]}]} for token in TOKENS),
    ]
    result = run("--role", "assistant", stdin=sse(*vllm))
    value = json.loads(result.stdout)
    assert value["messages"][0]["source"] == "tokens"
    assert contents(value) == [("analysis", "Sum: 4"), ("final", "Four.")]
    assert (
        f"reasoning_content {len(TOKENS)}x" in value["notes"][0] and "the token ids are complete" in value["notes"][0]
    )
    assert "note: the server had already parsed" in result.stderr


def test_llama_cpps_tokens_are_taken_where_there_are_any() -> None:
    with_ids = [{"content": "?", "tokens": [token], "stop": False} for token in TOKENS]
    last: dict[str, Any] = {"content": "", "tokens": [], "stop": True}
    assert len(contents(parsed("--role", "assistant", stdin=sse(*with_ids, last)))) == 2
    whole = json.dumps({"content": TEXT, "tokens": [], "stop": True})
    assert len(contents(parsed("--role", "assistant", stdin=whole))) == 2


def test_an_answer_in_one_piece_is_a_dump_too() -> None:
    answer: dict[str, Any] = {"choices": [{"index": 0, "message": {"content": TEXT}}], "usage": {}}
    assert len(contents(parsed("--role", "assistant", stdin=json.dumps(answer, indent=2)))) == 2


def test_what_a_server_parsed_is_said() -> None:
    chunks = [{"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}, *CHAT]
    (note,) = parsed("--role", "assistant", stdin=sse(*chunks))["notes"]
    assert "tool_calls 1x" in note and "the text lacks" in note


def test_a_dump_says_what_it_left_out() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}}]}
    notes = parsed("--role", "assistant", stdin=sse(*CHAT, other) + 'data: {"cut')["notes"]
    assert len(notes) == 2 and "1 piece of other choices" in notes[0]
    assert notes[1] == "ignored 1 line that is not a JSON object"


@pytest.mark.parametrize(
    ("chunk", "description"),
    [
        ({"object": "text_completion", "choices": [{"text": "a"}]}, "Completions (text in 1 chunk)"),
        ({"choices": [{"text": "a", "token_ids": [1, 2]}]}, "Completions (token ids in 1 chunk)"),
        ({"choices": [{"delta": {"content": "a"}}]}, "Chat Completions (text in 1 chunk)"),
    ],
)
def test_the_dialect_of_a_dump_is_said(chunk: object, description: str) -> None:
    assert run(stdin=sse(chunk)).stderr.startswith(f"detected input: a saved stream of {description}\n")


def test_who_takes_something_else_for_a_stream_is_told_to_leave_that_out() -> None:
    for written in (TEXT, "[1, 2]", '{"status": "ok"}'):
        result = run("--as", "sse", stdin=written)
        assert result.exit_code == 1 and "hint: omit --as" in result.stderr
    assert "omit --as" not in run("--as", "sse", stdin=sse({"error": {"message": "no"}})).stderr
    assert "omit --as" not in run(stdin=sse({"unheard": "of"})).stderr


def test_a_value_may_go_over_several_data_lines() -> None:
    written = sse(*CHAT[:-1]) + 'data: {"choices":\ndata: [{"delta": {"content": "<|return|>"}}]}\n\n'
    assert parsed("--role", "assistant", stdin=written)["diagnostics"] == []


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([{"choices": [{"delta": {"reasoning_content": "x"}}]}], "reasoning_content 1x"),
        ([{"type": "response.reasoning_text.delta", "delta": "x"}], "reasoning_text 1x"),
        ([{"error": {"message": "out of memory"}}], "out of memory"),
        ([{"unheard": "of"}], "no known field with text or token ids"),
    ],
)
def test_a_dump_with_nothing_to_read_is_an_error(chunks: list[object], said: str) -> None:
    result = run(stdin=sse(*chunks))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "[parse.invalid_input]" in result.stderr and said in result.stderr


def test_halves_of_surrogate_pairs_in_a_dump_are_a_fault_of_the_stream() -> None:
    value = parsed("--role", "assistant", stdin=sse({"choices": [{"text": CUT + "\ud83e"}]}))
    assert "stream.invalid_utf8" in [diagnostic["code"] for diagnostic in value["diagnostics"]]


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_have_every_key_and_where_they_stood() -> None:
    (message,) = parsed("--role", "assistant", stdin=CALL)["messages"]
    assert message["spans"]["body"] == {"start_token": None, "end_token": None, "start_char": 65, "end_char": 73}
    del message["spans"]
    assert message == {
        "role": "assistant",
        "name": None,
        "channel": "commentary",
        "recipient": "functions.x",
        "content_type": "<|constrain|>json",
        "content": '{"a": 1}',
        "stop": "call",
        "source": "text",
        "trust": "certain",
        "forged": False,
        "faults": [],
    }


def test_diagnostics_say_where_what_and_what_became_of_it() -> None:
    (diagnostic,) = parsed("--role", "assistant", stdin=CUT)["diagnostics"]
    assert diagnostic["code"] == "MissingSentinel"
    assert diagnostic["at"] == {"character": len(CUT), "message": 0}
    assert (diagnostic["strict"], diagnostic["found"]) == ("raises", "")
    assert diagnostic["repair"] and diagnostic["message"]


@pytest.mark.parametrize("output", ["normalized", "normalised"])
def test_the_normalized_form_is_a_list(output: str) -> None:
    value = json.loads(run("--role", "assistant", "-o", output, stdin=CALL).stdout)
    assert value == [
        {
            "role": "assistant",
            "channel": "commentary",
            "to": "functions.x",
            "constraint": "json",
            "args": {"a": 1},
        }
    ]


def test_parts_are_for_a_user_interface() -> None:
    value = json.loads(run("--role", "assistant", "-o", "parts", stdin=TEXT).stdout)
    assert value == [{"type": "think", "text": "Sum: 4"}, {"type": "text", "text": "Four."}]


@pytest.mark.parametrize("output", ["normalized", "parts"])
def test_arguments_may_be_any_json(output: str) -> None:
    arguments = '{"big": 123456789012345678901234567890, "half": "\\ud800"}'
    call = CALL.replace('{"a": 1}', arguments)
    (value,) = json.loads(run("--role", "assistant", "-o", output, stdin=call).stdout)
    assert json.loads(arguments) in value.values()


def test_events_are_one_a_line() -> None:
    lines = [json.loads(line) for line in run("--role", "assistant", "-o", "events", stdin=CALL).stdout.splitlines()]
    assert [line["type"] for line in lines] == [
        "message_started",
        "header_completed",
        "arguments_delta",
        "message_ended",
        "turn_ended",
    ]
    assert lines[1]["header"]["call"] and lines[1]["header"]["trust"] == "certain"
    assert lines[3]["message"]["content"] == '{"a": 1}'


def test_invalid_utf8_is_a_diagnostic_and_no_crash() -> None:
    value = parsed("--role", "assistant", stdin=b"<|channel|>final<|message|>a\xffb<|return|>")
    assert [diagnostic["code"] for diagnostic in value["diagnostics"]] == ["stream.invalid_utf8"]
    assert contents(value) == [("final", "a\ufffdb")]


def test_ids_that_are_no_tokens_are_the_parsers_business() -> None:
    value = parsed("--role", "assistant", stdin=json.dumps([*TOKENS[:-1], 999_999, -1, TOKENS[-1]]))
    assert {diagnostic["code"] for diagnostic in value["diagnostics"]} == {"stream.unknown_token"}


def test_an_empty_input_has_no_messages() -> None:
    assert parsed(stdin="") == {"messages": [], "diagnostics": [], "input": "text", "notes": []}
    assert run("-o", "normalized", stdin="").stdout == "[]\n"
    assert run("--strict", stdin="").exit_code == 0


def test_a_long_input_is_read_whole() -> None:
    body = "word and " * 200_000
    value = parsed("--role", "assistant", stdin=f"<|channel|>final<|message|>{body}<|return|>")
    assert contents(value) == [("final", body)]


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────

NESTED: dict[str, Any] = {"type": "function", "function": {"name": "shell", "parameters": {}}}
FLAT = {"type": "function", "name": "shell"}


@pytest.mark.parametrize(
    "declared", [["shell"], ["functions.shell"], [NESTED], [FLAT], {"tools": [NESTED]}, [{"type": "web_search"}, FLAT]]
)
def test_tools_are_read_from_a_file_in_any_form(declared: object, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(declared))
    glued = "<|channel|>commentary to=functions.shelljson<|message|>{}<|call|>"
    (message,) = parsed("--role", "assistant", "--tools", str(file), stdin=glued)["messages"]
    assert (message["recipient"], message["content_type"]) == ("functions.shell", "json")


def test_tools_are_names_with_commas_between_them() -> None:
    glued = "<|channel|>commentary to=functions.shelljson<|message|>{}<|call|>"
    (message,) = parsed("--role", "assistant", "--tools", "read, shell", stdin=glued)["messages"]
    assert message["recipient"] == "functions.shell"


@pytest.mark.parametrize(("written", "exit_code"), [("{", 2), ("3", 1), ('[{"type":"function"}]', 1), ("[3]", 1)])
def test_a_file_that_has_no_tools_is_refused(written: str, exit_code: int, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(written)
    assert run("--tools", str(file), stdin=TEXT).exit_code == exit_code
    assert run("--tools", str(tmp_path / "none.json"), stdin=TEXT).exit_code == 2


# ── strict, and exit codes ──────────────────────────────────────────────────────────────────────────────────────────


def test_strict_prints_an_error_object_and_exits_with_3() -> None:
    result = run("-q", "--strict", "--role", "assistant", stdin=CUT)
    assert (result.exit_code, result.stderr) == (3, "")
    error = json.loads(result.stdout)
    assert (error["error"], error["at"]) == ("MissingSentinel", {"character": len(CUT), "message": 0})
    assert error["message"]


def test_the_normalized_error_object_has_the_case(tmp_path: Path) -> None:
    options = ("--strict", "--role", "assistant", "-o", "normalized")
    file = tmp_path / "cut off.txt"
    file.write_text(CUT)
    result = run(*options, str(file))
    assert result.exit_code == 3
    assert json.loads(result.stdout) == {"error": "MissingSentinel", "case": "cut off"}
    assert json.loads(run(*options, stdin=CUT).stdout) == {"error": "MissingSentinel", "case": None}


def test_strict_events_end_with_the_error() -> None:
    lines = run("--strict", "--role", "assistant", "-o", "events", stdin=CUT).stdout.splitlines()
    assert [json.loads(line).get("type") for line in lines] == [
        "message_started",
        "header_completed",
        "text_delta",
        None,
    ]
    assert json.loads(lines[-1])["error"] == "MissingSentinel"


def test_well_formed_input_passes_strict_and_check() -> None:
    assert run("--strict", "--check", "--role", "assistant", stdin=TEXT).exit_code == 0


def test_check_prints_as_usual_and_exits_with_3() -> None:
    plain, checked = run("--role", "assistant", stdin=CUT), run("--check", "--role", "assistant", stdin=CUT)
    assert (plain.exit_code, checked.exit_code) == (0, 3)
    assert plain.stdout == checked.stdout


def test_check_lets_pass_what_strict_only_reports() -> None:
    header, stop = (harmonia.encode(part, special="all") for part in ("<|channel|>final<|message|>", "<|return|>"))
    spelled = json.dumps([*header, *harmonia.encode("a <|end|> b"), *stop])
    result = run("--check", "--role", "assistant", stdin=spelled)
    assert result.exit_code == 0
    assert [each["code"] for each in json.loads(result.stdout)["diagnostics"]] == ["body.spelled_token"]


def test_a_stop_token_that_the_engine_swallowed_is_no_fault() -> None:
    assert run("--strict", "--stop-swallowed", "--role", "assistant", stdin=CUT).exit_code == 0


def test_an_unknown_role_is_wrong_usage() -> None:
    assert run("--role", "narrator", stdin=TEXT).exit_code == 2


def test_text_without_a_channel_is_a_thought_or_the_answer() -> None:
    bare = '{"name": "rm", "arguments": {}}'
    (part,) = json.loads(run("-q", "-o", "parts", stdin=bare + "<|return|>").stdout)
    assert part == {"type": "think", "text": bare}
    (part,) = json.loads(run("-q", "-o", "parts", "--guessed", "shown", stdin=bare + "<|return|>").stdout)
    assert part == {"type": "text", "text": bare}
    value = parsed("-q", "--guessed", "shown", stdin="Hello.<|return|>")
    assert contents(value) == [("final", "Hello.")]
    events = [
        json.loads(line)
        for line in run("-q", "-o", "events", "--guessed", "shown", stdin="Hello.").stdout.split("\n")
        if line
    ]
    assert [event["hidden_because"] for event in events if event["type"] == "turn_ended"] == [None]
