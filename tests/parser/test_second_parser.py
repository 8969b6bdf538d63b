"""A slow parser of a few lines reads the same messages as ours, out of whatever both understand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harmonia import parse
from harmonia.vocabulary import CALL, CHANNEL, END, RETURN, START
from tests.support.oracle_cases import compared
from tests.support.reference import pieces_of_text, pieces_of_tokens, read
from tests.support.repeated import repeated
from tests.support.strategies.streams import Stream, plain_bodies, spelling_bodies, truth_of, well_formed

STOPS = (END, CALL, RETURN)
_GIVEN_UP: list[list[int | str]] = [[CHANNEL, "commentary to=assistant"], [CHANNEL, "analysis"]]
WHAT = "streams compared with the slow parser"


def assert_read_alike(stream: Stream, *, as_text: bool) -> None:
    data, pieces = (
        (stream.text, pieces_of_text(stream.text)) if as_text else (stream.tokens, pieces_of_tokens(stream.tokens))
    )
    assert [truth_of(message) for message in parse(data, stream.role).messages] == read(pieces, stream.role)
    compared(WHAT)


@st.composite
def simply_damaged(draw: st.DrawFn, bodies: st.SearchStrategy[str]) -> Stream:
    """A stream with one of the faults that the slow parser knows, at some of the places where it can be."""
    stream = draw(well_formed(bodies=bodies))
    parts = list(stream.segments)
    damaged: list[int | str] = []
    for at, part in enumerate(parts):
        is_hit = draw(st.booleans())
        behind = parts[at + 1 :]
        if part in STOPS and is_hit and (not behind or behind[0] == START):
            continue  # the next message, or the end of the stream, cuts this one off
        if part == START and is_hit and behind[:2] == ["assistant", CHANNEL]:
            parts[at + 1] = ""  # the channel begins the header
            continue
        is_headed = parts[at - 1] == "assistant" if at else stream.role == "assistant"
        if part == CHANNEL and is_hit and is_headed:
            damaged += draw(st.sampled_from([[" Sure, here it is: "], [" Here is the json "], *_GIVEN_UP]))
        damaged.append(part)
        if part in STOPS and is_hit:
            damaged += draw(st.lists(st.sampled_from([END, RETURN, CALL, "\n", " "]), max_size=3))
    return Stream(stream.role, tuple(part for part in damaged if part != ""), stream.messages)


@repeated(given(well_formed(bodies=plain_bodies | spelling_bodies)), some=150, many=1000)
def test_well_formed_tokens_read_like_the_slow_parser_reads_them(stream: Stream) -> None:
    assert_read_alike(stream, as_text=False)


@repeated(given(well_formed()), some=100, many=500)
def test_well_formed_text_reads_like_the_slow_parser_reads_it(stream: Stream) -> None:
    assert_read_alike(stream, as_text=True)


@repeated(given(simply_damaged(plain_bodies | spelling_bodies)), some=150, many=1000)
def test_simply_damaged_tokens_read_like_the_slow_parser_reads_them(stream: Stream) -> None:
    assert_read_alike(stream, as_text=False)


@repeated(given(simply_damaged(plain_bodies)), some=100, many=500)
def test_simply_damaged_text_reads_like_the_slow_parser_reads_it(stream: Stream) -> None:
    assert_read_alike(stream, as_text=True)


@given(well_formed())
def test_the_slow_parser_reads_the_truth(stream: Stream) -> None:
    assert read(pieces_of_tokens(stream.tokens), stream.role) == list(stream.messages)
