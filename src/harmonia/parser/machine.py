"""The state machine behind all readers: special tokens and text in, events out. No I/O, no clock, no globals.

    WAIT  -<|start|>->  HEADER  -<|message|>->  BODY  -<|end|>->  WAIT
    (<|call|> and <|return|> also close BODY; they end the turn too)

A completion begins in HEADER: the prompt already ended "<|start|>assistant".

1. Chunking is invisible: any split of the input gives the same events once adjacent deltas are joined. Undecided
   input is held back: a header until it ends, text between messages until the next special token.
2. No token is lost: each one lies in exactly one event's span.
3. Strict mode raises StreamError and nothing else; tolerant mode reports the same fault as a diagnostic, then
   continues.
4. Every buffer has a limit, and work per token is amortised constant.

A special token in a state where it does not belong is a fault; parser/faults.py has its consequences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar, Final

import msgspec

from harmonia.errors import ErrorCode
from harmonia.events import (
    Header,
    HeaderCompleted,
    Skipped,
)
from harmonia.messages import Author, Role
from harmonia.parser.headers import (
    ASSISTANT,
    CHANNELS,
    Item,
    Reading,
    find_header,
    is_header_word,
    lacks_recipient,
    read_header,
    spell,
)
from harmonia.parser.missing_special_tokens import read_open_header
from harmonia.parser.parser_state import STOPS, ParserState, State
from harmonia.parser.reference import Refusal, read_as_reference
from harmonia.provenance import Source, Trust
from harmonia.vocabulary import (
    CHANNEL,
    CONSTRAIN,
    END_OF_TEXT,
    MESSAGE,
    SPELLING_BY_ID,
    START,
    default_vocabulary,
)

_LONGEST_LATE_TYPE: Final = 32

_FORMAT_WORDS: Final = "|".join([*(role.value for role in Role), *CHANNELS])
# Words of an abandoned header, such as "commentary" after a call, and punctuation.
_LEFTOVER: Final = re.compile(rf"(?:[\W_]|{_FORMAT_WORDS})*", re.IGNORECASE)
_ASSISTANT_FIRST: Final = re.compile(rf"\s*{Role.ASSISTANT}(?=\s)")
_LATE_TYPE: Final = re.compile(r"\s*[A-Za-z]*")


_Handler = Callable[["Machine", int, str, Sequence[int]], None]


@cache
def _prompt_tokens(role: Role) -> list[int]:
    """The end of a prompt that asks for a message of this role."""
    return [START, *default_vocabulary().encode(role.value)]


class Machine(ParserState):
    """The transitions. The readers in parser/parser.py push text and special tokens into it."""

    __slots__ = ()

    # ── called by the readers ───────────────────────────────────────────────────────────────────────────────────

    def _begin(self, source: Source, *, counts_tokens: bool) -> None:
        self._source = source
        if counts_tokens:
            self._token = 0
            self._from = self._text_from = (0, 0)
            if self._given is not None:
                self._prompt_tokens = _prompt_tokens(self._given.role)

    def _push_text(self, text: str, ids: Sequence[int] = ()) -> None:
        """Read ordinary text, which came from these tokens."""
        if self._state == "body":
            start = (self._token, self._char)
            self._consume(text, ids)
            if self._late_type is None:
                self._say(text, start, (self._token, self._char))
            else:
                self._late_type.append(text)
                begun = "".join(self._late_type)
                if len(begun) > _LONGEST_LATE_TYPE or _length_of_type(begun) < len(begun):
                    self._settle_late_type()
            return
        at = 0
        while at < len(text) and self._state != "body":  # pyright: ignore[reportUnnecessaryComparison] -- `_overflow` sets it
            # Text is cut at the limit. Tokens cannot be cut; their reader pushes them one by one.
            room = max(self._limit() - self._held_chars, 0)
            piece = text[at : at + room + 1] if self._token is None else text
            self._hold(piece, ids)
            if len(piece) > room:
                self._overflow()
            at += len(piece)
        if at < len(text):
            self._push_text(text[at:])

    def _push_special(self, token: int, spelling: str, ids: Sequence[int] = ()) -> None:
        """Read a special token with this spelling."""
        self._saw_special = True
        self.TRANSITIONS[self._state].get(token, self.OTHERWISE[self._state])(self, token, spelling, ids)

    def _finish(self) -> None:
        """End the stream."""
        if self._state == "body":
            self._settle_late_type()
            if not self._stop_swallowed:
                self._fault(ErrorCode.MISSING_SENTINEL, (self._token, self._char))
            self._end_message(None)
        elif self._state == "header":
            self._finish_header()
        elif self._pieces:
            self._settle_outside(is_end=True)
        if self._pieces or self._items:
            self._skip_held()
        if self._turn.is_open:
            self._events.append(self._turn.end(None))

    # ── WAIT ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_between(self, _token: int, spelling: str, ids: Sequence[int]) -> None:
        """A header begins."""
        if self._pieces:
            self._settle_outside()
        self._start_header(spelling, ids)

    def _header_between(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """A header continues that has no `<|start|>`."""
        self._start_header_without_start(token, spelling)
        self._push_special(token, spelling, ids)

    def _stop_between(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """It ends text without a header, or it is superfluous and skipped."""
        text = self._held_text()
        if text.strip() and not _is_leftover(text):
            self._begin_unmarked_message(ErrorCode.STREAM_TEXT_OUTSIDE)
            self._push_special(token, spelling, ids)
        else:
            self._settle_outside()
            self._skip_special(ErrorCode.STREAM_REPEATED_STOP, token, spelling, ids)

    def _reserved_between(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """It is skipped."""
        self._settle_outside()
        self._skip_special(ErrorCode.STREAM_RESERVED_TOKEN, token, spelling, ids)

    def _settle_outside(self, *, is_end: bool = False) -> None:
        """Skip text between messages or make it a message; white space stays and becomes part of what follows."""
        text = self._held_text()
        if not text.strip():
            return
        is_unmarked = is_end and not self._saw_special
        if _is_leftover(text) and not is_unmarked:
            self._fault(ErrorCode.STREAM_TEXT_OUTSIDE, self._from, text)
            self._skip_held()
            self._follows_damage = True
            return
        self._begin_unmarked_message(ErrorCode.STREAM_NO_MARKUP if is_unmarked else ErrorCode.STREAM_TEXT_OUTSIDE)
        self._end_message(None)

    def _begin_unmarked_message(self, code: ErrorCode) -> None:
        """Begin a message without a channel whose body is the held-back text."""
        text, start, end = self._held_text(), self._from, (self._token, self._char)
        self._faults, self._trust = [], Trust.CERTAIN
        self._complete_header(Reading(Header(ASSISTANT, trust=Trust.GUESSED), (), 0), start)
        self._fault(code, start, text)
        self._say(text, start, end)

    def _start_header_without_start(self, token: int, spelling: str) -> None:
        text = self._held_text()
        header_at = find_header(text, self._tools, is_channel_next=token == CHANNEL)
        if text[:header_at].strip():
            self._settle_part(header_at, self._settle_outside)
        self._state = "header"
        self._close_text()
        held = self._held_text().strip()
        is_channel_left_over = token == CHANNEL and held.lower() in CHANNELS
        self._given = None if held and not is_channel_left_over else ASSISTANT
        self._faults, self._trust = [], Trust.CERTAIN
        self._fault(ErrorCode.STREAM_MISSING_START, self._from, self._held_text() + spelling)

    def _settle_part(self, length: int, settle: Callable[[], None]) -> None:
        """Settle the first characters of the held-back text, and keep holding the rest."""
        text, here, ids = self._held_text(), (self._token, self._char), self._ids
        from_token, from_char = self._from
        split = split_token, _ = self._place_at(from_char + length)
        count = len(ids) if split_token is None else split_token - (from_token or 0)
        offsets = self._vocabulary.char_offsets(ids)
        skew = (offsets[count] if count < len(ids) else len(text)) - length if ids else 0
        self._token, self._char = split
        self._items, self._pieces, self._held_chars, self._ids = [], [text[:length]], length, ids[:count]
        settle()
        self._token, self._char = here
        self._pieces, self._held_chars, self._ids, self._skew = [text[length:]], len(text) - length, ids[count:], skew

    def _skip_special(self, code: ErrorCode, token: int, spelling: str, ids: Sequence[int]) -> None:
        start = (self._token, self._char)
        self._hold(spelling, ids)
        self._fault(code, start, spelling)
        self._skip_held()
        self._end_turn_by(STOPS.get(token))

    # ── HEADER ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_header(self, spelling: str, ids: Sequence[int]) -> None:
        """Begin a header with `<|start|>`; white space before it is held back."""
        self._close_text()
        self._start_at = len(self._ids)
        self._consume(spelling, ids)
        self._items.append(START)
        self._header_at = len(self._items)
        self._held_chars = 0
        self._text_from = (self._token, self._char)
        self._state = "header"
        self._given = None
        self._faults, self._trust = [], Trust.CERTAIN

    def _message_in_header(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """The header is complete, and the body begins."""
        self._close_text()
        if self._held_chars > self._limits.header_chars:
            self._overflow()
            self._push_special(token, spelling, ids)
            return
        self._settle_prose(token, spelling)
        items = self._items[self._header_at :]
        reading = read_header(items, self._given, self._tools, is_completion=self._is_completion)
        if self._defers and (
            reading.header.trust is Trust.GUESSED
            or any(fault.code is ErrorCode.HEADER_REPEATED_CHANNEL for fault in reading.faults)
        ):
            # Ours would be a guess, so it is the reference's reading, if it has one.
            read = read_as_reference(spell(items), None if self._given is None else self._given.role)
            if not isinstance(read, Refusal):
                reading = reading._replace(header=msgspec.structs.replace(read, is_forged=reading.header.is_forged))
        self._consume(spelling, ids)
        if self._token is not None:
            self._role_end = len(self._prompt_tokens)
            if not self._role_end:
                offsets = self._vocabulary.char_offsets(self._ids[(self._start_at or 0) + 1 :])
                self._role_end = 1 + sum(offset < reading.author_end for offset in offsets)
            if not reading.faults and not self._faults:
                self._remember_header(reading)
        self._complete_header(reading, (self._token, self._char))

    def _field_in_header(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """It is part of the header."""
        self._close_text()
        if token in (CHANNEL, CONSTRAIN):
            self._settle_prose(token, spelling)
        self._consume(spelling, ids)
        self._items.append(token)
        self._held_chars += len(spelling)
        if self._held_chars > self._limit():
            self._overflow()

    def _settle_prose(self, token: int, spelling: str) -> None:
        """Make text that the model wrote before this token of a header a message, and start the header over."""
        count = len(self._items) - self._header_at
        if not count or self._defers or (count == 1 and self._items[-1] == Role.ASSISTANT):
            return  # nearly always
        if token == MESSAGE and CHANNEL in self._items:
            return
        items = self._items[self._header_at :]
        if CHANNEL in items or CONSTRAIN in items:
            if token == CHANNEL:
                self._settle_stranded(spelling)
            return
        text = "".join(item for item in items if isinstance(item, str))
        author_end = 0
        if self._given is None:
            author = _ASSISTANT_FIRST.match(text) if items[0] == text else None
            if author is None:
                return
            author_end = author.end()
        elif self._given is not ASSISTANT:
            return
        prose_end = find_header(text[author_end:], self._tools, is_channel_next=token == CHANNEL)
        if not text[author_end : author_end + prose_end].strip():
            return
        if author_end:
            self._fault(ErrorCode.HEADER_UNFINISHED, self._from, self._held_text())
            self._settle_part(len(spell(self._items[: self._header_at])) + author_end, self._skip_held)
        self._start_header_without_start(token, spelling)

    def _settle_stranded(self, spelling: str) -> None:
        """Another channel section begins: text in the one before it becomes a message of its own."""
        reading = self._read_open()
        # Words after a channel name that can be part of a header are an abandoned header, not the model's text.
        text = "" if reading.body_start is None else spell(self._items[self._header_at :])[reading.body_start :]
        if "to=" in text or all(is_header_word(word, self._tools) for word in text.split()):
            return
        self._complete_open_header(reading, ErrorCode.HEADER_MISSING_MESSAGE)
        self._fault(ErrorCode.MISSING_SENTINEL, (self._token, self._char), spelling)
        self._end_message(None)
        self._start_header_without_start(CHANNEL, spelling)

    def _start_in_header(self, _token: int, spelling: str, ids: Sequence[int]) -> None:
        """The header is abandoned, or text inside it becomes its message; another header begins."""
        self._close_text()
        reading = self._read_open()
        is_repeated = reading.body_start is None and not reading.says_more_than_a_role
        given_up = spell(self._items[self._header_at :]).strip()
        here = (self._token, self._char)
        if reading.body_start is not None:
            self._complete_open_header(reading, ErrorCode.HEADER_MISSING_MESSAGE)
            self._fault(ErrorCode.MISSING_SENTINEL, here, spelling)
            self._end_message(None)
        elif not is_repeated:
            self._fault(ErrorCode.HEADER_UNFINISHED, self._from, self._held_text())
        self._follows_damage = self._follows_damage or given_up not in ("", Role.ASSISTANT)
        self._skip_held()
        self._start_header(spelling, ids)
        if is_repeated:
            self._fault(ErrorCode.HEADER_REPEATED_START, here, spelling)

    def _stop_in_header(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """Text inside the header becomes its message, which ends."""
        self._close_text()
        reading = self._read_open()
        if reading.body_start is not None or reading.says_more_than_a_role:
            has_no_body = reading.body_start is None
            code = ErrorCode.HEADER_STOP_INSIDE if has_no_body else ErrorCode.HEADER_MISSING_MESSAGE
            self._complete_open_header(reading, code)
            self._push_special(token, spelling, ids)
        else:
            self._state = "wait"
            self._skip_special(ErrorCode.HEADER_STOP_INSIDE, token, spelling, ids)
            self._follows_damage = True

    def _finish_header(self) -> None:
        self._close_text()
        reading = self._read_open()
        if reading.body_start is None:
            self._fault(ErrorCode.HEADER_UNFINISHED, self._from, self._held_text())
            return
        self._complete_open_header(
            reading, ErrorCode.HEADER_MISSING_MESSAGE if self._saw_special else ErrorCode.STREAM_NO_MARKUP
        )
        if not self._stop_swallowed and self._saw_special:
            self._fault(ErrorCode.MISSING_SENTINEL, (self._token, self._char))
        self._end_message(None)

    def _read_open(self) -> Reading:
        return read_open_header(
            self._items[self._header_at :], self._given, self._tools, is_completion=self._is_completion
        )

    def _complete_open_header(self, reading: Reading, code: ErrorCode) -> None:
        """Complete a header without `<|message|>`; the text inside it is the beginning of the body."""
        text, end = spell(self._items[self._header_at :]), (self._token, self._char)
        body = "" if reading.body_start is None else text[reading.body_start :]
        split = self._place_at(end[1] - len(body)) if body else end
        self._complete_header(reading, split)
        self._fault(code, split, body)
        if body:
            self._say(body, split, end)

    def _complete_guessed_header(self, items: list[Item], author: Author) -> None:
        """Complete a header from stripped text. Of its faults, only a forged role is reported."""
        is_named = bool(items and items[0])
        reading = read_header(items, None if is_named else author, self._tools, is_completion=self._is_completion)
        forged = tuple(fault for fault in reading.faults if fault.code is ErrorCode.HEADER_FORGED_ROLE)
        self._complete_header(reading._replace(faults=forged), (self._token, self._char))

    # ── BODY ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop_in_body(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """The message ends."""
        if self._late_type is not None:
            self._settle_late_type()
        self._end_message(token, spelling, ids)

    def _header_in_body(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """The message ends without a stop token, and a header begins."""
        self._cut_body(spelling)
        self._push_special(token, spelling, ids)

    def _end_of_text_in_body(self, _token: int, spelling: str, ids: Sequence[int]) -> None:
        """The message ends without a stop token: samplers may end any text with it."""
        self._cut_body(spelling)
        self._hold(spelling, ids)
        self._skip_held()

    def _cut_body(self, spelling: str) -> None:
        self._settle_late_type()
        self._fault(ErrorCode.MISSING_SENTINEL, (self._token, self._char), spelling)
        self._end_message(None)

    def _message_in_body(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """At the beginning of the body it is skipped; later, another message begins whose header is lost."""
        self._settle_late_type()
        while self._blank_parts < len(self._parts) and self._parts[self._blank_parts].isspace():
            self._blank_parts += 1
        if self._blank_parts < len(self._parts) or self._cut_at is not None:
            # What follows may be reasoning, so it must not continue the text of an answer.
            self._cut_body(spelling)
            self._push_special(token, spelling, ids)
            return
        start_token, start_char = start = (self._token, self._char)
        self._consume(spelling, ids)
        self._events.append(Skipped(spelling, start_token, self._token, start_char, self._char))
        self._body_shift += len(spelling)
        self._fault(ErrorCode.BODY_REPEATED_MESSAGE, start, spelling)

    def _constrain_in_body(self, token: int, spelling: str, ids: Sequence[int]) -> None:
        """At the beginning of the body a content type begins; later it is kept as text."""
        if self._parts or self._cut_at or self._header.content_type is not None or self._late_type is not None:
            self._reserved_in_body(token, spelling, ids)
            return
        # One of the format's samples writes the content type there.
        self._late_type, self._late_from = [], (self._token, self._char)
        self._consume(spelling, ids)

    def _reserved_in_body(self, _token: int, spelling: str, ids: Sequence[int]) -> None:
        """It is kept as text."""
        self._settle_late_type()
        start = (self._token, self._char)
        self._consume(spelling, ids)
        self._say(spelling, start, (self._token, self._char))
        self._fault(ErrorCode.BODY_RESERVED_TOKEN, start, spelling)

    def _settle_late_type(self) -> None:
        """End the content type at the beginning of a body, and report the completed header again."""
        if self._late_type is None:
            return
        text, start, end = "".join(self._late_type), self._late_from, (self._token, self._char)
        self._late_type = None
        name_end = _length_of_type(text[: _LONGEST_LATE_TYPE + 1])
        if name_end > _LONGEST_LATE_TYPE or not text[:name_end].strip():
            name_end = 0
        body = text[name_end:]
        split = self._place_at(end[1] - len(body)) if body else end
        constrain, header = SPELLING_BY_ID[CONSTRAIN], self._header
        code = None if name_end else ErrorCode.HEADER_EMPTY_CONTENT_TYPE
        if name_end:
            content_type = constrain + text[:name_end]
            if lacks_recipient(header.author, header.channel, header.recipient, content_type):
                code = ErrorCode.HEADER_MISSING_RECIPIENT
            visible = header.is_visible and code is None
            self._header = msgspec.structs.replace(header, content_type=content_type, is_visible=visible)
        self._events.append(HeaderCompleted(self._index, self._header, start[0], split[0], start[1], split[1]))
        if code is not None:
            self._fault(code, start, constrain)
        self._body_from, self._body_shift = split, 0
        if body:
            self._say(body, split, end)

    # ── held-back input ─────────────────────────────────────────────────────────────────────────────────────────

    def _overflow(self) -> None:
        """The limit of held-back input is exceeded: decide with what there is."""
        self._close_text()
        if self._state == "header":
            code = ErrorCode.HEADER_TOO_LONG if self._saw_special else ErrorCode.STREAM_NO_MARKUP
            self._complete_open_header(self._read_open(), code)
            return
        text = self._held_text()
        if not text.strip():
            self._skip_held()
        elif _is_leftover(text):
            self._fault(ErrorCode.STREAM_TEXT_OUTSIDE, self._from, text)
            self._skip_held()
        else:
            code = ErrorCode.STREAM_TEXT_OUTSIDE if self._saw_special else ErrorCode.STREAM_NO_MARKUP
            self._begin_unmarked_message(code)

    def _drop(self, spelling: str, token: int) -> None:
        """Report the held-back input and this token as outside any message; an open message ends before it."""
        if self._state == "body":
            self._cut_body(spelling)
        self._hold(spelling, (token,))
        self._skip_held()

    # What each special token does in each state. The reference page prints the first line of a handler's docstring.
    TRANSITIONS: ClassVar[dict[State, dict[int, _Handler]]] = {
        "wait": {
            START: _start_between,
            CHANNEL: _header_between,
            CONSTRAIN: _header_between,
            MESSAGE: _header_between,
            **dict.fromkeys(STOPS, _stop_between),
        },
        "header": {
            START: _start_in_header,
            MESSAGE: _message_in_header,
            **dict.fromkeys((*STOPS, END_OF_TEXT), _stop_in_header),
        },
        "body": {
            START: _header_in_body,
            CHANNEL: _header_in_body,
            CONSTRAIN: _constrain_in_body,
            MESSAGE: _message_in_body,
            END_OF_TEXT: _end_of_text_in_body,
            **dict.fromkeys(STOPS, _stop_in_body),
        },
    }
    OTHERWISE: ClassVar[dict[State, _Handler]] = {
        "wait": _reserved_between,
        "header": _field_in_header,
        "body": _reserved_in_body,
    }


def _length_of_type(text: str) -> int:
    found = _LATE_TYPE.match(text)
    return 0 if found is None else found.end()


def _is_leftover(text: str) -> bool:
    return _LEFTOVER.fullmatch(text) is not None
