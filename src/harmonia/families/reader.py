"""Turns the text of a model that does not speak Harmony into events. No I/O, no clock, no globals.

    plain text  -opening mark->  a passage  -closing mark->  plain text

The family defines the marks and the readers of calls (passages.py, call_bodies.py); the rest is the same for all.
Text that may be the beginning of a mark is held back until that is decided. Thoughts and text are passed on as they
arrive, and so are calls if their body can do it. White space before a text is skipped, as chat templates add some after
marks.

Everything inside a thought that the model closes is thought, whatever it looks like (law 5). So from the first mark
of a call inside a thought, the text is held back until it is decided:

    the thought is closed            all of it was thought
    the turn or the stream ends      the thought was never closed: it is read again, and its calls are guesses

The same holds for nested thoughts: the first closing mark may close the inner thought or the only one. The text after
it is thought if another closing mark comes; otherwise it is the answer, and its calls are guesses. Text beyond the
limit `call_chars` is thought.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, StreamError
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
)
from harmonia.families.call_bodies import Arguments, Body, Ended, Flawed, Named, Piece, Plain, Unread
from harmonia.families.passages import HALF, Layout, Meaning, Passage, Sought
from harmonia.families.registry import DEFAULT_READING, Family, ReadingOptions
from harmonia.json_codec import json_fault
from harmonia.messages import Author, Message, Role
from harmonia.parser import Mode, Parsed
from harmonia.parser.faults import ALL_FAULTS, FAMILY_FAULTS, Fault
from harmonia.parser.headers import Tools, is_visible
from harmonia.parser.parser import results_of
from harmonia.parser.parser_state import TurnSummary
from harmonia.provenance import Origin, Span, Stop, Trust

_ASSISTANT: Final = Author(Role.ASSISTANT)
_LONGEST_FOUND: Final = 80
# A chunk is read in stretches of this length, which bounds how much text a search may scan in vain.
_WINDOW: Final = 4096
_FUNCTIONS: Final = "functions."
_REPLACEMENT: Final = "\ufffd"
# A mark after one of these is quoted.
_QUOTES: Final = "`\"'"
# What precedes an opening quotation mark, besides white space.
_BEFORE_QUOTATION: Final = "([{<=:,"
# How many characters before the next one are kept.
_LOOKBEHIND: Final = 2
# Faults that mean the same here as in Harmony.
_SHARED_FAULTS: Final = (
    ErrorCode.STREAM_TEXT_OUTSIDE,
    ErrorCode.STREAM_INVALID_UTF8,
    ErrorCode.HEADER_FORGED_ROLE,
    ErrorCode.BODY_ARGUMENTS_NOT_JSON,
    ErrorCode.BODY_TOO_LONG,
)
FAULTS: Final[dict[ErrorCode, Fault]] = {**FAMILY_FAULTS, **{code: ALL_FAULTS[code] for code in _SHARED_FAULTS}}
_MODES: Final[tuple[str, ...]] = get_args(Mode)


class TextReader:
    """Reads one answer of a model by the layout of its family."""

    def __init__(self, layout: Layout, options: ReadingOptions = DEFAULT_READING) -> None:
        self._layout = layout
        self._options = options
        self._events: list[Event] = []
        self._is_closed = False

        # Unread text begins at `_at`; the characters before it show whether a line or a quotation begins there.
        self._buffer = "\n" * _LOOKBEHIND
        self._at = _LOOKBEHIND
        self._char = 0  # how many characters were read,
        self._told = 0  # and how many of them are in the span of an event: a body may hold some back
        self._owed = 0  # characters without a text of their own, which go into the span of the next event

        self._passage: Passage | None = None  # the one that is open; None in plain text
        self._is_first = True  # so far only thoughts and white space
        self._has_thought = False  # a thought was opened, so the prompt had opened none
        self._awaits_thought = options.prompt_opens_thought and layout.thought is not None
        # The unclosed thought in which a call began. What comes after the call is thought again (law 7).
        self._interrupted: Passage | None = None

        # A thought that has a closing mark. What is held back is part of it, or perhaps something else.
        self._depth = 1  # of nested thoughts
        self._is_blank = True  # the thought has no text yet
        self._may_have_label = False
        self._may_hold = True
        self._held: list[str] | None = None
        self._chars_held = 0
        self._before_held = ""  # the characters before what is held back
        self._is_unclosed = False  # the thought is known to stay unclosed, so calls in it count

        # A call that is being read. Its opening mark is reported with the first piece of its body.
        self._body: Body | None = None
        self._mark = ""
        self._held_chars = 0
        self._is_told = False  # whether it was reported as a message
        self._is_too_long = False

        # The message that is being read, or is next.
        self._index = 0
        self._header: Header | None = None
        self._header_span = Span(None, None, 0, 0)
        self._unsaid = ""  # the opening mark of a text and the white space after it, until there is a text
        self._parts: list[str] = []
        self._said_chars = 0
        self._cut_at: int | None = None
        self._faults: list[ErrorCode] = []
        self._trust = Trust.CERTAIN
        self._last_call: str | None = None
        self._calls: list[int] = []  # the messages that are calls
        self._turn = TurnSummary(is_open=True)

    def feed(self, chunk: str) -> list[Event]:
        """The events of this piece of text."""
        if not isinstance(chunk, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            raise InputError(ErrorCode.PARSE_INVALID_CHUNK, f"a chunk must be text, not {type(chunk).__name__}")
        self._begin_events()
        for start in range(0, len(chunk), _WINDOW):
            self._buffer = self._buffer[self._at - _LOOKBEHIND :] + chunk[start : start + _WINDOW]
            self._at = _LOOKBEHIND
            self._advance(is_end=False)
        return self._events

    def close(self) -> list[Event]:
        """The remaining events, after the last piece."""
        self._begin_events()
        self._advance(is_end=True)
        if self._held is not None:
            self._read_held_again()
        self._is_closed = True
        if self._passage is not None:
            self._end_passage(is_closed=False)
        if self._header is not None:
            self._end_message(0, None)  # only the engine knows whether it is complete
        self._events.append(self._turn.end(None))
        return self._events

    def _begin_events(self) -> None:
        if self._is_closed:
            raise InputError(ErrorCode.PARSE_CLOSED, "the reader is closed; create a new one for another answer")
        self._events = []

    # ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _advance(self, *, is_end: bool) -> None:
        """Read as far as possible."""
        while self._at < len(self._buffer):
            if self._awaits_thought:
                if not self._begin_given_thought(is_end=is_end):
                    return
                continue
            if self._is_first and self._passage is None:
                if not self._look_first(is_end=is_end):
                    return
                if self._passage is not None:  # pyright: ignore[reportUnnecessaryComparison] -- `_look_first` sets it
                    continue
            if self._may_have_label and not self._look_for_label(is_end=is_end):
                return
            passage = self._passage
            sought = self._sought()
            found = sought.finder.search(self._buffer, self._at, is_end=is_end)
            stop = len(self._buffer) if found is None else found.start
            if stop > self._at:
                self._consume(self._buffer[self._at : stop])
                if self._passage is not passage or self._at < stop:
                    continue  # the passage ended by itself, so other marks count now
            if found is None or found.which is None:
                return
            if found.which == HALF:
                self._fault(ErrorCode.STREAM_INVALID_UTF8, self._char)
                while self._consume(_REPLACEMENT) == 0:
                    pass  # a body that is over does not take it: then it is text
                continue
            meaning, mark = sought.meanings[found.which], self._buffer[found.start : found.end]
            if self._may_be_quoted(meaning):
                if found.end == len(self._buffer) and not is_end:
                    return  # the next character decides
                if self._buffer[found.end : found.end + 1] == self._buffer[found.start - 1]:
                    self._consume(mark)
                    continue
            self._consume_mark(meaning, mark)

    def _sought(self) -> Sought:
        if self._passage is None or not self._is_in_closable_thought():
            return self._layout.sought_in(self._passage)
        is_undecided = self._held is not None or not self._may_hold
        return self._layout.sought_in_thought(self._passage, is_undecided=is_undecided)

    def _may_be_quoted(self, meaning: Meaning) -> bool:
        """Whether a quotation mark precedes this mark; if the same one follows, the mark is only mentioned. For a mark
        that closes a thought, the quotation mark must be an opening one: a thought may end with a quotation, and an
        answer begin with one."""
        if self._body is not None or self._buffer[self._at - 1] not in _QUOTES:
            return False
        if meaning.does == "closes":
            before = self._buffer[self._at - 2]
            return before.isspace() or before in _BEFORE_QUOTATION
        return meaning.passage is not None and meaning.passage.kind in ("thought", "call")

    def _begin_given_thought(self, *, is_end: bool) -> bool:
        """Begin the thought that the prompt opened; False while the model may be about to open it again."""
        found = self._layout.opened_again.finder.match(self._buffer, self._at, is_end=is_end)
        if found is not None and found.which is None:
            return False
        self._awaits_thought = False
        assert self._layout.thought is not None
        end = self._at if found is None or found.which == HALF else found.end
        self._open(self._layout.thought, self._buffer[self._at : end])
        return True

    def _look_for_label(self, *, is_end: bool) -> bool:
        """Omit the label of a thought, a line of its own; False while the text may be about to become one."""
        assert self._passage is not None
        label = self._passage.label
        end = self._at + len(label)
        if not is_end and len(self._buffer) <= end and label.startswith(self._buffer[self._at :]):
            return False
        width = 0
        if self._buffer.startswith(label, self._at):
            closing = self._sought().finder.match(self._buffer, end, is_end=is_end)
            if closing is not None and closing.which is None and self._buffer[end] != "\n":
                return False
            width = len(label) if self._buffer[end : end + 1] in ("", "\n") or closing is not None else 0
        self._may_have_label = False
        self._read(width)
        self._say("", width)
        return True

    def _look_first(self, *, is_end: bool) -> bool:
        """Marks that count only at the beginning of an answer; False while the text may be about to become one."""
        sought = self._layout.first
        if not sought.meanings:
            return True
        text = self._buffer[self._at :]
        start = self._at + len(text) - len(text.lstrip())
        found = sought.finder.match(self._buffer, start, is_end=is_end)
        if found is None or found.which == HALF:
            return True
        if found.which is None:
            return False
        if start > self._at:
            self._consume(self._buffer[self._at : start])
        self._consume_mark(sought.meanings[found.which], self._buffer[start : found.end])
        return True

    def _consume_mark(self, meaning: Meaning, mark: str) -> None:
        if self._body is not None and self._body.is_quoting:
            self._consume(mark)
            return
        match meaning.does:
            case "nests":
                is_repeated = self._is_blank  # nothing stands between the two marks
                self._depth += not is_repeated
                self._consume(mark)
                self._is_blank = is_repeated
            case "opens" if self._is_in_closable_thought():
                assert meaning.passage is not None
                if meaning.passage.kind == "end":
                    if self._held is not None:
                        self._read_held_again()
                    self._is_unclosed = True
                    while self._passage is not None:
                        self._end_passage(is_closed=False)
                    self._open(meaning.passage, mark)
                else:
                    self._begin_holding()
                    self._consume(mark)
            case "opens":
                assert meaning.passage is not None
                while (passage := self._passage) is not None:  # a thought may be open around the call that ends
                    self._end_passage(is_closed=False)
                    if passage.kind == "thought":
                        self._interrupted = passage
                self._open(meaning.passage, mark)
            case "closes" if self._is_in_closable_thought():
                self._release_held()
                if self._depth > 1:
                    # It closes the inner thought or, if it is the last such mark, all of them.
                    self._depth -= 1
                    self._begin_holding()
                    self._consume(mark)
                else:
                    self._end_passage(mark, is_closed=True)
            case "closes":
                self._end_passage(mark, is_closed=True)
            case "is_stray":
                assert meaning.passage is not None
                self._fault(ErrorCode.FAMILY_STRAY_MARK, self._char, mark)
                is_quoted = self._buffer[self._at - 1] in _QUOTES
                if meaning.passage.kind == "thought" and not self._has_thought and not is_quoted:
                    self._doubt_calls()
                    if self._header is not None and self._header.channel == "final":
                        self._end_given_thought(mark, self._header)
                        return
                self._read(len(mark))
                self._skip(mark)
            case _:
                assert_never(meaning.does)

    def _doubt_calls(self) -> None:
        """The calls so far are inside a thought that the prompt had opened. They were reported already, so a diagnostic
        says of each that it is a guess."""
        for index in self._calls:
            self._report(ErrorCode.FAMILY_CALL_IN_THOUGHT, Position(character=self._char, message=index))
        self._calls = []

    def _end_given_thought(self, mark: str, header: Header) -> None:
        """A closing mark without an opening one: the text before it was a thought that the prompt had opened. Its
        deltas were reported as text already, but its message is not shown (law 7)."""
        self._trust = Trust.GUESSED
        self._header = msgspec.structs.replace(header, channel="analysis", trust=self._trust, is_visible=False)
        self._has_thought = self._is_first = True
        self._read(len(mark))
        self._end_message(len(mark), "end")

    def _read(self, width: int) -> None:
        self._at += width
        self._char += width

    # ── what may be inside a thought ────────────────────────────────────────────────────────────────────────────

    def _is_in_closable_thought(self) -> bool:
        passage = self._passage
        is_closable = passage is not None and passage.kind == "thought" and passage.closing is not None
        return is_closable and not self._is_unclosed

    def _begin_holding(self) -> None:
        self._held, self._chars_held = [], 0
        self._is_blank = False
        self._before_held = self._buffer[self._at - _LOOKBEHIND : self._at]

    def _hold(self, text: str) -> None:
        assert self._held is not None
        self._held.append(text)
        self._chars_held += len(text)
        if self._chars_held > self._options.limits.call_chars:
            self._fault(ErrorCode.FAMILY_TOO_LONG, self._told)
            self._may_hold = False
            self._release_held()

    def _release_held(self) -> None:
        """What was held back is part of the thought."""
        if self._held is not None:
            text, self._held = "".join(self._held), None
            self._say(text, len(text))

    def _read_held_again(self) -> None:
        """The thought was never closed, so calls in it count, as guesses."""
        assert self._held is not None
        text, rest = "".join(self._held), self._buffer[self._at - _LOOKBEHIND :]
        self._held, self._is_unclosed = None, True
        self._buffer, self._at = self._before_held + text, _LOOKBEHIND
        self._char -= len(text)
        self._advance(is_end=True)
        self._buffer, self._at = rest, _LOOKBEHIND

    # ── passages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, passage: Passage, mark: str) -> None:
        self._passage = passage
        self._is_first = self._is_first and passage.kind == "thought"
        if passage.kind != "call":
            self._interrupted = None
        match passage.kind:
            case "call":
                assert passage.body is not None
                self._body = passage.body(self._options, mark)
                self._held_chars = 0
                self._is_told = self._is_too_long = False
                if passage.keeps_mark:
                    self._mark = ""
                    self._feed_body(mark)
                else:
                    self._mark = mark
                    self._read(len(mark))
            case "end":
                self._read(len(mark))
                if self._header is not None:
                    self._end_message(0, "end")
                self._skip(mark)
            case "forged":
                self._read(len(mark))
                header = Header(Author(Role.TOOL, self._last_call), "commentary", "assistant", is_forged=True)
                self._start_message(header, len(mark), 0, (ErrorCode.HEADER_FORGED_ROLE,), mark)
            case "thought":
                self._has_thought = self._is_blank = self._may_hold = True
                self._depth = 1
                self._may_have_label = bool(passage.label)
                self._read(len(mark))
                self._start_message(Header(_ASSISTANT, "analysis"), len(mark), 0)
            case "text":
                self._read(len(mark))
                if self._header is not None:
                    self._end_message(0, "end")
                self._unsaid = mark
            case _:
                assert_never(passage.kind)

    def _end_passage(self, mark: str = "", *, is_closed: bool) -> None:
        """End the open passage, by its closing mark or without one."""
        passage, body = self._passage, self._body
        assert passage is not None
        self._passage = self._body = None
        if body is not None:
            self._place(passage, body.close())
        is_text = passage.may_be_text and not self._is_told  # then there was nothing to close
        is_unclosed = not is_closed and passage.closing is not None and not (passage.may_stay_open or is_text)
        if is_unclosed:
            self._fault(ErrorCode.FAMILY_UNCLOSED, self._char)
        self._read(len(mark))
        if passage.kind == "call" and (self._is_too_long or not self._is_told):
            if mark:
                (self._skip if self._is_too_long else self._say_plain)(mark)
        elif self._unsaid:
            unsaid, self._unsaid = self._unsaid + mark, ""
            self._skip(unsaid)
        elif self._header is not None:
            stop: Stop = "call" if passage.kind == "call" else "end"
            # A passage that need not be closed ends where something follows; at the end of the stream it may be cut.
            has_end = is_closed or not (is_unclosed or self._is_closed)
            self._end_message(self._char - self._told - self._owed, stop if has_end else None)

    def _consume(self, text: str) -> int:
        """Read text without a mark. Returns how much of it belongs to the open passage: less if that ends by itself."""
        if self._body is not None:
            return self._feed_body(text)
        if self._passage is None and self._interrupted is not None and (said := text.lstrip()):
            blank = text[: len(text) - len(said)]
            self._read(len(blank))
            if blank:
                self._skip(blank)
            self._go_on_thinking(self._interrupted)
            return len(blank)  # the marks of thoughts count from here on
        self._read(len(text))
        if self._passage is None:
            self._say_plain(text)
        elif self._passage.kind == "call":
            self._skip(text)  # it was too long
        elif self._passage.kind == "end":
            self._say_plain(text, is_outside=True)
        elif self._passage.kind == "text":
            self._say_announced(text)
        elif self._held is not None:
            self._hold(text)
        else:
            self._is_blank = self._is_blank and text.isspace()
            self._say(text, len(text))
        return len(text)

    def _go_on_thinking(self, thought: Passage) -> None:
        self._passage, self._interrupted = thought, None
        self._start_message(Header(_ASSISTANT, "analysis"), 0, 0)

    def _feed_body(self, text: str) -> int:
        passage, body = self._passage, self._body
        assert passage is not None and body is not None
        at = 0
        while at < len(text):
            room = self._options.limits.call_chars - self._held_chars
            if room <= 0:
                self._give_up(passage, body)
                return at
            piece = text[at : at + room]
            taken, pieces = body.feed(piece)
            at += taken
            self._read(taken)
            self._held_chars += taken
            self._place(passage, pieces)
            if taken < len(piece):
                self._end_passage(is_closed=False)
                break
        return at

    def _give_up(self, passage: Passage, body: Body) -> None:
        """The call exceeds the limit. What was read is reported; the rest is skipped, up to its closing mark."""
        self._place(passage, body.close())
        self._fault(ErrorCode.FAMILY_TOO_LONG, self._char)
        if self._is_told and self._header is not None:
            self._end_message(self._char - self._told - self._owed, None)
        self._body = None
        self._is_too_long = True

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, passage: Passage, pieces: Sequence[Piece]) -> None:
        """Report the pieces of a body as events."""
        for piece in pieces:
            match piece:
                case Named():
                    foreign = (ErrorCode.FAMILY_FOREIGN_CALL,) if passage.is_foreign else ()
                    thought = (ErrorCode.FAMILY_CALL_IN_THOUGHT,) if self._is_unclosed else ()
                    recipient = recipient_of(piece.name, self._options.tools)
                    header = Header(_ASSISTANT, "commentary", recipient, "json", is_call=True)
                    self._start_message(
                        header, self._pop_mark_width(), piece.width, (*thought, *foreign, *piece.faults), piece.name
                    )
                    self._held_chars -= piece.width
                    self._last_call = recipient
                case Arguments():
                    self._say(piece.text, piece.width)
                    self._held_chars -= piece.width
                case Ended():
                    self._end_message(piece.width, "call")
                    self._held_chars -= piece.width
                case Unread():
                    # It has no recipient, and as a guess it is not shown.
                    faults = (ErrorCode.FAMILY_UNREADABLE_CALL,)
                    self._start_message(Header(_ASSISTANT, "commentary"), self._pop_mark_width(), 0, faults, piece.text)
                    self._say(piece.text, len(piece.text))
                case Flawed():
                    self._fault(piece.code, self._char)
                case Plain():
                    mark, self._mark = self._mark, ""
                    if self._interrupted is not None:
                        self._go_on_thinking(self._interrupted)
                    self._say_plain(mark + piece.text)
                case _:
                    assert_never(piece)

    def _pop_mark_width(self) -> int:
        """The length of the opening mark, if it was not reported yet."""
        width, self._mark = len(self._mark), ""
        self._is_told = True
        return width

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_message(
        self, header: Header, mark_width: int, header_width: int, faults: Sequence[ErrorCode] = (), found: str = ""
    ) -> None:
        if self._header is not None:
            self._end_message(0, "end")
        self._faults, self._trust = [], Trust.CERTAIN
        for code in faults:
            self._fault(code, self._told, found)
        self._header = header = msgspec.structs.replace(
            header,
            trust=self._trust,
            is_visible=is_visible(header.author, header.channel, header.recipient, header.content_type, self._trust),
        )
        self._parts, self._said_chars, self._cut_at = [], 0, None
        start, end = self._span(mark_width)
        self._events.append(MessageStarted(self._index, None, None, start, end))
        header_start, end = self._span(header_width)
        self._events.append(HeaderCompleted(self._index, header, None, None, header_start, end))
        self._header_span = Span(None, None, start, end)

    def _say_plain(self, text: str, *, is_outside: bool = False) -> None:
        """Text without a mark is the answer, or has no known author if it follows the end of the turn. White space
        before it belongs to nothing."""
        if self._header is None:
            said = text.lstrip()
            if len(said) < len(text):
                self._skip(text[: len(text) - len(said)])
            if not said:
                return
            if is_outside:
                self._start_message(Header(_ASSISTANT), 0, 0, (ErrorCode.STREAM_TEXT_OUTSIDE,))
            else:
                self._is_first = False
                self._start_message(Header(_ASSISTANT, "final"), 0, 0)
            text = said
        self._say(text, len(text))

    def _say_announced(self, text: str) -> None:
        """Text after a mark for the answer. White space before it belongs to the mark."""
        if self._header is None:
            said = text.lstrip()
            self._unsaid += text[: len(text) - len(said)]
            if not said:
                return
            width, self._unsaid = len(self._unsaid), ""
            self._start_message(Header(_ASSISTANT, "final"), width, 0)
            text = said
        self._say(text, len(text))

    def _say(self, text: str, width: int) -> None:
        header = self._header
        assert header is not None
        if not text:
            self._owed += width
            return
        start, end = self._span(width)
        delta = ArgumentsDelta if header.is_call else TextDelta
        self._events.append(delta(text, header, None, None, start, end))
        room = self._options.limits.body_chars - self._said_chars
        if len(text) > room:
            room = max(room, 0)
            self._cut_at = start + room if self._cut_at is None else self._cut_at
            text = text[:room]
        self._parts.append(text)
        self._said_chars += len(text)

    def _end_message(self, width: int, stop: Stop | None) -> None:
        header = self._header
        assert header is not None
        content = "".join(self._parts)
        if self._cut_at is not None:
            self._fault(ErrorCode.BODY_TOO_LONG, self._cut_at)
        if header.is_call:
            self._check_json(content)
            self._calls.append(self._index)
        body = Span(None, None, self._header_span.end_char, self._told)
        origin = Origin("text", self._trust, stop, self._header_span, body, tuple(self._faults), header.is_forged)
        message = Message.parsed(
            header.author, content, header.channel, header.recipient, header.content_type, origin, None
        )
        start, end = self._span(width)
        self._events.append(MessageEnded(self._index, stop, message, None, None, start, end))
        if header.role is Role.ASSISTANT:
            self._turn.note(msgspec.structs.replace(header, trust=self._trust), content)
        self._index += 1
        self._header = None

    def _check_json(self, content: str) -> None:
        at = json_fault(content)
        if at is not None:
            # Arguments that are not written as JSON have no position for each character.
            start, end = self._header_span.end_char, self._told
            place = start + at if end - start == len(content) else start
            self._fault(ErrorCode.BODY_ARGUMENTS_NOT_JSON, place, content[at:])

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _span(self, width: int) -> tuple[int, int]:
        """The span of the next characters that no event has yet."""
        start = self._told
        self._told += width + self._owed
        self._owed = 0
        return start, self._told

    def _skip(self, text: str) -> None:
        start, end = self._span(len(text))
        self._events.append(Skipped(text, None, None, start, end))

    def _fault(self, code: ErrorCode, at: int, found: str = "") -> None:
        """Report a fault of the message that is being read, or is next."""
        self._faults.append(code)
        self._trust = min(self._trust, FAULTS[code].trust)
        self._report(code, Position(character=at, message=self._index), found)

    def _report(self, code: ErrorCode, at: Position, found: str = "") -> None:
        shown = found if len(found) <= _LONGEST_FOUND else found[: _LONGEST_FOUND - 1] + "…"
        message = f"{FAULTS[code].found}: {shown!r}" if shown else FAULTS[code].found
        self._events.append(Repaired(Diagnostic(code, message, at, shown)))


def doubted_call(event: Event) -> int | None:
    """The message that a diagnostic about a call inside a thought makes a guess; it may have ended already."""
    if isinstance(event, Repaired) and event.diagnostic.code is ErrorCode.FAMILY_CALL_IN_THOUGHT:
        return event.diagnostic.at.message
    return None


def as_doubted(message: Message) -> Message:
    """The call as a guess."""
    origin = message.origin
    if origin is None or origin.trust is Trust.GUESSED:
        return message
    faults = (*origin.faults, ErrorCode.FAMILY_CALL_IN_THOUGHT)
    doubted = msgspec.structs.replace(origin, trust=Trust.GUESSED, faults=faults)
    return message.with_origin(doubted)


def recipient_of(name: str, tools: Tools) -> str:
    """The recipient of a call by this name: a tool that is declared by its whole name keeps it."""
    return name if name.startswith(_FUNCTIONS) or name in tools.names else _FUNCTIONS + name


def read_answer(
    family: Family, chunks: str | Iterable[str], options: ReadingOptions = DEFAULT_READING, mode: Mode = "tolerant"
) -> Parsed:
    """Read a whole answer. Strict raises the first fault, as the parser of Harmony does."""
    if mode not in _MODES:
        known = ", ".join(_MODES)
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, f"unknown mode {mode!r}; choose one of {known}")
    reader = family.reader(options)
    events: list[Event] = []
    for chunk in text_chunks(chunks):
        events += reader.feed(chunk)
    events += reader.close()
    for at, event in enumerate(events if mode == "strict" else ()):
        if isinstance(event, Repaired) and FAULTS[event.diagnostic.code].strict == "raises":
            error = StreamError(event.diagnostic.code, event.diagnostic.message, event.diagnostic.at)
            error.events = events[:at]
            raise error
    messages, diagnostics = results_of(events)
    for event in events:
        if (index := doubted_call(event)) is not None and index < len(messages):
            messages[index] = as_doubted(messages[index])
    return Parsed(tuple(messages), tuple(diagnostics), tuple(events))


def text_chunks(answer: str | Iterable[str]) -> Iterable[str]:
    """The pieces of an answer; a text is one piece."""
    if isinstance(answer, str):
        return [answer]
    # Bytes are refused: pieces may cut a character in two.
    if isinstance(answer, bytes | bytearray | memoryview) or not isinstance(answer, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(
            ErrorCode.PARSE_INVALID_CHUNK, f"an answer must be text or an iterable of text, not {type(answer).__name__}"
        )
    return answer
