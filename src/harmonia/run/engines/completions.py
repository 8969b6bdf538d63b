"""Any server with OpenAI's `/v1/completions`: LM Studio, SGLang, `transformers serve`, older vLLM. Text in, text out.

1. The prompt is text in which only real special tokens are spelled; one that somebody typed is broken, and
   Finish.notes says so, or it is refused with `ambiguous="refuse"`.
2. The server is asked to keep special tokens in its text, in the words that vLLM and SGLang know. One that refuses
   words it does not know is asked again without them. One that strips the tokens in silence is found out by the parser.
3. It is told to stop at `<|return|>` and `<|call|>`. Which of them it was, most do not say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from harmonia.errors import ErrorCode, InputError
from harmonia.renderer.result import Ambiguous
from harmonia.run.engines.base import Chunk, Finish, Request, Traits
from harmonia.run.engines.completion_wire import TextAnswer
from harmonia.run.engines.http import Patience, Server, ServerError
from harmonia.run.engines.response_reader import (
    STOP_SPELLINGS,
    check_ambiguous,
    name_parameters,
    safe_text,
    salt_of,
    sample,
)

# The parameters of the API, and those beyond it that most servers know.
_NAMES = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "logprobs": "logprobs",
}
_BEYOND = {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repetition_penalty"}
_SPELL_SPECIAL = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
_KEEP_SPECIAL = {
    **_SPELL_SPECIAL,
    "include_stop_str_in_output": True,  # vLLM
    "no_stop_trim": True,  # SGLang
}

# The API's own default is 16, which no answer fits into.
DEFAULT_MAX_TOKENS = 4096


class CompletionsEngine:
    """A server with `/v1/completions` at an address such as `http://127.0.0.1:1234`."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        name: str = "completions",
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        context_tokens: int | None = None,
        ambiguous: Ambiguous = "escape",
        max_tokens: int = DEFAULT_MAX_TOKENS,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"{name} wants to know which model is meant: model=…")
        check_ambiguous(ambiguous)
        self.server = Server(url.rstrip("/").removesuffix("/v1"), api_key=api_key, headers=headers, patience=patience)
        self._ambiguous: Ambiguous = ambiguous
        self._max_tokens = max_tokens
        self._extra = extra or {}
        self._knows_more = True  # until it refuses a word of _KEEP_SPECIAL
        self.name = name
        self.model = model
        self.traits = Traits(takes_tokens=False, gives_tokens=False, gives_logprobs=True, context_tokens=context_tokens)

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
            names = _NAMES | _BEYOND if self._knows_more else _NAMES
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
                if not self._knows_more or error.status not in (400, 422) or not _is_about_words(error.words):
                    raise
                self._knows_more = False

    async def close(self) -> None:
        await self.server.close()


def _is_about_words(words: str) -> bool:
    """Whether an error is about a field that the server does not know."""
    return any(name in words for name in (*_KEEP_SPECIAL, *_BEYOND, "stream_options", "cache_salt"))
