"""What an engine is: prompt tokens and the turn's request in, sampled chunks out.

    Chunk*  Finish

1. `generate` is an async generator. Closing it, or cancelling the task that waits for it, stops the engine; nothing is
   left running, and no connection stays open.
2. An engine that has token ids gives token ids. `text` is for those that have none, and never mixed with ids.
3. The stop token is part of the output where the engine reports which it was. Where it only reports that there was one,
   Finish has the reason "stop", and the run knows which it must have been.
4. Every failure is an EngineError; what came before it was yielded and is kept.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from typing import Final, Literal, Protocol

import msgspec

from harmonia.errors import NOWHERE, ErrorCode, InputError, Position
from harmonia.grammar import CallableTool, GrammarKind, WrittenGrammar
from harmonia.messages import ReasoningEffort, ResponseFormat
from harmonia.vocabulary import CALL, END_OF_TEXT, RETURN

# stop     the model ended the turn by a stop token
# length   the number of tokens that was asked for, or the context, is used up
# unknown  the engine did not report it
FinishReason = Literal["stop", "length", "unknown"]

# auto      the model decides
# none      no call
# required  some call
# else      the whole name of the tool that must be called, such as functions.get_weather
ToolChoice = str


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to sample. None leaves a setting to the engine.

    `logprobs` is the number of likeliest tokens to report beside each sampled one; 0 reports the sampled one only.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logprobs: int | None = None


class Request(msgspec.Struct, frozen=True):
    """What a turn asks of an engine beside its prompt.

    The prompt says all of this to the model; an engine that only plays a model needs it as values too. The prompt, or
    the conversation that a provider gets, has the descriptions of the tools. `allowed` are the full names of the tools
    that may be called now; None allows all. `grammar` is given to engines whose traits name its kind, and then nothing
    is sampled that it does not admit. Without `parallel_calls` the run takes only the first call of a completion. What
    is asked with one `cache_salt` shares no cache with what is asked with another, where the engine can do that.
    """

    sampling: Sampling = Sampling()
    tools: tuple[CallableTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    response_format: ResponseFormat | None = None
    reasoning_effort: ReasoningEffort | None = None
    grammar: WrittenGrammar | None = None
    allowed: tuple[str, ...] | None = None
    parallel_calls: bool = True
    cache_salt: str | None = None


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """A token that might have been sampled, and its log-probability."""

    token: int | None
    text: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, gc=False):
    """The log-probability of a sampled token, and of the likeliest ones. `token` is None where there is only text."""

    token: int | None
    text: str
    logprob: float
    top: tuple[Alternative, ...] = ()


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens used. `cached_tokens` of the prompt were already in the engine's memory."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Some of what was sampled: `tokens`, or `text` where the engine has no ids."""

    tokens: Sequence[int] = ()
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()


class Finish(msgspec.Struct, frozen=True):
    """The end of a completion, always last in the stream. `usage` is None where the engine reports none; `notes` tell
    people what the engine could not do as requested."""

    reason: FinishReason = "unknown"
    usage: Usage | None = None
    notes: tuple[str, ...] = ()


class Traits(msgspec.Struct, frozen=True):
    """What a model can do. Every engine and every provider has them.

    takes_tokens, gives_tokens   whether prompts and completions are token ids; otherwise they are text
    takes_text                   it has `generate_text`: it continues text in its own vocabulary
    takes_messages               it is a provider, and has `respond`: it takes messages and reads Harmony itself
    speaks_harmony               False for a model of another family, which is run by a profile
    context_tokens               None where it is not known
    takes_grammar                the kind of grammar that it enforces; None where it takes none
    """

    takes_tokens: bool = True
    gives_tokens: bool = True
    gives_logprobs: bool = False
    context_tokens: int | None = None
    takes_grammar: GrammarKind | None = None
    takes_text: bool = False
    takes_messages: bool = False
    speaks_harmony: bool = True

    @property
    def speaks_tokens(self) -> bool:
        return self.takes_tokens and self.gives_tokens

    @property
    def reads_calls(self) -> bool:
        """Whether its calls can be certain (law 5): a provider reads them itself; from text none is."""
        return self.takes_messages or self.gives_tokens


PROVIDER_TRAITS: Final = Traits(takes_tokens=False, gives_tokens=False, takes_messages=True)


class Engine(Protocol):
    """A model that continues tokens."""

    @property
    def name(self) -> str:
        """The kind of engine, such as `vllm`."""
        ...

    @property
    def model(self) -> str:
        """The model it runs, as the engine calls it."""
        ...

    @property
    def traits(self) -> Traits: ...

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        """Continue the prompt, which ends with the beginning of a message: `<|start|>assistant`."""
        ...

    async def close(self) -> None:
        """Give back connections and memory. An engine that is closed twice does nothing the second time."""
        ...


class TextEngine(Engine, Protocol):
    """One that continues text as well, in whatever vocabulary its model has: for models that do not speak Harmony.

    What it yields is as for tokens, with text in the chunks. `Request.grammar` is Harmony's, so there is none here.
    """

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        """Continue the text, up to the first of the `stop` strings or the token that ends the model's turn; neither is
        part of the output.

        `marks` are spellings with a meaning in the prompt and in the answer. Where they are special tokens of the
        model's vocabulary, they are kept in the text. The engine adds the token that begins the model's texts, if any.
        """
        ...


# After the end of a grammar that leaves the stop token to the engine, it samples one of these. Which one means nothing:
# the run restores the one that belongs to the message.
ENDS_OF_GENERATION: Final = frozenset({RETURN, CALL, END_OF_TEXT})


def invalid_option(message: str, at: Position = NOWHERE) -> InputError:
    return InputError(ErrorCode.ENGINE_INVALID_OPTION, message, at)


def check_sampling(sampling: Sampling) -> None:
    """Refuse meaningless values. A top_k of zero or less is no limit, as in other engines."""
    top_p, repetition = sampling.top_p, sampling.repetition_penalty
    rules = {
        "max_tokens": ((sampling.max_tokens or 0) >= 0, "zero or more"),
        "temperature": (0 <= (sampling.temperature or 0) < math.inf, "zero or more"),
        "top_p": (top_p is None or 0 < top_p <= 1, "above 0 and at most 1"),
        "min_p": (0 <= (sampling.min_p or 0) <= 1, "from 0 to 1"),
        "repetition_penalty": (repetition is None or 0 < repetition < math.inf, "above 0"),
        "presence_penalty": (math.isfinite(sampling.presence_penalty or 0), "a number"),
        "frequency_penalty": (math.isfinite(sampling.frequency_penalty or 0), "a number"),
        "logprobs": ((sampling.logprobs or 0) >= 0, "zero or more"),
    }
    for name, (is_right, expected) in rules.items():
        if not is_right:
            message = f"{name} is {getattr(sampling, name)}, expected {expected}"
            raise invalid_option(message, Position(path=f"$.sampling.{name}"))


def grammar_of(request: Request, kind: GrammarKind | None, engine: str) -> WrittenGrammar | None:
    """The grammar of a request. One of another kind than the engine's is refused: it would enforce nothing."""
    grammar = request.grammar
    if grammar is not None and grammar.kind != kind:
        takes = f"one of {kind}'s" if kind else "none"
        raise invalid_option(f"{engine} cannot use a grammar for {grammar.kind}; it accepts {takes}")
    return grammar
