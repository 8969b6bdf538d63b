"""The machine does a bounded amount of work for each token, and holds back no more than its limits say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import Limits, Parser, parse
from harmonia.errors import ErrorCode
from harmonia.events import Event, Repaired, Skipped, TextDelta
from harmonia.vocabulary import CHANNEL, END, MESSAGE, START, encode
from tests.support.call_counts import counting_calls
from tests.support.laws import (
    Data,
    assert_every_split,
    assert_grammar,
    assert_nothing_lost,
    assert_strict_agrees,
    spelled,
)
from tests.support.repeated import repeated
from tests.support.strategies.streams import (
    GIVEN_ROLES,
    GivenRole,
    mutated_texts,
    mutated_tokens,
    random_texts,
    random_tokens,
)

HEADER = [CHANNEL, *encode("final"), MESSAGE]
MANY = 600


def count_calls(chunks: Sequence[Any], role: GivenRole) -> int:
    """How many functions are called, built-in ones among them, to parse a stream chunk by chunk."""
    parser = Parser(role)
    with counting_calls() as count:
        for chunk in chunks:
            parser.feed(chunk)
        parser.close()
    return count.calls


# What a stream of n units looks like, for every buffer there is and for every kind of fault that may come in thousands.
LONG_STREAMS: dict[str, Callable[[int], list[int]]] = {
    "a body": lambda n: [*HEADER, *encode(" word") * n, END],
    "a body of broken characters": lambda n: [*HEADER, *[158] * n, END],
    "a body of reserved tokens": lambda n: [*HEADER, *[200013] * n, END],
    "a body of unknown tokens": lambda n: [*HEADER, *[-1] * n, END],
    "a body of spelled tokens": lambda n: [*HEADER, *encode("<|end|> ") * n, END],
    "a body of repeated <|message|>": lambda n: [*HEADER, *[MESSAGE] * n, END],
    "a header of words": lambda n: [CHANNEL, *encode(" word") * n],
    "a header of recipients": lambda n: [CHANNEL, *encode(" to=functions.x") * n, MESSAGE, END],
    "a header of channels": lambda n: [*([CHANNEL, *encode("final")] * n), MESSAGE, END],
    "a header of white space": lambda n: [CHANNEL, *encode("\n") * n],
    "a header of broken characters": lambda n: [CHANNEL, *[158] * n],
    "repeated <|start|>": lambda n: [START] * n,
    "empty headers": lambda n: [START, *encode("assistant")] * n,
    "repeated stops": lambda n: [*HEADER, *[END] * n],
    "reserved tokens between messages": lambda n: [*HEADER, END, *[200013] * n],
    "words between messages": lambda n: [*HEADER, END, *encode(" word") * n],
    "words of headers between messages": lambda n: [*HEADER, END, *encode(" final") * n],
    "white space between messages": lambda n: [*HEADER, END, *encode("\n") * n],
    "messages without <|end|>": lambda n: [*HEADER, *encode("Hm")] * n,
    "messages without <|start|>": lambda n: [*HEADER, *encode("Hm"), END] * n,
    "text without a special token": lambda n: encode(" word") * n,
    "stripped text": lambda n: encode("assistantfinalFour.") * n,
    "headers that are not one": lambda n: encode("to=x to=") * n,
}


@pytest.mark.parametrize("role", GIVEN_ROLES)
@pytest.mark.parametrize("name", LONG_STREAMS)
def test_twice_as_many_tokens_take_twice_as_much_work(name: str, role: GivenRole) -> None:
    make = LONG_STREAMS[name]
    count_calls(make(3), role)  # what is loaded or remembered at first
    once, twice = count_calls(make(MANY), role), count_calls(make(2 * MANY), role)
    assert twice <= 2.2 * once, f"{once:,} calls, and {twice:,} for twice the tokens"


@pytest.mark.parametrize("name", LONG_STREAMS)
def test_twice_as_many_characters_take_twice_as_much_work(name: str) -> None:
    def text(count: int) -> bytes:
        return spelled(LONG_STREAMS[name](count)).encode()

    def one_by_one(count: int) -> list[bytes]:
        data = text(count)
        return [data[at : at + 1] for at in range(len(data))]

    count_calls(one_by_one(3), "assistant")
    once, twice = (count_calls(one_by_one(count), "assistant") for count in (MANY // 3, 2 * MANY // 3))
    assert twice <= 2.2 * once, f"{once:,} calls, and {twice:,} for twice the characters"


# Text that regular expressions may walk over again and again: calls are not counted inside them, so this is the one
# place where time is. Eight times the text may take three times eight as long, which nothing quadratic does.
REPEATED = [
    "a",
    "word-word.",
    "assistantfinalFour.",
    "analysis ",
    "to=x",
    "commentary to=x json{",
    " ",
    "a.b ",
    "{",
    "<|",
]


@pytest.mark.parametrize("prefix", ["", "<|channel|>", "<|channel|>final<|message|>", "<|end|>"])
@pytest.mark.parametrize("repeated", REPEATED)
def test_no_expression_walks_over_the_same_text_again_and_again(repeated: str, prefix: str) -> None:
    limits = Limits(header_chars=1_000_000)

    def seconds(length: int) -> float:
        text = prefix + repeated * (length // len(repeated))
        began = process_time()
        parse(text, "assistant", limits=limits)
        return process_time() - began

    once, eightfold = (min(seconds(length) for _ in range(3)) for length in (500, 4_000))
    assert eightfold <= 24 * max(once, 0.0005)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

small_limits = st.builds(Limits, st.integers(0, 30), st.integers(0, 30), st.integers(0, 12))


@repeated(
    given(mutated_tokens() | st.tuples(random_tokens, st.sampled_from(GIVEN_ROLES)), small_limits), some=50, many=200
)
def test_limits_lose_no_token_and_change_nothing_but_once(damaged: tuple[list[int], GivenRole], limits: Limits) -> None:
    tokens, role = damaged
    parsed = parse(tokens, role, limits=limits)
    assert_grammar(parsed.events)
    assert_nothing_lost(tokens, parsed.events)
    assert_strict_agrees(tokens, parsed, role=role, limits=limits)
    assert_every_split(tokens, most_cuts=12, role=role, limits=limits)


@repeated(
    given(mutated_texts() | st.tuples(random_texts, st.sampled_from(GIVEN_ROLES)), small_limits), some=50, many=200
)
def test_limits_lose_no_character_and_change_nothing_but_once(damaged: tuple[str, GivenRole], limits: Limits) -> None:
    text, role = damaged
    parsed = parse(text, role, limits=limits)
    assert_grammar(parsed.events)
    assert_nothing_lost(text, parsed.events)
    assert_strict_agrees(text, parsed, role=role, limits=limits)
    assert_every_split(text, most_cuts=12, role=role, limits=limits)


def codes(events: Sequence[Event]) -> list[ErrorCode]:
    return [event.diagnostic.code for event in events if isinstance(event, Repaired)]


def test_a_header_that_passes_its_limit_is_settled_before_it_ends() -> None:
    parser = Parser("assistant", limits=Limits(header_chars=40))
    events = [event for token in [CHANNEL, *encode("analysis" + " word" * 20)] for event in parser.feed(token)]
    assert ErrorCode.HEADER_TOO_LONG in codes(events)
    assert any(isinstance(event, TextDelta) for event in events)


def test_white_space_between_messages_is_let_go_at_the_limit() -> None:
    parser = Parser(limits=Limits(header_chars=10))
    parser.feed("<|start|>user<|message|>Hi<|end|>")
    assert any(isinstance(event, Skipped) for event in parser.feed("\n" * 11))
    assert codes(parser.close()) == []


def test_a_body_that_passes_its_limit_is_reported_once_and_its_deltas_go_on() -> None:
    parsed = parse("<|channel|>final<|message|>Twelve words.<|end|>", "assistant", limits=Limits(body_chars=6))
    assert [found.code for found in parsed.diagnostics] == [ErrorCode.BODY_TOO_LONG]
    assert parsed.messages[0].content == "Twelve"
    assert "".join(event.text for event in parsed.events if isinstance(event, TextDelta)) == "Twelve words."


@pytest.mark.parametrize("mode", ["tolerant", "strict"])
def test_an_empty_stream_is_well_formed_where_a_conversation_may_be_empty(mode: Any) -> None:
    empty: tuple[Data, ...] = ([], "", b"")
    for data in empty:
        assert parse(data, mode=mode).messages == ()
