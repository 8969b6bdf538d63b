"""Encode a run of a million like characters in linear time, exactly.

Text is encoded piece by piece, and a piece usually is a word. But a million spaces, letters or emoji are one piece,
and merging a piece costs more than its length. So a long run is cut into windows, the windows are encoded on their
own, and the joints are repaired. Two facts make that exact.

1. Which piece the characters of a run belong to is known from what stands beside the run. All of it, but for up to
   two characters at its start (the contraction in "it'sssss") and one at its end (the space that goes to the next
   word), is in one piece; and each window is one piece, too. `_Kind` holds the conditions under which that is so.
2. Byte-pair encoding is local: a sequence of tokens is the encoding of a piece if and only if each two neighbours
   are the encoding of their own two together. Inside a window that holds already. A window begins some tokens before
   the end of the one before it, where one of its tokens begins (so that "aaaa…" is in step), replaces those tokens,
   and the seam is checked.

Where a check fails, or what stands beside a run is not in the table, the text is encoded whole: slower, but right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

LONG_RUN: Final = 8192
WINDOW: Final = 4096

# The longest token has 128 bytes, so this many tokens and one more lie inside a window.
_FIRST_JOINT_WIDTH: Final = 4
_LAST_JOINT_WIDTH: Final = 30


class _Kind(NamedTuple):
    """Characters of one piece, and what may surround a run of them."""

    characters: str  # the inside of a character class
    before: str
    after: str


_ANYTHING: Final = r"(?s:.)"
_NOTHING: Final = r"(?!)"
# Unicode's White_Space, and the same without line breaks, as the insides of character classes.
WHITE: Final = r" \t\n\v\f\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
BLANK: Final = WHITE.replace(r"\n", "").replace(r"\r", "")

# The patterns of the pieces are in tokenizers.py. A class lists only characters whose category is old and settled; the
# tests check each of them with the tokenizer.
_KINDS: Final = {
    "lower": _Kind(r"a-z\xdf-\xf6\xf8-\xff\u03b1-\u03c9\u0430-\u044f", _ANYTHING, _ANYTHING),
    # After an ideograph, capitals are a piece of their own or not, depending on what follows them.
    "upper": _Kind(r"A-Z\xc0-\xd6\xd8-\xde\u0391-\u03a1\u03a3-\u03a9\u0410-\u042f", r"[\x00-\x7f]", _ANYTHING),
    # Letters without case may take the place of capitals and of small letters; a capital after them joins or not,
    # depending on what is before them.
    "caseless": _Kind(
        r"\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0905-\u0939\u0e01-\u0e30"
        r"\u3041-\u3096\u30a1-\u30fa\u3400-\u4db5\u4e00-\u9fcc\uac00-\ud7a3",
        r"[\x00-\x7f]",
        r"[\x00-@\[-\x7f]",
    ),
    # Without "/", which may also end a piece that began before a line break; and without "'".
    "sign": _Kind(
        r"!-&(-.:-@\[-`{-~\u2190-\u21ff\u2500-\u25ff\U0001f300-\U0001f3fa\U0001f400-\U0001f64f\U0001f680-\U0001f6c5"
        r"\U0001f910-\U0001f9bf",
        _ANYTHING,
        _ANYTHING,
    ),
    "blank": _Kind(BLANK, f"[^{WHITE}]", _ANYTHING),
    # After punctuation, line breaks and slashes belong to its piece.
    "break": _Kind(r"\r\n", _ANYTHING, f"[^/{WHITE}]"),
    # White space of both kinds: to which pieces it belongs depends on where its last line break is.
    "white": _Kind(WHITE, _NOTHING, _NOTHING),
}

_PROBE_LENGTH: Final = LONG_RUN // 2


class _Patterns(NamedTuple):
    probe: re.Pattern[str]
    run: dict[str, re.Pattern[str]]
    before: dict[str, re.Pattern[str]]
    after: dict[str, re.Pattern[str]]


@cache  # compiled for the first long text
def _patterns() -> _Patterns:
    return _Patterns(
        re.compile("|".join(f"(?P<{name}>[{kind.characters}]{{{_PROBE_LENGTH}}})" for name, kind in _KINDS.items())),
        {name: re.compile(f"[{kind.characters}]+") for name, kind in _KINDS.items()},
        {name: re.compile(kind.before) for name, kind in _KINDS.items()},
        {name: re.compile(kind.after) for name, kind in _KINDS.items()},
    )


class LongRun(NamedTuple):
    """The range of a run, and whether it may be cut into windows."""

    start: int
    end: int
    can_be_cut: bool


def find_long_runs(text: str) -> list[LongRun]:
    """The long runs of `text`, in linear time: most texts cost one probe for every 4,096 characters."""
    patterns = _patterns()
    runs: list[LongRun] = []
    # A long run covers a whole probe, wherever it begins.
    probe_start = 0
    while probe_start + _PROBE_LENGTH <= len(text):
        probe = patterns.probe.match(text, probe_start)
        if probe is None:
            probe_start += _PROBE_LENGTH
            continue
        name = probe.lastgroup or ""
        run = patterns.run[name]
        more = run.match(text, probe.end())
        start, end = _start_of(run, text, probe_start), (more or probe).end()
        if end - start >= LONG_RUN:
            begins = start == 0 or patterns.before[name].match(text, start - 1) is not None
            ends = end == len(text) or patterns.after[name].match(text, end) is not None
            runs.append(LongRun(start, end, begins and ends))
        probe_start = max(end, probe_start + _PROBE_LENGTH)
    return runs


def encode_in_windows(
    text: str,
    runs: list[LongRun],
    encode: Callable[[str], list[int]],
    encode_piece: Callable[[bytes], list[int]],
    token_bytes: list[bytes],
) -> list[int]:
    """The tokens of `text`, whose long runs are `runs`. `encode` takes text, `encode_piece` the bytes of one piece."""

    cuts = [cut for run in runs if run.can_be_cut for cut in range(run.start + WINDOW, run.end - WINDOW + 1, WINDOW)]
    tokens = encode(text[: cuts[0]]) if cuts else encode(text)

    def add_window(start: int, end: int) -> bool:
        """Add the tokens from `start`, where `tokens` ends, to `end`; False if no joint was found."""
        for width in _joint_widths(tokens, token_bytes):
            repeated = b"".join([token_bytes[token] for token in tokens[-width:]])
            window = encode(text[start - len(repeated.decode()) : end])
            seam = [tokens[-width - 1], window[0]]
            if encode_piece(token_bytes[seam[0]] + token_bytes[seam[1]]) == seam:
                tokens[-width:] = window
                return True
        return False

    return tokens if all(add_window(*bounds) for bounds in pairwise([*cuts, len(text)])) else encode(text)


def _joint_widths(tokens: list[int], token_bytes: list[bytes]) -> Iterator[int]:
    """How many of the last tokens to encode again; a joint must not be inside a character."""
    width = _FIRST_JOINT_WIDTH
    while width <= _LAST_JOINT_WIDTH:
        is_inside = token_bytes[tokens[-width]][0] & 0xC0 == 0x80  # a continuation byte of UTF-8
        if not is_inside:
            yield width
        width += 1 if is_inside else width


def _start_of(run: re.Pattern[str], text: str, position: int) -> int:
    """Where the run that covers `position` begins: after the previous probe, which would have found it otherwise."""
    start = position
    for match in run.finditer(text, max(0, position - _PROBE_LENGTH), position):
        if match.end() == position:
            start = match.start()
    return start
