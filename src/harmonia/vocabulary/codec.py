"""Text to tokens and back, in the vocabulary o200k_harmony. No network, no environment variable.

1. `encode` never makes a special token out of text, unless the caller names it in `special`.
2. `decode_bytes(encode(text)) == text.encode()` for every text that is valid Unicode.
3. Invalid text or tokens raise an InputError with the position, and nothing else.
4. Any number of threads may share a vocabulary. The exact tokenizer encodes without the GIL.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from operator import index
from pathlib import Path
from threading import RLock
from typing import Final, Literal, cast, get_args

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.vocabulary import ranks
from harmonia.vocabulary.tokenizers import Engine, load_engine

# Nine special tokens have a meaning; the others are reserved, under the reference's names. One id has two spellings:
# tiktoken calls 200018 `<|endofprompt|>`, the reference `<|reserved_200018|>`. Both encode to it, and it decodes to the
# reference's.
START_OF_TEXT: Final = 199998
END_OF_TEXT: Final = 199999
RETURN: Final = 200002
CONSTRAIN: Final = 200003
CHANNEL: Final = 200005
START: Final = 200006
END: Final = 200007
MESSAGE: Final = 200008
CALL: Final = 200012
END_OF_PROMPT: Final = 200018

FIRST_SPECIAL: Final = 199998
VOCABULARY_SIZE: Final = 201088

_NAMED: Final = {
    START_OF_TEXT: "<|startoftext|>",
    END_OF_TEXT: "<|endoftext|>",
    RETURN: "<|return|>",
    CONSTRAIN: "<|constrain|>",
    CHANNEL: "<|channel|>",
    START: "<|start|>",
    END: "<|end|>",
    MESSAGE: "<|message|>",
    CALL: "<|call|>",
}

SPELLING_BY_ID: Final[dict[int, str]] = {
    token: _NAMED.get(token, f"<|reserved_{token}|>") for token in range(FIRST_SPECIAL, VOCABULARY_SIZE)
}
ID_BY_SPELLING: Final[dict[str, int]] = {
    **{spelling: token for token, spelling in SPELLING_BY_ID.items()},
    "<|endofprompt|>": END_OF_PROMPT,
}

# Every spelling has the shape <|word|>, so one expression finds the candidates and the table decides.
_CANDIDATE: Final = re.compile(r"<\|[a-z0-9_]+\|>")


def find_spellings(text: str) -> list[tuple[int, str]]:
    """Where `text` spells a special token, in order: (character offset, spelling)."""
    if "<|" not in text:
        return []
    found = ((match.start(), match.group()) for match in _CANDIDATE.finditer(text))
    return [(offset, spelling) for offset, spelling in found if spelling in ID_BY_SPELLING]


EngineName = Literal["auto", "exact", "fast"]
Special = Literal["all"] | Collection[str]
DecodingErrors = Literal["replace", "strict"]


class Vocabulary:
    """o200k_harmony, loaded at the first use. `default_vocabulary()` is shared by all callers.

    `file` is an `o200k_base.tiktoken` to read instead of the one inside the package; any other file is refused.
    `engine` chooses the tokenizer: "exact" (tiktoken), "fast" (gigatoken, needs the extra `fast`), or "auto".
    """

    def __init__(self, file: str | Path | None = None, engine: EngineName = "auto") -> None:
        self._file = file
        self._engine_name = engine
        # One lock for everything that is loaded. (A functools.cached_property would add one of its own in Python
        # 3.11, and two threads that take two locks in different orders wait for each other.)
        self._loading = RLock()
        self._ordinary: list[bytes] | None = None
        self._token_bytes: list[bytes] | None = None
        self._token_text: list[str | None] | None = None
        self.partial_tokens: set[int] = set()  # those that contain part of a character
        self._engine: Engine | None = None

    # Encoding

    def encode(self, text: str, *, special: Special = ()) -> list[int]:
        """The tokens of `text` as ordinary text: `encode("<|end|>")` gives ordinary tokens. Spellings named in
        `special` (or all, with `special="all"`) become the special tokens they spell."""
        if special:
            return self._encode_with_special(text, special)
        engine = self._engine or self._load_engine()
        try:
            return engine.encode(text)
        except (UnicodeEncodeError, TypeError, AttributeError) as error:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                raise TypeError(f"encode needs a str, not {type(text).__name__}") from error
            _refuse_lone_surrogates(text)
            raise

    def _encode_with_special(self, text: str, special: Special) -> list[int]:
        wanted = ID_BY_SPELLING.keys()
        if special != "all":
            wanted = frozenset([special] if isinstance(special, str) else special)
            for spelling in wanted - ID_BY_SPELLING.keys():
                problem = f"{spelling!r} is not the spelling of a special token"
                raise InputError(ErrorCode.VOCABULARY_UNKNOWN_SPECIAL, problem)
        _refuse_lone_surrogates(text)
        tokens: list[int] = []
        position = 0
        for offset, spelling in find_spellings(text):
            if spelling in wanted:
                tokens += self.encode(text[position:offset])
                tokens.append(ID_BY_SPELLING[spelling])
                position = offset + len(spelling)
        return tokens + self.encode(text[position:])

    # Decoding

    def decode(self, tokens: Iterable[int], *, errors: DecodingErrors = "replace") -> str:
        """The text of `tokens`, special tokens spelled out.

        Tokens may end inside a character. What is not UTF-8 becomes U+FFFD, or an InputError with `errors="strict"`;
        `decode_bytes` returns the bytes themselves.
        """
        _check_errors_option(errors)
        listed = list(tokens)
        data = self.decode_bytes(listed)
        try:
            return data.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            ends = accumulate(len(self.token_bytes[token]) for token in listed)
            raise InputError(
                ErrorCode.VOCABULARY_INVALID_UTF8,
                f"the tokens are not valid UTF-8 at byte {error.start}: {error.reason}",
                Position(token=sum(end <= error.start for end in ends)),
            ) from error

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """The bytes of `tokens`, whether they are valid UTF-8 or not."""
        listed = list(tokens)
        try:
            if listed and min(listed) < 0:  # Python would count it from the end
                raise IndexError
            return b"".join(map(self.token_bytes.__getitem__, listed))
        except (IndexError, TypeError, ValueError):  # `min` raises a ValueError for rows of a numpy matrix
            raise _unknown_token(listed) from None

    # Tables

    @property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token, by id; a special token has those of its spelling."""
        if self._token_bytes is None:
            with self._loading:
                if self._token_bytes is None:
                    specials = [spelling.encode() for spelling in SPELLING_BY_ID.values()]
                    self._token_bytes = self._load_ordinary() + specials
        return self._token_bytes

    @property
    def token_text(self) -> list[str | None]:
        """The text of the ordinary tokens that `text_of` has looked up, by id."""
        table = self._token_text
        if table is None:
            table = self._token_text = list[str | None]([None]) * FIRST_SPECIAL
        return table

    def text_of(self, token: int) -> str | None:
        """The text of an ordinary token; None if it contains part of a character."""
        text = self.token_text[token]
        if text is None and token not in self.partial_tokens:
            try:
                text = self.token_text[token] = self.token_bytes[token].decode()
            except UnicodeDecodeError:
                self.partial_tokens.add(token)
        return text

    def char_offsets(self, tokens: Sequence[int]) -> list[int]:
        """The character offset of each token in their joined text. A token that begins inside a character counts as
        beginning after it; an id that is not a token counts as one character."""
        token_bytes = self.token_bytes
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        offsets: list[int] = []
        chars = 0
        is_inside = False
        for token in tokens:
            text = None if is_inside or not 0 <= token < FIRST_SPECIAL else self.text_of(token)
            if text is None:
                data = token_bytes[token] if 0 <= token < VOCABULARY_SIZE else "\ufffd".encode()
                offsets.append(chars + is_inside)
                text = decoder.decode(data)
                is_inside = bool(decoder.getstate()[0])
            else:
                offsets.append(chars)
            chars += len(text)
        return offsets

    @property
    def engine_name(self) -> str:
        """Which tokenizer is at work: "exact" or "fast". Asking loads it."""
        return (self._engine or self._load_engine()).name

    def _load_engine(self) -> Engine:
        with self._loading:  # threads that come second find what the first one loaded
            if self._engine is None:
                self._engine = load_engine(self._engine_name, self._load_ordinary())
            return self._engine

    def _load_ordinary(self) -> list[bytes]:
        with self._loading:
            if self._ordinary is None:
                self._ordinary = ranks.read_shipped() if self._file is None else ranks.read_tiktoken_file(self._file)
            return self._ordinary


