"""What is counted while a run goes by: tokens that nobody sees, and the log-probabilities of those that are shown."""

from __future__ import annotations

from harmonia.events import ArgumentsDelta, MessageEnded, TextDelta
from harmonia.parts import is_visible
from harmonia.run.engines.engine import TokenLogprob
from harmonia.run.turn_events import LogprobsGiven, SamplingStarted, TurnEvent
from harmonia.vocabulary import encode


class Tally:
    """Feed it every event of a run, before they are used."""

    def __init__(self) -> None:
        self.reasoning_tokens = 0
        self._logprobs: list[TokenLogprob] = []

    def note(self, event: TurnEvent) -> None:
        """Count this event in."""
        if isinstance(event, TextDelta | ArgumentsDelta):
            return
        if isinstance(event, LogprobsGiven):
            self._logprobs += event.logprobs
        elif isinstance(event, SamplingStarted):
            self._logprobs = []
        elif isinstance(event, MessageEnded):
            message = event.message
            if message.channel != "final" and not is_visible(message) and message.recipient is None:
                sampled = message.sampled
                self.reasoning_tokens += len(sampled.tokens) if sampled is not None else len(encode(message.text))

    def logprobs_of(self, delta: TextDelta) -> tuple[TokenLogprob, ...]:
        """Those of the tokens of a delta; none where the engine gave none, or speaks text."""
        if not self._logprobs or delta.start_token is None or delta.end_token is None:
            return ()
        return tuple(self._logprobs[delta.start_token : delta.end_token])
