"""Any server with OpenAI's `/v1/completions`: LM Studio, SGLang, `transformers serve`, older vLLM. Text in, text out.

1. The prompt is text in which only real special tokens are spelled; a typed spelling is escaped, which Finish.notes
   reports, or refused with `ambiguous="refuse"`.
2. The server is asked to keep special tokens in its text, by fields of vLLM and SGLang. A server that refuses them is
   asked again without them. If it strips the tokens silently, the parser notices.
3. It is told to stop at `<|return|>` and `<|call|>`. Most servers do not report which of them it was.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Unpack

import msgspec

from harmonia.renderer.renderer import Ambiguous
from harmonia.run.engines.base import (
    Alternative,
    Chunk,
    Finish,
    FinishReason,
    Request,
    TokenLogprob,
    Usage,
)
from harmonia.run.engines.http import Server, ServerError, objects_of
from harmonia.run.engines.registry import Answers, Kind, Seen
from harmonia.run.engines.response_reader import (
    SAMPLING_NAMES,
    STOP_SPELLINGS,
    TEXT_TRAITS,
    Answer,
    HttpEngine,
    HttpOptions,
    check_ambiguous,
    name_parameters,
    safe_text,
    salt_of,
    sample,
)

REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}


class WireLogprobs(msgspec.Struct, gc=False):
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class WireChoice(msgspec.Struct, gc=False):
    text: str | None = None
    token_ids: list[int] | None = None  # vLLM
    logprobs: WireLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None  # vLLM: the token, or the string, that ended it


class WireDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class WireUsage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: WireDetails | None = None


class WireMessage(msgspec.Struct, gc=False):
    choices: list[WireChoice] = []
    usage: WireUsage | None = None
    error: Any = None
    object: str = ""


decode_message = msgspec.json.Decoder(WireMessage).decode


def logprobs_of(logprobs: WireLogprobs, read: Callable[[str], tuple[int | None, str]]) -> list[TokenLogprob]:
    """Log-probabilities, the likeliest alternative first. `read` returns a written token's id and text."""
    tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
    found: list[TokenLogprob] = []
    for written, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=False):
        likeliest = sorted((top or {}).items(), key=lambda item: -item[1])
        alternatives = tuple(Alternative(*read(name), value) for name, value in likeliest)
        token, text = read(written)
        found.append(TokenLogprob(token, text, float("-inf") if logprob is None else logprob, alternatives))
    return found


