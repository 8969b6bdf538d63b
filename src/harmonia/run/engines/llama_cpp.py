"""llama.cpp's server: `/completion` with token ids in and out.

It stops by itself at `<|return|>` and `<|call|>`, which its vocabulary knows as ends of generation, and sends them.

While it streams, it holds back the text of a token that ends inside a character, and with the text the token's id: an
emoji of three tokens comes as one piece of text with the last id only. Its count of tokens reveals the gap. The ids are
then restored from the text: split into as many tokens as are missing, each ending inside a character; of several ways
the tokenizer's. Finish.notes reports that, and where the text was no longer whole. With `streaming=False` the whole
answer comes at its end, with every id.

It reports no log-probability of a token that was held back, streaming or not. Readers match log-probabilities to tokens
by their order, so none are given after such a token.

A grammar is GBNF. It ends before the stop token, because llama.cpp fails on a grammar that names an end of generation;
after the grammar's end it samples any one of those, which is not passed on: Finish reports that it stopped.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, Unpack

import msgspec

from harmonia.run.engines.base import (
    ENDS_OF_GENERATION,
    Alternative,
    Chunk,
    Finish,
    FinishReason,
    Request,
    Sampling,
    TokenLogprob,
    Traits,
    Usage,
    grammar_of,
)
from harmonia.run.engines.http import Server, count_of, fields_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen, choose_model, is_gpt_oss
from harmonia.run.engines.response_reader import (
    SAMPLING_NAMES,
    STOP_TOKENS,
    Answer,
    HttpEngine,
    HttpOptions,
    name_parameters,
    sample,
)
from harmonia.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    SPELLING_BY_ID,
    START,
    VOCABULARY_SIZE,
    decode,
    default_vocabulary,
)

# More tokens in a row that all end inside a character are not text, and are not searched for.
MAX_MISSING = 16
MAX_SEARCHED_BYTES = 256


def restore_tokens(text: str, last: int, missing: int | None = None) -> tuple[list[int], bool]:
    """The tokens before `last` that spell `text` with it, and whether that is certain: it is not where the server wrote
    U+FFFD for bytes that are not UTF-8, and the tokens of U+FFFD replace them."""
    vocabulary = default_vocabulary()
    data = text.encode("utf-8", "replace")
    ending = vocabulary.decode_bytes([last])
    if last >= FIRST_SPECIAL and not data.endswith(ending):
        ending = b""  # the server does not spell it
    if data.endswith(ending):
        before = data[: len(data) - len(ending)]
        if not before:
            return [], True
        if _ends_inside(before):
            usual = vocabulary.encode(text)
            if usual[-1] == last and missing in (None, len(usual) - 1):
                return usual[:-1], True
            if (found := _split(before, missing)) is not None:
                return found, True
    else:
        before = data  # the beginning of `last` ended a character, or was not UTF-8 itself
    return vocabulary.encode(before.decode("utf-8", "replace")), False


def _split(data: bytes, missing: int | None) -> list[int] | None:
    """`data` as the missing number of tokens, each ending inside a character; the longest first."""
    if len(data) > MAX_SEARCHED_BYTES or (missing or 1) > MAX_MISSING:
        return None
    tokens = _tokens_by_bytes()
    ends = [end for end in range(len(data), 0, -1) if _ends_inside(data[:end])]
    dead: set[tuple[int, int | None]] = set()

    def split(start: int, left: int | None) -> list[int] | None:
        if start == len(data):
            return [] if not left else None
        if left == 0 or (start, left) in dead:
            return None
        for end in ends:
            if end <= start:
                break
            token = tokens.get(data[start:end])
            if token is not None and (rest := split(end, None if left is None else left - 1)) is not None:
                return [token, *rest]
        dead.add((start, left))
        return None

    return split(0, missing)


def _ends_inside(data: bytes) -> bool:
    """Whether the last character lacks bytes."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length > back
    return False


@lru_cache(maxsize=1)
def _tokens_by_bytes() -> dict[bytes, int]:
    return {data: token for token, data in enumerate(default_vocabulary().token_bytes[:FIRST_SPECIAL])}


_NAMES = SAMPLING_NAMES | {"max_tokens": "n_predict", "repetition_penalty": "repeat_penalty", "logprobs": "n_probs"}
_REASONS: Mapping[str, FinishReason] = {"eos": "stop", "word": "stop", "limit": "length"}

# Special tokens to spell. Otherwise they would be held back too, after a token that ends inside a character.
_SPELLED = tuple(SPELLING_BY_ID[token] for token in (RETURN, CONSTRAIN, CHANNEL, START, END, MESSAGE, CALL))
_SEEDS = 2**32


