"""What is counted while a run goes by: tokens that nobody sees, and the log-probabilities of those that are shown."""

from __future__ import annotations

from harmonia.events import ArgumentsDelta, MessageEnded, TextDelta
from harmonia.messages import Message
from harmonia.parts import is_visible
from harmonia.run.engines.engine import TokenLogprob
from harmonia.run.turn_events import LogprobsGiven, SamplingStarted, TurnEvent
from harmonia.vocabulary import encode


class Tally:
    """Feed it every event of a run, before they are used."""

    def __init__(self) -> None:
        self.reasoning_tokens = 0
        self._logprobs: list[TokenLogprob] = []
        self._is_first = True

    def note(self, event: TurnEvent) -> None:
        """Count this event in."""
        if isinstance(event, TextDelta | ArgumentsDelta):
            return
        if isinstance(event, LogprobsGiven):
            self._logprobs += event.logprobs
        elif isinstance(event, SamplingStarted):
            self._logprobs = []
            self._is_first = True
        elif isinstance(event, MessageEnded):
            message = event.message
            is_first, self._is_first = self._is_first, False
            if message.channel != "final" and not is_visible(message) and message.recipient is None:
                self.reasoning_tokens += _count(message, is_first=is_first)

    def logprobs_of(self, delta: TextDelta) -> tuple[TokenLogprob, ...]:
        """Those of the tokens of a delta; none where the engine gave none, or speaks text."""
        if not self._logprobs or delta.start_token is None or delta.end_token is None:
            return ()
        return tuple(self._logprobs[delta.start_token : delta.end_token])


def _count(message: Message, *, is_first: bool) -> int:
    """The tokens that a message was sampled as. The role of the first one is the prompt's."""
    sampled = message.sampled
    if sampled is None:
        return len(encode(message.text))
    return len(sampled.tokens) - (sampled.role_end if is_first else 0)
