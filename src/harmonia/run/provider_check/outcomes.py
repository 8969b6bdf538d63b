"""What a check found, as values.

ok       it does what it should
warn     something is missing or odd, and Harmonia can work with it
fail     it is wrong: answers will be misread, mixed up or lost
skip     there is nothing to check: no such endpoint, or what it builds on is missing
unknown  nobody can tell: the model, not the provider, may be the cause
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Verdict = Literal["ok", "warn", "fail", "skip", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("ok", "warn", "fail", "skip", "unknown")


class Found(NamedTuple):
    """A verdict and what was seen."""

    verdict: Verdict
    seen: str


class Outcome(msgspec.Struct, frozen=True):
    """One check: what was looked at, what was seen, and why it matters."""

    name: str
    verdict: Verdict
    seen: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """All checks of a provider. `engine` is what it seems to be, `model` the one that was asked."""

    url: str
    engine: str
    model: str | None
    outcomes: tuple[Outcome, ...]

    @property
    def is_reachable(self) -> bool:
        return not any(outcome.name == "reachable" and outcome.verdict == "fail" for outcome in self.outcomes)

    @property
    def is_good(self) -> bool:
        """Whether all that matters passed."""
        return not any(outcome.verdict == "fail" for outcome in self.outcomes)

    def __getitem__(self, name: str) -> Outcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise KeyError(name)
