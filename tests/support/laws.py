"""The parser's laws, each as a check of one stream. Property tests, fault injection and the fuzzer share them.

They know what a parser promises (harmonia/events.py, harmonia/parser/machine.py) and nothing of how it keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from harmonia import Parsed, Parser, parse
from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.events import (
    ArgumentsDelta,
    Event,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    SpannedEvent,
    TextDelta,
    TurnEnded,
)
from harmonia.parser import FAULTS
from harmonia.provenance import Trust
from harmonia.vocabulary import START, VOCABULARY_SIZE, default_vocabulary

Data = list[int] | str | bytes
Mode = Literal["tolerant", "strict"]
MODES: tuple[Mode, ...] = ("tolerant", "strict")
Delta = TextDelta | ArgumentsDelta

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Outcome(NamedTuple):
    """What a stream came to: its events, adjacent ones joined, and what a strict parser raised."""

    events: tuple[Any, ...]
    code: ErrorCode | None
    at: Position | None


# ── chunking is invisible ───────────────────────────────────────────────────────────────────────────────────────────


def joined(events: Iterable[Event]) -> list[Event]:
    """The events with adjacent deltas, and adjacent skipped stretches, made one."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if (
            isinstance(event, TextDelta | ArgumentsDelta | Skipped)
            and type(last) is type(event)
            and (isinstance(event, Skipped) or (isinstance(last, Delta) and last.header == event.header))
        ):
            assert isinstance(last, TextDelta | ArgumentsDelta | Skipped)
            whole = last.text + event.text
            out[-1] = msgspec.structs.replace(last, text=whole, end_token=event.end_token, end_char=event.end_char)
        else:
            out.append(event)
    return out


def comparable(events: Iterable[Event]) -> tuple[Any, ...]:
    """Events to compare: messages leave their origin and their tokens out of `==`, and this does not."""
    return tuple(
        (event, event.message.origin, event.message.sampled) if isinstance(event, MessageEnded) else event
        for event in joined(events)
    )


def outcome(chunks: Iterable[Any], mode: Mode = "tolerant", **options: Any) -> Outcome:
    """Feed chunk by chunk. A tolerant parser that raises anything at all, or a strict one anything but StreamError,
    fails the test that called."""
    parser = Parser(mode=mode, **options)
    events: list[Event] = []
    try:
        for chunk in chunks:
            events += parser.feed(chunk)
        events += parser.close()
    except StreamError as error:
        assert mode == "strict", f"a tolerant parser raised {error}"
        events += cast("Sequence[Event]", error.events)  # typed as objects: errors know nothing of events
        return Outcome(comparable(events), error.code, error.at)
    return Outcome(comparable(events), None, None)


