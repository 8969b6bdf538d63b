"""The state of a parser: how far it has read, what it holds back, the message it is reading, and the turn so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.events import ArgumentsDelta, Diagnostic, Event, Header, Repaired, TextDelta, TurnEnded
from harmonia.messages import Author, Role
from harmonia.parser.faults import FAULTS
from harmonia.parser.headers import ASSISTANT, CHANNELS, Item, lacks_recipient, spell
from harmonia.parser.tools import Tools
from harmonia.provenance import Source, Span, Stop, Trust
from harmonia.vocabulary import CALL, END, RETURN, Vocabulary

STOPS: Final[dict[int, Stop]] = {END: "end", CALL: "call", RETURN: "return"}
State = Literal["wait", "header", "body"]
_NEVER: Final = -1
NO_TOKENS: Final[list[int]] = []
_NO_SPAN: Final = Span(None, None, 0, 0)
_NO_HEADER: Final = Header(ASSISTANT)

# A point in the input: the number of tokens (None where text is read) and of characters before it.
Place = tuple[int | None, int]

_LONGEST_FOUND: Final = 80


class Limits(msgspec.Struct, frozen=True):
    """How much a parser holds back. Exceeding a limit is a diagnostic, never an exception.

    `header_chars`    a header, or text between two messages
    `unmarked_chars`  text at the beginning of a stream, before any special token
    `body_chars`      the body of a message: deltas continue, but the finished message is cut there
    """

    header_chars: int = 1_000
    unmarked_chars: int = 1_000_000
    body_chars: int = 100_000_000


class TurnSummary:
    """The turn so far: whether it is open, and whether it has anything to show."""

    __slots__ = ("_hidden", "_shows_something", "is_open")

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._shows_something = False
        self._hidden: dict[str, None] = {}

    def note(self, header: Header, content: str, stop: Stop | None = None) -> None:
        """Record a finished message of the assistant."""
        says_something = bool(content) and not content.isspace()
        is_shown = header.is_visible and not (stop == "call" and _lacks_recipient(header, stop))
        if (header.is_call and header.trust is Trust.CERTAIN) or (is_shown and says_something):
            self._shows_something = True
        elif says_something or header.is_call:
            self._hidden[_why_hidden(header, stop)] = None

    def end(self, stop: Stop | None) -> TurnEnded:
        because = None
        if not self._shows_something:
            because = f"there is only {', '.join(self._hidden)}" if self._hidden else "there is no text"
        self._shows_something = False
        self._hidden = {}
        self.is_open = False
        return TurnEnded(stop, because)


def _lacks_recipient(header: Header, stop: Stop | None) -> bool:
    return lacks_recipient(header.author, header.channel, header.recipient, header.content_type, stop)


def _why_hidden(header: Header, stop: Stop | None) -> str:
    if header.is_call:
        return "an uncertain call"
    channel = None if header.channel is None else header.channel.lower()
    may_be_answer = header.recipient is None and channel in (None, "final", "commentary")
    setting = " (hidden unless guessed is shown)" if may_be_answer else ""
    if header.trust is Trust.GUESSED:
        return f"text under a guessed header{setting}"
    if _lacks_recipient(header, stop):
        return "a call without a recipient"
    if channel is None:
        return f"text without a channel{setting}"
    return f"text on {channel}" if channel in CHANNELS else "text on an unknown channel"


class ParserState:
    """The whole state of a parser in one object, with the operations that keep it consistent.

    The layers above it (machine, fast paths, parser) add methods and read these fields directly. That is inheritance
    for speed: a separate object would cost another look-up for every token.
    """

    # Slots, because an object with this many attributes would otherwise look each of them up in a dictionary.
    __slots__ = (
        "_blank_parts",
        "_body_from",
        "_body_limit",
        "_body_shift",
        "_char",
        "_cut_at",
        "_defers",
        "_delta",
        "_events",
        "_fast_until",
        "_faults",
        "_follows_damage",
        "_from",
        "_given",
        "_header",
        "_header_at",
        "_header_span",
        "_held_chars",
        "_ids",
        "_index",
        "_is_completion",
        "_is_strict",
        "_items",
        "_late_from",
        "_late_type",
        "_limits",
        "_parts",
        "_pieces",
        "_plain_until",
        "_prompt_tokens",
        "_role_end",
        "_saw_special",
        "_skew",
        "_source",
        "_start_at",
        "_state",
        "_stop_swallowed",
        "_text_from",
        "_token",
        "_token_bytes",
        "_tools",
        "_trust",
        "_turn",
        "_vocabulary",
    )

    def __init__(
        self,
        role: Role | None,
        tools: Tools,
        limits: Limits,
        vocabulary: Vocabulary,
        *,
        strict: bool,
        stop_swallowed: bool,
        defers: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self._token_bytes = vocabulary.token_bytes
        self._is_strict = strict
        self._events: list[Event] = []

        # How far the input was read, and the tokens since `_from`: the start of the held-back input, later of the
        # message being read. Everything before it is settled.
        self._token: int | None = None
        self._char = 0
        self._from: Place = (None, 0)
        self._ids: list[int] = []
        self._skew = 0  # how many characters after `_from` the first of these tokens begins
        self._body_from: Place = (None, 0)
        self._body_shift = 0  # how many characters of the body, from there on, are not part of its text
        self._cut_at: Place | None = None  # where the message exceeded its limit; nothing after it is kept

        # The message being read, or the next one: its index, its faults, and its trust.
        self._index: int = 0
        self._faults: list[ErrorCode] = []
        self._trust = Trust.CERTAIN
        self._defers = defers  # use the reference's reading where a header would be a guess
        self._tools = tools
        self._limits = limits
        self._stop_swallowed = stop_swallowed
        self._is_completion = role is not None
        self._source: Source | None = None
        self._state: State = "wait" if role is None else "header"
        self._saw_special = False
        self._follows_damage = False  # whether the input before this message is damaged

        # What is held back in WAIT and HEADER. The header begins at item `_header_at` and at `_text_from`, after
        # <|start|> if there is one; `_given` is its author if the prompt, or the input before, already named it.
        self._items: list[Item] = []
        self._pieces: list[str] = []
        self._held_chars = 0
        self._header_at = 0
        self._text_from: Place = (None, 0)
        self._start_at: int | None = None  # where <|start|> is among `_ids`
        self._given: Author | None = ASSISTANT if role is Role.ASSISTANT else role and Author(role)
        self._prompt_tokens = NO_TOKENS

        # The message that is being read.
        self._header = _NO_HEADER
        self._header_span = _NO_SPAN
        self._role_end = 0  # how many of its tokens the prompt gives
        self._body_limit = 0
        self._parts: list[str] = []
        self._blank_parts = 0  # how many of them are known to be white space
        self._delta: type[TextDelta] | type[ArgumentsDelta] = TextDelta
        self._late_type: list[str] | None = None  # a content type at the beginning of a body, as far as it was read
        self._late_from: Place = (None, 0)
        # Up to `_plain_until`, an ordinary token is just more text of the body; up to `_fast_until`, there is no
        # incomplete character before it either. See parser.py.
        self._plain_until = self._fast_until = _NEVER

        self._turn = TurnSummary(is_open=role is not None)

    # ── reading on ──────────────────────────────────────────────────────────────────────────────────────────────

    def _consume(self, text: str, ids: Sequence[int]) -> None:
        """Advance by this text, which was read from these tokens."""
        if ids:
            if self._cut_at is None:
                self._ids += ids
            self._token = (self._token or 0) + len(ids)
        self._char += len(text)

    def _place_at(self, char: int) -> Place:
        """The place of a character since `_from`: the first token that begins there or after it."""
        (place,) = self._places_at([char])
        return place

    def _places_in_body(self, offsets: Iterable[int]) -> list[Place]:
        return self._places_at([self._body_from[1] + self._body_shift + offset for offset in offsets])

    def _places_at(self, chars: Sequence[int]) -> list[Place]:
        """The places of characters, which must be in order; one pass over the tokens finds them all."""
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
        """Report a fault; in strict mode, raise it."""
        fault = FAULTS[code]
        shown = found if len(found) <= _LONGEST_FOUND else found[: _LONGEST_FOUND - 1] + "…"
        message = f"{fault.found}: {shown!r}" if shown else fault.found
        position = Position(token=at[0], character=at[1], message=self._index)
        if self._is_strict and fault.strict == "raises":
            raise StreamError(code, message, position)
        self._faults.append(code)
        self._trust = min(self._trust, fault.trust)
        self._events.append(Repaired(Diagnostic(code, message, position, shown)))

    # ── held-back input ─────────────────────────────────────────────────────────────────────────────────────────

    def _hold(self, text: str, ids: Sequence[int] = ()) -> None:
        self._consume(text, ids)
        self._pieces.append(text)
        self._held_chars += len(text)

    def _close_text(self) -> None:
        if self._pieces:
            self._items.append("".join(self._pieces))
            self._pieces = []

    def _held_text(self) -> str:
        return spell(self._items) + "".join(self._pieces)

    def _limit(self) -> int:
        return self._limits.header_chars if self._saw_special else self._limits.unmarked_chars

    def _settle(self) -> None:
        """Settle everything that was read."""
        self._state = "wait"
        self._from = self._text_from = (self._token, self._char)
        self._ids = []
        self._items, self._pieces, self._held_chars, self._header_at = [], [], 0, 0
        self._skew = 0
        self._start_at = self._cut_at = self._given = None
        self._prompt_tokens = NO_TOKENS
        self._faults, self._trust = [], Trust.CERTAIN
