"""Tokenizers for ordinary text: tiktoken (exact), gigatoken (fast), and plain Python for the first short texts.

All three give the same tokens. gigatoken classifies some characters by a newer Unicode than tiktoken, and tiktoken's
regular expression panics on very long runs of white space; texts with either go another way, so that the choice of the
tokenizer never shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol, cast

from harmonia.errors import ErrorCode, InputError
from harmonia.vocabulary.long_runs import BLANK, LONG_RUN, WHITE, encode_in_windows, find_long_runs
from harmonia.vocabulary.ranks import write_tiktoken_file

GIGATOKEN_VERSION: Final = "0.10.0"

RANGES: Final = (
    (0x0088F, 0x0088F),
    (0x00C5C, 0x00C5C),
    (0x00CDC, 0x00CDC),
    (0x01ACF, 0x01ADD),
    (0x01AE0, 0x01AEB),
    (0x0A7CE, 0x0A7CF),
    (0x0A7D2, 0x0A7D2),
    (0x0A7D4, 0x0A7D4),
    (0x0A7F1, 0x0A7F1),
    (0x10940, 0x10959),
    (0x10EC5, 0x10EC7),
    (0x10EFA, 0x10EFB),
    (0x11B60, 0x11B67),
    (0x11DB0, 0x11DDB),
    (0x11DE0, 0x11DE9),
    (0x16EA0, 0x16EB8),
    (0x16EBB, 0x16ED3),
    (0x16FF2, 0x16FF6),
    (0x187F8, 0x187FF),
    (0x18D09, 0x18D1E),
    (0x18D80, 0x18DF2),
    (0x1E6C0, 0x1E6DE),
    (0x1E6E0, 0x1E6F5),
    (0x1E6FE, 0x1E6FF),
    (0x2B73A, 0x2B73F),
    (0x2CEA2, 0x2CEAD),
    (0x323B0, 0x33479),
)


# Searched in UTF-8, because a str would be searched range by range. Two bytes of the four are enough beyond the first
# plane, where texts are rare. It also finds a few other characters, which only costs the slower tokenizer.
_ENCODED: Final = (chr(point).encode() for first, last in RANGES for point in range(first, last + 1))
_NEWER: Final = re.compile(b"|".join(sorted({each[:2] if len(each) == 4 else each for each in _ENCODED})))


def has_newer_characters(text: str) -> bool:
    """Whether `text` may contain one of them. The tokenizer refuses lone surrogates."""
    return _NEWER.search(text.encode(errors="surrogatepass")) is not None


# After this many characters in total, loading a real tokenizer pays off.
WORK_LIMIT: Final = 20_000
# Merging is quadratic; a piece is usually a word.
_PIECE_LIMIT: Final = 64

# The pieces of o200k (see engines.py), with the Unicode classes reduced to their ASCII members.
_WHITE: Final = rb" \t\n\v\f\r"
_CONTRACTION: Final = rb"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_ASCII_PIECES: Final = re.compile(
    b"|".join(
        (
            rb"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+" + _CONTRACTION,
            rb"[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*" + _CONTRACTION,
            rb"[0-9]{1,3}",
            rb" ?[^%bA-Za-z0-9]+[\r\n/]*" % _WHITE,
            rb"[%b]*[\r\n]+" % _WHITE,
            rb"[%b]+(?![^%b])" % (_WHITE, _WHITE),
            rb"[%b]+" % _WHITE,
        )
    )
)


class Starter:
    """Encodes the first short texts, then returns None."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._ranks = {token: rank for rank, token in enumerate(tokens)}
        self._work = 0

    def encode(self, text: str) -> list[int] | None:
        """The tokens of `text`, or None if a real tokenizer should take over."""
        self._work += len(text)
        if self._work > WORK_LIMIT or not text.isascii():
            return None
        pieces: list[bytes] = _ASCII_PIECES.findall(text.encode())
        tokens = list(map(self._ranks.get, pieces))
        if None not in tokens:
            return tokens  # pyright: ignore[reportReturnType] -- what the line above checks
        if max(map(len, pieces)) > _PIECE_LIMIT:
            return None
        return [token for piece in pieces for token in self._merge(piece)]

    def _merge(self, piece: bytes) -> list[int]:
        """Byte-pair encoding: join the two neighbours whose union has the lowest rank, until no union has one."""
        ranks = self._ranks
        parts = [piece] if piece in ranks else [bytes([byte]) for byte in piece]
        while len(parts) > 1:
            unions = [ranks.get(left + right, _NO_RANK) for left, right in pairwise(parts)]
            lowest = min(unions)
            if lowest == _NO_RANK:
                break
            at = unions.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [ranks[part] for part in parts]


