"""Byte-pair encoding of ordinary text: the one seam between Harmonia and somebody else's tokenizer.

An engine turns valid Unicode text into ordinary tokens, exactly as tiktoken's o200k does, whatever the text: it
neither fails nor slows down beyond the length of its input. `exact` is the engine of the core; `fast` needs the
extra of that name and falls back on `exact` for the rare text that it would get wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final, Protocol, cast

from harmonia.errors import ErrorCode, InputError
from harmonia.vocabulary.long_runs import encode_in_windows, find_long_runs
from harmonia.vocabulary.newer_unicode import GIGATOKEN_VERSION, has_newer_characters
from harmonia.vocabulary.ranks import write_tiktoken_file


class Engine(Protocol):
    """Encodes ordinary text. Thread-safe."""

    name: str

    def encode(self, text: str) -> list[int]: ...


class _CoreBPE(Protocol):
    """What we use of tiktoken."""

    def encode_ordinary(self, text: str) -> list[int]: ...
    def encode_single_piece(self, piece: bytes) -> list[int]: ...


# How o200k splits text into pieces, each of which is merged on its own. The published expression has one more
# alternative, `\s+(?!\S)`, before the last: white space before a word gives its last character to that word.
# That look-ahead is all that needs a backtracking matcher, which is half as fast and panics on a million spaces.
# Without it the expression runs in linear time on an automaton; `_mark_gaps` makes up for it.
_PIECES: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+",
    )
)

# A gap is a run of two or more white-space characters other than \r and \n, with a word or a sign behind it. The
# published expression splits it before its last character. We put a mark there: a numeral, because numerals join
# neither with white space nor with anything but other numerals; it comes out as a token of its own, and goes. No
# token of the vocabulary has two neighbouring bytes of it, so adding it to the ranks changes no other piece.
# Python's \s is not Unicode's White_Space (it has \x1c to \x1f), so the class is spelled out.
_WHITE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_BLANK: Final = _WHITE.replace("\n", "").replace("\r", "")
_GAP_OF_SPACES: Final = re.compile(f"  (?=[^{_WHITE}])")
_GAP: Final = re.compile(f"([{_BLANK}])([{_BLANK}])(?=[^{_WHITE}])")
_UNUSUAL_BLANK: Final = re.compile(f"[{_BLANK.replace(' ', '')}]")
_MARK: Final = "\u16ee"  # RUNIC ARLAUG SYMBOL, of category Nl
_MARK_TOKEN: Final = 201_088  # the first id that is not in the vocabulary


class ExactEngine:
    """tiktoken, with a pattern that cannot panic and long runs cut where cutting changes nothing."""

    name = "exact"

    def __init__(self, tokens: list[bytes]) -> None:
        # The class that tiktoken's own Encoding wraps; Encoding would add a second regular expression and a table
        # of special tokens, and ordinary text needs neither.
        # It ships without types.
        from tiktoken._tiktoken import CoreBPE  # pyright: ignore[reportUnknownVariableType]

        ranks = dict(zip(tokens, range(len(tokens)), strict=True))
        ranks[_MARK.encode()] = _MARK_TOKEN
        core = cast(_CoreBPE, CoreBPE(ranks, {}, _PIECES))
        self._encode_pieces = core.encode_ordinary
        self._encode_piece = core.encode_single_piece
        self._token_bytes = tokens
        self._typed_mark = [ranks[bytes([byte])] for byte in _MARK.encode()]

    def encode(self, text: str) -> list[int]:
        runs = find_long_runs(text)
        if runs:
            return encode_in_windows(text, runs, self._encode_unmarked, self._encode_piece, self._token_bytes)
        return self._encode_unmarked(text)

    def _encode_unmarked(self, text: str) -> list[int]:
        if _MARK in text:
            return self._encode_with_typed_marks(text)
        marked = _mark_gaps(text)
        if marked is text:
            return self._encode_pieces(text)
        return [token for token in self._encode_pieces(marked) if token != _MARK_TOKEN]

    def _encode_with_typed_marks(self, text: str) -> list[int]:
        """For text in which somebody wrote the mark itself: the gaps are cut, and its token becomes its bytes'."""
        cuts = [match.end() - 1 for match in _GAP.finditer(text)]
        tokens: list[int] = []
        for start, end in pairwise([0, *cuts, len(text)]):
            for token in self._encode_pieces(text[start:end]):
                tokens += self._typed_mark if token == _MARK_TOKEN else (token,)
        return tokens


class FastEngine:
    """gigatoken, which tells letters from signs by a newer Unicode, with the exact engine for what that concerns.

    The exact engine is loaded when it is first needed; most processes never do.
    """

    name = "fast"

    def __init__(self, tokens: list[bytes]) -> None:
        from gigatoken.gigatoken_rs import BPETokenizer

        self._tokens = tokens
        self._exact: ExactEngine | None = None
        self._loading = Lock()
        # gigatoken reads a vocabulary from a path only.
        with TemporaryDirectory(prefix="harmonia-") as folder:
            path = Path(folder, "o200k_base.tiktoken")
            write_tiktoken_file(tokens, path)
            self._encode: Callable[[str], Any] = BPETokenizer.from_tiktoken(path, "o200k", {}).encode

    def encode(self, text: str) -> list[int]:
        if (not text.isascii() and has_newer_characters(text)) or find_long_runs(text):
            return self._exact_engine().encode(text)
        return self._encode(text).tolist()

    def _exact_engine(self) -> ExactEngine:
        if self._exact is None:
            with self._loading:
                if self._exact is None:
                    self._exact = ExactEngine(self._tokens)
        return self._exact


def load_engine(name: str, tokens: list[bytes]) -> Engine:
    """The engine called `exact` or `fast`; `auto` is `fast` where it is installed."""
    if name == "exact" or (name == "auto" and not _fast_is_installed()):
        return ExactEngine(tokens)
    if name in ("fast", "auto"):
        try:
            return FastEngine(tokens)
        except ImportError as error:
            raise InputError(
                ErrorCode.VOCABULARY_MISSING_ENGINE,
                "the fast tokenizer is not installed; install it with: pip install 'harmonia[fast]'",
            ) from error
    raise InputError(
        ErrorCode.VOCABULARY_MISSING_ENGINE, f"there is no tokenizer {name!r}; there are exact, fast and auto"
    )


def _fast_is_installed() -> bool:
    """Whether gigatoken is there in the release whose differences from tiktoken are known."""
    try:
        return version("gigatoken") == GIGATOKEN_VERSION and find_spec("numpy") is not None
    except PackageNotFoundError:
        return False


def _mark_gaps(text: str) -> str:
    """`text` with a mark in each gap; the same object where it has none."""
    if _UNUSUAL_BLANK.search(text) is not None:
        return _GAP.sub(rf"\1{_MARK}\2", text)
    if "  " in text:
        return _GAP_OF_SPACES.sub(f" {_MARK} ", text)
    return text
