"""The mode `reference` raises what openai-harmony raises, at the same token and in the same words, and nothing else."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harmonia import ErrorCode, InputError, Parser, Role, StreamError, Trust, parse
from harmonia.events import Event, MessageEnded, Skipped, SpannedEvent
from harmonia.parser.reference import Refusal, read_as_reference
from harmonia.vocabulary import FIRST_SPECIAL, MESSAGE, VOCABULARY_SIZE, encode
from tests.support.oracle_cases import compared
from tests.support.repeated import repeated

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

_WORDS = (
    *("assistant", "user", "tool", "functions.x", "narrator", "user:alice", "final", "analysis", " commentary"),
    *(" to=functions.x", " to=", "to=x", " json", "json", " Hello there", " ", "\n", "\v", "\x85", "\u00a0", "\u200b"),
    *("é", "x\u0301", "\u0bbe", '"a\\b', "\0", "\x1c", "\ue000", "'", "\u2028"),
)
_SPELLED = st.sampled_from(_WORDS).map(encode)
_MARKS = st.sampled_from([200002, 200003, 200005, 200006, 200007, 200008, 200012]).map(lambda token: [token])
_ODD = st.one_of(
    st.integers(FIRST_SPECIAL, VOCABULARY_SIZE + 5), st.integers(0, FIRST_SPECIAL - 1), st.just(9552), st.just(300_000)
).map(lambda token: [token])
streams = st.lists(st.one_of(_MARKS, _MARKS, _SPELLED, _SPELLED, _ODD), max_size=14).map(
    lambda pieces: list(chain.from_iterable(pieces))
)
roles: st.SearchStrategy[str | None] = st.sampled_from([None, "assistant", "assistant", "user", "tool"])


def theirs_by_token(encoding: HarmonyEncoding, tokens: list[int], role: str | None) -> list[str | None]:
    """What the reference says at each token, and at the end; it is fed on after an error, as some programs do."""
    from openai_harmony import Role as TheirRole
    from openai_harmony import StreamableParser

    parser = StreamableParser(encoding, None if role is None else TheirRole(role))
    said: list[str | None] = []
    for step in [*((lambda token=token: parser.process(token)) for token in tokens), parser.process_eos]:
        try:
            step()
        except RuntimeError as error:
            said.append(str(error))
        else:
            said.append(None)
    return said


_PARTED = {ErrorCode.STREAM_TEXT_OUTSIDE, ErrorCode.HEADER_MISSING_MESSAGE}


def ours_by_token(tokens: list[int], role: str | None) -> tuple[list[str | None], list[Event]]:
    parser = Parser(role, "reference")
    said: list[str | None] = []
    events: list[Event] = []
    for step in [*((lambda token=token: parser.feed(token)) for token in tokens), parser.close]:
        try:
            events += step()
        except StreamError as error:
            said.append(error.message)
            events += cast("list[Event]", error.events)
        else:
            said.append(None)
    return said, events


@repeated(given(streams, roles), some=120, many=600)
@example([200005, 200008, 200007, 200007, 200006], "assistant")
@example([200006, 9552, 200008], None)
@example([200006, 300_000, 200008], None)
def test_raises_what_the_reference_raises(
    reference_encoding: HarmonyEncoding, tokens: list[int], role: str | None
) -> None:
    theirs = theirs_by_token(reference_encoding, tokens, role)
    ours, events = ours_by_token(tokens, role)
    assert ours == theirs
    if theirs[-1] is None:
        spans = [(event.start_token, event.end_token) for event in events if isinstance(event, SpannedEvent)]
        assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])][: len(spans)]
        assert (spans[-1][1] if spans else 0) == len(tokens)
    first = next((message for message in theirs if message is not None), None)
    compared(f"reference mode: {'the same error' if first else 'no error'}")
    if first is None:
        whole = parse(tokens, role, "reference")
        assert list(whole.messages) == [event.message for event in events if isinstance(event, MessageEnded)]
        tolerant = parse(tokens, role)
        if _PARTED.intersection(found.code for found in tolerant.diagnostics):
            return  # what the reference takes for words of a header is a message of its own
        for message, read in zip(whole.messages, tolerant.messages, strict=True):
            if message.origin is not None and message.origin.trust is not Trust.GUESSED:
                assert message == read
    else:
        with pytest.raises(StreamError) as raised:
            parse(tokens, role, "reference")
        assert raised.value.message == first


@repeated(given(streams, roles), some=80, many=400)
@example(encode("<|channel|>analysis commentary<|message|>Hm.<|end|>", special="all"), "assistant")
@example(encode("<|channel|>commentary to= functions.x<|message|>{}<|call|>", special="all"), "assistant")
@example(encode("<|channel|>finaljson<|message|>{}<|return|>", special="all"), "assistant")
def test_a_guess_does_not_replace_the_references_reading(
    reference_encoding: HarmonyEncoding, tokens: list[int], role: str | None
) -> None:
    from openai_harmony import Role as TheirRole

    try:
        theirs = reference_encoding.parse_messages_from_completion_tokens(
            tokens, None if role is None else TheirRole(role)
        )
    except RuntimeError:
        return
    ours = parse(tokens, role, "reference").messages
    for index, message in enumerate(ours):
        origin = message.origin
        assert origin is not None
        # A header that ends with <|message|> is one that the reference may have read.
        is_whole = origin.header.end_token and tokens[origin.header.end_token - 1] == MESSAGE
        if origin.trust is Trust.GUESSED and is_whole and len(ours) == len(theirs):
            read = theirs[index]
            assert (message.channel, message.recipient, message.content_type) == (
                read.channel,
                read.recipient,
                read.content_type,
            )
            assert (message.role.value, message.name) == (read.author.role.value, read.author.name)
            compared("reference mode: a guess that was not made")


def test_nothing_is_said_of_a_header_that_may_be_refused() -> None:
    """`Hello<|return|>` without a header: a tolerant parser has a message here, the reference has none yet."""
    for rest in (" and more<|message|>", "<|start|>assistant<|channel|>final<|message|>"):
        parser = Parser("assistant", "reference")
        assert [parser.feed(token) for token in encode("Hello<|return|>", special="all")] == [[], []]
        assert parser.state == "header"
        try:
            events = parser.feed(encode(rest, special="all"))
        except StreamError as error:
            assert "more" in rest
            events = error.events
        assert next(event.message.text for event in events if isinstance(event, MessageEnded)) == "Hello"


@pytest.mark.parametrize(
    ("text", "role", "code", "token", "message"),
    [
        ("<|channel|>final<|message|>Hi<|end|> more", "assistant", "stream.text_outside", 5, "Unexpected token 945"),
        ("<|message|>Hi<|end|><|return|>", "assistant", "stream.repeated_stop", 3, "Unexpected token 200002 while"),
        ("<|channel|>final<|message|>Hi", None, "stream.missing_start", 0, "Unexpected token 200005 while"),
        ("<|reserved_200010|>", None, "stream.reserved_token", 0, "Unexpected token 200010 while"),
        ("<|start|>narrator<|message|>", None, "header.unknown_role", 4, "Unknown role: narrator"),
        ("<|start|> <|message|>", None, "header.empty_role", 2, "message header did not contain a role"),
        ("<|channel|><|message|>", "assistant", "header.empty_channel", 1, "channel marker present but no channel"),
        (" a to=b<|message|>", "assistant", "header.unexpected_text", 3, 'remaining in message header: Some("a")'),
        ("<|channel|>final", "assistant", "header.unfinished", 2, "Unexpected EOS while waiting for message header"),
    ],
)  # fmt: skip
def test_errors_have_our_code_and_position(text: str, role: str | None, code: str, token: int, message: str) -> None:
    with pytest.raises(StreamError) as raised:
        parse(encode(text, special="all"), role, "reference")
    assert raised.value.code is ErrorCode(code)
    assert raised.value.at.token == token
    assert message in raised.value.message


def test_it_can_be_fed_again_behind_an_error() -> None:
    parser = Parser("assistant", "reference")
    parser.feed(encode("<|channel|>final<|message|>One<|end|>", special="all"))
    with pytest.raises(StreamError) as raised:
        parser.feed(encode(" lost", special="all"))
    assert [type(event) for event in raised.value.events] == [Skipped]
    events = parser.feed(encode("<|start|>assistant<|channel|>final<|message|>Two<|return|>", special="all"))
    assert [event.message.text for event in events if isinstance(event, MessageEnded)] == ["Two"]
    assert parser.close() == []


def test_text_is_refused() -> None:
    with pytest.raises(InputError, match="token ids only"):
        Parser("assistant", "reference").feed("<|channel|>final")


@pytest.mark.parametrize("header", ["", "assistant", "assistant to=x<|channel|>final json", "to=x", "f to=assistant"])
def test_headers_that_pass(header: str) -> None:
    assert not isinstance(read_as_reference(header, None if header else Role.ASSISTANT), Refusal)


def test_a_long_stream_of_refusals_is_linear() -> None:
    """Behind an error nothing is looked at twice: each refused token is one event."""
    parser = Parser(None, "reference")
    for _ in range(1_000):
        with pytest.raises(StreamError) as raised:
            parser.feed([5])
        assert len(raised.value.events) == 1
