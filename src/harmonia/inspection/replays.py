"""A stream token by token: the events of each token, and the state of the parser after it.

1. The ordinary parser is fed one token (for text, one character) at a time; by law 2 its events are those of the whole
   stream, once adjacent deltas are joined.
2. No step repeats earlier ones: the end of a message has the length of its text, not the text.
3. Input before the first step is read but not reported. Work is linear in the input read.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from harmonia.events import ArgumentsDelta, Event, MessageEnded, TextDelta
from harmonia.inspection.inputs import Input
from harmonia.inspection.report import describe_event
from harmonia.parser import Parser, Tools
from harmonia.vocabulary import VOCABULARY_SIZE, Vocabulary, default_vocabulary

_REPLACEMENT: Final = "\ufffd"


class ReplayStep(msgspec.Struct, frozen=True):
    """One token or character, and the state of the parser after it."""

    at: int
    id: int | None
    text: str
    state: str
    message: int | None
    channel: str | None
    recipient: str | None
    pending: str
    events: list[dict[str, Any]]


class Replayed(msgspec.Struct, frozen=True):
    """A section of a stream. `closing` has the events of closing the parser, None if the steps end earlier."""

    total: int
    unit: Literal["tokens", "characters"]
    start: int
    steps: list[ReplayStep]
    closing: list[dict[str, Any]] | None


def replay(
    taken: Input,
    start: int,
    count: int,
    role: str | None = None,
    tools: Tools | None = None,
    *,
    stop_swallowed: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Replayed:
    """`count` steps from `start` on; none if `start` is past the end."""
    vocabulary = vocabulary or default_vocabulary()
    is_stripped = taken.kind == "stripped"
    parser = Parser(role, tools=tools, stop_swallowed=stop_swallowed, stripped=is_stripped, vocabulary=vocabulary)
    tokens = taken.tokens
    units: list[int] | str = taken.characters if tokens is None else tokens
    start = min(start, len(units))
    end = min(start + count, len(units))
    if start or tokens is not None:  # an empty list still tells the parser that tokens follow
        parser.feed(units[:start])
    steps: list[ReplayStep] = []
    for at in range(start, end):
        unit = units[at]
        events = parser.feed(unit)
        header = parser.header
        steps.append(
            ReplayStep(
                at,
                unit if isinstance(unit, int) else None,
                _text_of(unit, vocabulary) if isinstance(unit, int) else unit,
                parser.state,
                parser.message_index,
                None if header is None else header.channel,
                None if header is None else header.recipient,
                parser.pending,
                [_describe(event) for event in events],
            )
        )
    closing = [_describe(event) for event in parser.close()] if end == len(units) else None
    return Replayed(len(units), "characters" if tokens is None else "tokens", start, steps, closing)


def _text_of(token: int, vocabulary: Vocabulary) -> str:
    return vocabulary.decode([token]) if 0 <= token < VOCABULARY_SIZE else _REPLACEMENT


def _describe(event: Event) -> dict[str, Any]:
    described = describe_event(event)
    match event:
        case TextDelta() | ArgumentsDelta():
            # The header was reported when it was complete, and each step has its channel and recipient.
            del described["header"]
        case MessageEnded():
            message = described["message"]
            described["message"] = {name: said for name, said in message.items() if name != "content"}
            described["characters"] = len(event.message.text)
        case _:
            pass
    return described
