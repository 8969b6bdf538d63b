"""The parser: chunks in, events out. Three readers feed one state machine.

token ids      a special token is an id, so text can never be mistaken for one
text, bytes    special tokens are spelled out, and may be cut anywhere, even inside a character
stripped text  a server removed the special tokens; see parser/missing_special_tokens.py

The class is built in layers: parser_state (fields and events), machine (transitions), and the readers here.
"""

from __future__ import annotations

import re
from array import array
from codecs import utf_8_decode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import index
from typing import Any, Final, Literal, NoReturn, SupportsIndex, cast, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Diagnostic, Event, Header, MessageEnded, Repaired
from harmonia.messages import Message, Role
from harmonia.parser.headers import ASSISTANT, DeclaredTool, Tools, as_tools
from harmonia.parser.machine import Machine
from harmonia.parser.missing_special_tokens import looks_stripped, split_stripped
from harmonia.parser.parser_state import STOPS, Limits, Place, State
from harmonia.parser.reference import END_OF_STREAM_IN_HEADER, ReferenceGate, Refusal
from harmonia.provenance import Sampled
from harmonia.vocabulary import (
    CHANNEL,
    CONSTRAIN,
    FIRST_SPECIAL,
    MESSAGE,
    SPELLING_BY_ID,
    START,
    VOCABULARY_SIZE,
    Vocabulary,
    default_vocabulary,
)

Mode = Literal["tolerant", "strict", "reference"]
Chunk = SupportsIndex | Iterable[SupportsIndex] | str | bytes | bytearray | memoryview

DEFAULT_LIMITS: Final = Limits()

# One spelling for each token: the one that `decode` writes.
_TOKENS: Final = {spelling: token for token, spelling in SPELLING_BY_ID.items()}
_SPELLING: Final = re.compile(r"<\|[a-z0-9_]+\|>")
# The end of a text that may be the beginning of a spelling, and its maximum length.
_SPELLING_BEGUN: Final = re.compile(r"<(?:\|(?:[a-z0-9_]{0,15}\|?)?)?")
_LONGEST_BEGUN: Final = max(map(len, _TOKENS)) - 1
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MODES: Final = get_args(Mode)
_ROLES: Final = {role.value: role for role in Role}
_REPLACEMENT: Final = "\ufffd"
# Tokens are searched for special ones in blocks, because `max` is quick and a loop is not.
_BLOCK: Final = 512
# Up to this many tokens are looked up one by one; more are faster to decode together.
_FEW: Final = 32
# How much of the held-back input `pending` shows.
_LONGEST_PENDING: Final = 200


class _EndOfStream:
    """The chunk that `close` feeds."""