# The first two bytes of an encoded surrogate, which is not a character, at the end of the bytes so far.
_HALF_OF_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf]\Z")


class IncrementalDecoder:
    """Decodes tokens as they arrive: no character is split, and no byte is lost.

    The first bytes of a character are held back in `pending` until the rest arrives. `close` returns what is left.
    Bytes that cannot belong to a character become U+FFFD, or an InputError with `errors="strict"`; after that error
    the decoder is in the state it had before the call.
    """

    def __init__(self, vocabulary: Vocabulary | None = None, *, errors: DecodingErrors = "replace") -> None:
        _check_errors_option(errors)
        self._token_bytes = (vocabulary or default_vocabulary()).token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)
        self._count = 0
        self._pending_from = 0  # the token in which `pending` begins

    def feed(self, tokens: int | Iterable[int]) -> str:
        """The text that one more token, or several, completes."""
        listed = list(tokens) if isinstance(tokens, Iterable) else [tokens]
        try:
            data = [self._token_bytes[index(token)] for token in listed]
            if listed and min(listed) < 0:
                raise IndexError
        except (IndexError, TypeError, ValueError):
            raise _unknown_token(listed, self._count) from None
        text = self._decode(data)
        self._count += len(listed)
        return text

    def close(self) -> str:
        """Ends the input and returns the held-back bytes as text; they can no longer be completed."""
        return self._decode([], final=True)

    @property
    def pending(self) -> bytes:
        """The first bytes of a character whose rest has not arrived."""
        return self._utf8.getstate()[0]

    def _decode(self, data: list[bytes], *, final: bool = False) -> str:
        before = self._utf8.getstate()
        held = len(before[0])
        joined = b"".join(data)
        if _HALF_OF_SURROGATE.search((before[0] + joined)[-2:]):
            final = True  # Python would wait for the third byte, and refuse all three

        def token_at(offset: int) -> int:
            """The token that has the byte at `offset`, counted from the first one that was held back."""
            ends = accumulate(map(len, data), initial=held)
            return self._pending_from if offset < held else self._count - 1 + sum(end <= offset for end in ends)

        try:
            text = self._utf8.decode(joined, final)
        except UnicodeDecodeError as error:
            self._utf8.setstate(before)
            raise InputError(
                ErrorCode.VOCABULARY_INVALID_UTF8,
                f"the tokens are not valid UTF-8: {error.reason}",
                Position(token=token_at(error.start)),
            ) from error
        if self.pending:
            self._pending_from = token_at(held + len(joined) - len(self.pending))
        return text


