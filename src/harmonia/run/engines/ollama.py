"""Ollama: `/api/generate` with `raw`, text in and out, one JSON value in each line.

Raw means that Ollama adds no template to the prompt and parses no Harmony itself. The prompt is safe text, as for any
engine that takes no tokens. Ollama stops at `<|return|>` and `<|call|>` and does not report which it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Unpack, cast

import msgspec

from harmonia.renderer.renderer import Ambiguous
from harmonia.run.engines.base import Alternative, Chunk, Finish, Request, TokenLogprob, Usage
from harmonia.run.engines.completions import REASONS
from harmonia.run.engines.http import Fields, Server, fields_of, objects_of, text_of
from harmonia.run.engines.registry import Answers, Kind, Seen, choose_model, is_gpt_oss
from harmonia.run.engines.response_reader import (
    SAMPLING_NAMES,
    TEXT_TRAITS,
    Answer,
    HttpEngine,
    HttpOptions,
    check_ambiguous,
    name_parameters,
    safe_text,
    sample,
)

_NAMES = SAMPLING_NAMES | {"max_tokens": "num_predict", "repetition_penalty": "repeat_penalty"}


class _Logprob(msgspec.Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[_Logprob] | None = None


class _Message(msgspec.Struct, gc=False):
    response: str = ""
    done: bool = False
    done_reason: str = ""
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[_Logprob] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Message).decode


class OllamaEngine(HttpEngine):
    """An Ollama server at an address such as `http://127.0.0.1:11434`. `context_tokens` becomes its `num_ctx`."""

    name = "ollama"

    def __init__(
        self, url: str, model: str, *, ambiguous: Ambiguous = "escape", **options: Unpack[HttpOptions]
    ) -> None:
        super().__init__(url, model, TEXT_TRAITS, **options)
        self._ambiguous: Ambiguous = check_ambiguous(ambiguous)

    def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        text, notes = safe_text(prompt, self._ambiguous)
        return self._ask(text, request, notes)

    def generate_text(
        self, prompt: str, request: Request, stop: Sequence[str] = (), marks: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        # Ollama spells special tokens out, except the one that ends the turn.
        return self._ask(prompt, request, [], stop)

    def _ask(
        self, text: str, request: Request, prompt_notes: Sequence[str], stop: Sequence[str] = ()
    ) -> AsyncGenerator[Chunk | Finish, None]:
        parameters, notes = name_parameters(request.sampling, _NAMES, "Ollama")
        logprobs = parameters.pop("logprobs", None)
        options: dict[str, Any] = {**parameters}
        if self.traits.context_tokens is not None:
            options["num_ctx"] = self.traits.context_tokens
        if stop:
            options["stop"] = list(stop)
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": text,
            "raw": True,
            "stream": True,
            # A prompt that is too long is an error, and not cut silently.
            "truncate": False,
            "shift": False,
            "options": options,
            **self._extra,
        }
        if logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": logprobs}
        answer = _Answer(self.server, [*prompt_notes, *notes], wants_logprobs=logprobs is not None)
        return sample(answer, "/api/generate", body, "ndjson")


class _Answer(Answer):
    def __init__(self, server: Server, notes: Sequence[str], *, wants_logprobs: bool) -> None:
        super().__init__(server, notes)
        self._lacks_logprobs = wants_logprobs

    def take(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.not_understood(line, error) from None
        if message.error is not None:
            raise self.failed(line)
        self.add_text(message.response)
        if message.logprobs:
            self._lacks_logprobs = False
            for entry in message.logprobs:
                top = tuple(Alternative(None, other.token, other.logprob) for other in entry.top_logprobs or ())
                self.logprobs.append(TokenLogprob(None, entry.token, entry.logprob, top))
        if not message.done:
            return
        self.is_done = True
        self.reason = REASONS.get(message.done_reason, "unknown")
        if self.reason == "unknown" and message.done_reason:
            self.notes.append(f"Ollama ended with the reason {message.done_reason}")
        if self._lacks_logprobs:
            self.notes.append("this Ollama reports no log-probabilities")
        # Ollama leaves the count out where the whole prompt was in its cache.
        self.usage = Usage(message.prompt_eval_count or 0, message.eval_count or 0)


def _recognise(answers: Answers) -> Seen | None:
    tags: object = answers.pages.get("/api/tags", {}).get("models")
    version = answers.text("/api/version", "version")
    if not isinstance(tags, list) and not version and "library" not in answers.owners:
        return None
    listed: list[Fields] = objects_of(cast("object", tags)) or [{"name": entry.get("id")} for entry in answers.listed]
    families = {text_of(tag.get("name")): text_of(fields_of(tag.get("details")).get("family")) for tag in listed}
    known = [name for name, family in families.items() if is_gpt_oss(name, family)]
    return Seen("ollama", answers.url, tuple(families), choose_model(known), None, "", version)


KINDS: Final = (
    Kind(
        name="ollama",
        summary="Ollama",
        make=OllamaEngine,
        port=11434,
        pages=("/api/tags", "/api/version"),
        recognise=_recognise,
    ),
)