class _Probability(msgspec.Struct, gc=False):
    id: int
    token: str
    logprob: float | None = None
    top_logprobs: list[_Probability] = []


class _Timings(msgspec.Struct, gc=False):
    cache_n: int | None = None
    prompt_n: int | None = None


class _Message(msgspec.Struct, gc=False):
    content: str = ""
    tokens: list[int] = []
    stop: bool = False
    tokens_predicted: int | None = None
    completion_probabilities: list[_Probability] = []
    stop_type: str | None = None
    truncated: bool = False
    tokens_evaluated: int | None = None
    timings: _Timings | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Message).decode
# The last message repeats the prompt and every setting unless it is told which fields to send.
_FIELDS = tuple(name for name in _Message.__struct_fields__ if name != "error")


class LlamaCppEngine(HttpEngine):
    """A llama.cpp server at an address such as `http://127.0.0.1:8080`."""

    name = "llama.cpp"

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        streaming: bool = True,
        cache_prompt: bool = True,
        **options: Unpack[HttpOptions],
    ) -> None:
        # It runs the one model that it was started with, unless it routes.
        traits = Traits(gives_logprobs=True, takes_grammar="gbnf", takes_text=True)
        super().__init__(url, model or "gpt-oss", traits, **options)
        self._extra = {"cache_prompt": cache_prompt, **({"model": model} if model else {}), **self._extra}
        self._streaming = streaming

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        more: dict[str, Any] = {"return_tokens": True, "preserved_tokens": _SPELLED}
        if (grammar := grammar_of(request, self.traits.takes_grammar, "llama.cpp")) is not None:
            more["grammar"] = grammar.text
        keeps_stop = grammar is None or not grammar.ends_by_engine
        answer = _Answer(self.server, request.sampling.logprobs, keeps_stop=keeps_stop)
        return self._ask(answer, list(prompt), request.sampling, more)

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        # Special tokens have no text here unless they are named, and a stop string without text is never found.
        more = {"stop": list(stop), "preserved_tokens": [*marks, *stop]}
        return self._ask(_TextAnswer(self.server, request.sampling.logprobs), prompt, request.sampling, more)

    def _ask(
        self, answer: _Answer, prompt: list[int] | str, sampling: Sampling, more: dict[str, Any]
    ) -> AsyncGenerator[Chunk | Finish, None]:
        parameters, answer.notes = name_parameters(sampling, _NAMES, "llama.cpp")
        if sampling.seed is not None and not 0 <= sampling.seed < _SEEDS:
            parameters["seed"] = sampling.seed % _SEEDS
            answer.notes.append(f"llama.cpp's seeds have 32 bits; {sampling.seed} was sent as {parameters['seed']}")
        if sampling.logprobs is not None:
            parameters["n_probs"] = max(1, sampling.logprobs)  # 0 would report nothing
        body = {"prompt": prompt, "stream": self._streaming, "response_fields": _FIELDS, **more, **parameters}
        return sample(answer, "/completion", body | self._extra, "sse" if self._streaming else "ndjson")


