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
# A chunk is read in stretches of this length, so that what is looked through in vain is never longer.
_WINDOW: Final = 4096
_FUNCTIONS: Final = "functions."
_REPLACEMENT: Final = "\ufffd"
# Before a mark: somebody speaks of it.
_QUOTES: Final = "`\"'"
# Before a quotation mark that opens, besides white space.
_BEFORE_QUOTATION: Final = "([{<=:,"
# How many characters before the one that is read next are kept.
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

        # The text that was not read begins at `_at`; the characters before it tell whether a line begins there, and
        # whether a quotation does.
        self._buffer = "\n" * _LOOKBEHIND
        self._at = _LOOKBEHIND
        self._char = 0  # how many characters were read,
        self._told = 0  # and how many of them lie in the span of an event: a body may hold some back
        self._owed = 0  # characters that go into the span of the next event, as they say nothing

        self._passage: Passage | None = None  # the one that is open; None in plain text
        self._is_first = True  # there was nothing yet but thoughts and white space
        self._has_thought = False  # a thought was opened, so the prompt had opened none
        self._awaits_thought = options.prompt_opens_thought and layout.thought is not None
        # The thought in which a call began. Nobody closed it, so what comes after the call is thought again (law 7).
        self._interrupted: Passage | None = None

        # A thought that has a closing mark. What is held back of it is part of it, or perhaps something else.
        self._depth = 1  # how many thoughts are open inside of each other
        self._is_blank = True  # nothing was thought yet
        self._may_have_label = False
        self._may_hold = True
        self._held: list[str] | None = None
        self._chars_held = 0
        self._before_held = ""  # the characters before what is held back
        self._is_unclosed = False  # it is known that nobody closed the thought, so calls in it count

        # A call that is being read. Its opening mark is told with the first piece of its body.
        self._body: Body | None = None
        self._mark = ""
        self._held_chars = 0
        self._is_told = False  # whether a message came of it
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
        """What happened with this piece of text."""
        if not isinstance(chunk, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
            raise InputError(ErrorCode.PARSE_INVALID_CHUNK, f"a chunk must be text, not {type(chunk).__name__}")
        self._begin_events()
        for start in range(0, len(chunk), _WINDOW):
            self._buffer = self._buffer[self._at - _LOOKBEHIND :] + chunk[start : start + _WINDOW]
            self._at = _LOOKBEHIND
            self._advance(is_end=False)
        return self._events

    def close(self) -> list[Event]:
        """What is left when no more comes."""
        self._begin_events()
        self._advance(is_end=True)
        if self._held is not None:
            self._read_held_again()
        self._is_closed = True
        if self._passage is not None:
            self._end_passage(is_closed=False)
        if self._header is not None:
            self._end_message(0, None)  # whether all of it came, only the engine knows
        self._events.append(self._turn.end(None))
        return self._events

    def _begin_events(self) -> None:
        if self._is_closed:
            raise InputError(ErrorCode.PARSE_CLOSED, "the reader is closed; create a new one for another answer")
        self._events = []

    # ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _advance(self, *, is_end: bool) -> None:
        """Read all that can be read."""
        while self._at < len(self._buffer):
            if self._awaits_thought:
                if not self._begin_given_thought(is_end=is_end):
                    return
                continue
            if self._is_first and self._passage is None:
                is_decided = self._look_first(is_end=is_end)
                if not is_decided:
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
                    continue  # it ended by itself, so other marks count now
            if found is None or found.which is None:
                return
            if found.which == HALF:
                self._consume_half()
                continue
            meaning, mark = sought.meanings[found.which], self._buffer[found.start : found.end]
            if self._may_be_quoted(meaning):
                if found.end == len(self._buffer) and not is_end:
                    return  # the next character tells
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
        """Whether there is a quotation mark before this mark; with the same one after it, somebody speaks of it. Of
        what closes a thought that is sure only where the quotation mark opens: a thought may end with a quotation and
        an answer begin with one."""
        if self._body is not None or self._buffer[self._at - 1] not in _QUOTES:
            return False
        if meaning.does == "closes":
            before = self._buffer[self._at - 2]
            return before.isspace() or before in _BEFORE_QUOTATION
        return meaning.passage is not None and meaning.passage.kind in ("thought", "call")

    def _begin_given_thought(self, *, is_end: bool) -> bool:
        """The prompt opened a thought; False where the model may be about to open it again."""
        sought = self._layout.opened_again
        found = sought.finder.match(self._buffer, self._at, is_end=is_end)
        if found is not None and found.which is None:
            return False
        self._awaits_thought = False
        assert self._layout.thought is not None
        is_repeated = found is not None and found.which != HALF
        self._open(
            self._layout.thought, self._buffer[self._at : found.end] if found is not None and is_repeated else ""
        )
        return True

    def _look_for_label(self, *, is_end: bool) -> bool:
        """Leave out the label of a thought, a line of its own; False where the text may be about to become one."""
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
            if self._buffer[end : end + 1] in ("", "\n") or closing is not None:
                width = len(label)
        self._may_have_label = False
        self._read(width)
        self._say("", width)
        return True

    def _look_first(self, *, is_end: bool) -> bool:
        """Marks that count only at the beginning of an answer; False where the text may be about to become one."""
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

    def _consume_half(self) -> None:
        """Half of a surrogate pair. A body that is over does not take it: then it is text."""
        self._fault(ErrorCode.STREAM_INVALID_UTF8, self._char)
        while self._consume(_REPLACEMENT) == 0:
            pass

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
                    # It closes the inner thought, or all there is; the last such mark does.
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
                if meaning.passage.kind == "thought" and not self._has_thought and not self._is_after_quote():
                    self._doubt_calls()
                if meaning.passage.kind == "thought" and self._ends_given_thought():
                    self._end_given_thought(mark)
                    return
                self._read(len(mark))
                self._skip(mark)
            case _:
                assert_never(meaning.does)

    def _ends_given_thought(self) -> bool:
        """Whether a closing mark that none opened says that all before it was a thought, which the prompt had opened.
        Where the model opens its thoughts itself, or quotes the mark, it does not."""
        if self._has_thought or self._is_after_quote() or self._header is None:
            return False
        return self._header.channel == "final"

    def _is_after_quote(self) -> bool:
        return self._buffer[self._at - 1] in _QUOTES

    def _doubt_calls(self) -> None:
        """The calls so far stand inside a thought that the prompt had opened. They were told, and cannot be taken back;
        a diagnostic says of each that it is a guess."""
        for index in self._calls:
            self._report(ErrorCode.FAMILY_CALL_IN_THOUGHT, Position(character=self._char, message=index))
        self._calls = []

    def _end_given_thought(self, mark: str) -> None:
        """What was told as text cannot be taken back, but the message that comes of it is not shown (law 7)."""
        assert self._header is not None
        self._trust = Trust.GUESSED
        self._header = msgspec.structs.replace(self._header, channel="analysis", trust=self._trust, is_visible=False)
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
        """It was thought."""
        if self._held is not None:
            text, self._held = "".join(self._held), None
            self._say(text, len(text))

    def _read_held_again(self) -> None:
        """Nobody closed the thought, so calls in it count, as guesses."""
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
        """The open passage ends, by its closing mark or without one."""
        passage, body = self._passage, self._body
        assert passage is not None
        self._passage = self._body = None
        if body is not None:
            self._place(passage, body.close())
        is_text = passage.may_be_text and not self._is_told  # so there was nothing to close
        is_unclosed = not is_closed and passage.closing is not None and not (passage.may_stay_open or is_text)
        if is_unclosed:
            self._fault(ErrorCode.FAMILY_UNCLOSED, self._char)
        self._read(len(mark))
        if passage.kind == "call" and self._is_too_long:
            if mark:
                self._skip(mark)
        elif passage.kind == "call" and not self._is_told:
            if mark:
                self._say_plain(mark)
        elif self._unsaid:
            unsaid, self._unsaid = self._unsaid + mark, ""
            self._skip(unsaid)
        elif self._header is not None:
            stop: Stop = "call" if passage.kind == "call" else "end"
            # What need not be closed has its end where something follows; at the end of the stream it may be cut off.
            has_end = is_closed or not (is_unclosed or self._is_closed)
            self._end_message(self._char - self._told - self._owed, stop if has_end else None)

    def _consume(self, text: str) -> int:
        """Text without a mark. How much of it the open passage took: less than all of it where it ended by itself."""
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
            self._say_outside(text)
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
        """The call passes the limit. What came of it is told; the rest is skipped, up to its closing mark."""
        self._place(passage, body.close())
        self._fault(ErrorCode.FAMILY_TOO_LONG, self._char)
        if self._is_told and self._header is not None:
            self._end_message(self._char - self._told - self._owed, None)
        self._body = None
        self._is_too_long = True

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, passage: Passage, pieces: Sequence[Piece]) -> None:
        """What a body says, as events."""
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
                    # Nobody is addressed, and as a guess it is not shown.
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
        """How long the opening mark is, if it was not told yet."""
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

    def _say_plain(self, text: str) -> None:
        """Text that no mark announced: it is the answer. White space before it is none of it."""
        if self._header is None:
            text = self._without_blank(text)
            if not text:
                return
            self._is_first = False
            self._start_message(Header(_ASSISTANT, "final"), 0, 0)
        self._say(text, len(text))

    def _say_announced(self, text: str) -> None:
        """Text after a mark that says it is the answer. White space before it goes with the mark."""
        if self._header is None:
            said = text.lstrip()
            self._unsaid += text[: len(text) - len(said)]
            if not said:
                return
            width, self._unsaid = len(self._unsaid), ""
            self._start_message(Header(_ASSISTANT, "final"), width, 0)
            text = said
        self._say(text, len(text))

    def _say_outside(self, text: str) -> None:
        """Text after the end of the turn: nobody is known to have said it."""
        if self._header is None:
            text = self._without_blank(text)
            if not text:
                return
            self._start_message(Header(_ASSISTANT), 0, 0, (ErrorCode.STREAM_TEXT_OUTSIDE,))
        self._say(text, len(text))

    def _without_blank(self, text: str) -> str:
        """The text from its first word on; what stands before that is nobody's."""
        said = text.lstrip()
        if len(said) < len(text):
            self._skip(text[: len(text) - len(said)])
        return said

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
            if self._cut_at is None:
                self._cut_at = start + max(room, 0)
            text = text[: max(room, 0)]
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
            # Arguments that were put into other words have no place of their own for each character.
            start, end = self._header_span.end_char, self._told
            place = start + at if end - start == len(content) else start
            self._fault(ErrorCode.BODY_ARGUMENTS_NOT_JSON, place, content[at:])

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _span(self, width: int) -> tuple[int, int]:
        """The next characters that no event has told yet."""
        start = self._told
        self._told += width + self._owed
        self._owed = 0
        return start, self._told

    def _skip(self, text: str) -> None:
        start, end = self._span(len(text))
        self._events.append(Skipped(text, None, None, start, end))

    def _fault(self, code: ErrorCode, at: int, found: str = "") -> None:
        """Something is wrong with the message that is being read, or is next."""
        self._faults.append(code)
        self._trust = min(self._trust, FAULTS[code].trust)
        self._report(code, Position(character=at, message=self._index), found)

    def _report(self, code: ErrorCode, at: Position, found: str = "") -> None:
        shown = found if len(found) <= _LONGEST_FOUND else found[: _LONGEST_FOUND - 1] + "…"
        message = f"{FAULTS[code].found}: {shown!r}" if shown else FAULTS[code].found
        self._events.append(Repaired(Diagnostic(code, message, at, shown)))


