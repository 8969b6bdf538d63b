"""The answer of `/v1/completions`, as far as it is read, with what vLLM and SGLang add to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from harmonia.run.engines.base import Alternative, FinishReason, TokenLogprob, Usage
from harmonia.run.engines.http import Server
from harmonia.run.engines.response_reader import Answer

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


class CompletionAnswer(Answer):
    """Reads the lines of an answer; what becomes of a choice is left to `take_choice`."""

    def take(self, line: bytes) -> None:
        if line == b"[DONE]":
            self.is_done = True
            return
        try:
            message = decode_message(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.not_understood(line, error) from None
        if message.is_error:
            raise self.failed(line)
        if message.usage is not None:
            self.usage = usage_of(message.usage, self.sampled)
        for choice in message.choices:
            self.take_choice(choice)

    @abstractmethod
    def take_choice(self, choice: WireChoice) -> None:
        """Read a choice; there is one, or none, in a line."""

    def end_by(self, reason: str, who: str) -> None:
        """The server said why it ends."""
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
            self.logprobs += logprobs_of(choice.logprobs, _read_text)
        if choice.finish_reason is not None:
            self.end_by(choice.finish_reason, self._name)


def _read_text(text: str) -> tuple[None, str]:
    return None, text