_NO_RANK: Final = 1 << 32


class Engine(Protocol):
    """Encodes ordinary text. Thread-safe."""

    @property
    def name(self) -> str: ...

    def encode(self, text: str) -> list[int]: ...


class _CoreBPE(Protocol):
    """The part of tiktoken that is used here."""

    def encode_ordinary(self, text: str) -> list[int]: ...
    def encode_single_piece(self, piece: bytes) -> list[int]: ...


# How o200k splits text into pieces, each of which is merged on its own. This is the published expression, with a
# group around the alternatives that need no look-ahead: the matcher then takes them all in one step.
_WORDS_AND_SIGNS: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
    )
)
_PIECES: Final = rf"(?:{_WORDS_AND_SIGNS})|\s+(?!\S)|\s+"

# The look-ahead needs a backtracking matcher, which panics on a million spaces. Without it the expression runs on an
# automaton that cannot. It only gives the last character of a gap to the word after it: a gap is two or more
# white-space characters other than \r and \n, followed by something else. So text with long runs is cut there.
# Python's \s is not Unicode's White_Space (it has \x1c to \x1f), so the class is spelled out.
_PIECES_WITHOUT_LOOKAHEAD: Final = rf"{_WORDS_AND_SIGNS}|\s+"
_GAP: Final = re.compile(f"(?<=[{BLANK}])[{BLANK}](?=[^{WHITE}])")


class ExactEngine:
    """tiktoken for ordinary text; for text with a long run, tiktoken with an expression that cannot panic."""

    name = "exact"

    def __init__(self, tokens: list[bytes]) -> None:
        self._tokens = tokens
        self._core = self._load_core(_PIECES)

    def encode(self, text: str) -> list[int]:
        if len(text) >= LONG_RUN and (runs := find_long_runs(text)):
            piece_encoder = self._linear_core.encode_single_piece
            return encode_in_windows(text, runs, self._encode_at_gaps, piece_encoder, self._tokens)
        return self._core.encode_ordinary(text)

    def _encode_at_gaps(self, text: str) -> list[int]:
        encode = self._linear_core.encode_ordinary
        tokens: list[int] = []
        start = 0
        for gap in _GAP.finditer(text):
            tokens += encode(text[start : gap.start()])
            start = gap.start()
        return tokens + encode(text[start:])

    @cached_property
    def _linear_core(self) -> _CoreBPE:
        """Loaded when it is first needed: few processes ever meet a long run."""
        return self._load_core(_PIECES_WITHOUT_LOOKAHEAD)

    def _load_core(self, pieces: str) -> _CoreBPE:
        # The class that tiktoken's own Encoding wraps; Encoding would add a second regular expression and a table of
        # special tokens, and ordinary text needs neither. It ships without types.
        from tiktoken._tiktoken import CoreBPE  # pyright: ignore[reportUnknownVariableType]

        ranks = dict(zip(self._tokens, range(len(self._tokens)), strict=True))
        return cast(_CoreBPE, CoreBPE(ranks, {}, pieces))


