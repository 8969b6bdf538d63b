"""Byte-pair encoding of ordinary text: the one seam between Harmonia and somebody else's tokenizer.

An engine turns valid Unicode text into ordinary tokens, exactly as tiktoken's o200k does, whatever the text: it
neither fails nor slows down beyond the length of its input. `exact` is the engine of the core; `fast` needs the
extra of that name and falls back on `exact` for the rare text that it would get wrong. `auto` loads the better of
the two that is installed, once there is enough to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol, cast

from harmonia.errors import ErrorCode, InputError
from harmonia.vocabulary.long_runs import BLANK, LONG_RUN, WHITE, encode_in_windows, find_long_runs
from harmonia.vocabulary.newer_unicode import GIGATOKEN_VERSION, has_newer_characters
from harmonia.vocabulary.ranks import write_tiktoken_file
from harmonia.vocabulary.starter import Starter


class Engine(Protocol):
    """Encodes ordinary text. Thread-safe."""

    @property
    def name(self) -> str: ...

    def encode(self, text: str) -> list[int]: ...


class _CoreBPE(Protocol):
    """What we use of tiktoken."""

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
# automaton that cannot. All it does is to give the last character of a gap to the word behind: a gap is two or more
# white-space characters other than \r and \n, followed by something else. So text with long runs is cut there.
# Python's \s is not Unicode's White_Space (it has \x1c to \x1f), so the class is spelled out.
_PIECES_WITHOUT_LOOKAHEAD: Final = rf"{_WORDS_AND_SIGNS}|\s+"
_GAP: Final = re.compile(f"(?<=[{BLANK}])[{BLANK}](?=[^{WHITE}])")


class ExactEngine:
    """tiktoken for ordinary text; for text with a long run, tiktoken with an expression that cannot panic."""

    name = "exact"

    def __init__(self, tokens: list[bytes]) -> None:
        self._tokens = tokens
        self._loading = Lock()
        self._core = self._load_core(_PIECES)
        self._core_for_long_runs: _CoreBPE | None = None

    def encode(self, text: str) -> list[int]:
        if len(text) >= LONG_RUN and (runs := find_long_runs(text)):
            piece_encoder = self._linear_core().encode_single_piece
            return encode_in_windows(text, runs, self._encode_at_gaps, piece_encoder, self._tokens)
        return self._core.encode_ordinary(text)

    def _encode_at_gaps(self, text: str) -> list[int]:
        encode = self._linear_core().encode_ordinary
        tokens: list[int] = []
        start = 0
        for gap in _GAP.finditer(text):
            tokens += encode(text[start : gap.start()])
            start = gap.start()
        return tokens + encode(text[start:])

    def _linear_core(self) -> _CoreBPE:
        """Loaded when it is first needed: few processes ever meet a long run."""
        if self._core_for_long_runs is None:
            with self._loading:
                if self._core_for_long_runs is None:
                    self._core_for_long_runs = self._load_core(_PIECES_WITHOUT_LOOKAHEAD)
        return self._core_for_long_runs

    def _load_core(self, pieces: str) -> _CoreBPE:
        # The class that tiktoken's own Encoding wraps; Encoding would add a second regular expression and a table of
        # special tokens, and ordinary text needs neither. It ships without types.
        from tiktoken._tiktoken import CoreBPE  # pyright: ignore[reportUnknownVariableType]

        ranks = dict(zip(self._tokens, range(len(self._tokens)), strict=True))
        return cast(_CoreBPE, CoreBPE(ranks, {}, pieces))


class FastEngine:
    """gigatoken, which tells letters from signs by a newer Unicode, with the exact engine for what that concerns.

    The exact engine is loaded when it is first needed; most processes never do.

    gigatoken remembers every word it has met and never forgets one, so a stranger who sends random words could fill the
    memory. It is renewed after `tokens_until_renewal`, which bounds that.
    """

    name = "fast"

    def __init__(self, tokens: list[bytes], *, tokens_until_renewal: int = 8_000_000) -> None:
        self._tokens = tokens
        self._tokens_until_renewal = tokens_until_renewal
        self._exact: ExactEngine | None = None
        self._encode: Callable[[str], Any] | None = None
        self._loading = Lock()
        self._encoding = Lock()
        self._renew()

    def encode(self, text: str) -> list[int]:
        if (not text.isascii() and has_newer_characters(text)) or (len(text) >= LONG_RUN and find_long_runs(text)):
            return self._exact_engine().encode(text)
        assert self._encode is not None
        # A tokenizer of gigatoken's refuses a second thread ("Already borrowed"), and its first call lets one in: it
        # imports numpy.
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
            # The folder for temporary files is full or gone: better an old tokenizer than none.

    def _exact_engine(self) -> ExactEngine:
        if self._exact is None:
            with self._loading:
                if self._exact is None:
                    self._exact = ExactEngine(self._tokens)
        return self._exact


class AutomaticEngine:
    """Plain Python for the first short texts, then the best engine there is."""

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
        """The engine behind, loaded now if it was not yet."""
        if self._engine is None:
            with self._loading:
                if self._engine is None:
                    self._engine = self._best_engine()
                    self._starter = None  # its table is as large as the vocabulary
        return self._engine

    def _best_engine(self) -> Engine:
        if _fast_is_installed():
            # Without a folder for temporary files it cannot be loaded; and a broken installation is no reason to fail.
            with suppress(OSError, ImportError):
                return FastEngine(self._tokens)
        return ExactEngine(self._tokens)


def load_engine(name: str, tokens: list[bytes]) -> Engine:
    """The engine called `exact` or `fast`; `auto` is `fast` where it is installed, with a quick start."""
    if name == "auto":
        return AutomaticEngine(tokens)
    if name == "exact":
        return ExactEngine(tokens)
    if name == "fast":
        try:
            if not _fast_is_installed():
                raise ImportError(f"gigatoken {GIGATOKEN_VERSION} or numpy is not there")
            return FastEngine(tokens)
        except ImportError as error:
            raise InputError(
                ErrorCode.VOCABULARY_MISSING_ENGINE,
                "the fast tokenizer is not installed; install it with: pip install 'harmonia[fast]'",
            ) from error
        except OSError as error:
            raise InputError(
                ErrorCode.VOCABULARY_MISSING_ENGINE,
                f"the fast tokenizer needs a folder for temporary files: {error}",
            ) from error
    raise InputError(
        ErrorCode.VOCABULARY_MISSING_ENGINE, f"there is no tokenizer {name!r}; there are exact, fast and auto"
    )


def _fast_is_installed() -> bool:
    """Whether gigatoken is there in the release whose differences from tiktoken are known."""
    # Imported here: it takes longer than the whole starter does to load.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gigatoken") == GIGATOKEN_VERSION and find_spec("numpy") is not None
    except PackageNotFoundError:
        return False
