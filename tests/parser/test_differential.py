"""Our messages against openai-harmony's, on well-formed and on damaged streams.

Whatever the reference accepts, strictly or not, must give the same messages here. Where it is wrong, or knows less, the
difference is intended: tests/data/parser-differences.jsonl records each kind with an example, what both sides make of
it, and the reason. A difference of no recorded kind fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from harmonia import Conversation, InputError, Parsed, parse, render
from harmonia.errors import ErrorCode
from harmonia.renderer.segments import RecipientSection
from harmonia.vocabulary import FIRST_SPECIAL, encode
from tests.support.oracle_cases import compared
from tests.support.paths import ROOT
from tests.support.strategies.conversations import conversations
from tests.support.strategies.streams import GivenRole, Stream, plain_bodies, spelling_bodies, well_formed

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

CASES = 60
MANY_CASES = 3_000


class Fields(NamedTuple):
    """What a message says, in the words of both parsers."""

    role: str
    name: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    content: str


class Difference(NamedTuple):
    """An intended difference: `reference` has what strict and tolerant parsing give, None where that raises."""

    kind: str
    reason: str
    input: str
    role: GivenRole
    strict: list[Fields] | None
    lax: list[Fields] | None
    ours: list[Fields]
    codes: list[str]


def _read_fields(listed: Any) -> list[Fields] | None:
    return None if listed is None else [Fields(*fields) for fields in listed]


def _read_difference(line: str) -> Difference:
    found = json.loads(line)
    ours = _read_fields(found["ours"])
    assert ours is not None
    reference = found["reference"]
    strict, lax = _read_fields(reference["strict"]), _read_fields(reference["lax"])
    return Difference(found["kind"], found["reason"], found["input"], found["role"], strict, lax, ours, found["codes"])


_DATA = ROOT / "tests" / "data" / "parser-differences.jsonl"
DIFFERENCES = [_read_difference(line) for line in _DATA.read_text(encoding="utf-8").splitlines()]

# ── the two parsers ─────────────────────────────────────────────────────────────────────────────────────────────────


class Reference:
    """The reference's parser; it gives None where it raises."""

    def __init__(self, encoding: HarmonyEncoding) -> None:
        self._encoding = encoding

    def parse(self, tokens: list[int], role: GivenRole, *, strict: bool) -> list[Fields] | None:
        from openai_harmony import HarmonyError, Role  # pyright: ignore[reportUnknownVariableType] -- it ships without types

        try:
            messages = self._encoding.parse_messages_from_completion_tokens(
                tokens, None if role is None else Role(role), strict=strict
            )
        except HarmonyError:
            return None
        return [
            Fields(
                message.author.role.value,
                message.author.name,
                message.channel,
                message.recipient,
                message.content_type,
                "".join(getattr(content, "text", "") for content in message.content),
            )
            for message in messages
        ]


@pytest.fixture(scope="session")
def reference(reference_encoding: HarmonyEncoding) -> Reference:
    return Reference(reference_encoding)


def fields_of(parsed: Parsed) -> list[Fields]:
    return [
        Fields(it.role.value, it.name, it.channel, it.recipient, it.content_type, it.text) for it in parsed.messages
    ]


# ── intended differences ────────────────────────────────────────────────────────────────────────────────────────────


def _is_lone_word(theirs: Fields, ours: Fields) -> Fields:
    """`<|channel|>final json`: a word without `to=` is a content type."""
    if theirs.content_type is None and ours.recipient is None and theirs.recipient == ours.content_type:
        return theirs._replace(recipient=None, content_type=theirs.recipient)
    return theirs


def _is_spaced_constrain(theirs: Fields, ours: Fields) -> Fields:
    """`<|constrain|> json` is one content type; the reference splits at the space."""
    if theirs.recipient == "<|constrain|>" and theirs.content_type is not None and ours.recipient is None:
        return theirs._replace(recipient=None, content_type=f"<|constrain|> {theirs.content_type}")
    return theirs


def _is_named_author(theirs: Fields, ours: Fields) -> Fields:
    """`user:alice`: the reference writes names so, and reads them as a tool."""
    if theirs.role == "tool" and theirs.name == f"{ours.role}:{ours.name}":
        return theirs._replace(role=ours.role, name=ours.name)
    return theirs


def _is_tool_by_address(theirs: Fields, ours: Fields) -> Fields:
    """`<|start|>tool to=x`: one of the seeds of the format writes a result so. To the reference its name is `tool`."""
    if theirs.role == ours.role == theirs.name == "tool":
        return theirs._replace(name=ours.name, recipient=None if ours.name == theirs.recipient else theirs.recipient)
    return theirs


