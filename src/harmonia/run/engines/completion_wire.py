"""The messages of `/v1/completions`, as far as they are read, with what vLLM and SGLang add to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harmonia.run.engines.engine import Alternative, FinishReason, TokenLogprob, Usage

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

    @property
    def is_error(self) -> bool:
        return self.object == "error" or self.error is not None


decode_message = msgspec.json.Decoder(WireMessage).decode


def usage_of(usage: WireUsage, sampled: int) -> Usage:
    """`sampled` stands in where the server does not count."""
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    completion = usage.completion_tokens
    return Usage(usage.prompt_tokens, sampled if completion is None else completion, cached or 0)


def logprobs_of(logprobs: WireLogprobs, read: Callable[[str], tuple[int | None, str]]) -> list[TokenLogprob]:
    """Log-probabilities, the likeliest alternative first. `read` makes a token and its text of how it is written."""
    tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
    found: list[TokenLogprob] = []
    for written, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=False):
        likeliest = sorted((top or {}).items(), key=lambda item: -item[1])
        alternatives = tuple(Alternative(*read(name), value) for name, value in likeliest)
        token, text = read(written)
        found.append(TokenLogprob(token, text, float("-inf") if logprob is None else logprob, alternatives))
    return found
