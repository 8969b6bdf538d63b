"""Constrains a sampler of this process to a grammar, by llguidance: before each token, which tokens may be next.

    matcher = Matcher(grammar_for(demand, "llguidance"))
    while not matcher.is_over:
        token = …                   # one whose bit is set in matcher.mask()
        matcher.commit(token)

1. The mask has a bit for each token of the vocabulary, the lowest bit of a byte first. A special token is in it only
   where the grammar names it: text that is spelled like one consists of other tokens.
2. A grammar is over after its last token, `<|call|>` or `<|return|>`; before that, some token is always admitted.
3. The vocabulary is prepared once for the whole process, which takes about a second and some ten megabytes.
4. Compiling and each mask are bounded, in work and in memory; exceeding a bound is an error, never a token that the
   grammar does not admit.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.grammar import WrittenGrammar
from harmonia.grammar.llguidance_writer import is_about_size
from harmonia.vocabulary import END_OF_TEXT, FIRST_SPECIAL, VOCABULARY_SIZE, default_vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# A mask is made faster where most tokens are known to fit at once: the tokens that fit inside a JSON string, by their
# length, and those that fit into plain text, which need a closer look only where they contain a `<`.
SLICES: Final = (
    r'[^"\\\x00-\x1F\x7F<]{1,10}',
    r'[^"\\\x00-\x1F\x7F<]{1,30}',
    r'[^"\\\x00-\x1F\x7F<]+',
    r"[^<]+",
)

# What one grammar may cost. A mask of ordinary grammars takes a few hundred items; one that needs more than this is
# ambiguous beyond use, and would take a second for each token.
MAX_ITEMS_IN_ROW: Final = 2_000
MAX_ITEMS_FOR_MASK: Final = 50_000
MAX_GRAMMAR_SYMBOLS: Final = 500_000
MAX_LEXER_STATES: Final = 100_000

MASK_BYTES: Final = VOCABULARY_SIZE // 8

_TOO_COMPLEX: Final = ("ParserTooComplex", "LexerTooComplex")
_making: Final = Lock()


def is_installed() -> bool:
    return find_spec("llguidance") is not None


def why_unusable() -> str | None:
    """Why no sampler of this process can be constrained; None where one can."""
    try:
        _import()
    except InputError as error:
        return error.message
    return None


class Matcher:
    """The state of one completion in its grammar. Raises an InputError for an impossible grammar."""

    __slots__ = ("_inner",)

    def __init__(self, grammar: WrittenGrammar) -> None:
        kind = grammar.kind if isinstance(grammar, WrittenGrammar) else None  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        if kind != "llguidance":
            given = f"one for {kind}" if kind else f"{grammar!r:.100}"
            said = f"the grammar is {given}; expected the result of grammar_for(demand, 'llguidance')"
            raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, said)
        self._inner = _compile(grammar.text)

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow."""
        return self._inner.is_stopped()

    def mask(self) -> bytes:
        """Which tokens may be next, one bit each."""
        mask = self._inner.compute_bitmask()
        if self._inner.is_error():
            raise self._failure()
        return mask[:MASK_BYTES]  # the engine has one more, for itself

    def fill(self, address: int, byte_size: int) -> None:
        """Write the mask to a place in memory, such as a tensor's; `byte_size` is MASK_BYTES."""
        self._inner.unsafe_compute_mask_ptr(address, byte_size)
        if self._inner.is_error():
            raise self._failure()

    def admits(self, token: int) -> bool:
        """Whether this token may be next."""
        return self.admitted([token]) == 1

    def admitted(self, tokens: list[int]) -> int:
        """How many of these tokens may be next, one after the other."""
        try:
            return self._inner.validate_tokens(tokens)
        except (OverflowError, TypeError) as error:
            raise _no_token(tokens) from error

    def commit(self, token: int) -> None:
        """Continue after a token, which must be an admitted one. After an EngineError this matcher is unusable:
        `admits` and `copy` are for trying."""
        try:
            is_taken = self._inner.consume_token(token)
        except (OverflowError, TypeError) as error:
            raise _no_token(token) from error
        if not is_taken:
            raise self._failure()

    def copy(self) -> Matcher:
        """Another matcher in the same state."""
        copied = object.__new__(Matcher)
        copied._inner = self._inner.deep_copy()
        return copied

    def _failure(self) -> EngineError:
        message = _first_line(self._inner.get_error())
        if self._inner.stop_reason() in _TOO_COMPLEX or "max is" in message:
            return EngineError(ErrorCode.GRAMMAR_TOO_LARGE, f"the grammar needs too much work for a token: {message}")
        if self._inner.stop_reason() == "NoExtensionBias":
            return EngineError(
                ErrorCode.GRAMMAR_INVALID_OPTION, "no text can satisfy the form or schema that the grammar demands"
            )
        return EngineError(
            ErrorCode.ENGINE_BAD_ANSWER, f"the model sampled a token that the grammar does not allow: {message}"
        )


def _no_token(given: object) -> InputError:
    return InputError(
        ErrorCode.GRAMMAR_INVALID_OPTION, f"{given!r:.100} is not a token; expected token ids of 0 or more"
    )


def _compile(text: str) -> LLMatcher:
    llguidance = _import()
    limits = llguidance.LLParserLimits(
        max_items_in_row=MAX_ITEMS_IN_ROW,
        step_max_items=MAX_ITEMS_FOR_MASK,
        max_lexer_states=MAX_LEXER_STATES,
        max_grammar_size=MAX_GRAMMAR_SYMBOLS,
        verbose_errors=False,
    )
    matcher: LLMatcher = llguidance.LLMatcher(_tokenizer(), text, log_level=0, limits=limits)
    if matcher.is_error():
        message = matcher.get_error()
        code, said = ErrorCode.GRAMMAR_INVALID_OPTION, "the grammar cannot be used"
        if "Unsatisfiable" in message:
            said = "no value can match the schema"
        elif is_about_size(message):
            code, said = ErrorCode.GRAMMAR_TOO_LARGE, "the grammar is too large"
        raise InputError(code, f"{said}: {_first_line(message)}")
    return matcher


def _tokenizer() -> LLTokenizer:
    with _making:  # two threads that ask at the same time wait for one, instead of making two
        return _make_tokenizer()


@cache
def _make_tokenizer() -> LLTokenizer:
    return _import().LLTokenizer(_OwnVocabulary(), slices=list(SLICES))


class _OwnVocabulary:
    """Our vocabulary, as llguidance asks for one.

    Its end of a sequence is `<|endoftext|>`, which no grammar of ours has: `<|return|>` and `<|call|>` are ordinary
    tokens of the grammar, and not an end that could come anywhere.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = END_OF_TEXT

    def __init__(self) -> None:
        self.tokens = default_vocabulary().token_bytes
        self.special_token_ids = list(range(FIRST_SPECIAL, VOCABULARY_SIZE))

    def __call__(self, text: str | bytes) -> list[int]:
        return default_vocabulary().encode(text if isinstance(text, str) else text.decode())


def _import() -> Any:
    try:
        import llguidance
    except ImportError as error:
        why = "constraining a model with a grammar needs llguidance; install it with: pip install 'harmonia[grammar]'"
        if is_installed():
            why = f"llguidance is installed but cannot be imported: {error}"
        raise InputError(ErrorCode.GRAMMAR_MISSING_EXTRA, why) from error
    return llguidance


def _first_line(message: str) -> str:
    return message.partition("\n")[0]
