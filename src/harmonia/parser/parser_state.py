"""The state of a parser and its events: how far it has read, what it holds back, the message and the turn so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from harmonia.errors import ErrorCode, Position, StreamError
from harmonia.events import (
    ArgumentsDelta,
    Diagnostic,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    TextDelta,
    TurnEnded,
)
from harmonia.json_codec import json_fault
from harmonia.messages import Author, Message, Role
from harmonia.parser.faults import FAULTS
from harmonia.parser.headers import (
    ASSISTANT,
    CHANNELS,
    Item,
    Reading,
    Tools,
    is_json_type,
    is_visible,
    lacks_recipient,
    remember,
    spell,
)
from harmonia.provenance import Origin, Sampled, Source, Span, Stop, Trust
from harmonia.vocabulary import (
    CALL,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    SPELLING_BY_ID,
    START,
    Vocabulary,
    find_spellings,
)

STOPS: Final[dict[int, Stop]] = {END: "end", CALL: "call", RETURN: "return"}
State = Literal["wait", "header", "body"]
_START_SPELLING: Final = SPELLING_BY_ID[START]
_MESSAGE_SPELLING: Final = SPELLING_BY_ID[MESSAGE]
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
            because = f"there is only {' and '.join(self._hidden)}" if self._hidden else "there is no text"
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
    setting = " (hidden by default)" if may_be_answer else ""
    if header.trust is Trust.GUESSED:
        return f"text under a guessed header{setting}"
    if _lacks_recipient(header, stop):
        return "a call without a recipient"
    if channel is None:
        return f"text without a channel{setting}"
    return f"text on {channel}" if channel in CHANNELS else "text on an unknown channel"


# A header with one of these faults may lack further parts.
_INCOMPLETE: Final = (
    ErrorCode.STREAM_MISSING_START,
    ErrorCode.HEADER_EMPTY_ROLE,
    ErrorCode.HEADER_REPEATED_START,
)

# After a message with only these faults, the next header has not lost any words to that message.
_HARMLESS: Final = frozenset(
    (
        ErrorCode.STREAM_MISSING_START,
        ErrorCode.STREAM_TEXT_OUTSIDE,
        ErrorCode.HEADER_MISSING_MESSAGE,
        ErrorCode.HEADER_EMPTY_CHANNEL,
        ErrorCode.MISSING_SENTINEL,
    )
)

# A recipient, or a possible tool name.
_HEADER_REMAINS: Final = re.compile(r"=|\w[._]\w")


class KnownHeader(NamedTuple):
    """A known header. `chars` is its length between `<|start|>` and `<|message|>`."""

    reading: Reading
    chars: int
    role_end: int


class ParserState:
    """The whole state of a parser in one object, with the operations that keep it consistent.

    The layers above it (machine, parser) add methods and read these fields directly. That is inheritance
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
        "_is_closed",
        "_is_completion",
        "_is_strict",
        "_is_stripped",
        "_items",
        "_late_from",
        "_late_type",
        "_limits",
        "_parts",
        "_pending_bytes",
        "_pending_ids",
        "_pending_text",
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
        stripped: bool,
        defers: bool,
    ) -> None:
        self._tools = tools
        self._limits = limits
        self._vocabulary = vocabulary
        self._token_bytes = vocabulary.token_bytes
        self._is_strict = strict
        self._stop_swallowed = stop_swallowed
        self._is_stripped = stripped
        self._defers = defers  # use the reference's reading where a header would be a guess
        self._is_completion = role is not None
        self._state: State = "wait" if role is None else "header"
        self._given: Author | None = ASSISTANT if role is Role.ASSISTANT else role and Author(role)
        self._turn = TurnSummary(is_open=role is not None)

        self._events: list[Event] = []
        self._is_closed = False
        self._pending_bytes = b""  # the first bytes of a character
        self._pending_ids: list[int] = []  # tokens that were read but have not given any text yet
        self._pending_text = ""  # a possible beginning of a spelling

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
        self._index = 0
        self._faults: list[ErrorCode] = []
        self._trust = Trust.CERTAIN
        self._source: Source | None = None
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
        self._prompt_tokens: Sequence[int] = ()

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
        self._plain_until = self._fast_until = -1

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
        self._prompt_tokens = ()
        self._faults, self._trust = [], Trust.CERTAIN

    def _skip_held(self) -> None:
        """Report the held-back input as outside any message."""
        start_token, start_char = self._from
        if self._char > start_char or self._token != start_token:
            self._events.append(Skipped(self._held_text(), start_token, self._token, start_char, self._char))
        self._settle()

    # ── the message being read ────────────────────────────────────────────────────────────────────────────────────

    def _complete_header(self, reading: Reading, end: Place) -> None:
        """Report the header, which ends at `end`, where the body begins."""
        start = self._from
        header_text = spell(self._items[self._header_at :]) if reading.faults else ""
        text_from = self._text_from
        header = reading.header
        if self._source == "stripped":
            self._trust = Trust.GUESSED
        if header.is_visible and header.channel != "final" and self._may_lack_address(reading):
            self._trust = Trust.GUESSED
        if self._trust < header.trust:
            visible = is_visible(header.author, header.channel, header.recipient, header.content_type, self._trust)
            header = msgspec.structs.replace(header, trust=self._trust, is_visible=visible)
        self._trust = header.trust
        self._header = header
        index = self._index
        start_token, start_char = start
        text_token, text_char = text_from
        end_token, end_char = end
        self._events += (
            MessageStarted(index, start_token, text_token, start_char, text_char),
            HeaderCompleted(index, header, text_token, end_token, text_char, end_char),
        )
        self._header_span = Span(start_token, end_token, start_char, end_char)
        self._body_from, self._body_shift = end, 0
        self._body_limit = end_char + self._limits.body_chars
        self._cut_at = None
        self._parts = []
        self._blank_parts = 0
        self._delta = ArgumentsDelta if header.is_call else TextDelta
        self._late_type = None
        self._state = "body"
        if header.author.role is Role.ASSISTANT:
            self._turn.is_open = True
        self._items, self._pieces, self._held_chars, self._header_at = [], [], 0, 0
        if reading.faults:
            starts = sorted({fault.start for fault in reading.faults})
            places = dict(zip(starts, self._places_at([text_char + start for start in starts]), strict=True))
            for fault in reading.faults:
                self._fault(fault.code, places[fault.start], header_text[fault.start : fault.end])

    def _may_lack_address(self, reading: Reading) -> bool:
        """Whether a recipient may have been lost: then a call, or the answer of a tool, would look like a preamble."""
        codes = {*self._faults, *(fault.code for fault in reading.faults)}
        return self._follows_damage and not codes.isdisjoint(_INCOMPLETE)

    def _say(self, text: str, start: Place, end: Place) -> None:
        """Report more text of the body."""
        start_token, start_char = start
        end_token, end_char = end
        self._events.append(self._delta(text, self._header, start_token, end_token, start_char, end_char))
        if end_char <= self._body_limit:
            self._parts.append(text)
        elif self._cut_at is None:
            # The fault is reported at the end of the message, so that it does not separate the deltas of one chunking
            # only.
            self._cut_at = self._place_at(self._body_limit)
            if start_char < self._body_limit:
                self._parts.append(text[: self._body_limit - start_char])

    def _end_message(self, token: int | None, spelling: str = "", ids: Sequence[int] = ()) -> None:
        """End the message here, with this stop token or without one."""
        here, header = (self._token, self._char), self._header
        content = "".join(self._parts)
        stop = None if token is None else STOPS[token]
        if self._cut_at is not None:
            self._fault(ErrorCode.BODY_TOO_LONG, self._cut_at)
        if stop == "call" and not header.is_call:
            self._fault(ErrorCode.BODY_CALL_WITHOUT_RECIPIENT, here, spelling)
        if header.is_call and is_json_type(header.content_type):
            self._check_json(content)
        if "<|" in content and self._source == "tokens":
            self._report_spellings(content)
        if token is not None:
            self._consume(spelling, ids)
        here_token, here_char = here
        body_token, body_char = self._body_from
        body_span = Span(body_token, here_token, body_char, here_char)
        source, faults = self._source or "tokens", tuple(self._faults)
        origin = Origin(source, self._trust, stop, self._header_span, body_span, faults, header.is_forged)
        message = Message.parsed(
            header.author, content, header.channel, header.recipient, header.content_type, origin, self._sampled()
        )
        end_token, end_char = self._token, self._char
        self._events.append(MessageEnded(self._index, stop, message, here_token, end_token, here_char, end_char))
        self._index += 1
        self._parts = []
        self._follows_damage = self._may_hide_address(stop, content)
        self._settle()
        if header.author.role is Role.ASSISTANT:
            self._turn.note(header, content, stop)
            if stop is not None and stop != "end":
                self._end_turn_by(stop)

    def _may_hide_address(self, stop: Stop | None, content: str) -> bool:
        """Whether the recipient of the next message may have been lost in the one that ends here."""
        if self._trust is Trust.CERTAIN and stop is not None:
            return False
        header, faults = self._header, self._faults
        is_text = header.author.role is Role.ASSISTANT and not header.is_call
        # Prose is not damage; the remains of a header at the end of the text are.
        return not (is_text and _HARMLESS.issuperset(faults) and _HEADER_REMAINS.search(content[-200:]) is None)

    def _sampled(self) -> Sampled | None:
        """The tokens that the message was sampled as, if nothing in it was repaired."""
        if self._token is None or self._trust is not Trust.CERTAIN or self._source == "stripped":
            return None
        prompt, start = self._prompt_tokens, self._start_at
        if start is None and not prompt:
            return None
        tokens = self._ids[start:] if start else self._ids
        header_end = len(prompt) + (self._header_span.end_token or 0) - (self._from[0] or 0) - (start or 0)
        return Sampled((*prompt, *tokens), self._role_end, header_end)

    def _check_json(self, content: str) -> None:
        at = json_fault(content)
        if at is not None:
            (place,) = self._places_in_body([at])
            self._fault(ErrorCode.BODY_ARGUMENTS_NOT_JSON, place, content[at:])

    def _report_spellings(self, content: str) -> None:
        found = find_spellings(content)
        places = self._places_in_body([offset for offset, _ in found])
        first = self._from[0] or 0
        for place, (_, spelling) in zip(places, found, strict=True):
            at = (place[0] or 0) - first
            # Skip special tokens that were kept as text.
            if at >= len(self._ids) or self._ids[at] < FIRST_SPECIAL:
                self._fault(ErrorCode.BODY_SPELLED_TOKEN, place, spelling)

    def _end_turn_by(self, stop: Stop | None) -> None:
        if stop in ("call", "return") and self._turn.is_open:
            self._events.append(self._turn.end(stop))

    # ── known headers ─────────────────────────────────────────────────────────────────────────────────────────────

    # There are few headers, and they recur; short answers arrive whole. A header whose exact tokens were read before,
    # without faults, need not be read again, and a message with such a header that ends in the same chunk need not pass
    # from state to state. The events are the same; tests compare them with those of the general path. Without this, an
    # answer of two short messages takes three times as long (26 µs instead of 8).

    def _remember_header(self, reading: Reading) -> None:
        """Cache the reading of exactly these tokens: there are few headers, and they recur."""
        if self._start_at == 0 or (self._start_at is None and self._given is ASSISTANT):
            known = KnownHeader(reading, self._held_chars, self._role_end)
            remember(self._tools, (self._is_completion, *self._ids), known)

    def _known_header(self, ids: list[int]) -> KnownHeader | None:
        """The known header of these tokens: from `<|start|>`, or from the end of the prompt, to `<|message|>`."""
        known: KnownHeader | None = self._tools.remembered_headers.get((self._is_completion, *ids))
        limits = self._limits
        # The first text of a stream also counts against `unmarked_chars`.
        most = limits.header_chars if self._saw_special else min(limits.header_chars, limits.unmarked_chars)
        return known if known is not None and known.chars <= most else None

    def _push_known_header(self, known: KnownHeader, ids: list[int]) -> None:
        """Read a header at once. Nothing may be held back."""
        token, char = self._token or 0, self._char
        self._saw_special = True
        self._ids = ids
        if ids[0] == START:
            self._start_at = 0
            char += len(_START_SPELLING)
            self._text_from = (token + 1, char)
        self._token = token + len(ids)
        self._char = char + known.chars + len(_MESSAGE_SPELLING)
        self._role_end = known.role_end
        self._complete_header(known.reading, (self._token, self._char))

    def _push_known_message(self, known: KnownHeader, header_ids: list[int], body_ids: list[int], stop: int) -> bool:
        """Read a message at once, if its body has no faults. Nothing may be held back.

        This is `_push_known_header`, `_push_text` and `_end_message` in one: for short answers in one chunk, the calls
        between them would take most of the time.
        """
        header = known.reading.header
        data = b"".join(map(self._token_bytes.__getitem__, body_ids))
        try:
            content = data.decode()
        except UnicodeDecodeError:
            return False
        name = STOPS[stop]
        if (
            self._source != "tokens"
            or "<|" in content
            or len(content) > self._limits.body_chars
            or (name == "call" and not header.is_call)
            or (header.is_call and is_json_type(header.content_type) and json_fault(content) is not None)
        ):
            return False
        self._saw_special = True
        token, char, index = self._token or 0, self._char, self._index
        text_token, text_char = token, char
        if header_ids[0] == START:
            text_token, text_char = token + 1, char + len(_START_SPELLING)
        body_token, body_char = token + len(header_ids), text_char + known.chars + len(_MESSAGE_SPELLING)
        stop_token, stop_char = body_token + len(body_ids), body_char + len(content)
        end_token, end_char = stop_token + 1, stop_char + len(SPELLING_BY_ID[stop])
        prompt = self._prompt_tokens
        header_span = Span(token, body_token, char, body_char)
        body_span = Span(body_token, stop_token, body_char, stop_char)
        origin = Origin("tokens", Trust.CERTAIN, name, header_span, body_span, (), header.is_forged)
        sampled = Sampled((*prompt, *header_ids, *body_ids, stop), known.role_end, len(prompt) + len(header_ids))
        message = Message.parsed(
            header.author, content, header.channel, header.recipient, header.content_type, origin, sampled
        )
        events = self._events
        events.append(MessageStarted(index, token, text_token, char, text_char))
        events.append(HeaderCompleted(index, header, text_token, body_token, text_char, body_char))
        if content:
            delta = ArgumentsDelta if header.is_call else TextDelta
            events.append(delta(content, header, body_token, stop_token, body_char, stop_char))
        events.append(MessageEnded(index, name, message, stop_token, end_token, stop_char, end_char))
        self._index = index + 1
        self._token, self._char = end_token, end_char
        self._from = self._text_from = (end_token, end_char)
        self._state = "wait"
        self._given = None
        self._prompt_tokens = ()
        self._follows_damage = False
        if header.author.role is Role.ASSISTANT:
            self._turn.is_open = True
            self._turn.note(header, content, name)
            if name != "end":
                self._end_turn_by(name)
        return True
