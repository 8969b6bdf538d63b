"""What openai-harmony refuses, and in which words. This is the third mode of the parser, under the drop-in.

The reference raises on some streams and reads others wrongly without a word. A program that was written for it relies
on the first and on none of the second, so the mode has two halves: this gate stands before the machine and raises what
the reference raises, where it raises it; what the gate lets pass is read by the machine as in tolerant mode.

The gate knows no more than the reference does. Its state may be another one than the machine's: behind a missing
`<|end|>` the machine reads the next message, and the gate is still in the body of the first, as the reference is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from harmonia.errors import ErrorCode
from harmonia.messages import Role
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
_ROLES: Final = frozenset(role.value for role in Role)
# White space is Unicode's where a channel ends and at both ends of a header, and ASCII's between the words of one.
_UNICODE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
_CHANNEL: Final = re.compile(rf"<\|channel\|>([^{_UNICODE_SPACE}<]*)")
_WORD: Final = re.compile(r"[^ \t\n\f\r]+")
_CONSTRAIN_MARK: Final = "<|constrain|>"
# The reference counts one reserved token more than the vocabulary has.
ONE_MORE_TOKEN: Final = VOCABULARY_SIZE
SPELLING_OF_ONE_MORE: Final = f"<|reserved_{ONE_MORE_TOKEN}|>"
_MOST_REMEMBERED: Final = 1_000
# Marks that take room of their own and still belong to the letter before them (Unicode's Other_Grapheme_Extend).
_SPACING_MARKS: Final = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u1b35\u302e\u302f\uff9e\uff9f"
)


class Refusal(NamedTuple):
    """An error of the reference: its words, and what we call the fault."""

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


class Gate:
    """Follows a stream as the reference does, as far as that decides what it refuses."""

    __slots__ = ("_header", "_next_role", "_vocabulary", "state")

    def __init__(self, role: Role | None, vocabulary: Vocabulary) -> None:
        self.state: Literal["start", "header", "content"] = "start" if role is None else "header"
        self._next_role = role
        self._header: list[int] = []  # as far as it was read in earlier chunks
        self._vocabulary = vocabulary

    def take_all(self, tokens: Sequence[int], specials: Sequence[int]) -> tuple[int, Refusal] | None:
        """Go on by these tokens, whose special ones are at these places, up to the first that the reference refuses:
        where it is, and what is said."""
        position = 0  # behind what is decided
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
                            self.state = "start"
                            return where, refusal
                    state, position = "content", where + 1
                    self._next_role = None
            elif where == position and token == START:
                state, position = "header", where + 1
            else:
                break
        self.state = state
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
        refusal = refuse_header(text, self._next_role)
        if refusal is None and len(_accepted_headers) < _MOST_REMEMBERED:
            _accepted_headers.add((self._next_role, header))
        return refusal


# Headers are few, and the same ones come again and again.
_accepted_headers: Final[set[tuple[Role | None, tuple[int, ...]]]] = set()


def refuse_header(header: str, role: Role | None) -> Refusal | None:
    """What the reference raises about the text between `<|start|>` (or the role that is given) and `<|message|>`."""
    channel = _CHANNEL.search(header)
    if channel is not None:
        if not channel[1]:
            return _NO_CHANNEL
        header = header[: channel.start()] + header[channel.end() :]
    header = header.strip(_UNICODE_SPACE).replace(_CONSTRAIN_MARK, f" {_CONSTRAIN_MARK}").strip(_UNICODE_SPACE)
    words = _WORD.findall(header)
    spoken = None if role is None else role.value
    if spoken is None:
        if not words:
            return _NO_ROLE
        spoken = words[0]
        if spoken not in _ROLES:
            # It is taken for a tool's name, if anything follows or if it is an address.
            if len(words) == 1 and not spoken.startswith("to="):
                return Refusal(ErrorCode.HEADER_UNKNOWN_ROLE, f"Unknown role: {spoken}")
            del words[0]
            spoken = Role.TOOL.value
    if words and words[0] == spoken:
        del words[0]
    # The last word is an address, or a content type behind one; nothing else may stand there.
    used = 1 if words and words[-1].startswith("to=") else 2
    left = words[:-used]
    if not left:
        return None
    remaining = " ".join(left)
    return Refusal(
        ErrorCode.HEADER_UNEXPECTED_TEXT, f"unexpected tokens remaining in message header: Some({_quote(remaining)})"
    )


def _code_outside(token: int) -> ErrorCode:
    if token in _STOPS:
        return ErrorCode.STREAM_REPEATED_STOP
    if token in _HEADER_MARKS:
        return ErrorCode.STREAM_MISSING_START
    return ErrorCode.STREAM_TEXT_OUTSIDE if 0 <= token < FIRST_SPECIAL else ErrorCode.STREAM_RESERVED_TOKEN


def _quote(text: str) -> str:
    """The text as Rust shows it to programmers."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\0":
        return "\\0"
    is_mark = unicodedata.category(char) in ("Mn", "Me") or char in _SPACING_MARKS
    return f"\\u{{{ord(char):x}}}" if is_mark or not char.isprintable() else char
