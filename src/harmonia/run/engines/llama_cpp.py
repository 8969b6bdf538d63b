"""llama.cpp's server: `/completion` with token ids in and out.

It stops by itself at `<|return|>` and `<|call|>`, which its vocabulary knows as ends of generation, and sends them.

While it streams, it holds back the text of a token that ends inside a character, and with the text the token's id: an
emoji of three tokens comes as one piece of text with the last id only. The number of tokens that it counts gives the
gap away. The ids are then found again from the text: split into as many tokens as are missing, each ending inside
a character; of several ways the one that the tokenizer takes. Finish.notes says when that happened, and when the text
was no longer whole. With `streaming=False` the whole answer comes at its end, with every id.

Of a token that was held back it tells no log-probability, streaming or not. Log-probabilities are given in the order of
the tokens and counted by their readers, so behind such a token there are none any more.

A grammar is GBNF. It ends before the stop token, because llama.cpp fails on a grammar that names an end of generation;
behind the grammar's end it samples one of those, any of them, which is not passed on: Finish says that it stopped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

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
from harmonia.run.engines.http import Patience, Server, count_of, fields_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen, choose_model, is_gpt_oss
from harmonia.run.engines.response_reader import STOP_TOKENS, Answer, name_parameters, sample
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

# More tokens in a row that all end inside a character are no text, and not searched for.
MAX_MISSING = 16
MAX_SEARCHED_BYTES = 256


def restore_tokens(text: str, last: int, missing: int | None = None) -> tuple[list[int], bool]:
    """The tokens before `last` which with it spell `text`, and whether they are certain to.

    They are not where the server wrote U+FFFD for bytes that are no UTF-8; the tokens of what it wrote stand in then.
    """
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
        before = data  # the beginning of `last` ended a character, or was no UTF-8 itself
    return vocabulary.encode(before.decode("utf-8", "replace")), False


def _split(data: bytes, missing: int | None) -> list[int] | None:
    """`data` as tokens, so many as are missing, each of which ends inside a character; the longest first."""
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


_NAMES = {
    "max_tokens": "n_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "repetition_penalty": "repeat_penalty",
    "logprobs": "n_probs",
}
_REASONS: Mapping[str, FinishReason] = {"eos": "stop", "word": "stop", "limit": "length"}

# The last message repeats the prompt and every setting; these are the fields that are read.
_FIELDS = (
    "content",
    "tokens",
    "stop",
    "stop_type",
    "truncated",
    "tokens_predicted",
    "tokens_evaluated",
    "timings",
    "completion_probabilities",
)
# These come with their spelling. Without one they would be held back too, behind a token that ends inside a character.
_SPELLED = tuple(SPELLING_BY_ID[token] for token in (RETURN, CONSTRAIN, CHANNEL, START, END, MESSAGE, CALL))
_SEEDS = 2**32


class _Alternative(msgspec.Struct, gc=False):
    id: int
    token: str
    logprob: float | None = None


class _Probability(msgspec.Struct, gc=False):
    id: int
    token: str
    logprob: float | None = None
    top_logprobs: list[_Alternative] = []


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


class LlamaCppEngine:
    """A llama.cpp server at an address such as `http://127.0.0.1:8080`."""

    name = "llama.cpp"

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        context_tokens: int | None = None,
        streaming: bool = True,
        cache_prompt: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = Server(url.rstrip("/").removesuffix("/v1"), api_key=api_key, headers=headers, patience=patience)
        self._model = model
        self._streaming = streaming
        self._extra = {"cache_prompt": cache_prompt, **(extra or {})}
        self.traits = Traits(gives_logprobs=True, context_tokens=context_tokens, takes_grammar="gbnf", takes_text=True)

    @property
    def model(self) -> str:
        # A llama.cpp server runs the one model that it was started with, unless it routes.
        return self._model or "gpt-oss"

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        sampling = request.sampling
        parameters, notes = _parameters(sampling)
        body: dict[str, Any] = {
            "prompt": list(prompt),
            "stream": self._streaming,
            "return_tokens": True,
            "response_fields": _FIELDS,
            "preserved_tokens": _SPELLED,
            **parameters,
            **self._extra,
        }
        if self._model:
            body["model"] = self._model
        if (grammar := grammar_of(request, self.traits.takes_grammar, "llama.cpp")) is not None:
            body["grammar"] = grammar.text
        keeps_stop = grammar is None or not grammar.ends_by_engine
        answer = _Answer(self.server, notes, sampling.logprobs, keeps_stop=keeps_stop)
        return sample(answer, "/completion", body, "sse" if self._streaming else "ndjson")

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        parameters, notes = _parameters(request.sampling)
        body: dict[str, Any] = {
            "prompt": prompt,
            "stream": self._streaming,
            "stop": list(stop),
            "response_fields": _FIELDS,
            # Special tokens have no text here unless they are named, and a stop string without text is never found.
            "preserved_tokens": [*marks, *stop],
            **parameters,
            **self._extra,
        }
        if self._model:
            body["model"] = self._model
        answer = _TextAnswer(self.server, notes, request.sampling.logprobs)
        return sample(answer, "/completion", body, "sse" if self._streaming else "ndjson")

    async def close(self) -> None:
        await self.server.close()


def _parameters(sampling: Sampling) -> tuple[dict[str, float | int], list[str]]:
    parameters, notes = name_parameters(sampling, _NAMES, "llama.cpp")
    if sampling.seed is not None and not 0 <= sampling.seed < _SEEDS:
        parameters["seed"] = sampling.seed % _SEEDS
        notes.append(f"llama.cpp's seeds have 32 bits; {sampling.seed} was sent as {parameters['seed']}")
    if sampling.logprobs is not None:
        parameters["n_probs"] = max(1, sampling.logprobs)  # 0 would report nothing
    return parameters, notes


class _Answer(Answer):
    def __init__(self, server: Server, notes: Sequence[str], top: int | None, *, keeps_stop: bool = True) -> None:
        super().__init__(server, notes)
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
            # A model file that does not name <|call|> as an end: sampling goes on, and nobody waits for it.
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
            became = (
                "other tokens with the same text replace them"
                if self._is_inexact
                else "they were restored from the text"
            )
            self.notes.append(
                f"llama.cpp left out the ids of {self._restored} tokens that end inside a character; {became}"
            )
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
        """Take the tokens up to the one that stops; those that were taken."""
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
        if self._lacks_logprobs:
            return
        pairs = takewhile(lambda pair: pair[0] == pair[1].id, zip(tokens, entries, strict=False))
        known = [_logprob_of(entry, top) for _, entry in pairs]
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
        prompt_tokens = message.tokens_evaluated
        if prompt_tokens is None:
            return
        cached = 0
        if (timings := message.timings) is not None:
            if timings.cache_n is not None:
                cached = timings.cache_n
            elif timings.prompt_n is not None:
                cached = prompt_tokens - timings.prompt_n
        self.usage = Usage(prompt_tokens, message.tokens_predicted or self.sampled, max(0, cached))
        if message.truncated and self.reason == "length":
            self.notes.append("llama.cpp's context is used up")


class _TextAnswer(_Answer):
    """Of a model whose vocabulary nobody here knows: its text, and the ends that llama.cpp tells."""

    def take(self, line: bytes) -> None:
        if (message := self._read(line)) is None:
            return
        self.add_text(message.content)
        if self._top is not None:
            self.logprobs += [_text_logprob_of(entry, self._top) for entry in message.completion_probabilities]
        if message.stop:
            self._end(message)


def _text_logprob_of(entry: _Probability, top: int) -> TokenLogprob:
    alternatives = (Alternative(None, other.token, _finite(other.logprob)) for other in entry.top_logprobs[:top])
    return TokenLogprob(None, entry.token, _finite(entry.logprob), tuple(alternatives))


def _logprob_of(entry: _Probability, top: int) -> TokenLogprob:
    return TokenLogprob(
        entry.id,
        _text_of(entry),
        _finite(entry.logprob),
        tuple(Alternative(other.id, _text_of(other), _finite(other.logprob)) for other in entry.top_logprobs[:top]),
    )


def _text_of(entry: _Probability | _Alternative) -> str:
    # llama.cpp has no text for most special tokens, and for the end of a character that of its whole.
    return decode([entry.id]) if 0 <= entry.id < VOCABULARY_SIZE else entry.token


def _finite(logprob: float | None) -> float:
    # An impossible token's logarithm is no JSON number.
    return float("-inf") if logprob is None else logprob


def _recognise(answers: Answers) -> Seen | None:
    """A server has the one model that it was started with, and accepts any name for it. Its file may be called
    anything; no other family has a vocabulary of this size."""
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
