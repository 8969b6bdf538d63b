"""/v1/harmony/parse, inspect, tokenize and detokenize: what the command gives, bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import harmonia
from harmonia.cli import main
from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.inspections import detokenize, inspect, parse, tokenize
from harmonia.serve.wire.work_limits import (
    MOST_CHARACTERS,
    MOST_DIAGNOSTICS,
    MOST_SPECIALS,
    MOST_TOKENS,
    encode_answer,
)
from harmonia.vocabulary import VOCABULARY_SIZE

LIMITS = Limits()

GOOD = "<|channel|>analysis<|message|>Sum: 4<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>"
CALL = '<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"a": 1}<|call|>'
DAMAGED = "stray<|channel|>final<|message|>Four.<|end|><|return|><|start|>user<|message|>forged<|end|>"
STRIPPED = "analysisSum: 4assistantfinalFour."
SSE = 'data: {"choices":[{"delta":{"content":"<|channel|>final<|message|>Four.<|return|>"}}]}\n\ndata: [DONE]\n\n'
TEXTS = (GOOD, CALL, DAMAGED, STRIPPED, "", "plain", "<|start|>", '<|channel|>x<|message|>{"a":<|call|>', "\ufeffmark")

_IDS = st.integers(0, VOCABULARY_SIZE - 1) | st.sampled_from(harmonia.encode(DAMAGED, special="all"))


def answered(answer: dict[str, Any]) -> dict[str, Any]:
    return json.loads(encode_answer(answer))


def command(verb: str, *arguments: str, stdin: str) -> Any:
    result = CliRunner().invoke(main, [verb, "-q", *arguments], input=stdin)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def without(answer: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in names}


# ── parse ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_parsed_as_by_the_command(text: str) -> None:
    expected = command("parse", "--as", "text", "--role", "assistant", stdin=text.removeprefix("\ufeff"))
    answer = answered(parse({"text": text.removeprefix("\ufeff"), "role": "assistant"}, LIMITS))
    assert without(answer, "diagnostics_total") == expected
    assert answer["diagnostics_total"] == len(answer["diagnostics"])


def test_a_string_has_no_byte_order_mark() -> None:
    answer = answered(parse({"text": "\ufeffx"}, LIMITS))
    assert answer["diagnostics"][0]["found"].startswith("\ufeff")


@pytest.mark.parametrize(("as_", "text"), [("stripped", STRIPPED), ("sse", SSE), ("auto", SSE), ("auto", STRIPPED)])
def test_other_texts_are_taken_as_by_the_command(as_: str, text: str) -> None:
    expected = command("parse", "--as", as_, "--role", "assistant", stdin=text)
    answer = answered(parse({"text": text, "as": as_, "role": "assistant"}, LIMITS))
    assert without(answer, "diagnostics_total") == expected


@given(st.lists(_IDS, max_size=40), st.sampled_from([None, "assistant"]))
def test_tokens_are_parsed_as_by_the_library_in_every_output(tokens: list[int], role: str | None) -> None:
    parsed = harmonia.parse(tokens, role)
    body = {"tokens": tokens, "role": role}
    answer = answered(parse(body, LIMITS))
    assert [message["content"] for message in answer["messages"]] == [message.text for message in parsed]
    assert [each["code"] for each in answer["diagnostics"]] == [each.code for each in parsed.diagnostics]
    events = answered(parse({**body, "output": "events"}, LIMITS))["events"]
    assert len(events) == len(parsed.events)
    parts = answered(parse({**body, "output": "parts"}, LIMITS))["parts"]
    assert len(parts) == len(harmonia.parts_of(parsed.messages))
    normalized = answered(parse({**body, "output": "normalized"}, LIMITS))["normalized"]
    assert normalized == json.loads(json.dumps(harmonia.normalise(parsed.messages)))


@given(st.lists(_IDS, max_size=20), st.data())
def test_how_tokens_are_chunked_changes_no_message(tokens: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(tokens)))
    whole = parse({"tokens": tokens}, LIMITS)
    for chunks in ([tokens[:cut], tokens[cut:]], [*tokens[:cut], tokens[cut:]], [[token] for token in tokens]):
        assert parse({"tokens": chunks}, LIMITS)["messages"] == whole["messages"]


def test_events_and_parts_are_those_of_the_command() -> None:
    result = CliRunner().invoke(main, ["parse", "-q", "--as", "text", "-o", "events"], input=DAMAGED)
    expected = [json.loads(line) for line in result.stdout.splitlines()]
    assert answered(parse({"text": DAMAGED, "output": "events"}, LIMITS))["events"] == expected
    parts = command("parse", "--as", "text", "-o", "parts", "--tools", "x", "--role", "assistant", stdin=CALL)
    body = {"text": CALL, "output": "parts", "tools": ["x"], "role": "assistant"}
    assert answered(parse(body, LIMITS))["parts"] == parts


def test_definitions_of_tools_are_taken_as_the_apis_have_them() -> None:
    for tool in ("x", {"name": "x"}, {"type": "function", "function": {"name": "x"}}):
        body = {"text": CALL, "role": "assistant", "tools": [tool]}
        flags = inspect(body, LIMITS)["messages"][0]["flags"]
        assert flags[0] == "call of a declared tool"


def test_a_strict_parse_raises_its_fault_with_the_events_before_it() -> None:
    with pytest.raises(StreamError) as caught:
        parse({"text": GOOD + "<|end|>", "role": "assistant", "mode": "strict"}, LIMITS)
    assert caught.value.code is ErrorCode.STREAM_REPEATED_STOP
    assert len(caught.value.events) > 4


def test_numbers_of_any_size_and_deep_arguments_are_answered() -> None:
    body = '<|channel|>commentary to=functions.x<|message|>{"a":%s}<|call|>'
    answer = encode_answer(parse({"text": body % ("9" * 40), "role": "assistant", "output": "parts"}, LIMITS))
    assert b"9" * 40 in answer
    deep = "[" * 100_000
    encode_answer(parse({"text": body % (deep + "]" * 100_000), "role": "assistant", "output": "parts"}, LIMITS))


# ── inspect ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", TEXTS[:-1])
def test_an_inspection_is_that_of_the_command(text: str) -> None:
    expected = command("inspect", "--json", "--ids", stdin=text)
    answer = answered(inspect({"text": text, "role": None, "include": ["ids"]}, LIMITS))
    for each in (*expected["diagnostics"], *answer["diagnostics"]):
        each.pop("hint")  # which speaks of options, or of fields
    assert without(answer, "diagnostics_total") == expected


def test_hints_speak_of_fields() -> None:
    answer = inspect({"text": GOOD, "role": None}, LIMITS)
    hints = [each["hint"] for each in answer["diagnostics"] if each["hint"]]
    assert '"role": "assistant"' in hints[0]
    assert not any("--" in hint for hint in hints)


@given(st.lists(_IDS | st.sampled_from([-1, VOCABULARY_SIZE, 2**31 - 1]), max_size=30))
def test_every_token_is_counted_once_and_told_in_the_table(tokens: list[int]) -> None:
    answer = answered(inspect({"tokens": tokens, "include": ["ids", "token_table", "text"]}, LIMITS))
    assert answer["tokens"] == len(tokens)
    assert sum(channel["tokens"] for channel in answer["channels"]) == len(tokens)
    used = {token for message in answer["messages"] for ids in message["ids"].values() for token in ids}
    used.update(token for text in answer["outside"] for token in text["ids"])
    assert {int(token) for token in answer["token_table"]} == used
    for token, told in answer["token_table"].items():
        if told["bytes"] is not None:
            assert bytes.fromhex(told["bytes"]) == harmonia.decode_bytes([int(token)])
            assert told["special"] == harmonia.is_special(int(token))
    assert len(answer["text"]) == answer["characters"]


def test_only_the_first_faults_are_told_and_all_are_counted() -> None:
    body = {"text": "<|end|>" * (MOST_DIAGNOSTICS + 5)}
    for answer in (inspect(body, LIMITS), parse(body, LIMITS)):
        assert len(answer["diagnostics"]) == MOST_DIAGNOSTICS
        assert answer["diagnostics_total"] >= MOST_DIAGNOSTICS + 5


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("do", [parse, inspect])
@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ([], ErrorCode.SERVE_INVALID_FIELD, "$"),
        ({}, ErrorCode.SERVE_INVALID_FIELD, "$"),
        ({"text": "x", "tokens": [1]}, ErrorCode.SERVE_INVALID_FIELD, "$"),
        ({"text": 5}, ErrorCode.SERVE_INVALID_FIELD, "$.text"),
        ({"tokens": ["1"]}, ErrorCode.SERVE_INVALID_FIELD, "$.tokens[0]"),
        ({"tokens": [True]}, ErrorCode.SERVE_INVALID_FIELD, "$.tokens[0]"),
        ({"tokens": [2**31]}, ErrorCode.SERVE_INVALID_FIELD, "$.tokens[0]"),
        ({"text": "x", "role": "nobody"}, ErrorCode.SERVE_INVALID_FIELD, "$.role"),
        ({"text": "x", "as": "colours"}, ErrorCode.SERVE_INVALID_FIELD, "$.as"),
        ({"text": "x", "as": "sse"}, ErrorCode.PARSE_INVALID_INPUT, "$.text"),
        ({"text": "x", "colour": "red"}, ErrorCode.SERVE_UNKNOWN_FIELD, "$.colour"),
        ({"text": "x", "tools": [{"type": "function"}]}, ErrorCode.PARSE_INVALID_OPTION, "$.tools[0]"),
        ({"text": "x", "tools": ["t"] * 600}, ErrorCode.SERVE_TOO_LARGE, "$.tools"),
        ({"text": "x" * (MOST_CHARACTERS + 1)}, ErrorCode.SERVE_TOO_LARGE, "$.text"),
        ({"text": "assistantfinalHi " * 5_000, "as": "stripped"}, ErrorCode.SERVE_TOO_LARGE, "$.text"),
        ({"tokens": [13] * (MOST_TOKENS + 1)}, ErrorCode.SERVE_TOO_LARGE, "$.tokens"),
        ({"tokens": [[13] * MOST_TOKENS, [13]]}, ErrorCode.SERVE_TOO_LARGE, "$.tokens"),
        ({"text": json.dumps([13] * (MOST_TOKENS + 1)), "as": "auto"}, ErrorCode.SERVE_TOO_LARGE, "$.text"),
        ({"tokens": [200006] * (MOST_SPECIALS + 1)}, ErrorCode.SERVE_TOO_LARGE, "$.tokens"),
        ({"tokens": [-1] * (MOST_SPECIALS + 1)}, ErrorCode.SERVE_TOO_LARGE, "$.tokens"),
        ({"text": "<|end|>" * (MOST_SPECIALS + 1)}, ErrorCode.SERVE_TOO_LARGE, "$.text"),
    ],
)
def test_errors_of_reading_say_where(do: Any, body: Any, code: ErrorCode, path: str) -> None:
    with pytest.raises(InputError) as caught:
        do(body, LIMITS)
    assert (caught.value.code, caught.value.at.path) == (code, path)


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text())
def test_a_text_comes_back_from_its_tokens(text: str) -> None:
    tokens = tokenize({"text": text})["tokens"]
    assert tokens == harmonia.encode(text)
    assert detokenize({"tokens": tokens, "strict": True}) == {"text": text, "bytes": text.encode().hex()}


def test_spellings_are_special_tokens_only_where_that_is_asked_for() -> None:
    assert tokenize({"text": "<|end|>", "special": True}) == {"count": 1, "tokens": [200007]}
    assert not any(map(harmonia.is_special, tokenize({"text": "<|end|>"})["tokens"]))


def test_pieces_are_those_of_the_command() -> None:
    text = "Grüße 👋 <|end|>"
    result = CliRunner().invoke(main, ["tokenize", "--json", "--special"], input=text)
    answer = answered(tokenize({"text": text, "special": True, "output": "pieces"}))
    assert answer == {"count": len(answer["pieces"]), "pieces": json.loads(result.stdout)}
    assert tokenize({"text": text, "special": True, "output": "count"}) == {"count": answer["count"]}


def test_tokens_that_are_no_text_are_replaced_or_refused() -> None:
    part_of_a_character = harmonia.encode("👋")[:1]
    assert detokenize({"tokens": part_of_a_character})["text"] == "\ufffd"
    with pytest.raises(InputError) as caught:
        detokenize({"tokens": [13, *part_of_a_character], "strict": True})
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.VOCABULARY_INVALID_UTF8, "$.tokens[1]")


@pytest.mark.parametrize(
    ("do", "body", "path"),
    [
        (tokenize, {}, "$.text"),
        (tokenize, {"text": None}, "$.text"),
        (detokenize, {"tokens": [1, VOCABULARY_SIZE]}, "$.tokens[1]"),
        (detokenize, {"tokens": [-1]}, "$.tokens[0]"),
        (detokenize, {"tokens": "1 2"}, "$.tokens"),
    ],
)
def test_errors_of_tokens_say_where(do: Any, body: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        do(body)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_INVALID_FIELD, path)


def test_too_many_pieces_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        tokenize({"text": "a " * (MOST_TOKENS + 1), "output": "pieces"})
    with pytest.raises(InputError):
        detokenize({"tokens": [13] * (MOST_TOKENS + 1)})
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.SERVE_TOO_LARGE, "$.text")
