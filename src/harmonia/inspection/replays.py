"""A stream, token by token: what the parser made of each, and where it was behind it.

1. The steps are those of the one parser, fed one token (or, of a text, one character) at a time; by law 2 their events
   are the events of the whole, once adjacent deltas are joined.
2. No step repeats what earlier ones said: the end of a message tells how long its text is, not the text.
3. What lies before the first step is read and not told. Work is linear in what is read.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from harmonia.events import ArgumentsDelta, Event, MessageEnded, TextDelta
from harmonia.inspection.descriptions import describe_event
from harmonia.inspection.inputs import Input
from harmonia.parser import Parser, Tools
from harmonia.vocabulary import VOCABULARY_SIZE, Vocabulary, default_vocabulary

_REPLACEMENT: Final = "\ufffd"


class ReplayStep(msgspec.Struct, frozen=True):
    """One token or character, and the parser behind it."""

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
    """A stretch of a stream. `closing` is what closing the parser says, None where the steps do not reach the end."""

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
    """So many steps from a place on; from the end, where the place is behind it."""
    vocabulary = vocabulary or default_vocabulary()
    is_stripped = taken.kind == "stripped"
    parser = Parser(role, tools=tools, stop_swallowed=stop_swallowed, stripped=is_stripped, vocabulary=vocabulary)
    tokens = taken.tokens
    units: list[int] | str = taken.characters if tokens is None else tokens
    start = min(start, len(units))
    end = min(start + count, len(units))
    if start or tokens is not None:  # no tokens are tokens still
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
            # The header was told when it was complete, and each step has what matters of it.
            del described["header"]
        case MessageEnded():
            message = described["message"]
            described["message"] = {name: said for name, said in message.items() if name != "content"}
            described["characters"] = len(event.message.text)
        case _:
            pass
    return described
