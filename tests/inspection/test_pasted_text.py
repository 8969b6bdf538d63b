"""Whatever somebody pastes is recognised, and a conversation is rendered, so that what was typed in it stays text."""

from __future__ import annotations

import json
import sys
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import harmonia
from harmonia import Conversation, Message
from harmonia.errors import ErrorCode, InputError
from harmonia.inspection.inputs import MOST_TITLES, Kind, Pasted, recognise_pasted
from harmonia.interchange import write_markdown
from harmonia.interchange.harmony import write_harmony_json
from tests.support.engines.provider_streams import STREAMS, Stream
from tests.support.strategies.conversations import conversations

RAW = "<|start|>assistant<|channel|>final<|message|>Four.<|return|>"
STRIPPED = "analysisSum: 4assistantfinalFour."
MESSAGES: list[Any] = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "Four. <|end|>"}]
ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2 + 2?"}]},
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four. <|end|>"}]},
]
HARMONY_JSON = write_harmony_json(
    Conversation([Message.user("2 + 2?"), Message.assistant("Four. <|end|>", channel="final")])
).value
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "reasoning_content": "Hm.", "content": "Four."}}]}
OLLAMA = [
    {"model": "gpt-oss", "message": {"role": "assistant", "content": "", "thinking": "H"}, "done": False},
    {"model": "gpt-oss", "message": {"role": "assistant", "content": "", "thinking": "m."}, "done": False},
    {"model": "gpt-oss", "message": {"role": "assistant", "content": "Four."}, "done": True},
]
# Without a phase the words before a call are final to whoever has only the items; parts of a summary are one text.
READ_OTHERWISE = ("a preamble without its phase", "OpenAI, a summary in parts")


def pasted(value: Any, *, document: int = 0) -> Pasted:
    text = value if isinstance(value, str) else json.dumps(value)
    return recognise_pasted(text.encode(), document=document)


def lines(values: list[Any]) -> str:
    return "\n".join(json.dumps(value) for value in values) + "\n"


def said(found: Pasted) -> list[tuple[str | None, str]]:
    """The channels and texts of what a parser reads."""
    tokens = found.input.tokens
    return [
        (message.channel, message.text) for message in harmonia.parse(found.input.text if tokens is None else tokens)
    ]


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (RAW, "text", "raw Harmony text"),
        ("Four.", "text", "plain text"),
        ("", "text", "an empty text"),
        (STRIPPED, "stripped", "text whose special tokens were removed"),
        (harmonia.encode(RAW, special="all"), "tokens", "token ids (8)"),
        ("200006, 173781 200008", "tokens", "token ids (3)"),
        ({"tokens": [1, 2]}, "tokens", "token ids (2)"),
        (json.dumps(RAW), "text", "raw Harmony text, in a JSON string"),
        (MESSAGES, "chat", "Chat Completions messages"),
        ({"model": "m", "messages": MESSAGES}, "chat", "a Chat Completions request"),
        (lines(MESSAGES), "chat", "Chat Completions messages"),
        (MESSAGES[0], "chat", "Chat Completions messages"),
        (ANSWER, "chat", "a Chat Completions answer"),
        (ITEMS, "responses", "Responses items"),
        (ITEMS[1], "responses", "Responses items"),
        ({"model": "m", "input": "Hi"}, "responses", "a Responses request"),
        ({"object": "response", "output": ITEMS[1:]}, "responses", "a Responses response"),
        (HARMONY_JSON, "harmony-json", "a conversation as Harmony JSON"),
        (write_markdown(Conversation.from_dict(HARMONY_JSON)).text, "markdown", "a conversation as Markdown"),
        (
            "data: " + json.dumps({"content": RAW, "stop": False}) + "\n\n",
            "sse",
            "a saved stream of llama.cpp (text in 1 chunk)",
        ),
        (lines(OLLAMA), "sse", "a stream of Ollama, joined to 1 message"),
        ({"status": "ok"}, "text", "plain text"),
        ({"output": 5}, "text", "plain text"),
        ([{"a": 1}], "text", "plain text"),
        ("## Notes\n\nfor `user`", "text", "plain text"),
        ("<|channel|>final<|message|>## user\n\nHi<|return|>", "text", "raw Harmony text"),
    ],
)
def test_each_kind_is_recognised(value: Any, kind: str, words: str) -> None:
    found = pasted(value)
    assert (found.input.kind, found.input.description) == (kind, words)
    assert found.is_conversation == (kind not in ("text", "tokens", "stripped") and "saved" not in words)


@pytest.mark.parametrize(
    "value", [MESSAGES, ITEMS, HARMONY_JSON, write_markdown(Conversation.from_dict(HARMONY_JSON)).text]
)
def test_what_was_typed_in_a_conversation_stays_text(value: Any) -> None:
    found = said(pasted(value))
    assert found[0] == (None, "2 + 2?")
    assert found[-1] == ("final", "Four. <|end|>")


@given(conversations)
def test_a_conversation_of_ours_is_what_it_renders_as(conversation: Conversation) -> None:
    value = write_harmony_json(conversation).value
    try:
        tokens = harmonia.render(conversation, next_role=None).tokens
    except InputError:
        return
    assert recognise_pasted(json.dumps(value).encode(), "harmony-json").input.tokens == tokens


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_streams_of_servers_that_read_the_harmony_are_put_together(stream: Stream) -> None:
    found = recognise_pasted(stream.content)
    assert found.is_conversation
    assert found.input.kind == "sse"
    assert "had parsed the Harmony itself" in found.input.notes[0]
    tokens = found.input.tokens
    assert tokens is not None
    told = [(each.channel, each.recipient, each.text) for each in harmonia.parse(tokens)]
    if stream.name in READ_OTHERWISE:
        assert len(told) == len(stream.said)
        return
    assert told == [(channel, recipient, text) for channel, recipient, text, _ in stream.said]


