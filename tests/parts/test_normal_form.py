"""The normalised form: the samples, however they arrive, and histories without `<|return|>`."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from harmonia import (
    Conversation,
    ErrorCode,
    InputError,
    Message,
    MessageEnded,
    Parser,
    StreamError,
    decode,
    encode,
    parse,
    render,
)
from harmonia.parts import Trace, normalise, normalise_history, normalise_trace, read_traces
from tests.parts.feeding import Chunks, feed, ways_to_feed
from tests.support.paths import ROOT

SAMPLES = read_traces((ROOT / "tests" / "data" / "harmony-samples.md").read_text())
ANSWER = "<|start|>assistant<|channel|>final<|message|>Hello.<|return|>"


def normalise_chunks(trace: Trace, chunks: Chunks) -> Any:
    try:
        events = [event for events in feed(Parser(mode="strict"), chunks) for event in events]
    except StreamError as error:
        return {"error": error.code, "case": trace.name}
    return normalise(event.message for event in events if isinstance(event, MessageEnded))


@pytest.mark.parametrize("trace", SAMPLES, ids=lambda trace: trace.name)
def test_samples_are_read_as_expected(trace: Trace) -> None:
    assert normalise_trace(trace) == trace.expected


@pytest.mark.parametrize("trace", SAMPLES, ids=lambda trace: trace.name)
def test_samples_are_read_as_expected_however_they_arrive(trace: Trace) -> None:
    for chunks in ways_to_feed(trace.text):
        assert normalise_chunks(trace, chunks) == trace.expected, chunks


def test_keys_stand_in_the_order_of_the_samples() -> None:
    for trace in SAMPLES:
        if "error" not in trace.expected:
            assert json.dumps(parse_and_normalise(trace.text)) == json.dumps(trace.expected)


def parse_and_normalise(text: str) -> list[dict[str, Any]]:
    return normalise(parse(text, mode="strict"))


def test_arguments_that_are_not_json_stay_text() -> None:
    assert parse_and_normalise("<|start|>assistant to=python<|channel|>analysis code<|message|>print(1)<|call|>") == [
        {"role": "assistant", "channel": "analysis", "to": "python", "constraint": "code", "args": "print(1)"}
    ]


@pytest.mark.parametrize("spelling", ["json", "<|constrain|>json", "<|constrain|> json"])
def test_a_constraint_has_no_special_token(spelling: str) -> None:
    text = f"<|start|>assistant<|channel|>commentary to=functions.x {spelling}<|message|>{{}}<|call|>"
    (message,) = parse_and_normalise(text)
    assert message["constraint"] == "json"


def test_what_tools_say_is_text_where_it_is_not_json() -> None:
    text = "<|start|>functions.x to=assistant<|channel|>commentary<|message|>It failed.<|end|>"
    assert parse_and_normalise(text) == [
        {"role": "tool", "name": "functions.x", "channel": "commentary", "content": "It failed."}
    ]


def test_a_message_without_a_channel_has_no_such_key() -> None:
    assert normalise([Message.user("Hi")]) == [{"role": "user", "content": "Hi"}]


def test_what_users_say_is_never_read_as_json() -> None:
    assert normalise([Message.user('{"a": 1}')]) == [{"role": "user", "content": '{"a": 1}'}]


def test_contents_of_system_messages_are_json_values() -> None:
    (message,) = normalise([Message.system()])
    assert message == {"role": "system", "content": Message.system().to_dict()["content"]}


def test_a_trace_may_be_a_completion() -> None:
    trace = Trace("a", ("<|channel|>fin", "al<|message|>Hello.<|return|>"), None, 1)
    assert normalise_trace(trace, role="assistant") == [{"role": "assistant", "channel": "final", "content": "Hello."}]
    assert normalise_trace(trace) == {"error": ErrorCode.STREAM_MISSING_START, "case": "a"}


def test_histories_keep_their_type_and_lose_return() -> None:
    tokens = encode(ANSWER, special="all")
    ended = ANSWER.replace("<|return|>", "<|end|>")
    assert normalise_history(ANSWER) == ended
    assert normalise_history(ANSWER.encode()) == ended.encode()
    assert decode(normalise_history(tokens)) == ended
    assert normalise_history(tuple(tokens)) == tuple(encode(ended, special="all"))


def test_messages_of_a_history_render_as_before_and_keep_their_origin() -> None:
    messages = list(parse(encode(ANSWER, special="all")).messages)
    (message,) = normalise_history(messages)
    assert message == messages[0]
    assert message.origin is not None and message.origin.stop == "end"
    assert messages[0].origin is not None and message.origin.trust is messages[0].origin.trust
    assert message.sampled is not None and decode(message.sampled.tokens).endswith("<|end|>")
    assert render([message]).tokens == render(messages).tokens


def test_messages_that_did_not_return_stay_the_same_objects() -> None:
    call = "<|start|>assistant<|channel|>commentary to=functions.x<|message|>{}<|call|>"
    messages = (*parse(encode(call, special="all")).messages, Message.user("Hi"))
    assert all(a is b for a, b in zip(normalise_history(messages), messages, strict=True))


def test_a_conversation_stays_one() -> None:
    conversation = Conversation(parse(ANSWER).messages)
    history = normalise_history(conversation)
    assert isinstance(history, Conversation)
    assert history[0].origin is not None and history[0].origin.stop == "end"


def test_something_else_is_no_history() -> None:
    with pytest.raises(InputError) as caught:
        normalise_history(cast("Any", 7))
    assert caught.value.code is ErrorCode.PARSE_INVALID_INPUT
