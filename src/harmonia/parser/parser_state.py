"""What a parser has read, and what it said about it: the place in the input, the tokens, the events, the faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.events import Diagnostic, Event, Repaired
from harmonia.parser.faults import FAULTS
from harmonia.provenance import Trust
from harmonia.vocabulary import Vocabulary

# A point in the input: how many tokens (None where text is read) and how many characters lie before it.
Place = tuple[int | None, int]

_LONGEST_FOUND: Final = 80


class Limits(msgspec.Struct, frozen=True):
    """How much a parser holds back. Passing a limit is a diagnostic, never an exception.

    `header_chars`    a header, or text between two messages
    `unmarked_chars`  text at the beginning of a stream that has not had a single special token
    `body_chars`      the body of a message: deltas go on, the message at the end is cut there
    """

    header_chars: int = 1_000
    unmarked_chars: int = 1_000_000
    body_chars: int = 100_000_000


class ParserState:
    """The state that the machine and its readers share."""

    # Slots, because an object with this many attributes would otherwise look each of them up in a dictionary.
    __slots__ = (
        "_body_from",
        "_body_shift",
        "_char",
        "_cut_at",
        "_events",
        "_faults",
        "_from",
        "_ids",
        "_index",
        "_is_strict",
        "_skew",
        "_token",
        "_token_bytes",
        "_trust",
        "_vocabulary",
    )

    def __init__(self, vocabulary: Vocabulary, *, strict: bool) -> None:
        self._vocabulary = vocabulary
        self._token_bytes = vocabulary.token_bytes
        self._is_strict = strict
        self._events: list[Event] = []

        # How far the input was read, and the tokens since `_from`. What lies before `_from` is settled: it is the
        # beginning of what is held back, and later of the message that is being read.
        self._token: int | None = None
        self._char = 0
        self._from: Place = (None, 0)
        self._ids: list[int] = []
        self._skew = 0  # how many characters behind `_from` the first of these tokens begins
        self._body_from: Place = (None, 0)
        self._body_shift = 0  # how many characters of the body, from there on, are no part of its text
        self._cut_at: Place | None = None  # where the message passed its limit; no more is kept of it from there on

        # The message that is being read, or is next: its index, what is wrong with it, and how sure its reading is.
        self._index: int = 0
        self._faults: list[ErrorCode] = []
        self._trust = Trust.CERTAIN

    def _consume(self, text: str, ids: Sequence[int]) -> None:
        """Go on behind this text, which was read from these tokens."""
        if ids:
            if self._cut_at is None:
                self._ids += ids
            self._token = (self._token or 0) + len(ids)
        self._char += len(text)

    def _place_at(self, char: int) -> Place:
        """The place of a character since `_from`: the first token that begins there or behind it."""
        (place,) = self._places_at([char])
        return place

    def _places_in_body(self, offsets: Iterable[int]) -> list[Place]:
        return self._places_at([self._body_from[1] + self._body_shift + offset for offset in offsets])

    def _places_at(self, chars: Sequence[int]) -> list[Place]:
        """The places of characters, which are in order; one walk over the tokens finds them all."""
        from_token, from_char = self._from
        if from_token is None:
            return [(None, char) for char in chars]
        from_char += self._skew
        starts = self._vocabulary.char_offsets(self._ids)
        places: list[Place] = []
        count = 0
        for char in chars:
            while count < len(starts) and from_char + starts[count] < char:
                count += 1
            places.append((from_token + count, char))
        return places

    def _fault(self, code: ErrorCode, at: Place, found: str = "") -> None:
        """Report a fault, or in strict mode raise it."""
        fault = FAULTS[code]
        shown = found if len(found) <= _LONGEST_FOUND else found[: _LONGEST_FOUND - 1] + "…"
        message = f"{fault.found}: {shown!r}" if shown else fault.found
        position = Position(token=at[0], character=at[1], message=self._index)
        if self._is_strict and fault.strict == "raises":
            raise StreamError(code, message, position)
        self._faults.append(code)
        self._trust = min(self._trust, fault.trust)
        self._events.append(Repaired(Diagnostic(code, message, position, shown)))