def test_streams_that_were_cut_off_keep_what_came() -> None:
    stream = next(each for each in STREAMS if each.api == "responses" and each.said[-1][0] == "final")
    for cut in range(1, len(stream.events)):
        content = b"".join(stream.frames()[:cut])
        found = recognise_pasted(content)
        texts = [text for _, text in said(found)] if found.is_conversation else []
        whole = [text for _, _, text, _ in stream.said]
        assert all(mine == theirs[: len(mine)] for mine, theirs in zip(texts, whole, strict=False))


def test_token_ids_and_raw_text_of_a_stream_are_taken_as_they_are() -> None:
    chunk = {"choices": [{"delta": {"content": "x"}, "token_ids": [200005, 17196]}]}
    assert pasted(f"data: {json.dumps(chunk)}\n\n").input.chunks == [[200005, 17196]]
    raw = {"choices": [{"delta": {"content": RAW}}]}
    assert pasted(f"data: {json.dumps(raw)}\n\n").input.chunks == [RAW]
    whole = {"choices": [{"message": {"role": "assistant", "content": RAW}}]}
    assert pasted(whole).input.chunks == [RAW]


# ── several ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_json_lines_the_chosen_document_is_read() -> None:
    values: list[Any] = [
        {"messages": MESSAGES},
        {"title": "The  second", "messages": [{"role": "user", "content": "b"}]},
        ITEMS,
        HARMONY_JSON,
        {"tokens": harmonia.encode(RAW, special="all")},
        RAW,
    ]
    kinds = ("chat", "chat", "responses", "harmony-json", "tokens", "text")
    for at, kind in enumerate(kinds):
        found = pasted(lines(values), document=at)
        assert (found.count, found.at, found.input.kind) == (6, at, kind)
        assert found.titles == ["2 + 2?", "The second", "2 + 2?", "2 + 2?", "", RAW]
        assert found.input.description.startswith("6 conversations as JSONL")
    with pytest.raises(InputError) as caught:
        pasted(lines(values), document=6)
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.INTERCHANGE_INVALID_VALUE, "$.document")


def test_only_the_first_titles_are_told() -> None:
    found = pasted(lines([{"messages": MESSAGES}] * (MOST_TITLES + 5)), document=MOST_TITLES + 4)
    assert (found.count, len(found.titles)) == (MOST_TITLES + 5, MOST_TITLES)


# ── what had no place, and what is refused ──────────────────────────────────────────────────────────────────────────


def test_sealed_reasoning_is_left_out_and_reported() -> None:
    sealed: dict[str, Any] = {"type": "reasoning", "encrypted_content": "gAAA", "summary": []}
    found = pasted([ITEMS[0], sealed, ITEMS[2]])
    assert [channel for channel, _ in said(found)] == [None, "final"]
    assert any("encrypted_content" in loss.path for loss in found.losses)


def test_what_is_certainly_a_conversation_and_cannot_be_read_is_an_error() -> None:
    for value, code in (
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "?"}]}, ErrorCode.INTERCHANGE_UNKNOWN_CALL),
        ([{"role": "user", "content": [{"type": "hologram"}]}], ErrorCode.INTERCHANGE_INVALID_VALUE),
    ):
        with pytest.raises(InputError) as caught:
            pasted(value)
        assert caught.value.code is code
        assert "read as" in caught.value.message


@pytest.mark.parametrize("as_", ["harmony-json", "chat", "responses"])
def test_what_is_told_to_be_a_conversation_must_be_one(as_: Any) -> None:
    for data in (b"x", b"5", b'{"a": 1}'):
        with pytest.raises(InputError):
            recognise_pasted(data, as_)


def test_a_check_may_refuse_before_anything_is_rendered() -> None:
    def refuse(conversation: Conversation) -> None:
        raise InputError(ErrorCode.SERVE_TOO_LARGE, f"{len(conversation)} messages")

    with pytest.raises(InputError) as caught:
        recognise_pasted(json.dumps(MESSAGES).encode(), check=refuse)
    assert caught.value.code is ErrorCode.SERVE_TOO_LARGE


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["user", "assistant", "tool", "message", "reasoning", "response.completed", RAW, "x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "messages",
                    "input",
                    "output",
                    "choices",
                    "type",
                    "tool_calls",
                    "delta",
                    "message",
                    "tokens",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_JSON, min_size=1, max_size=3), st.sampled_from(["", "data: "]))
@example([[{"content": None, "type": []}]], "")
def test_any_json_is_taken_or_refused_with_a_code(values: list[Any], prefix: str) -> None:
    text = "\n".join(prefix + json.dumps(value) for value in values)
    try:
        found = pasted(text)
    except InputError as error:
        assert error.code.startswith(("interchange.", "messages.", "parse.")) and error.at.path is not None
        return
    assert found.input.kind in get_args(Kind)
    said(found)  # a parser reads it


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ('{"messages": [{"role": "user"},', 31),
        ('{"a": 1,}', 7 if sys.version_info >= (3, 13) else 8),  # newer Pythons point to the comma
        ('[{"role":', 9),
        ('["a" "b"]', 5),
    ],
)
def test_broken_json_is_told_with_its_place(text: str, character: int) -> None:
    found = pasted(text).input
    assert found.kind == "text"
    assert any(f"character {character}:" in note for note in found.notes)


@pytest.mark.parametrize("text", ["{hello} you", "[note] x", "[1] as he said", RAW, "{'a': 1}"])
def test_words_in_brackets_are_no_broken_json(text: str) -> None:
    assert not any("JSON" in note for note in pasted(text).input.notes)