def _is_late_content_type(theirs: Fields, ours: Fields) -> Fields:
    """`<|message|><|constrain|> json{}`: one of the seeds writes the content type at the head of the body."""
    if theirs.content_type is None and ours.content_type and theirs.content == ours.content_type + ours.content:
        return theirs._replace(content_type=ours.content_type, content=ours.content)
    return theirs


def _is_other_white_space(theirs: Fields, ours: Fields) -> Fields:
    """The reference parts the words of a header at ASCII white space only, but ends a channel at any."""
    words = (theirs.recipient or "").split()
    if words != [theirs.recipient] and words == [word for word in (ours.recipient, ours.content_type) if word]:
        return theirs._replace(recipient=ours.recipient, content_type=ours.content_type)
    return theirs


def _is_broken_channel(theirs: Fields, ours: Fields) -> Fields:
    """`<|channel|>a<b`: the reference ends a channel at any `<`, and goes on with a recipient."""
    if theirs.channel and ours.recipient is None and ours.channel == f"{theirs.channel}{theirs.recipient}":
        return theirs._replace(channel=ours.channel, recipient=None)
    return theirs


# Differences in how a well-formed header is read, each with what makes the reference's reading ours.
READINGS: dict[str, Callable[[Fields, Fields], Fields]] = {
    "lone word": _is_lone_word,
    "spaced constrain": _is_spaced_constrain,
    "named author": _is_named_author,
    "tool by address": _is_tool_by_address,
    "late content type": _is_late_content_type,
    "other white space": _is_other_white_space,
    "broken channel": _is_broken_channel,
}
SWALLOWED = "special token in a name"  # the reference takes special tokens for parts of names
RAISES = "reference raises"  # well-formed, and the reference does not read it at all
# Faults that we mend and the reference does not notice.
MENDED = {difference.kind for difference in DIFFERENCES} - {*READINGS, SWALLOWED, RAISES}


def _as_we_read_it(theirs: Fields, ours: Fields) -> Fields:
    for translate in READINGS.values():
        theirs = translate(theirs, ours)
    return theirs


def _has_special_in_a_name(message: Fields) -> bool:
    names = (
        message.name,
        message.channel,
        message.recipient,
        (message.content_type or "").removeprefix("<|constrain|>"),
    )
    return any("<|" in name for name in names if name)


def unexplained(parsed: Parsed, theirs: list[Fields]) -> Sequence[tuple[Fields | None, Fields | None]]:
    """The messages of the two that differ in a way that is not recorded: the reference's and ours."""
    ours = fields_of(parsed)
    if len(ours) != len(theirs):
        if any(diagnostic.code in MENDED for diagnostic in parsed.diagnostics):
            return []
        return [(None, it) for it in ours if it not in theirs] + [(it, None) for it in theirs if it not in ours]
    return [
        (their, our)
        for their, our, message in zip(theirs, ours, parsed.messages, strict=True)
        if _as_we_read_it(their, our) != our
        and not _has_special_in_a_name(their)
        and not (message.origin is not None and MENDED.intersection(message.origin.faults))
    ]