_DEFAULT: Final = Vocabulary()


def default_vocabulary() -> Vocabulary:
    """The vocabulary used by default: the one inside the package."""
    return _DEFAULT


encode: Final = _DEFAULT.encode
decode: Final = _DEFAULT.decode
decode_bytes: Final = _DEFAULT.decode_bytes


def is_special(token: int) -> bool:
    """Whether `token` is one of the special tokens, the reserved ones among them."""
    return FIRST_SPECIAL <= token < VOCABULARY_SIZE


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"the text contains half of a surrogate pair, {text[error.start]!a}, which UTF-8 cannot encode"
        raise InputError(ErrorCode.VOCABULARY_LONE_SURROGATE, problem, Position(character=error.start)) from error


def _check_errors_option(errors: str) -> None:
    if errors not in get_args(DecodingErrors):
        problem = f"errors is {errors!r}; use {' or '.join(get_args(DecodingErrors))}"
        raise InputError(ErrorCode.VOCABULARY_INVALID_OPTION, problem)


def _unknown_token(tokens: list[int], before: int = 0) -> InputError:
    at, token = next((at, token) for at, token in enumerate(tokens) if not _is_token(token))
    return InputError(
        ErrorCode.VOCABULARY_UNKNOWN_TOKEN,
        f"{token!r} is not a token: ids run from 0 to {VOCABULARY_SIZE - 1}",
        Position(token=before + at),
    )


def _is_token(token: object) -> bool:
    # Anything that works as an integer is accepted, such as a numpy integer.
    try:
        return 0 <= index(cast(int, token)) < VOCABULARY_SIZE
    except TypeError:
        return False
