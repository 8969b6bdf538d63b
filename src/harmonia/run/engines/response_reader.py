"""Reading the answer of an engine, whatever its protocol: lines in, chunks and one Finish out.

    take(line)*  drain() -> Chunk  ...  finish() -> Finish

What came in one read is one chunk, so that the work per token is that of decoding its line. A fault in a line is raised
only after what stood before it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypedDict

import msgspec

from harmonia.errors import EngineError, ErrorCode, InputError, Position
from harmonia.renderer.renderer import Ambiguous, text_of
from harmonia.run.engines.base import (
    Chunk,
    Finish,
    FinishReason,
    Request,
    Sampling,
    TokenLogprob,
    Traits,
    Usage,
    invalid_option,
)
from harmonia.run.engines.http import Framing, Patience, Server, ServerError, excerpt, words_of
from harmonia.vocabulary import CALL, RETURN, SPELLING_BY_ID, VOCABULARY_SIZE

# The tokens that end a turn. `<|end|>` does not: the next message follows it.
STOP_TOKENS = (RETURN, CALL)
STOP_SPELLINGS = tuple(SPELLING_BY_ID[token] for token in STOP_TOKENS)
# The sampling parameters under their own names; engines rename some.
SAMPLING_NAMES = {name: name for name in Sampling.__struct_fields__}

TEXT_TRAITS = Traits(takes_tokens=False, gives_tokens=False, gives_logprobs=True, takes_text=True)

# What engines say where the prompt, or the prompt and the answer, does not fit. In lower case.
_CONTEXT_WORDS = (
    "exceed_context_size",  # llama.cpp, the type of its error
    "context size",  # llama.cpp
    "maximum context length",  # vLLM, OpenAI
    "maximum model length",  # vLLM
    "model's context length",  # vLLM, SGLang
    "context_length_exceeded",  # OpenAI, the code of its error
    "exceeds the context length",  # Ollama
    "greater than the context length",  # LM Studio
    "context length of only",  # LM Studio
    "context the overflows",  # LM Studio
    "context window",
    "context overflow",
)


class HttpOptions(TypedDict, total=False):
    """The options of every engine over HTTP. `extra` goes into every request as it is."""

    api_key: str | None
    headers: Mapping[str, str] | None
    patience: Patience | None
    context_tokens: int | None
    extra: Mapping[str, Any] | None


class HttpEngine:
    """An engine at an address; it holds no connection between answers."""

    name: str

    def __init__(
        self,
        url: str,
        model: str,
        traits: Traits,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        context_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise invalid_option(f"{self.name} needs the name of a model: pass model=…")
        self.server = Server(url.rstrip("/").removesuffix("/v1"), api_key=api_key, headers=headers, patience=patience)
        self.model = model
        self.traits = msgspec.structs.replace(traits, context_tokens=context_tokens)
        self._extra = extra or {}

    async def close(self) -> None:
        await self.server.close()


class Answer(ABC):
    """One answer as it comes in. A subclass reads the lines."""

    def __init__(self, server: Server, notes: Sequence[str] = ()) -> None:
        self.server = server
        self.notes = list(notes)
        self.reason: FinishReason | None = None  # not reported yet
        self.usage: Usage | None = None
        self.is_done = False
        self.sampled = 0  # tokens, or pieces of text, so far
        self.tokens: list[int] = []
        self.texts: list[str] = []
        self.logprobs: list[TokenLogprob] = []

    @abstractmethod
    def take(self, line: bytes) -> None:
        """Read a line. Raises an EngineError where it violates the protocol."""

    def add_tokens(self, tokens: list[int]) -> None:
        """Sampled tokens, each checked to be in the vocabulary."""
        for index, token in enumerate(tokens):
            if not 0 <= token < VOCABULARY_SIZE:
                self.tokens += tokens[:index]
                raise EngineError(
                    ErrorCode.ENGINE_BAD_ANSWER,
                    f"{self.server.url} sampled the token {token}; o200k_harmony ends at {VOCABULARY_SIZE - 1}. "
                    "Is its model a gpt-oss?",
                    Position(token=self.sampled + index),
                )
        self.tokens += tokens
        self.sampled += len(tokens)

    def add_text(self, text: str) -> None:
        if text:
            self.texts.append(text)
            self.sampled += 1

    def drain(self) -> Chunk | None:
        """What was read since the last time."""
        if not (self.tokens or self.texts or self.logprobs):
            return None
        chunk = Chunk(self.tokens, "".join(self.texts), tuple(self.logprobs))
        self.tokens, self.texts, self.logprobs = [], [], []
        return chunk

    def finish(self) -> Finish:
        if self.reason is None:
            raise self.server.died("ended its answer without reporting that it was finished")
        return Finish(self.reason, self.usage, tuple(self.notes))

    def not_understood(self, line: bytes, error: Exception) -> EngineError:
        return self.server.bad_answer(f"{error} in {excerpt(line)}")

    def failed(self, content: bytes) -> EngineError:
        """The error that an engine wrote into its stream."""
        return reported_error(self.server, content, has_begun=self.sampled > 0)


def reported_error(server: Server, content: bytes, *, has_begun: bool) -> EngineError:
    """The error that a server wrote into its answer."""
    words = server.hide(words_of(content))
    if is_about_context(content.decode(errors="replace")):
        return EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, f"{server.url}: {words}")
    if has_begun:
        return server.died(f"gave up: {words}")
    return EngineError(ErrorCode.ENGINE_REFUSED, f"{server.url}: {words}")


def status_error(error: ServerError) -> EngineError:
    """The error for a status: some mean that the prompt does not fit."""
    if error.status in (400, 413, 422, 500) and is_about_context(error.words):
        return EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, error.message)
    return error


async def sample(
    answer: Answer, path: str, body: Mapping[str, Any], framing: Framing
) -> AsyncGenerator[Chunk | Finish, None]:
    """Ask, and read the answer. The connection is closed before Finish is given, and as soon as the caller leaves."""
    try:
        async with aclosing(answer.server.lines(path, body, framing)) as reads:
            async for lines in reads:
                failure: EngineError | None = None
                try:
                    for line in lines:
                        answer.take(line)
                        if answer.is_done:
                            break
                except EngineError as error:
                    failure = error
                if (chunk := answer.drain()) is not None:
                    yield chunk
                if failure is not None:
                    raise failure
                if answer.is_done:
                    break
    except ServerError as error:
        raise status_error(error) from None
    except EngineError:
        # A fault after the engine reported its end does no harm.
        if answer.reason is None or answer.is_done:
            raise
    yield answer.finish()


def is_about_context(words: str) -> bool:
    words = words.lower()
    return any(known in words for known in _CONTEXT_WORDS)


def name_parameters(
    sampling: Sampling, names: Mapping[str, str], engine: str
) -> tuple[dict[str, float | int], list[str]]:
    """The sampling parameters under an engine's own names, and a note for each that it does not have."""
    given = {name: value for name in sampling.__struct_fields__ if (value := getattr(sampling, name)) is not None}
    notes = [f"{engine} has no {name}; {value} was not sent" for name, value in given.items() if name not in names]
    return {names[name]: value for name, value in given.items() if name in names}, notes


def salt_of(request: Request) -> dict[str, str]:
    """The field that separates the cache, as vLLM and SGLang have it."""
    return {} if request.cache_salt is None else {"cache_salt": request.cache_salt}


def safe_text(prompt: Sequence[int], ambiguous: Ambiguous) -> tuple[str, list[str]]:
    """A prompt as text for an engine that takes no tokens, and notes about it. A typed spelling of a special token does
    not become one: it is escaped, or the prompt is refused."""
    try:
        return text_of(prompt), []
    except InputError as error:
        if ambiguous == "refuse" or error.code is not ErrorCode.RENDER_AMBIGUOUS_TEXT:
            raise
    note = "a message spells out a special token, but this engine accepts text only, so it was sent as <\\|…|>"
    return text_of(prompt, ambiguous="escape"), [note]


def check_ambiguous(ambiguous: Ambiguous) -> Ambiguous:
    if ambiguous not in ("escape", "refuse"):
        raise invalid_option(f"ambiguous is {ambiguous!r}; expected escape or refuse")
    return ambiguous