def compare(reference: Reference, tokens: list[int], role: GivenRole, what: str) -> None:
    parsed = parse(tokens, role)
    for strict in (True, False):
        theirs = reference.parse(tokens, role, strict=strict)
        if theirs is not None:
            assert unexplained(parsed, theirs) == []
            compared(f"{what}: same messages" if theirs == fields_of(parsed) else f"{what}: recorded differences")


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_pieces: st.SearchStrategy[list[int]] = st.one_of(
    st.integers(FIRST_SPECIAL, FIRST_SPECIAL + 20).map(lambda token: [token]),
    st.sampled_from(
        [
            *(
                "assistant",
                "user",
                "tool",
                "functions.x",
                "analysis",
                "commentary",
                "final",
                " to=functions.x",
                " json",
            ),
            *(
                " to=assistant",
                "to=",
                " ",
                "\n",
                "{",
                "Hello.",
                "finalx",
                "narrator",
                ":",
                "é",
                "🦜",
                "<|end|>",
                "code",
            ),
        ]
    ).map(encode),
    st.integers(0, FIRST_SPECIAL - 1).map(lambda token: [token]),
)
# White space between messages is more than the reference takes.
readable = well_formed(bodies=plain_bodies | spelling_bodies, spaced=False, gaps=False)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[list[int], GivenRole]:
    """A well-formed stream with one or two tokens left out, doubled, swapped, put in or replaced."""
    stream = draw(well_formed(gaps=False, spaced=draw(st.booleans()), max_messages=3))
    tokens = list(stream.tokens)
    special_at = [at for at, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    for _ in range(draw(st.integers(1, 2))):
        at = min(draw(st.one_of(st.integers(0, len(tokens)), st.sampled_from(special_at))), len(tokens))
        match draw(st.sampled_from(["delete", "double", "swap", "insert", "replace"])):
            case "delete":
                del tokens[at : at + 1]
            case "double":
                tokens[at:at] = tokens[at : at + 1]
            case "swap":
                tokens[at : at + 2] = tokens[at : at + 2][::-1]
            case "insert":
                tokens[at:at] = draw(_pieces)
            case _:
                tokens[at : at + 1] = draw(_pieces)
    return tokens, stream.role


# ── tests ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda it: f"{it.kind}: {it.input}")
def test_recorded_differences_are_as_recorded(reference: Reference, difference: Difference) -> None:
    tokens = encode(difference.input, special="all")
    parsed = parse(tokens, difference.role)
    assert fields_of(parsed) == difference.ours
    assert [diagnostic.code for diagnostic in parsed.diagnostics] == difference.codes
    found = [reference.parse(tokens, difference.role, strict=strict) for strict in (True, False)]
    assert found == [difference.strict, difference.lax]
    for theirs in found:
        if theirs is not None:
            assert unexplained(parsed, theirs) == []
    compared("recorded differences from the reference's parser")


def test_the_record_has_every_kind_of_difference() -> None:
    kinds = {difference.kind for difference in DIFFERENCES}
    assert {*READINGS, SWALLOWED, RAISES} <= kinds
    assert {code.value for code in ErrorCode} >= MENDED
    for difference in DIFFERENCES:
        assert difference.reason
        assert difference.ours not in (difference.strict, difference.lax) or difference.strict != difference.lax
        assert difference.kind not in MENDED or difference.kind in difference.codes


@settings(max_examples=CASES)
@given(readable)
def test_well_formed_streams_give_the_references_messages(reference: Reference, stream: Stream) -> None:
    compare_well_formed(reference, stream)


def compare_well_formed(reference: Reference, stream: Stream) -> None:
    parsed = parse(stream.tokens, stream.role)
    ours = fields_of(parsed)
    for strict in (True, False):
        theirs = reference.parse(stream.tokens, stream.role, strict=strict)
        if theirs is not None:
            # No fault excuses anything here.
            assert [_as_we_read_it(*both) for both in zip(theirs, ours, strict=True)] == ours
            compared("well-formed streams: same messages" if theirs == ours else "well-formed streams: other readings")


@settings(max_examples=CASES)
@given(conversations, st.sampled_from(["role", "channel"]), st.booleans())
def test_rendered_conversations_give_the_references_messages(
    reference: Reference, conversation: Conversation, section: RecipientSection, training: bool
) -> None:
    compare_rendered(reference, conversation, section, training)


def compare_rendered(
    reference: Reference, conversation: Conversation, section: RecipientSection, training: bool
) -> None:
    try:
        rendered = render(conversation, None, recipient_section=section, training=training)
    except InputError:
        assume(False)
        return
    compare(reference, rendered.tokens, None, "rendered conversations")


@settings(max_examples=CASES)
@given(damaged())
@example(([219, 200008, 200007], "assistant"))  # U+001F is white space to Python, and none to the reference
def test_damaged_streams_give_the_references_messages_or_a_recorded_difference(
    reference: Reference, stream: tuple[list[int], GivenRole]
) -> None:
    compare(reference, *stream, "damaged streams")


@pytest.mark.exhaustive
@settings(max_examples=MANY_CASES)
@given(readable)
def test_well_formed_streams_give_the_references_messages_many_times(reference: Reference, stream: Stream) -> None:
    compare_well_formed(reference, stream)


@pytest.mark.exhaustive
@settings(max_examples=MANY_CASES)
@given(conversations, st.sampled_from(["role", "channel"]), st.booleans())
def test_rendered_conversations_give_the_references_messages_many_times(
    reference: Reference, conversation: Conversation, section: RecipientSection, training: bool
) -> None:
    compare_rendered(reference, conversation, section, training)


@pytest.mark.exhaustive
@settings(max_examples=MANY_CASES)
@given(damaged())
def test_damaged_streams_give_the_references_messages_many_times(
    reference: Reference, stream: tuple[list[int], GivenRole]
) -> None:
    compare(reference, *stream, "damaged streams")
