"""Parts while the model speaks: the same as at the end, and nothing that was shown is taken back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Limits, Parser, encode, parse
from harmonia.parts import (
    Part,
    PartDelta,
    PartEnded,
    PartStarted,
    PartStream,
    Text,
    Think,
    ToolCall,
    parts_of,
)
from harmonia.parts.message_parts import PartUpdate
from tests.parts.feeding import Chunks, feed, ways_to_feed
from tests.parts.marked_streams import SPECIALS, VISIBLE_WORDS, WORDS, damaged_streams, spell

STREAM = (
    "<|channel|>analysis<|message|> Let me\n\n see. \n<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|> \n <|end|>"
    '<|start|>assistant<|channel|>commentary to=mcp__db__sql <|constrain|>json<|message|> {"a": "é"} <|call|>'
    "<|start|>assistant<|channel|>final<|message|>\tFöur  and\r\n five. <|return|>"
)


def stream(chunks: Chunks, role: str | None = "assistant", *, show_guessed: bool = False) -> list[PartUpdate]:
    parts = PartStream(show_guessed=show_guessed)
    return [update for events in feed(Parser(role), chunks) for update in parts.feed(events)]


def text_of(part: Part) -> str:
    return part.raw if isinstance(part, ToolCall) else part.text


def parts_by_updates(updates: Sequence[PartUpdate]) -> list[Part]:
    """The parts that ended; each is checked to have started first and to be what its deltas said."""
    parts: list[Part] = []
    texts: list[str] | None = None
    kind = None
    for update in updates:
        assert update.index == len(parts)
        match update:
            case PartStarted():
                assert texts is None
                texts, kind = [], update.kind
            case PartDelta():
                assert texts is not None and update.text
                texts.append(update.text)
                if kind != "tool_call":
                    shown = "".join(texts)
                    assert shown == shown.strip(), "white space was shown that may have to be taken back"
            case PartEnded():
                assert texts is not None and "".join(texts) == text_of(update.part)
                ended = {Think: "think", Text: "text", ToolCall: "tool_call"}[type(update.part)]
                # Only the end of a message may say that its text is not for the user.
                assert kind == ended or (kind, ended) == ("text", "think")
                parts.append(update.part)
                texts = None
    assert texts is None
    return parts


def test_a_stream_gives_the_parts_of_its_messages_however_it_arrives() -> None:
    for chunks in ways_to_feed(STREAM):
        whole = encode(STREAM, special="all") if isinstance(chunks[0], int | list) else STREAM
        assert parts_by_updates(stream(chunks)) == parts_of(parse(whole, "assistant")), chunks


def test_white_space_is_held_back_until_more_text_comes() -> None:
    updates = stream(["<|channel|>final<|message|>", " ", "a ", "\n", " b", " ", "<|return|>"])
    assert updates == [
        PartStarted(0, "text"),
        PartDelta(0, "a"),
        PartDelta(0, " \n b"),
        PartEnded(0, Text("a \n b")),
    ]


def test_a_text_of_nothing_but_white_space_never_starts() -> None:
    assert stream(["<|channel|>final<|message|> ", "\n", "<|return|>"]) == []


def test_a_call_starts_with_its_header_and_tells_the_tool() -> None:
    updates = stream(["<|channel|>commentary to=mcp__db__sql<|message|>", "<|call|>"])
    assert updates[0] == PartStarted(0, "tool_call", "db", "sql", "call_0")
    (ended,) = updates[1:]
    assert isinstance(ended, PartEnded) and isinstance(ended.part, ToolCall) and ended.part.id == "call_0"


def test_the_arguments_of_a_call_are_verbatim() -> None:
    updates = stream(["<|channel|>commentary to=functions.x<|message|>", " {", "}\n", "<|call|>"])
    assert [update.text for update in updates if isinstance(update, PartDelta)] == [" {", "}\n"]


def test_a_content_type_at_the_head_of_a_body_starts_no_second_part() -> None:
    text = "<|channel|>commentary to=functions.x<|message|><|constrain|> json {}<|call|>"
    assert parts_by_updates(stream(list(text))) == parts_of(parse(text, "assistant"))


def test_ids_count_messages_and_indices_count_parts() -> None:
    text = "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>commentary to=python<|message|>1<|call|>"
    (started, *_) = stream([text], None)
    assert started == PartStarted(0, "tool_call", None, "python", "call_1")


@pytest.mark.parametrize("show_guessed", [True, False])
def test_stripped_text_streams_as_it_is_read_at_the_end(show_guessed: bool) -> None:
    text = "analysisWe need a number.assistantfinalFour."
    parts = parts_by_updates(stream(list(text), show_guessed=show_guessed))
    assert parts == parts_of(parse(text, "assistant"), show_guessed=show_guessed)
    assert isinstance(parts[-1], Text) is show_guessed


def test_a_body_that_passes_its_limit_still_ends_its_part() -> None:
    parts = PartStream()
    chunks = ["<|channel|>final<|message|>", "  ", "Four.", "<|return|>"]
    events = feed(Parser("assistant", limits=Limits(body_chars=1)), chunks)
    assert [type(update) for some in events for update in parts.feed(some)] == [PartStarted, PartDelta, PartEnded]


_pieces = st.sampled_from((*SPECIALS, *WORDS, *VISIBLE_WORDS, "{}", "é ", "\u3000", "a b", " to=browser.open"))
_streams = st.lists(_pieces, max_size=25).map("".join) | damaged_streams().map(spell)


@given(_streams, st.lists(st.integers(0, 200), max_size=12), st.booleans(), st.booleans(), st.booleans())
def test_any_stream_gives_the_parts_of_its_messages(
    text: str, cuts: list[int], as_tokens: bool, is_completion: bool, show_guessed: bool
) -> None:
    role = "assistant" if is_completion else None
    whole = encode(text, special="all") if as_tokens else text
    bounds = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    chunks = [whole[start:end] for start, end in pairwise(bounds)]
    updates = stream(chunks, role, show_guessed=show_guessed)
    assert parts_by_updates(updates) == parts_of(parse(whole, role), show_guessed=show_guessed)