class CompletionAnswer(Answer):
    """Reads the lines of an answer; `take_choice` reads a choice."""

    def take(self, line: bytes) -> None:
        if line == b"[DONE]":
            self.is_done = True
            return
        try:
            message = decode_message(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.not_understood(line, error) from None
        if message.error is not None or message.object == "error":
            raise self.failed(line)
        if (usage := message.usage) is not None:
            details = usage.prompt_tokens_details
            cached = details.cached_tokens if details is not None else None
            completion = self.sampled if usage.completion_tokens is None else usage.completion_tokens
            self.usage = Usage(usage.prompt_tokens, completion, cached or 0)
        for choice in message.choices:
            self.take_choice(choice)

    @abstractmethod
    def take_choice(self, choice: WireChoice) -> None:
        """Read a choice; a line has one, or none."""

    def end_by(self, reason: str, who: str) -> None:
        """The server reported why it ends."""
        self.reason = REASONS.get(reason, "unknown")
        if self.reason == "unknown":
            self.notes.append(f"{who} ended with the reason {reason}")


class TextAnswer(CompletionAnswer):
    """The answer of a server that gives text; `name` is what its user calls it."""

    def __init__(self, server: Server, notes: Sequence[str], name: str) -> None:
        super().__init__(server, notes)
        self._name = name

    def take_choice(self, choice: WireChoice) -> None:
        self.add_text(choice.text or "")
        if choice.logprobs is not None:
            self.logprobs += logprobs_of(choice.logprobs, lambda text: (None, text))
        if choice.finish_reason is not None:
            self.end_by(choice.finish_reason, self._name)


# Parameters beyond the API that most servers know.
_BEYOND = ("top_k", "min_p", "repetition_penalty")
_SPELL_SPECIAL = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
_KEEP_SPECIAL = {
    **_SPELL_SPECIAL,
    "include_stop_str_in_output": True,  # vLLM
    "no_stop_trim": True,  # SGLang
}


class CompletionsEngine(HttpEngine):
    """A server with `/v1/completions` at an address such as `http://127.0.0.1:1234`."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        name: str = "completions",
        ambiguous: Ambiguous = "escape",
        max_tokens: int = 4096,  # the API's own default is 16, into which no answer fits
        **options: Unpack[HttpOptions],
    ) -> None:
        self.name = name
        super().__init__(url, model, TEXT_TRAITS, **options)
        self._ambiguous: Ambiguous = check_ambiguous(ambiguous)
        self._max_tokens = max_tokens
        self._knows_more = True  # until it refuses a field of _KEEP_SPECIAL

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        text, notes = safe_text(prompt, self._ambiguous)
        async with aclosing(self._ask(text, request, notes, STOP_SPELLINGS, _KEEP_SPECIAL)) as events:
            async for event in events:
                yield event

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        return self._ask(prompt, request, [], stop, _SPELL_SPECIAL)

    async def _ask(
        self, text: str, request: Request, prompt_notes: Sequence[str], stop: Sequence[str], more: Mapping[str, Any]
    ) -> AsyncGenerator[Chunk | Finish, None]:
        while True:
            names = {name: name for name in SAMPLING_NAMES if self._knows_more or name not in _BEYOND}
            parameters, notes = name_parameters(request.sampling, names, self.name)
            body: dict[str, Any] = {
                "model": self.model,
                "prompt": text,
                "stream": True,
                "max_tokens": self._max_tokens,
                "stop": list(stop),
                **parameters,
                **({"stream_options": {"include_usage": True}, **more, **salt_of(request)} if self._knows_more else {}),
                **self._extra,
            }
            answer = TextAnswer(self.server, [*prompt_notes, *notes], self.name)
            try:
                async with aclosing(sample(answer, "/v1/completions", body, "either")) as events:
                    async for event in events:
                        yield event
                return
            except ServerError as error:
                unknown = (*_KEEP_SPECIAL, *_BEYOND, "stream_options", "cache_salt")
                is_about_fields = error.status in (400, 422) and any(name in error.words for name in unknown)
                if not self._knows_more or not is_about_fields:
                    raise
                self._knows_more = False


def _recognise_sglang(answers: Answers) -> Seen | None:
    version = answers.text("/get_server_info", "version")
    return answers.seen("sglang", version=version) if version or "sglang" in answers.owners else None


def _recognise_lm_studio(answers: Answers) -> Seen | None:
    listed = objects_of(answers.pages.get("/api/v0/models", {}).get("data"))
    # Some servers answer any path with the list of OpenAI's API, which has none of these.
    if not any(field in entry for entry in listed for field in ("state", "compatibility_type", "arch", "type")):
        return None
    return answers.seen("lmstudio", [entry for entry in listed if entry.get("type") != "embeddings"])


KINDS: Final = (
    Kind(
        name="sglang",
        summary="SGLang",
        make=CompletionsEngine,
        fixed={"name": "sglang"},
        port=30000,
        pages=("/get_server_info",),
        recognise=_recognise_sglang,
    ),
    Kind(
        name="lmstudio",
        summary="LM Studio",
        make=CompletionsEngine,
        fixed={"name": "lmstudio"},
        port=1234,
        pages=("/api/v0/models",),
        recognise=_recognise_lm_studio,
    ),
    Kind(name="completions", summary="any server with /v1/completions", make=CompletionsEngine),
)