class _Answer(Answer):
    def __init__(self, server: Server, top: int | None, *, keeps_stop: bool = True) -> None:
        super().__init__(server)
        self._top = top
        self._keeps_stop = keeps_stop
        self._counted = 0  # tokens, by the engine
        self._restored = 0
        self._is_inexact = False
        self._has_stopped = False
        self._has_logprobs = False
        self._lacks_logprobs = False  # those of a token

    def take(self, line: bytes) -> None:
        if (message := self._read(line)) is None:
            return
        if self._has_stopped and message.tokens:
            # The model file does not name <|call|> as an end, so sampling continues.
            self.notes.append("llama.cpp continued after a stop token; the rest was not read")
            self._end(message)
            return
        tokens = message.tokens
        if message.tokens_predicted is not None and not message.stop:
            # More was sampled than came, or, with speculative decoding, it was counted before it came.
            counted = message.tokens_predicted - self._counted
            self._counted = message.tokens_predicted
            if counted != len(tokens) and len(tokens) == 1:
                tokens = self._restore(message.content, counted - 1, tokens[0])
        if tokens:
            tokens = self._add(tokens)
        elif message.content:
            raise self.server.bad_answer("it returned text without token ids; is it older than return_tokens?")
        if self._top is not None and tokens:
            self._add_logprobs(message.completion_probabilities, tokens, self._top)
        if message.stop:
            self._end(message)

    def finish(self) -> Finish:
        if self._restored:
            how = "other tokens with the same text replace them" if self._is_inexact else "they were restored"
            self.notes.append(f"llama.cpp omitted {self._restored} ids of tokens that end inside a character; {how}")
        if self._has_logprobs and self._lacks_logprobs:
            self.notes.append(
                "llama.cpp does not report the log-probability of a token that ends inside a character; none are "
                "available after the first such token"
            )
        return super().finish()

    def _read(self, line: bytes) -> _Message | None:
        if line == b"[DONE]":
            self.is_done = True
            return None
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.not_understood(line, error) from None
        if message.error is not None:
            raise self.failed(line)
        return message

    def _add(self, tokens: list[int]) -> list[int]:
        """Add the tokens up to the one that stops, and return them."""
        ends = STOP_TOKENS if self._keeps_stop else ENDS_OF_GENERATION
        for index, token in enumerate(tokens):
            if token in ends:
                self._has_stopped = True
                tokens = tokens[: index + self._keeps_stop]
                break
        self.add_tokens(tokens)
        return tokens

    def _add_logprobs(self, entries: list[_Probability], tokens: list[int], top: int) -> None:
        self._has_logprobs = self._has_logprobs or bool(entries)
        if not self._lacks_logprobs:
            pairs = takewhile(lambda pair: pair[0] == pair[1].id, zip(tokens, entries, strict=False))
            known = [_logprob_of(entry, top, _token_of) for _, entry in pairs]
            self.logprobs += known
            self._lacks_logprobs = len(known) < len(tokens)

    def _restore(self, content: str, missing: int, last: int) -> list[int]:
        if not content or not 0 <= last < VOCABULARY_SIZE:
            return [last]
        if last < FIRST_SPECIAL and content == default_vocabulary().text_of(last):
            return [last]
        found, is_exact = restore_tokens(content, last, missing if missing > 0 else None)
        self._restored += len(found)
        self._is_inexact = self._is_inexact or not is_exact
        return [*found, last]

    def _end(self, message: _Message) -> None:
        self.reason = "stop" if self._has_stopped else _REASONS.get(message.stop_type or "", "unknown")
        self.is_done = True
        prompt_tokens, timings = message.tokens_evaluated, message.timings or _Timings()
        if prompt_tokens is None:
            return
        cached = timings.cache_n
        if cached is None:
            cached = 0 if timings.prompt_n is None else prompt_tokens - timings.prompt_n
        self.usage = Usage(prompt_tokens, message.tokens_predicted or self.sampled, max(0, cached))
        if message.truncated and self.reason == "length":
            self.notes.append("llama.cpp's context is used up")


class _TextAnswer(_Answer):
    """The answer of a model with another vocabulary: its text, and the ends that llama.cpp reports."""

    def take(self, line: bytes) -> None:
        if (message := self._read(line)) is None:
            return
        self.add_text(message.content)
        if self._top is not None:
            entries = message.completion_probabilities
            self.logprobs += [_logprob_of(entry, self._top, lambda each: (None, each.token)) for entry in entries]
        if message.stop:
            self._end(message)


def _logprob_of(entry: _Probability, top: int, read: Callable[[_Probability], tuple[int | None, str]]) -> TokenLogprob:
    # An impossible token's logarithm is not a JSON number, and is null.
    likeliest = tuple(
        Alternative(*read(other), -math.inf if other.logprob is None else other.logprob)
        for other in entry.top_logprobs[:top]
    )
    return TokenLogprob(*read(entry), -math.inf if entry.logprob is None else entry.logprob, likeliest)


def _token_of(entry: _Probability) -> tuple[int, str]:
    # llama.cpp has no text for most special tokens, and for the end of a character that of its whole.
    return entry.id, decode([entry.id]) if 0 <= entry.id < VOCABULARY_SIZE else entry.token


def _recognise(answers: Answers) -> Seen | None:
    """A server has the one model that it was started with, and accepts any name for it. Its file may have any name; no
    other family has a vocabulary of this size."""
    props = answers.pages.get("/props", {})
    if "default_generation_settings" not in props:
        return None
    context = count_of(fields_of(props["default_generation_settings"]).get("n_ctx"))
    named = [name for name in (text_of(props.get("model_alias")), text_of(props.get("model_path"))) if name]
    names = [text_of(entry.get("id")) for entry in answers.listed] or named[:1]
    sizes = {count_of(fields_of(entry.get("meta")).get("n_vocab")) for entry in answers.listed}
    known = [name for name in names if is_gpt_oss(name)]
    if not known and (is_gpt_oss(*named) or VOCABULARY_SIZE in sizes):
        known = names
    version = text_of(props.get("build_info"))
    return Seen("llama.cpp", answers.url, tuple(names), choose_model(known), context or None, "", version)


KINDS: Final = (
    Kind(
        name="llama.cpp",
        summary="llama.cpp's server",
        make=LlamaCppEngine,
        speaks="tokens",
        port=8080,
        pages=("/props",),
        recognise=_recognise,
    ),
)