class Parser(Machine):
    """Reads one stream of token ids, text or bytes, as it arrives.

    `role` is the role whose header the prompt already began: "assistant" for a completion, None for a whole
    conversation. A strict parser raises StreamError at the first fault; a tolerant one never raises and reports faults
    as `Repaired` events. The mode "reference" raises what openai-harmony raises, in the same words. Otherwise it is
    like tolerant, except that headers it would have to guess are read as openai-harmony reads them. It accepts token
    ids only, and may be fed again after an error.

    `tools` are the declared tools: names, ToolDescriptions or ToolNamespaces; a reused `Tools` object caches the
    headers read with it. With `stop_swallowed`, a last message without a stop token is well-formed, because the engine
    does not return that token. With `stripped`, text is read as if its special tokens had been removed.
    """

    __slots__ = ("_gate", "_partial_tokens", "_token_text", "_undecided")

    def __init__(
        self,
        role: Role | str | None = None,
        mode: Mode = "tolerant",
        tools: Tools | Iterable[DeclaredTool] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        stop_swallowed: bool = False,
        stripped: bool = False,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if role is not None and role.__class__ is not Role:
            role = _role(role)
        if mode not in _MODES:
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, f"mode is {mode!r}; use {', '.join(_MODES)}")
        tools = as_tools(tools)
        given = cast("Role | None", role)
        vocabulary = vocabulary or default_vocabulary()
        is_reference = mode == "reference"
        super().__init__(
            given,
            tools,
            limits,
            vocabulary,
            strict=mode == "strict",
            stop_swallowed=stop_swallowed,
            stripped=stripped,
            defers=is_reference,
        )
        self._undecided: list[Event] = []  # events held back until the gate has decided
        self._gate = ReferenceGate(given, vocabulary) if is_reference else None
        self._token_text = vocabulary.token_text
        self._partial_tokens = vocabulary.partial_tokens

    @property
    def state(self) -> State:
        """Between messages ("wait"), in a header, or in a body."""
        return "header" if self._gate is not None and self._gate.state == "header" else self._state

    @property
    def header(self) -> Header | None:
        """The header of the message whose body is being read; None between messages and in a header."""
        return self._header if self._state == "body" else None

    @property
    def message_index(self) -> int | None:
        """Which message is being read, its header included; None between messages."""
        return None if self.state == "wait" else self._index

    @property
    def pending(self) -> str:
        """The end of the input that no event covers yet, because the following input decides what it is: a header, text
        between messages, the beginning of a spelling or of a character. Bytes are written as `\\xf0`. The cost does
        not depend on how much is held back."""
        room = _LONGEST_PENDING
        held: list[str] = []
        backwards = chain(
            (self._pending_text, self._pending_bytes.decode(errors="backslashreplace")),
            reversed(self._late_type or ()),
            reversed(self._pieces),
            (item if isinstance(item, str) else SPELLING_BY_ID[item] for item in reversed(self._items)),
        )
        for piece in backwards:
            held.append(piece[-room:])
            room -= len(piece)
            if room <= 0:
                break
        return "".join(reversed(held))

    @property
    def token_count(self) -> int:
        """The number of tokens read so far; 0 if the stream is text."""
        return (self._token or 0) + len(self._pending_ids)

    @property
    def reads_tokens(self) -> bool:
        """Whether the input so far is token ids."""
        return self._token is not None

    @property
    def sampled_so_far(self) -> Sampled | None:
        """The tokens so far of the message whose body is being read, for a truncated message that another completion
        continues. None if there is none, or if something in it was repaired."""
        sampled = self._sampled() if self._state == "body" and self._late_type is None else None
        if sampled is None or self._cut_at is not None:
            return None
        return Sampled((*sampled.tokens, *self._pending_ids), sampled.role_end, sampled.header_end)

    # ── feed and close ──────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, chunk: Chunk) -> list[Event]:
        """The events of this chunk: a token id, several, bytes or text."""
        # Nearly every chunk is one token of whole characters inside a body, so this path is written for speed.
        if chunk.__class__ is not int or not 0 <= chunk < FIRST_SPECIAL:  # pyright: ignore[reportOperatorIssue] -- an int has an order
            if chunk.__class__ is list and self._fast_until >= 0:
                return self._feed_few(chunk)  # pyright: ignore[reportArgumentType] -- a list
            return self._run(chunk)
        token: int = chunk  # pyright: ignore[reportAssignmentType]
        text = self._token_text[token]
        char = self._char
        if text is not None:
            end_char = char + len(text)
            if end_char <= self._fast_until:
                self._ids.append(token)
                self._parts.append(text)
                start: int = self._token  # pyright: ignore[reportAssignmentType] -- tokens are counted here
                self._token = end = start + 1
                self._char = end_char
                return [self._delta(text, self._header, start, end, char, end_char)]
        return self._feed_part(token) if char < self._plain_until else self._run(token)

    def _feed_few(self, tokens: list[int]) -> list[Event]:
        """`feed` for a few tokens: engines with speculative decoding, or slow readers, send several at once."""
        if len(tokens) > _FEW:
            return self._run(tokens)
        token_text: list[str] = self._token_text  # pyright: ignore[reportAssignmentType] -- None is caught below
        try:
            # The sum is an integer only if all are; see `_as_tokens`.
            if max(tokens) >= FIRST_SPECIAL or min(tokens) < 0 or type(sum(tokens)) is not int:
                return self._run(tokens)
            text = "".join([token_text[token] for token in tokens])
        except (TypeError, ValueError):
            # Not a token, or an empty list; or a token that is part of a character, or new.
            for token in tokens:
                if token.__class__ is int and 0 <= token < FIRST_SPECIAL and not token_text[token]:
                    self._vocabulary.text_of(token)  # next time it is known
            return self._run(tokens)
        char = self._char
        end_char = char + len(text)
        if end_char > self._fast_until:
            return self._run(tokens)
        self._ids += tokens
        self._parts.append(text)
        start = self._token or 0
        self._token = end = start + len(tokens)
        self._char = end_char
        return [self._delta(text, self._header, start, end, char, end_char)]

    def _feed_part(self, token: int) -> list[Event]:
        """`feed` for a token that contains part of a character, or that is new."""
        if token not in self._partial_tokens:
            self._vocabulary.text_of(token)  # next time it is known
        data = self._pending_bytes + self._token_bytes[token]
        try:
            text, length = utf_8_decode(data)
        except UnicodeDecodeError:
            return self._run(token)
        char = self._char
        end_char = char + len(text)
        if end_char > self._plain_until:
            return self._run(token)
        ids = self._pending_ids
        ids.append(token)
        if length < len(data):
            self._pending_bytes = data[length:]
            self._fast_until = -1
        else:
            self._pending_bytes = b""
            self._fast_until = self._plain_until
        if not text:
            return []
        self._pending_ids = []
        self._ids += ids
        self._parts.append(text)
        start = self._token or 0
        self._token = end = start + len(ids)
        self._char = end_char
        return [self._delta(text, self._header, start, end, char, end_char)]

    def close(self) -> list[Event]:
        """The events of the end of the stream. Closing twice is harmless."""
        if self._is_closed:
            return []
        if (
            self._state == "wait"
            and self._saw_special
            and not (self._pieces or self._items or self._pending_bytes or self._pending_text or self._turn.is_open)
            and (self._gate is None or self._gate.state == "start")
        ):
            # The usual case: the stream ended with a stop token, and nothing is held back.
            self._is_closed = True
            return []
        return self._run(_EndOfStream())

    def _run(self, chunk: Chunk | _EndOfStream) -> list[Event]:
        if self._is_closed:
            raise InputError(ErrorCode.PARSE_CLOSED, "the parser is closed; create a new one for another stream")
        events: list[Event] = []
        self._events = events
        try:
            if isinstance(chunk, _EndOfStream):
                if self._gate is not None and self._gate.state == "header":
                    self._refuse(END_OF_STREAM_IN_HEADER)
                self._is_closed = True
                self._close()
            elif type(chunk) is int:
                self._expect("tokens")
                if self._gate is None:
                    self._feed_one(chunk)
                else:
                    self._feed_through_gate(self._gate, [chunk])
            elif isinstance(chunk, str):
                if chunk:
                    self._expect("text")
                    self._feed_text(chunk)
            elif isinstance(chunk, bytes | bytearray | memoryview):
                if chunk:
                    self._expect("text")
                    self._decode(self._pending_bytes + bytes(chunk))
            else:
                tokens = _as_tokens(chunk)
                self._expect("tokens")
                if self._gate is None:
                    self._feed_tokens(tokens, _special_positions(tokens))
                else:
                    self._feed_through_gate(self._gate, tokens)
        except StreamError as error:
            error.events = events
            self._is_closed = self._gate is None
            self._plain_until = self._fast_until = -1
            raise
        is_plain = self._state == "body" and self._token is not None and self._late_type is None
        if self._gate is not None and self._gate.state != "content":
            is_plain = False  # the gate must see every token
        self._plain_until = self._body_limit if is_plain and not self._is_closed else -1
        self._fast_until = -1 if self._pending_bytes else self._plain_until
        return events

    def _expect(self, source: Literal["tokens", "text"]) -> None:
        if self._gate is not None and source == "text":
            raise InputError(ErrorCode.PARSE_INVALID_CHUNK, "the mode reference accepts token ids only")
        if self._source is None:
            self._begin("stripped" if self._is_stripped else source, counts_tokens=source == "tokens")
        elif (self._token is None) != (source == "text"):
            raise InputError(
                ErrorCode.PARSE_INVALID_CHUNK,
                "this parser was fed tokens before and text now, or the reverse; use one of them for the whole stream",
            )

    def _close(self) -> None:
        if self._pending_bytes:
            self._replace_bytes()
        if self._pending_text:
            text, self._pending_text = self._pending_text, ""
            self._push_text(text)
        if not self._saw_special and self._state != "body" and (self._is_stripped or looks_stripped(self._held_text())):
            self._read_stripped()
        self._finish()

    # ── token ids ───────────────────────────────────────────────────────────────────────────────────────────────

    def _feed_tokens(self, tokens: list[int], specials: list[int]) -> None:
        """Tokens with special ones at these positions."""
        position = 0
        at = 0
        while at < len(specials):
            if not (self._state == "body" or self._items or self._pieces or self._pending_bytes):
                # Nothing is held back: a header that begins here may be a known one.
                taken = self._feed_known(tokens, specials, at, position)
                if taken:
                    at += taken
                    position = specials[at - 1] + 1
                    continue
            where = specials[at]
            if where > position:
                self._feed_ordinary(tokens[position:where])
            self._feed_one(tokens[where])
            position = where + 1
            at += 1
        if position < len(tokens):
            self._feed_ordinary(tokens[position:] if position else tokens)

    def _feed_known(self, tokens: list[int], specials: list[int], at: int, position: int) -> int:
        """Push a whole message, or at least its header, if it is known; returns how many special tokens were read."""
        first = at
        if self._state == "wait":
            if tokens[position] != START:
                return 0
            at += 1
        elif self._given is not ASSISTANT:
            return 0
        while at < len(specials):
            token = tokens[specials[at]]
            if token == MESSAGE:
                break
            if token != CHANNEL and token != CONSTRAIN:
                return 0
            at += 1
        else:
            return 0
        header_ids = tokens[position : specials[at] + 1]
        known = self._known_header(header_ids)
        if known is None:
            return 0
        if at + 1 < len(specials) and tokens[specials[at + 1]] in STOPS:
            stop = specials[at + 1]
            if self._push_known_message(known, header_ids, tokens[specials[at] + 1 : stop], tokens[stop]):
                return at + 2 - first
        self._push_known_header(known, header_ids)
        return at + 1 - first

    def _feed_ordinary(self, tokens: list[int]) -> None:
        """Read ordinary tokens: all at once if they are whole characters and fit the limit, otherwise one by one."""
        at = 0
        while self._pending_bytes and at < len(tokens):
            self._feed_one(tokens[at])
            at += 1
        if at:
            tokens = tokens[at:]
        data = b"".join(map(self._token_bytes.__getitem__, tokens))
        try:
            text, length = utf_8_decode(data)
        except UnicodeDecodeError:
            text, length = "", -1
        room = len(text) if self._state == "body" else self._limit() - self._held_chars
        if length == len(data) and len(text) <= room:
            if text:
                self._push_text(text, tokens)
            return
        # Perhaps only the end of the run is an incomplete character.
        last = 0
        unfinished = len(data) - length if length >= 0 and len(text) <= room else 0
        while unfinished > 0:
            last += 1
            unfinished -= len(self._token_bytes[tokens[-last]])
        if 0 < last < len(tokens):
            self._feed_ordinary(tokens[:-last])
            tokens = tokens[-last:]
        for token in tokens:
            self._feed_one(token)

    def _feed_one(self, token: int) -> None:
        if 0 <= token < FIRST_SPECIAL:
            self._pending_ids.append(token)
            self._decode(self._pending_bytes + self._token_bytes[token])
            return
        if self._pending_bytes:
            self._replace_bytes()
        if 0 <= token < VOCABULARY_SIZE:
            self._push_special(token, SPELLING_BY_ID[token], (token,))
        else:
            # Python refuses to print numbers with thousands of digits.
            found = str(token) if abs(token) < 10**20 else "a huge number"
            self._feed_replacement(ErrorCode.STREAM_UNKNOWN_TOKEN, found, (token,))

    def _feed_replacement(self, code: ErrorCode, found: str, ids: Sequence[int] = ()) -> None:
        start = (self._token, self._char)
        self._push_text(_REPLACEMENT, ids)
        self._fault(code, start, found)

    # ── the mode reference ─────────────────────────────────────────────────────────────────────────────────────

    def _feed_through_gate(self, gate: ReferenceGate, tokens: list[int]) -> None:
        specials = _special_positions(tokens)
        found = gate.advance(tokens, specials)
        undecided = gate.undecided_from
        if undecided != 0 and self._undecided:
            self._events += self._undecided
            self._undecided = []
        if found is None and undecided is None:
            self._feed_tokens(tokens, specials)
            return
        end, refusal = found or (len(tokens), None)
        decided = end if undecided is None else undecided
        self._feed_slice(tokens, specials, 0, decided)
        events, self._events = self._events, self._undecided
        self._feed_slice(tokens, specials, decided, end)
        self._undecided, self._events = self._events, events
        if refusal is not None:
            self._events += self._undecided
            self._undecided = []
            self._drop_refused(tokens[end], refusal)

    def _feed_slice(self, tokens: list[int], specials: list[int], start: int, end: int) -> None:
        if start < end:
            self._feed_tokens(tokens[start:end], [at - start for at in specials if start <= at < end])

    def _drop_refused(self, token: int, refusal: Refusal) -> NoReturn:
        """Skip the token and the header that it would end, and raise."""
        if self._pending_bytes:
            self._replace_bytes()
        place = (self._token, self._char)
        is_known = 0 <= token < VOCABULARY_SIZE
        self._drop(self._token_bytes[token].decode(errors="replace") if is_known else _REPLACEMENT, token)
        self._refuse(refusal, place)

    def _refuse(self, refusal: Refusal, at: Place | None = None) -> NoReturn:
        token, character = at or (self._token, self._char)
        at_message = Position(token=token, character=character, message=self._index)
        raise StreamError(refusal.code, refusal.message, at_message)

    # ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _decode(self, data: bytes) -> None:
        """Decode bytes: invalid ones are replaced, and the beginning of a character is kept for the next chunk."""
        self._pending_bytes = b""
        while True:
            try:
                text, length = utf_8_decode(data)
                break
            except UnicodeDecodeError as error:
                if error.start:
                    self._emit(data[: error.start].decode())
                self._pending_bytes = data[error.start : error.end]
                self._replace_bytes()
                data = data[error.end :]
        if text:
            self._emit(text)
        self._pending_bytes = data[length:]

    def _replace_bytes(self) -> None:
        found, self._pending_bytes = self._pending_bytes.hex(" "), b""
        if self._token is None:
            # A spelling cannot continue after it.
            self._feed_text("", is_broken=True)
        ids, self._pending_ids = self._pending_ids, []
        self._feed_replacement(ErrorCode.STREAM_INVALID_UTF8, found, ids)

    def _emit(self, text: str) -> None:
        if self._token is None:
            self._feed_text(text)
        else:
            ids, self._pending_ids = self._pending_ids, []
            self._push_text(text, ids)

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _feed_text(self, text: str, *, is_broken: bool = False) -> None:
        if self._pending_bytes:  # bytes and text may alternate
            self._replace_bytes()
        if not text.isascii() and _LONE_SURROGATE.search(text):
            position = 0
            for match in _LONE_SURROGATE.finditer(text):
                self._feed_text(text[position : match.start()], is_broken=True)
                self._feed_replacement(ErrorCode.STREAM_INVALID_UTF8, ascii(match.group()))
                position = match.end()
            text = text[position:]
        if self._is_stripped:
            if text:
                self._push_text(text)
            return
        text = self._pending_text + text
        self._pending_text = ""
        if not is_broken:
            begun = text.rfind("<", max(len(text) - _LONGEST_BEGUN, 0))
            if begun >= 0 and _SPELLING_BEGUN.fullmatch(text, begun):
                text, self._pending_text = text[:begun], text[begun:]
        position = 0
        for match in _SPELLING.finditer(text):
            token = _TOKENS.get(match.group())
            if token is not None:
                if match.start() > position:
                    self._push_text(text[position : match.start()])
                self._push_special(token, match.group())
                position = match.end()
        if position < len(text):
            self._push_text(text[position:])

    # ── stripped text ───────────────────────────────────────────────────────────────────────────────────────────

    def _read_stripped(self) -> None:
        """Guess the messages in the text, all of which was held back."""
        text, ids, start = self._held_text(), self._ids, self._from
        given = self._given
        offsets = self._vocabulary.char_offsets(ids) if start[0] is not None else []
        self._settle()
        self._source = "stripped"
        self._saw_special = True
        self._token, self._char = start
        self._fault(ErrorCode.STREAM_STRIPPED, start, text)
        used = 0

        def read_to(end: int) -> str:
            """Read up to this offset."""
            nonlocal used
            piece, first = text[self._char - start[1] : end], used
            while used < len(offsets) and (offsets[used] < end or end == len(text)):
                used += 1
            self._consume(piece, ids[first:used])
            return piece

        for message in split_stripped(text, is_known=self._is_stripped):
            self._from = self._text_from = (self._token, self._char)
            read_to(message.body)
            items = [] if message.header is None else [message.author, CHANNEL, message.header]
            self._complete_guessed_header(items, given or ASSISTANT)
            body_from = (self._token, self._char)
            body = read_to(message.end)
            if body:
                self._say(body, body_from, (self._token, self._char))
            self._end_message(None)