def splits(data: Data, most_cuts: int) -> Iterable[tuple[str, list[Any]]]:
    """The stream piece by piece, with empty chunks between, and in two at every cut (or at a sample of them)."""
    units: list[Any] = [data[at : at + 1] for at in range(len(data))]
    empty = data[:0]
    yield "one by one", units
    yield "one by one, nothing between", [empty, *(chunk for unit in units for chunk in (unit, empty))]
    if isinstance(data, list):
        yield "as bare ids", list(data)
    elif isinstance(data, str) and not _LONE_SURROGATE.search(data):
        encoded = data.encode()
        yield "as bytes", [encoded]
        yield "byte by byte", [encoded[at : at + 1] for at in range(len(encoded))]
    step = max(1, len(data) // most_cuts)
    for cut in range(1, len(data), step):
        yield f"cut at {cut}", [data[:cut], data[cut:]]


def assert_every_split(data: Data, *, most_cuts: int = 40, modes: Sequence[Mode] = MODES, **options: Any) -> None:
    """Any split of the input gives the same events, and in strict mode the same error."""
    for mode in modes:
        whole = outcome([data], mode, **options)
        for how, chunks in splits(data, most_cuts):
            found = outcome(chunks or [data], mode, **options)
            assert found == whole, f"{mode}, {how}: {_first_difference(found, whole)}"


def _first_difference(found: Outcome, whole: Outcome) -> str:
    for at, (one, other) in enumerate(zip(found.events, whole.events, strict=False)):
        if one != other:
            return f"event {at} is {one!r}, and {other!r} when it is fed whole"
    return (
        f"{len(found.events)} events and {found.code} at {found.at}, "
        f"{len(whole.events)} events and {whole.code} at {whole.at} when it is fed whole"
    )


# ── nothing is lost ─────────────────────────────────────────────────────────────────────────────────────────────────


def spelled(data: Data) -> str:
    """The text of a stream, special tokens spelled out, U+FFFD for what is no character."""
    if isinstance(data, str):
        return _LONE_SURROGATE.sub("\ufffd", data)
    if isinstance(data, bytes):
        return data.decode(errors="replace")
    token_bytes = default_vocabulary().token_bytes
    unknown = "\ufffd".encode()
    known = (token_bytes[token] if 0 <= token < VOCABULARY_SIZE else unknown for token in data)
    return b"".join(known).decode(errors="replace")


def assert_nothing_lost(data: Data, events: Iterable[Event]) -> None:
    """The spans tile the input in order, and what events say stands there."""
    text = spelled(data)
    is_tokens = isinstance(data, list)
    token, char = (0 if is_tokens else None), 0
    for event in events:
        if not isinstance(event, SpannedEvent):
            continue
        assert (event.start_token, event.start_char) == (token, char), f"{event!r} should begin at {token}, {char}"
        token, char = event.end_token, event.end_char
        assert char >= event.start_char and (token or 0) >= (event.start_token or 0), f"{event!r} runs backwards"
        if isinstance(event, TextDelta | ArgumentsDelta | Skipped):
            assert event.text == text[event.start_char : char], f"{event!r} is not what stands there"
    end = (len(data) if is_tokens else None, len(text))
    assert (token or 0, char) == (end[0] or 0, end[1]), f"events end at {token}, {char}, the input at {end}"


def assert_grammar(events: Sequence[Event]) -> None:
    """MessageStarted HeaderCompleted+ (delta | Skipped)* MessageEnded, with the content that the deltas said."""
    state: Literal["outside", "started", "body"] = "outside"
    index = 0
    said: list[str] = []
    starts = (0, 0)
    for event in events:
        match event:
            case MessageStarted():
                assert state == "outside" and event.index == index, f"{event!r} while {state}, expecting {index}"
                state, said, starts = "started", [], (event.start_char, 0)
            case HeaderCompleted():
                assert state != "outside" and event.index == index and not said, f"{event!r} while {state}"
                state, starts = "body", (starts[0], event.end_char)
            case TextDelta() | ArgumentsDelta():
                assert state == "body" and event.text, f"{event!r} while {state}"
                assert isinstance(event, ArgumentsDelta) == event.header.is_call
                said.append(event.text)
            case MessageEnded():
                assert state == "body" and event.index == index, f"{event!r} while {state}"
                message, origin = event.message, event.message.origin
                assert origin is not None
                is_cut = ErrorCode.BODY_TOO_LONG in origin.faults
                assert is_cut or message.content == "".join(said)
                assert (origin.header.start_char, origin.body.start_char) == starts
                assert (origin.body.end_char, origin.stop) == (event.start_char, event.stop)
                state, index = "outside", index + 1
            case Skipped():
                assert event.text and state != "started", f"{event!r} while {state}"
            case TurnEnded():
                assert state == "outside"
            case Repaired():
                pass
    assert state == "outside", "the last message did not end"


# ── strict and tolerant ─────────────────────────────────────────────────────────────────────────────────────────────


def assert_strict_agrees(data: Data, tolerant: Parsed, **options: Any) -> None:
    """Strict raises the first fault that tolerant reports, where it stands, behind the same events."""
    raising = (
        at
        for at, event in enumerate(tolerant.events)
        if isinstance(event, Repaired) and FAULTS[event.diagnostic.code].strict == "raises"
    )
    first = next(raising, None)
    strict = outcome([data], "strict", **options)
    if first is None:
        assert strict.code is None, f"strict raised {strict.code} at {strict.at}, and tolerant reported nothing"
        assert strict.events == comparable(tolerant.events)
        return
    fault = tolerant.events[first]
    assert isinstance(fault, Repaired)
    assert (strict.code, strict.at) == (fault.diagnostic.code, fault.diagnostic.at)
    assert strict.events == comparable(tolerant.events[:first])


# ── no guessed call ─────────────────────────────────────────────────────────────────────────────────────────────────

# Faults that leave no doubt about who says what to whom.
_HARMLESS = frozenset(
    [
        ErrorCode.HEADER_UNKNOWN_CHANNEL,
        ErrorCode.HEADER_FORGED_ROLE,
        ErrorCode.BODY_ARGUMENTS_NOT_JSON,
        ErrorCode.BODY_SPELLED_TOKEN,
    ]
)


def assert_nothing_guessed(data: Data, parsed: Parsed, *, role: str | None = None, **options: Any) -> None:
    """What counts as certain has no structural fault, and read alone it is the same message without one."""
    for event in parsed.events:
        if not isinstance(event, MessageEnded):
            continue
        message, origin = event.message, event.message.origin
        assert origin is not None
        assert origin.source in (("tokens", "stripped") if isinstance(data, list) else ("text", "stripped"))
        assert origin.trust <= min((FAULTS[code].trust for code in origin.faults), default=Trust.CERTAIN)
        assert origin.forged == (role is not None and message.role != "assistant")
        if origin.trust is not Trust.CERTAIN or origin.source == "stripped":
            assert message.sampled is None, "what was mended must not render as it was sampled"
        if origin.trust is not Trust.CERTAIN or not isinstance(data, list):
            continue
        assert origin.source == "tokens"
        assert not set(origin.faults) - _HARMLESS, f"{message!r} is certain in spite of {origin.faults}"
        _assert_certain(data[origin.header.start_token : event.end_token], event, role, options)


def _assert_certain(tokens: list[int], event: MessageEnded, role: str | None, options: dict[str, Any]) -> None:
    has_start = START in tokens
    alone = parse(tokens, None if has_start else role, **options)
    assert {found.code for found in alone.diagnostics} <= _HARMLESS, f"alone, it has {alone.diagnostics}"
    assert [message for message in alone.messages] == [event.message]
    sampled = event.message.sampled
    assert sampled is not None
    assert list(sampled.tokens)[-len(tokens) :] == tokens[tokens.index(START) if has_start else 0 :]


def check_all_laws(data: Data, *, most_cuts: int = 12, **options: Any) -> Parsed:
    """Every law that holds of any input whatever."""
    parsed = parse(data, **options)
    assert_grammar(parsed.events)
    assert_nothing_lost(data, parsed.events)
    # Piece by piece, no event may have text that is not there: half a character would show as U+FFFD.
    alone = Parser(**options)
    events = [event for at in range(len(data)) for event in alone.feed(data[at : at + 1])]
    assert_nothing_lost(data, [*events, *alone.close()])
    assert_strict_agrees(data, parsed, **options)
    assert_nothing_guessed(data, parsed, **options)
    assert_every_split(data, most_cuts=most_cuts, **options)
    return parsed
