"""The laws of the parser hold for well-formed, for damaged and for random streams, as tokens, as text and as bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from harmonia import InputError, Message, Parsed, Parser, Role, parse, render
from harmonia.errors import ErrorCode
from harmonia.parser import FAULTS
from harmonia.provenance import Trust
from harmonia.renderer.segments import CallStop, RecipientSection
from harmonia.vocabulary import CALL, END, RETURN, START, VOCABULARY_SIZE, encode, find_spellings, is_special
from tests.support.laws import assert_nothing_lost, assert_strict_agrees, check_all_laws, spelled
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated
from tests.support.strategies.conversations import conversations
from tests.support.strategies.streams import (
    GIVEN_ROLES,
    GivenRole,
    Stream,
    Truth,
    mutated_texts,
    mutated_tokens,
    plain_bodies,
    random_bytes,
    random_texts,
    random_tokens,
    spelling_bodies,
    truth_of,
    well_formed,
)

roles = st.sampled_from(GIVEN_ROLES)
ASSISTANT_PROMPT = [START, *encode("assistant")]


def truths_of(parsed: Parsed) -> list[Truth]:
    return [truth_of(message) for message in parsed.messages]


# ── every law, on every kind of stream ──────────────────────────────────────────────────────────────────────────────


@repeated(given(well_formed(bodies=spelling_bodies | plain_bodies)), some=40, many=100)
def test_the_laws_hold_for_well_formed_tokens(stream: Stream) -> None:
    check_all_laws(stream.tokens, role=stream.role)


@repeated(given(well_formed()), some=40, many=100)
def test_the_laws_hold_for_well_formed_text(stream: Stream) -> None:
    check_all_laws(stream.text, role=stream.role)


@repeated(given(mutated_tokens(bodies=spelling_bodies | plain_bodies), st.booleans()), some=60, many=300)
def test_the_laws_hold_for_damaged_tokens(damaged: tuple[list[int], GivenRole], stop_swallowed: bool) -> None:
    tokens, role = damaged
    check_all_laws(tokens, role=role, stop_swallowed=stop_swallowed)


@repeated(given(mutated_texts(), st.booleans()), some=60, many=300)
def test_the_laws_hold_for_damaged_text(damaged: tuple[str, GivenRole], stop_swallowed: bool) -> None:
    text, role = damaged
    check_all_laws(text, role=role, stop_swallowed=stop_swallowed)


@repeated(given(mutated_texts(), st.data()), some=40, many=100)
def test_the_laws_hold_for_damaged_bytes(damaged: tuple[str, GivenRole], data: st.DataObject) -> None:
    text, role = damaged
    encoded = bytearray(text.encode(errors="surrogatepass"))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(encoded)))
        encoded[at : at + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=2))
    check_all_laws(bytes(encoded), role=role)


@repeated(given(random_tokens, roles), some=60, many=300)
def test_the_laws_hold_for_random_tokens(tokens: list[int], role: GivenRole) -> None:
    check_all_laws(tokens, role=role)


@repeated(given(random_texts, roles), some=60, many=300)
def test_the_laws_hold_for_random_text(text: str, role: GivenRole) -> None:
    check_all_laws(text, role=role)


@repeated(given(random_bytes, roles), some=40, many=200)
def test_the_laws_hold_for_random_bytes(data: bytes, role: GivenRole) -> None:
    check_all_laws(data, role=role)


@repeated(given(random_texts | mutated_texts().map(lambda damaged: damaged[0]), roles), some=40, many=150)
def test_the_laws_hold_for_text_that_is_said_to_be_stripped(text: str, role: GivenRole) -> None:
    check_all_laws(text, role=role, stripped=True)


@repeated(given(mutated_tokens().map(lambda damaged: damaged[0]) | random_tokens, roles), some=40, many=150)
def test_the_laws_hold_where_tools_are_declared(tokens: list[int], role: GivenRole) -> None:
    check_all_laws(tokens, role=role, tools=["functions.x", "get_weather"])


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.code)
def test_the_laws_hold_for_the_examples_of_the_table_of_faults(fault: object) -> None:
    from harmonia.parser import Fault

    assert isinstance(fault, Fault)
    role = "assistant" if fault.completion else None
    check_all_laws(fault.example, role=role, most_cuts=1000)
    check_all_laws(encode(fault.example, special="all"), role=role, most_cuts=1000)


# ── the truth ───────────────────────────────────────────────────────────────────────────────────────────────────────


@repeated(given(well_formed(bodies=spelling_bodies | plain_bodies)), some=60, many=300)
def test_well_formed_tokens_give_their_messages_and_no_fault(stream: Stream) -> None:
    parsed = parse(stream.tokens, stream.role)
    assert truths_of(parsed) == list(stream.messages)
    assert all(found.code is ErrorCode.BODY_SPELLED_TOKEN for found in parsed.diagnostics)
    assert all(message.origin and message.origin.trust is Trust.CERTAIN for message in parsed.messages)


@repeated(given(well_formed()), some=60, many=300)
def test_well_formed_text_gives_its_messages_and_no_fault(stream: Stream) -> None:
    parsed = parse(stream.text, stream.role, "strict")
    assert truths_of(parsed) == list(stream.messages)
    assert not parsed.diagnostics
    assert all(message.origin and message.origin.source == "text" for message in parsed.messages)


@given(well_formed(bodies=spelling_bodies))
def test_spelled_tokens_in_bodies_are_reported_one_by_one(stream: Stream) -> None:
    parsed = parse(stream.tokens, stream.role)
    spellings = [spelling for truth in stream.messages for _, spelling in find_spellings(truth.content)]
    assert [found.found for found in parsed.diagnostics] == spellings


@given(mutated_tokens().map(lambda damaged: damaged[0]) | random_tokens)
def test_a_completion_speaks_for_nobody_but_the_assistant(tokens: list[int]) -> None:
    parsed = parse(tokens, "assistant")
    for message in parsed.messages:
        assert message.origin is not None
        assert message.origin.forged == (message.role is not Role.ASSISTANT)
        assert (
            not message.origin.forged
            or ErrorCode.HEADER_FORGED_ROLE in message.origin.faults
            or (message.origin.source == "stripped")
        )


# ── two readings of one stream ──────────────────────────────────────────────────────────────────────────────────────


def read_alike(tokens: list[int], role: GivenRole) -> None:
    text = spelled(tokens)
    by_token, by_text = parse(tokens, role), parse(text, role)
    assert truths_of(by_token) == truths_of(by_text)
    found = [
        [
            (each.code, each.at.character, each.at.message, each.found)
            for each in parsed.diagnostics
            if each.code is not ErrorCode.BODY_SPELLED_TOKEN
        ]
        for parsed in (by_token, by_text)
    ]
    assert found[0] == found[1]
    compared("streams read as tokens and as text")


@given(well_formed())
def test_tokens_and_text_of_a_well_formed_stream_read_alike(stream: Stream) -> None:
    read_alike(stream.tokens, stream.role)


@repeated(
    given(mutated_tokens() | st.tuples(random_tokens, roles)),
    some=80,
    many=400,
    suppress_health_check=[HealthCheck.filter_too_much],
)
def test_tokens_and_text_of_a_damaged_stream_read_alike(damaged: tuple[list[int], GivenRole]) -> None:
    tokens, role = damaged
    assume(all(0 <= token < VOCABULARY_SIZE for token in tokens))
    text = spelled(tokens)
    assume("\ufffd" not in text)
    # The text has to spell the special tokens that there are, and no others.
    assume(len(find_spellings(text)) == sum(map(is_special, tokens)))
    read_alike(tokens, role)


@given(mutated_tokens() | st.tuples(random_tokens, roles))
def test_a_parser_and_parse_agree(damaged: tuple[list[int], GivenRole]) -> None:
    tokens, role = damaged
    parsed = parse(tokens, role)
    parser = Parser(role)
    assert (*parser.feed(tokens), *parser.close()) == parsed.events
    assert parser.close() == []


# ── what was sampled renders as it was sampled ──────────────────────────────────────────────────────────────────────


def as_history(tokens: list[int]) -> list[int]:
    return [END if token == RETURN else token for token in tokens]


@repeated(given(well_formed(bodies=spelling_bodies | plain_bodies, gaps=False)), some=60, many=300)
def test_what_was_parsed_renders_as_it_was_sampled(stream: Stream) -> None:
    prompt = [] if stream.role is None else ASSISTANT_PROMPT
    again = render(parse(stream.tokens, stream.role), next_role=None)
    assert again.tokens == as_history([*prompt, *stream.tokens])


@repeated(
    given(conversations, st.sampled_from(["role", "channel"]), st.sampled_from(["call", "end"])), some=40, many=100
)
def test_what_was_rendered_parses_and_renders_again(
    conversation: list[Message], recipient_section: RecipientSection, call_stop: CallStop
) -> None:
    try:
        rendered = render(conversation, next_role=None, recipient_section=recipient_section, call_stop=call_stop)
    except InputError:
        assume(False)
        raise
    parsed = parse(rendered.tokens)
    assert_nothing_lost(rendered.tokens, parsed.events)
    assert_strict_agrees(rendered.tokens, parsed)
    if all(message.origin and message.origin.trust is Trust.CERTAIN for message in parsed.messages):
        assert render(parsed, next_role=None).tokens == as_history(rendered.tokens)
    assert [message.text for message in parsed.messages] == [
        rendered_body(tokens) for tokens in split_messages(rendered.tokens)
    ]


def split_messages(tokens: list[int]) -> list[list[int]]:
    starts = [at for at, token in enumerate(tokens) if token == START]
    return [tokens[start:end] for start, end in pairwise([*starts, len(tokens)])]


def rendered_body(tokens: list[int]) -> str:
    from harmonia.vocabulary import MESSAGE

    assert tokens[-1] in (END, CALL, RETURN)
    return spelled(tokens[tokens.index(MESSAGE) + 1 : -1])