class Parsed(msgspec.Struct, frozen=True):
    """A parsed stream. Iterating gives the messages, so it can be rendered again: `render(parse(tokens))`."""

    messages: tuple[Message, ...]
    diagnostics: tuple[Diagnostic, ...]
    events: tuple[Event, ...]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


def parse(
    data: Chunk,
    role: Role | str | None = None,
    mode: Mode = "tolerant",
    tools: Tools | Iterable[DeclaredTool] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    stop_swallowed: bool = False,
    stripped: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Parsed:
    """Parse a whole stream: token ids, text or bytes. `Parser` explains the options."""
    parser = Parser(role, mode, tools, limits, stop_swallowed=stop_swallowed, stripped=stripped, vocabulary=vocabulary)
    events = parser.feed(data)
    try:
        events += parser.close()
    except StreamError as error:
        error.events = [*events, *error.events]
        raise
    messages, diagnostics = results_of(events)
    return Parsed(tuple(messages), tuple(diagnostics), tuple(events))


def results_of(events: Sequence[Event]) -> tuple[list[Message], list[Diagnostic]]:
    """The messages and the diagnostics among these events."""
    # Not `isinstance`, which takes five times as long for a struct of another class.
    listed = cast("list[Any]", events)
    messages: list[Message] = [event.message for event in listed if event.__class__ is MessageEnded]
    diagnostics: list[Diagnostic] = [event.diagnostic for event in listed if event.__class__ is Repaired]
    return messages, diagnostics


def _special_positions(tokens: list[int]) -> list[int]:
    """The positions of all tokens that are not ordinary."""
    first = FIRST_SPECIAL
    if len(tokens) <= _BLOCK:
        return [at for at, token in enumerate(tokens) if token >= first or token < 0]
    try:
        array("I", tokens)  # the fastest way to find a negative number
        starts = [start for start in range(0, len(tokens), _BLOCK) if max(tokens[start : start + _BLOCK]) >= first]
    except OverflowError:
        starts = range(0, len(tokens), _BLOCK)
    return [start + at for start in starts for at in _special_positions(tokens[start : start + _BLOCK])]


def _as_tokens(chunk: object) -> list[int]:
    if chunk.__class__ is not list:
        if hasattr(chunk, "tolist"):  # an array, or a number of one
            chunk = cast("Any", chunk).tolist()
        if hasattr(chunk, "__index__"):
            return [index(cast("SupportsIndex", chunk))]
        if not isinstance(chunk, Iterable) or isinstance(chunk, Mapping | Set):
            _refuse_chunk(cast("object", chunk))
        chunk = list(cast("Iterable[Any]", chunk))
    listed = cast("list[Any]", chunk)
    try:
        # A sum of integers is an integer; any other sum is something else, or fails. No other check is as fast.
        if type(sum(listed)) is int:
            return listed
    except TypeError:
        pass
    tokens: list[int] = []
    for token in listed:
        try:
            tokens.append(index(token))
        except TypeError:
            _refuse_chunk(token)
    return tokens


def _refuse_chunk(found: object) -> NoReturn:
    problem = f"a chunk must be a token id, a list of token ids, bytes or text, not {type(found).__name__}"
    raise InputError(ErrorCode.PARSE_INVALID_CHUNK, problem)


def _role(value: object) -> Role:
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        problem = f"role is {value!r}, which is not a role; the roles are {', '.join(_ROLES)}"
        raise InputError(ErrorCode.PARSE_INVALID_OPTION, problem)
    return role
