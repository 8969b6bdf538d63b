"""/v1/harmony/inspect, diff and replay as the page wants them: any input, bounded answers, linear work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harmonia
from harmonia import Conversation, Message
from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.interchange.harmony import write_harmony_json
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.inspections import MOST_SPELLINGS, diff, inspect, inspect_tokens, replay
from harmonia.serve.inspector.request import MOST_STEPS
from harmonia.serve.wire.work_limits import MOST_CHARACTERS, MOST_TOKENS, encode_answer
from tests.support.engines.provider_streams import STREAMS
from tests.support.paths import ROOT
from tests.support.repeated import repeated
from tests.support.strategies.conversations import conversations
from tests.support.strategies.streams import mutated_texts, mutated_tokens

LIMITS = Limits()
DATA = ROOT / "tests" / "data"
WILD = [json.loads(line) for line in (DATA / "wild-traces.jsonl").read_text().splitlines()]
EVERYTHING = ["ids", "token_table", "text", "spellings", "schemas"]
COMPLETION = "<|channel|>final<|message|>Four.<|return|>"
TOOL = {"type": "function", "function": {"name": "f", "description": "Adds.", "parameters": {"type": "object"}}}
REQUEST: dict[str, Any] = {
    "model": "gpt-oss-20b",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say <|end|>"}],
    "tools": [TOOL],
    "temperature": 0.5,
}


def inspected(text: str | Any, **fields: Any) -> dict[str, Any]:
    given = text if isinstance(text, str) else json.dumps(text)
    return json.loads(encode_answer(inspect({"text": given, "include": EVERYTHING, **fields}, LIMITS)))


# ── any input ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trace", WILD, ids=lambda trace: trace["id"])
def test_traces_from_the_wild_are_read_as_what_they_are(trace: dict[str, Any]) -> None:
    raw = trace["raw"]
    answer = inspected(raw)
    assert answer["input"] in ("text", "stripped")
    if raw.startswith(("<|channel|>", "<|message|>")):
        assert answer["messages"] == inspected(raw, role="assistant")["messages"]
    assert all(each["explanation"] for each in answer["diagnostics"])
    tokens = harmonia.encode(raw, special="all")
    assert inspected(tokens)["tokens"] == len(tokens)


def test_a_page_with_samples_is_text_and_no_markdown_of_ours() -> None:
    answer = inspected((DATA / "harmony-samples.md").read_text())
    assert (answer["input"], answer["taken_for"]) == ("text", "raw Harmony text")


def test_a_request_is_rendered_and_traced() -> None:
    answer = inspected(REQUEST)
    assert (answer["input"], answer["taken_for"]) == ("chat", "a Chat Completions request")
    assert [message["role"] for message in answer["messages"]] == ["developer", "user"]
    assert answer["messages"][1]["content"] == "Say <|end|>"
    assert answer["counts_are_exact"] is True
    assert any("temperature" in loss for loss in answer["conversion_losses"])
    (spelling,) = answer["spellings"]
    assert (spelling["message"], spelling["became"]) == (1, "text")
    (cost,) = answer["schemas"]
    assert cost["tool"] == "functions.f" and 0 < cost["share"] < 1
    assert answer["strict"] is None


def test_a_role_means_nothing_to_a_whole_conversation() -> None:
    assert inspected(REQUEST, role="assistant") == inspected(REQUEST)


def test_documents_are_counted_and_chosen() -> None:
    text = "\n".join(json.dumps({"messages": [{"role": "user", "content": f"n {at}"}]}) for at in range(3))
    answer = inspected(text, document=2)
    assert answer["documents"] == {"count": 3, "at": 2, "titles": ["n 0", "n 1", "n 2"]}
    assert answer["messages"][0]["content"] == "n 2"
    assert "documents" not in inspected(REQUEST)


def test_a_stream_that_a_server_had_read_is_a_conversation() -> None:
    for stream in STREAMS[:3]:
        answer = inspected(stream.content.decode())
        assert answer["input"] == "sse" and answer["taken_for"].startswith("a stream of")
        assert "conversion_losses" in answer


def test_sealed_reasoning_is_left_out_with_a_loss() -> None:
    items: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "encrypted_content": "gAAA", "summary": []},
    ]
    answer = inspected({"input": items})
    assert len(answer["messages"]) == 1
    assert any("encrypted_content" in loss for loss in answer["conversion_losses"])


# ── completions, strict, spellings ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text", [COMPLETION, "<|message|>x<|end|>", ' to=functions.x<|channel|>commentary<|message|>{"a": 1}<|call|>']
)
def test_what_begins_in_a_header_is_a_completion_unless_somebody_says_otherwise(text: str) -> None:
    tokens = harmonia.encode(text, special="all")
    for body in ({"text": text}, {"tokens": tokens}):
        assert inspect(body, LIMITS)["diagnostics"] == []
        assert inspect({**body, "role": None}, LIMITS)["diagnostics"] != []


def test_what_strict_would_say_first_is_told() -> None:
    answer = inspected(COMPLETION + "<|end|>")
    assert answer["strict"]["code"] == ErrorCode.STREAM_REPEATED_STOP
    assert answer["strict"]["at"]["character"] == len(COMPLETION)


@given(mutated_tokens())
def test_it_is_what_the_strict_parser_says(stream: tuple[list[int], str | None]) -> None:
    tokens, role = stream
    told = inspect({"tokens": tokens, "role": role}, LIMITS)["strict"]
    try:
        harmonia.parse(tokens, role, "strict")
    except StreamError as error:
        assert told is not None and (told["code"], told["message"]) == (error.code, error.message)
    else:
        assert told is None


def test_a_text_says_that_spellings_cannot_be_told_apart() -> None:
    answer = inspected("<|start|>user<|message|>a <|END|><|end|>")
    assert [each["text"] for each in answer["spellings"]] == ["<|END|>"]
    assert answer["spellings_note"] and answer["notes"] == []
    assert inspected("[200006]")["spellings_note"] is None
    bare = inspect({"text": COMPLETION}, LIMITS)
    assert bare["notes"] == [] and "spellings_note" not in bare


def test_only_so_many_spellings_are_listed() -> None:
    answer = inspected("<|start|>user<|message|>" + "<|END|>" * (MOST_SPELLINGS + 1))
    assert len(answer["spellings"]) == MOST_SPELLINGS
    assert any("only the first" in note for note in answer["notes"])


@given(conversations)
def test_spellings_of_a_conversation_are_always_text(conversation: Conversation) -> None:
    text = json.dumps(write_harmony_json(conversation).value)
    try:
        answer = inspect({"text": text, "as": "harmony-json", "include": ["spellings", "schemas"]}, LIMITS)
    except InputError:
        return
    assert all(each["became"] == "text" for each in answer["spellings"])
    assert sum(each["tokens"] for each in answer["schemas"]) <= answer["tokens"]


def test_tokens_of_the_caller_are_described_the_same_way() -> None:
    tokens = harmonia.encode(f"<|start|>assistant{COMPLETION}", special="all")
    mine = inspect_tokens(tokens, ["ids", "spellings"], "token ids", ())
    assert mine == inspect({"tokens": tokens, "include": ["ids", "spellings"]}, LIMITS)


# ── never a surprise ────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS = ["auto", "tokens", "text", "stripped", "sse", "harmony-json", "chat", "responses", "markdown"]
_LINES = st.sampled_from(
    [
        "data: {}",
        'data: {"choices": [{"delta": {"tool_calls": [{"index": [], "id": {}}]}}]}',
        'data: {"type": "response.output_text.delta", "item_id": [], "delta": "x"}',
        '{"type": "response.output_item.done", "item": 5}',
        '{"messages": [{"role": "user", "content": "\\ud800"}]}',
        '{"messages": []}',
        '[{"role": "nobody"}]',
        "## user",
        "# Tools",
        "event: x",
        "[1, 2",
        "<|start|>",
        '"x"',
        "{",
        "\ud800",
    ]
)


@repeated(
    given(st.text() | st.lists(_LINES | st.text(max_size=5), max_size=6).map("\n".join), st.sampled_from(_KINDS)),
    some=60,
    many=300,
)
def test_any_text_is_inspected_or_refused_with_a_place(text: str, as_: str) -> None:
    try:
        answer = inspect({"text": text, "as": as_, "include": EVERYTHING}, LIMITS)
    except InputError as error:
        assert error.at.path in ("$.text", "$.document")
        return
    encode_answer(answer)
    encode_answer(replay({"text": text, "as": as_}, LIMITS))
    encode_answer(diff({"before": {"text": text, "as": as_}, "after": {"text": "x"}}, LIMITS))


@given(mutated_texts())
def test_any_damaged_text_is_inspected(stream: tuple[str, str | None]) -> None:
    answer = inspect({"text": stream[0], "as": "text", "role": stream[1], "include": EVERYTHING}, LIMITS)
    assert sum(channel["tokens"] for channel in answer["channels"]) == answer["tokens"]


@pytest.mark.parametrize(
    ("do", "body", "code", "path"),
    [
        (inspect, {"tokens": [1], "as": "chat"}, ErrorCode.SERVE_INVALID_FIELD, "$.as"),
        (inspect, {"text": "x", "as": "chat"}, ErrorCode.INTERCHANGE_INVALID_VALUE, "$.text"),
        (inspect, {"text": "x", "as": "tokens"}, ErrorCode.PARSE_INVALID_INPUT, "$.text"),
        (inspect, {"text": "x", "document": 1}, ErrorCode.SERVE_INVALID_FIELD, "$.document"),
        (inspect, {"text": "x", "document": -1}, ErrorCode.SERVE_INVALID_FIELD, "$.document"),
        (
            inspect,
            {"text": json.dumps([{"role": "user", "content": "x" * MOST_CHARACTERS}] * 2)},
            ErrorCode.SERVE_TOO_LARGE,
            "$.text",
        ),
        (
            inspect,
            {"text": json.dumps([{"role": "user", "content": "🧿" * MOST_TOKENS}])},
            ErrorCode.SERVE_TOO_LARGE,
            "$.text",
        ),
        (
            inspect,
            {"text": json.dumps({"messages": REQUEST["messages"], "tools": [TOOL] * 600})},
            ErrorCode.SERVE_TOO_LARGE,
            "$.text",
        ),
        (diff, {"before": {"text": "x"}}, ErrorCode.SERVE_INVALID_FIELD, "$.after"),
        (diff, {"before": {"text": "x"}, "after": {}}, ErrorCode.SERVE_INVALID_FIELD, "$.after"),
        (diff, {"before": {"text": 5}, "after": {}}, ErrorCode.SERVE_INVALID_FIELD, "$.before.text"),
        (
            diff,
            {"before": {"text": "x", "as": "sse"}, "after": {"text": ""}},
            ErrorCode.PARSE_INVALID_INPUT,
            "$.before.text",
        ),
        (replay, {"text": "x", "count": MOST_STEPS + 1}, ErrorCode.SERVE_INVALID_FIELD, "$.count"),
        (replay, {"text": "x", "start": -1}, ErrorCode.SERVE_INVALID_FIELD, "$.start"),
        (replay, {"text": "x", "include": []}, ErrorCode.SERVE_UNKNOWN_FIELD, "$.include"),
    ],
)
def test_errors_say_where(do: Any, body: Any, code: ErrorCode, path: str) -> None:
    with pytest.raises(InputError) as caught:
        do(body, LIMITS)
    assert (caught.value.code, caught.value.at.path) == (code, path)


# ── diff ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def chat(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"text": json.dumps([{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)])}


def test_a_prompt_that_goes_on_is_an_extension() -> None:
    answer = diff({"before": chat("a"), "after": chat("a", "b", "c")}, LIMITS)
    assert answer["is_extension"] is True
    assert answer["shared_prefix"] == answer["before"]["tokens"]
    assert (answer["before_token"], answer["before_message"], answer["after_message"]) == (None, None, 1)
    assert [row["kind"] for row in answer["rows"]] == ["same", "added", "added"]


def test_dropped_reasoning_breaks_the_prefix_and_says_why() -> None:
    before = {
        "text": json.dumps(
            [{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_content": "Hm.", "content": "b"}]
        )
    }
    answer = diff({"before": before, "after": chat("a", "b", "c")}, LIMITS)
    assert (answer["is_extension"], answer["before_message"], answer["after_message"]) == (False, 1, 1)
    assert [row["kind"] for row in answer["rows"]] == ["same", "dropped", "same", "added"]
    assert answer["rows"][1]["reason"]
    assert answer["shared_prefix"] + answer["dropped_tokens"] == answer["before"]["tokens"]
    assert answer["shared_prefix"] + answer["added_tokens"] == answer["after"]["tokens"]


@given(mutated_texts(), mutated_tokens())
def test_any_two_are_compared(text: tuple[str, str | None], tokens: tuple[list[int], str | None]) -> None:
    body = {
        "before": {"text": text[0], "as": "text", "role": text[1]},
        "after": {"tokens": tokens[0], "role": tokens[1]},
    }
    answer = diff(body, LIMITS)
    assert answer["shared_prefix"] + answer["dropped_tokens"] == answer["before"]["tokens"]
    assert [row["after"] for row in answer["rows"] if row["after"] is not None] == list(
        range(len(answer["after"]["messages"]))
    )
    if answer["after_message"] is not None:
        assert answer["after_message"] < len(answer["after"]["messages"])


# ── replay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_of_tokens_and_of_a_conversation() -> None:
    answer = replay({"text": COMPLETION, "count": 3}, LIMITS)
    assert (answer["unit"], answer["total"], answer["closing"]) == ("characters", len(COMPLETION), None)
    assert [step["text"] for step in answer["steps"]] == ["<", "|", "c"]
    answer = replay(chat("a"), LIMITS)
    assert (answer["unit"], len(answer["steps"])) == ("tokens", answer["total"])
    assert answer["closing"] is not None
    assert json.loads(encode_answer(answer))["steps"][0]["id"] == 200006


def test_the_answer_of_a_replay_is_bounded_whatever_is_held_back() -> None:
    text = "word " * 100_000
    answer = encode_answer(replay({"text": text, "as": "text", "start": 450_000, "count": MOST_STEPS}, LIMITS))
    assert len(answer) < MOST_STEPS * 1000


# ── large ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_thousand_messages_are_answered_in_full() -> None:
    messages = [Message.user(f"message {at}") for at in range(2000)]
    tokens = harmonia.render(messages, next_role=None).tokens
    answer = inspect({"tokens": tokens, "include": EVERYTHING}, LIMITS)
    assert len(answer["messages"]) == 2000
    rows = diff({"before": {"tokens": tokens}, "after": {"tokens": tokens[10:]}}, LIMITS)["rows"]
    assert len(rows) >= 2000


def test_the_size_of_an_answer_grows_with_the_input_and_no_faster() -> None:
    def size(number: int) -> int:
        body = {"text": json.dumps([{"role": "user", "content": "a <|end|> b " * 10}] * number), "include": EVERYTHING}
        return len(encode_answer(inspect(body, LIMITS)))

    small, large = size(50), size(400)
    assert large < 9 * small