def doubted_call(event: Event) -> int | None:
    """Which message a diagnostic calls a guess, if it is about a call inside a thought: perhaps one that has ended."""
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
    """Whom a call by this name is addressed to: the tool's whole name where it was declared by that."""
    if name.startswith(_FUNCTIONS) or name in tools.names:
        return name
    return _FUNCTIONS + name


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
    if mode == "strict":
        _raise_first_fault(events)
    messages, diagnostics = results_of(events)
    for event in events:
        if (index := doubted_call(event)) is not None and index < len(messages):
            messages[index] = as_doubted(messages[index])
    return Parsed(tuple(messages), tuple(diagnostics), tuple(events))


def text_chunks(answer: str | Iterable[str]) -> Iterable[str]:
    """An answer as its pieces, which a text is one of."""
    if isinstance(answer, str):
        return [answer]
    # Bytes are not decoded here: a character may be cut in two. Iterated they would be numbers.
    if isinstance(answer, bytes | bytearray | memoryview) or not isinstance(answer, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise InputError(
            ErrorCode.PARSE_INVALID_CHUNK, f"an answer must be text or an iterable of text, not {type(answer).__name__}"
        )
    return answer


def _raise_first_fault(events: Sequence[Event]) -> None:
    for at, event in enumerate(events):
        if isinstance(event, Repaired) and FAULTS[event.diagnostic.code].strict == "raises":
            found = event.diagnostic
            error = StreamError(found.code, found.message, found.at)
            error.events = events[:at]
            raise error
