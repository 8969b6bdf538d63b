"""What is counted while a run goes by: tokens by channel, those that nobody sees, and the log-probabilities of what is
shown."""

from __future__ import annotations

from typing import Final

from harmonia.events import ArgumentsDelta, MessageEnded, TextDelta
from harmonia.messages import Message
from harmonia.parser.tools import is_tool_address
from harmonia.parts import is_visible
from harmonia.run.engines.base import TokenLogprob
from harmonia.run.events import LogprobsGiven, SamplingGivenUp, SamplingStarted, TurnEvent
from harmonia.vocabulary import encode

CALLS: Final = "calls"
OTHER: Final = "other"
_CHANNELS: Final = ("analysis", "commentary", "final")


class Tally:
    """Feed it every event of a run, before they are used. `begun_tokens` of the first message were in the prompt.

    `channels` has what each channel cost, headers and stops included; calls are `calls`, whatever their channel. Where
    an engine speaks text, the tokens of the texts are counted. What is on no channel, or on one that there is not, is
    `other`: a name that a model made up is nothing to show. So is what was given up, and sampled again.
    """

    def __init__(self, begun_tokens: int = 0) -> None:
        self.reasoning_tokens = 0
        self.channels: dict[str, int] = {}
        self._logprobs: dict[int, TokenLogprob] = {}  # by the place of the token among those sampled
        self._before = self._begun = begun_tokens

    def note(self, event: TurnEvent) -> None:
        """Count this event in."""
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
            # Nobody sees it, but it was paid for.
            count = event.left_out_tokens or sum(len(encode(message.text)) for message in event.left_out)
            self.channels[OTHER] = self.channels.get(OTHER, 0) + count
            self.reasoning_tokens += count
        elif isinstance(event, MessageEnded):
            message = event.message
            count = max(_count(event) - self._begun, 0)
            self._begun = 0
            name = _name_of(message)
            self.channels[name] = self.channels.get(name, 0) + count
            if message.channel != "final" and not is_visible(message) and message.recipient is None:
                self.reasoning_tokens += count

    def logprobs_of(self, delta: TextDelta) -> tuple[TokenLogprob, ...]:
        """Those of the tokens of a delta; none where the engine gave none, or speaks text."""
        if not self._logprobs or delta.start_token is None or delta.end_token is None:
            return ()
        before = self._before
        places = range(max(delta.start_token - before, 0), delta.end_token - before)
        return tuple(self._logprobs[place] for place in places if place in self._logprobs)


def _name_of(message: Message) -> str:
    if is_tool_address(message.recipient):
        return CALLS
    return message.channel if message.channel in _CHANNELS else OTHER


def _count(event: MessageEnded) -> int:
    """The tokens that a message was sampled as, from its first to its stop."""
    message = event.message
    start = None if message.origin is None else message.origin.header.start_token
    if start is None or event.end_token is None:
        return len(encode(message.text))
    return event.end_token - start
