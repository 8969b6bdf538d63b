"""Counts of a run: tokens by channel, hidden tokens, and the log-probabilities of visible text. Also the sampling
defaults of the APIs."""

from __future__ import annotations

from typing import Final

from harmonia.events import ArgumentsDelta, MessageEnded, TextDelta
from harmonia.messages import Json, is_tool_address
from harmonia.parts import is_visible
from harmonia.run.engines.base import Alternative, TokenLogprob
from harmonia.run.events import LogprobsGiven, SamplingGivenUp, SamplingStarted, TurnEvent
from harmonia.vocabulary import decode_bytes, encode

# Used if a request sets neither. Engines have other defaults, such as 0.8 and 0.95, or greedy.
DEFAULT_TEMPERATURE: Final = 1.0
DEFAULT_TOP_P: Final = 1.0

# Stands for minus infinity, which JSON does not have.
_LEAST_LOGPROB: Final = -9999.0

_CALLS: Final = "calls"
_OTHER: Final = "other"
_CHANNELS: Final = ("analysis", "commentary", "final")


class TokenUsage:
    """Counts every event of a run, before it is used. `begun_tokens` of the first message were in the prompt.

    `channels` is the cost of each channel, headers and stop tokens included; tool calls are `calls`, whatever their
    channel. If the engine returns text, the tokens of that text are counted. A missing or unknown channel is `other`,
    and so is output that was discarded and sampled again.
    """

    def __init__(self, begun_tokens: int = 0) -> None:
        self.reasoning_tokens = 0
        self.channels: dict[str, int] = {}
        self._logprobs: dict[int, TokenLogprob] = {}  # by the index of the sampled token
        self._before = self._begun = begun_tokens

    def count(self, event: TurnEvent) -> None:
        """Count an event."""
        if isinstance(event, TextDelta | ArgumentsDelta):
            return
        if isinstance(event, LogprobsGiven):
            if event.start_token is not None:
                self._logprobs |= dict(enumerate(event.logprobs, event.start_token))
        elif isinstance(event, SamplingStarted):
            self._logprobs = {}
            if event.index:
                self._before = self._begun = event.prefix_tokens
        elif isinstance(event, SamplingGivenUp):
            # Hidden, but the client pays for it.
            count = event.left_out_tokens or sum(len(encode(message.text)) for message in event.left_out)
            self._add(_OTHER, count, is_hidden=True)
        elif isinstance(event, MessageEnded):
            message, origin = event.message, event.message.origin
            start = None if origin is None else origin.header.start_token
            end = event.end_token  # after the stop token
            count = len(encode(message.text)) if start is None or end is None else end - start
            channel = message.channel if message.channel in _CHANNELS else _OTHER
            is_hidden = channel != "final" and not is_visible(message) and message.recipient is None
            name = _CALLS if is_tool_address(message.recipient) else channel
            self._add(name, max(count - self._begun, 0), is_hidden=is_hidden)
            self._begun = 0

    def _add(self, name: str, count: int, *, is_hidden: bool) -> None:
        self.channels[name] = self.channels.get(name, 0) + count
        self.reasoning_tokens += count if is_hidden else 0

    def logprobs_of(self, delta: TextDelta) -> tuple[TokenLogprob, ...]:
        """The log-probabilities of a delta's tokens; empty if the engine gave none, or returns text."""
        if not self._logprobs or delta.start_token is None or delta.end_token is None:
            return ()
        before = self._before
        places = range(max(delta.start_token - before, 0), delta.end_token - before)
        return tuple(self._logprobs[place] for place in places if place in self._logprobs)


def _write_token(given: TokenLogprob | Alternative) -> Json:
    """A token, its bytes, which need not be a complete character, and its log-probability."""
    data = given.text.encode(errors="replace") if given.token is None else decode_bytes([given.token])
    return {"token": given.text, "logprob": max(given.logprob, _LEAST_LOGPROB), "bytes": list(data)}


def write_logprob(given: TokenLogprob) -> Json:
    """The same, with the likeliest alternatives."""
    return {**_write_token(given), "top_logprobs": [_write_token(other) for other in given.top]}