class FastEngine:
    """gigatoken; the exact tokenizer encodes text whose characters gigatoken classifies by a newer Unicode.

    gigatoken caches every word forever, so a client that sends random words could fill the memory. It is replaced after
    `tokens_until_renewal` tokens, which bounds the cache.
    """

    name = "fast"

    def __init__(self, tokens: list[bytes], *, tokens_until_renewal: int = 8_000_000) -> None:
        self._tokens = tokens
        self._tokens_until_renewal = tokens_until_renewal
        self._encode: Callable[[str], Any] | None = None
        self._loading = Lock()
        self._encoding = Lock()
        self._renew()

    def encode(self, text: str) -> list[int]:
        if (not text.isascii() and has_newer_characters(text)) or (len(text) >= LONG_RUN and find_long_runs(text)):
            return self._exact.encode(text)
        assert self._encode is not None
        # gigatoken refuses a second thread ("Already borrowed"). Its first call imports numpy, which lets one in.
        with self._encoding:
            array = self._encode(text)
        tokens: list[int] = array.tolist()
        self._left -= len(tokens)
        if self._left < 0:
            with self._loading:
                if self._left < 0:  # else another thread was quicker
                    self._renew()
        return tokens

    def _renew(self) -> None:
        from tempfile import TemporaryDirectory

        from gigatoken.gigatoken_rs import BPETokenizer

        self._left = self._tokens_until_renewal
        try:
            # gigatoken reads a vocabulary from a path only.
            with TemporaryDirectory(prefix="harmonia-") as folder:
                path = Path(folder, "o200k_base.tiktoken")
                write_tiktoken_file(self._tokens, path)
                self._encode = BPETokenizer.from_tiktoken(path, "o200k", {}).encode
        except OSError:
            if self._encode is None:
                raise
            # The temporary directory is full or gone: keep the old tokenizer.

    @cached_property
    def _exact(self) -> ExactEngine:
        """Loaded at its first use, which most processes never reach."""
        return ExactEngine(self._tokens)


class AutomaticEngine:
    """Plain Python for the first short texts, then the best installed tokenizer."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._tokens = tokens
        self._loading = Lock()
        self._starter: Starter | None = Starter(tokens)
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        return self.load().name

    def encode(self, text: str) -> list[int]:
        starter = self._starter
        tokens = None if starter is None else starter.encode(text)
        return self.load().encode(text) if tokens is None else tokens

    def load(self) -> Engine:
        """The real tokenizer, loaded at the first call."""
        if self._engine is None:
            with self._loading:
                if self._engine is None:
                    self._engine = self._best_engine()
                    self._starter = None  # its table is as large as the vocabulary
        return self._engine

    def _best_engine(self) -> Engine:
        if _fast_is_installed():
            # It needs a temporary directory. If that is missing, or the installation is broken, use the exact one.
            with suppress(OSError, ImportError):
                return FastEngine(self._tokens)
        return ExactEngine(self._tokens)


def load_engine(name: str, tokens: list[bytes]) -> Engine:
    """The engine called `exact` or `fast`; `auto` is `fast` where it is installed, with a quick start."""
    if name in ("auto", "exact"):
        return AutomaticEngine(tokens) if name == "auto" else ExactEngine(tokens)
    if name == "fast":
        try:
            if not _fast_is_installed():
                raise ImportError(f"gigatoken {GIGATOKEN_VERSION} or numpy is not installed")
            return FastEngine(tokens)
        except (ImportError, OSError) as error:
            problem = (
                f"the fast tokenizer needs a temporary directory: {error}"
                if isinstance(error, OSError)
                else "the fast tokenizer is not installed; install it with: pip install 'harmonia[fast]'"
            )
            raise InputError(ErrorCode.VOCABULARY_MISSING_ENGINE, problem) from error
    raise InputError(ErrorCode.VOCABULARY_MISSING_ENGINE, f"there is no tokenizer {name!r}; use exact, fast or auto")


def _fast_is_installed() -> bool:
    """Whether the gigatoken release with known differences from tiktoken is installed."""
    # Imported here: it takes longer than the whole starter does to load.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gigatoken") == GIGATOKEN_VERSION and find_spec("numpy") is not None
    except PackageNotFoundError:
        return False
