"""The parser's mode `reference`: it refuses what openai-harmony refuses, in the same words. The drop-in uses it.

The reference raises on some streams and silently misreads others. Programs written for it rely on the errors, but not
on the misreadings, so the mode has three parts:

1. A gate before the machine raises what the reference raises, where it raises it.
2. The machine reads what the gate accepts as in tolerant mode, but holds back the events of a header until the gate has
   decided on it.
3. Where the machine can only guess what a header means, the reference's reading is used. A guess that shows reasoning
   or calls a tool would be worse than what the program did before.

The gate knows no more than the reference. Its state can differ from the machine's: after a missing `<|end|>` the
machine reads the next message, while the gate is still in the body of the first, like the reference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from harmonia.errors import ErrorCode
from harmonia.events import Header
from harmonia.messages import Author, Role
from harmonia.parser.headers import LONGEST_REMEMBERED, MOST_REMEMBERED
from harmonia.provenance import Trust
from harmonia.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    VOCABULARY_SIZE,
    Vocabulary,
)

_STOPS: Final = frozenset((END, CALL, RETURN))
_HEADER_MARKS: Final = frozenset((CHANNEL, CONSTRAIN, MESSAGE))
_ROLES: Final = {role.value: role for role in Role}
# A channel and a whole header end at Unicode white space, the words of a header at ASCII white space.
_UNICODE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
_CHANNEL: Final = re.compile(rf"<\|channel\|>([^{_UNICODE_SPACE}<]*)")
_WORD: Final = re.compile(r"[^ \t\n\f\r]+")
_CONSTRAIN_MARK: Final = "<|constrain|>"
# The reference has one reserved token more than the vocabulary.
ONE_MORE_TOKEN: Final = VOCABULARY_SIZE
SPELLING_OF_ONE_MORE: Final = f"<|reserved_{ONE_MORE_TOKEN}|>"
# Spacing marks that belong to the letter before them (Unicode's Other_Grapheme_Extend).
_SPACING_MARKS: Final = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u1b35\u302e\u302f\uff9e\uff9f"
)


class Refusal(NamedTuple):
    """An error of the reference: its message, and our code for the fault."""

    code: ErrorCode
    message: str


END_OF_STREAM_IN_HEADER: Final = Refusal(
    ErrorCode.HEADER_UNFINISHED, "Unexpected EOS while waiting for message header to complete"
)
_NO_CHANNEL: Final = Refusal(
    ErrorCode.HEADER_EMPTY_CHANNEL, "channel marker present but no channel value found in header"
)
_NO_ROLE: Final = Refusal(ErrorCode.HEADER_EMPTY_ROLE, "message header did not contain a role")
_NO_TEXT: Final = "could not decode header"


class ReferenceGate:
    """Follows a stream as the reference does, to decide what it refuses."""

    __slots__ = ("_header", "_next_role", "_vocabulary", "state", "undecided_from")

    def __init__(self, role: Role | None, vocabulary: Vocabulary) -> None:
        self.state: Literal["start", "header", "content"] = "start" if role is None else "header"
        self._next_role = role
        self._header: list[int] = []  # its tokens from earlier chunks
        self.undecided_from: int | None = None  # where the undecided header begins in the last chunk
        self._vocabulary = vocabulary

    def advance(self, tokens: Sequence[int], specials: Sequence[int]) -> tuple[int, Refusal] | None:
        """Read tokens with special ones at these positions; returns where the reference refuses the first, and why."""
        position = 0  # the end of what is decided
        header_at = 0  # where the last header began, if it is in this chunk
        state = self.state
        for where in specials:
            token = tokens[where]
            if state == "content":
                if token in _STOPS:
                    state, position = "start", where + 1
            elif state == "header":
                if token == MESSAGE:
                    header = (*self._header, *tokens[position:where])
                    self._header = []
                    if (self._next_role, header) not in _accepted_headers:
                        refusal = self._refuse_header(header)
                        if refusal is not None:
                            self.state, self.undecided_from = "start", header_at
                            return where, refusal
                    state, position = "content", where + 1
                    self._next_role = None
            elif where == position and token == START:
                state, position, header_at = "header", where + 1, where
            else:
                break
        self.state = state
        self.undecided_from = header_at if state == "header" else None
        if state == "header":
            self._header += tokens[position:]
        elif state == "start" and position < len(tokens):
            token = tokens[position]
            message = f"Unexpected token {token:d} while expecting start token {START}"
            return position, Refusal(_code_outside(token), message)
        return None

    def _refuse_header(self, header: tuple[int, ...]) -> Refusal | None:
        token_bytes = self._vocabulary.token_bytes
        if any(not 0 <= token <= ONE_MORE_TOKEN for token in header):
            return Refusal(ErrorCode.STREAM_UNKNOWN_TOKEN, _NO_TEXT)
        try:
            text = b"".join(
                SPELLING_OF_ONE_MORE.encode() if token == ONE_MORE_TOKEN else token_bytes[token] for token in header
            ).decode()
        except UnicodeDecodeError:
            return Refusal(ErrorCode.STREAM_INVALID_UTF8, _NO_TEXT)
        read = read_as_reference(text, self._next_role)
        if isinstance(read, Refusal):
            return read
        if len(header) <= LONGEST_REMEMBERED:
            if len(_accepted_headers) >= MOST_REMEMBERED:
                _accepted_headers.clear()
            _accepted_headers.add((self._next_role, header))
        return None


# Headers are few, and the same ones come again and again.
_accepted_headers: Final[set[tuple[Role | None, tuple[int, ...]]]] = set()


def read_as_reference(header: str, role: Role | None) -> Header | Refusal:
    """How the reference reads the text between `<|start|>` (or the given role) and `<|message|>`."""
    channel = _CHANNEL.search(header)
    if channel is not None:
        if not channel[1]:
            return _NO_CHANNEL
        header = header[: channel.start()] + header[channel.end() :]
    header = header.strip(_UNICODE_SPACE).replace(_CONSTRAIN_MARK, f" {_CONSTRAIN_MARK}").strip(_UNICODE_SPACE)
    words = _WORD.findall(header)
    name: str | None = None
    if role is None:
        if not words:
            return _NO_ROLE
        spoken = words[0]
        role = _ROLES.get(spoken)
        if role is None:
            # It is read as a tool name if anything follows or if it is a recipient.
            if len(words) == 1 and not spoken.startswith("to="):
                return Refusal(ErrorCode.HEADER_UNKNOWN_ROLE, f"Unknown role: {spoken}")
            del words[0]
            role = Role.TOOL
        name = spoken if role is Role.TOOL else None
    if words and words[0] == role:
        del words[0]
    # The last word is a recipient, or a single word that is read as one; otherwise it is a content type after one.
    last = words.pop() if words else None
    content_type = None if last is None or not words or last.startswith("to=") else last
    recipient = last if content_type is None else words.pop()
    if words:
        remaining = "".join(map(_escape, " ".join(words)))  # as Rust's debug format writes it
        message = f'unexpected tokens remaining in message header: Some("{remaining}")'
        return Refusal(ErrorCode.HEADER_UNEXPECTED_TEXT, message)
    return Header(
        Author(role, name),
        None if channel is None else channel[1],
        None if recipient is None else recipient.removeprefix("to="),
        content_type,
        Trust.GUESSED,
    )


def _code_outside(token: int) -> ErrorCode:
    if token in _STOPS:
        return ErrorCode.STREAM_REPEATED_STOP
    if token in _HEADER_MARKS:
        return ErrorCode.STREAM_MISSING_START
    if not 0 <= token < VOCABULARY_SIZE:
        return ErrorCode.STREAM_UNKNOWN_TOKEN
    return ErrorCode.STREAM_TEXT_OUTSIDE if token < FIRST_SPECIAL else ErrorCode.STREAM_RESERVED_TOKEN


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\0":
        return "\\0"
    is_mark = unicodedata.category(char) in ("Mn", "Me") or char in _SPACING_MARKS
    return f"\\u{{{ord(char):x}}}" if is_mark or not char.isprintable() else char
