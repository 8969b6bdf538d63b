"""The laws of every reader of another family, as checks that hold of any text whatever."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from harmonia.events import ArgumentsDelta, Event, MessageEnded, Repaired, Skipped, SpannedEvent, TextDelta, TurnEnded
from harmonia.families.reader import FAULTS
from harmonia.families.registry import DEFAULT_READING, Family, ReadingOptions
from harmonia.parts import call_of, parts_of
from harmonia.provenance import Trust
from tests.support.laws import assert_grammar, comparable

_HALF = re.compile("[\ud800-\udfff]")


def events_of(family: Family, chunks: Iterable[str], options: ReadingOptions = DEFAULT_READING) -> list[Event]:
    """All events of a text that comes in these chunks."""
    reader = family.reader(options)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [*events, *reader.close()]


def assert_spans_tile(text: str, events: Sequence[Event]) -> None:
    """Every character lies in the span of one event, in order, and what events say stands there."""
    whole = _HALF.sub("\ufffd", text)
    at = 0
    for event in events:
        if not isinstance(event, SpannedEvent):
            continue
        assert event.start_char == at, f"{event!r} should begin at {at}"
        at = event.end_char
        assert at >= event.start_char
        assert event.start_token is None and event.end_token is None
        if isinstance(event, TextDelta | Skipped):
            assert event.text == whole[event.start_char : at], f"{event!r} is not what stands there"
        if isinstance(event, ArgumentsDelta):
            assert event.text  # it may be the JSON that stands for other words
    assert at == len(text), f"events end at {at}, the text at {len(text)}"


def assert_nothing_certain(events: Sequence[Event]) -> None:
    """No call that was read from text may be run as it is, and no fault goes unsaid."""
    reported = [event.diagnostic.code for event in events if isinstance(event, Repaired)]
    for event in events:
        if not isinstance(event, MessageEnded):
            continue
        message, origin = event.message, event.message.origin
        assert origin is not None and origin.source == "text" and message.sampled is None
        assert origin.trust <= min((FAULTS[code].trust for code in origin.faults), default=Trust.CERTAIN)
        assert set(origin.faults) <= set(reported)
        call = call_of(message)
        assert call is None or (call.status != "certain" and not call.is_executable)
        assert origin.forged == (message.role != "assistant")
        message.text.encode()  # no half of a surrogate pair gets through


def check_family_laws(
    family: Family, text: str, options: ReadingOptions = DEFAULT_READING, cuts: Sequence[int] = ()
) -> list[Event]:
    """Every law, for one text: whole, character by character, with nothing between, and cut in these places."""
    whole = events_of(family, [text], options)
    assert_grammar(whole)
    assert_spans_tile(text, whole)
    assert_nothing_certain(whole)
    assert [event for event in whole if isinstance(event, TurnEnded)] == [whole[-1]]
    alone = events_of(family, text, options)
    assert_spans_tile(text, alone)
    expected = comparable(whole)
    assert comparable(alone) == expected, first_difference(comparable(alone), expected)
    for cut in cuts:
        found = comparable(events_of(family, [text[:cut], "", text[cut:]], options))
        assert found == expected, f"cut at {cut}: {first_difference(found, expected)}"
    parts_of(event.message for event in whole if isinstance(event, MessageEnded))
    return whole


def first_difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    for at, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"event {at} is {one!r}, and {other!r} when it comes whole"
    return f"{len(found)} events, {len(expected)} when it comes whole"
