"""Samplings whose output was malformed, or was given up and sampled again: which faults there were or what was not met,
which items they led to, and the raw tokens, sealed.

1. A fault is reported by its code alone, and what was not met by its kind. What the model wrote is in the seal; only
   this server opens it, to show it if reasoning is shown, and it never becomes part of a prompt.
2. What a client gets is bounded. Beyond the bounds the codes are reported without the tokens.
3. An answer that was cut off, because it was long enough or was stopped, is not a fault of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harmonia.errors import ErrorCode
from harmonia.events import Repaired
from harmonia.messages import Json
from harmonia.run.events import AsSampled, SamplingEnded, SamplingGivenUp, SamplingStarted, TurnEvent, UnmetKind

SealSampled = Callable[[AsSampled], str]
FIELD: Final = "harmonia_sampled"
MOST_FAULTS: Final = 100
# The tokens of one sampling, and the seals of a response together: clients store these with the answer.
MOST_TOKENS: Final = 32_768
MOST_CHARACTERS: Final = 96 * 1024
_CUT: Final = ("length", "stopped", "limit")


class MalformedSamplings:
    """Note every event of a run, with how many items there are by then; `finish` gives what the response reports."""

    def __init__(self, seal: SealSampled) -> None:
        self._seal = seal
        self._reports: list[Json] = []
        self._faults: list[ErrorCode] = []
        self._first = 0
        self._open: Json | None = None  # its calls may still lead to items
        self._left = MOST_CHARACTERS

    def note(self, event: TurnEvent, items: int) -> None:
        match event:
            case SamplingStarted():
                self.finish(items)
                self._first, self._faults = items, []
            case Repaired():
                if len(self._faults) <= MOST_FAULTS:  # one more: the last may be about the end
                    self._faults.append(event.diagnostic.code)
            case SamplingEnded():
                self._end(event, None)
            case SamplingGivenUp():
                # Messages that were left out have no events.
                origins = (message.origin for message in event.left_out)
                self._faults += [fault for origin in origins if origin is not None for fault in origin.faults]
                self._end(event, event.unmet.kind)
            case _:
                pass

    def finish(self, items: int) -> list[Json]:
        """The reports, now that there are so many items."""
        if self._open is not None:
            self._open["items"] = items - self._first
            self._reports.append(self._open)
            self._open = None
        return self._reports

    def _end(self, event: SamplingEnded | SamplingGivenUp, unmet: UnmetKind | None) -> None:
        faults, kept = self._faults, event.as_sampled
        if event.reason in _CUT and faults and faults[-1] is ErrorCode.MISSING_SENTINEL:
            # Whether a message has no end. Messages that never enter the history are apart, so either last counts.
            lasts = (each[-1].origin for each in (event.messages, event.left_out) if each)
            if any(last is not None and last.stop is None for last in lasts):
                faults = faults[:-1]
        faults = [*faults, *(() if kept is None else kept.late)][:MOST_FAULTS]
        if not faults and unmet is None:
            return
        self._open = {"faults": [fault.value for fault in faults], "first_item": self._first, "items": 0}
        if unmet is not None:
            self._open["unmet"] = unmet
        if kept is None or max(len(kept.tokens) + len(kept.given), len(kept.text) // 4) > MOST_TOKENS:
            return
        sealed = self._seal(kept)
        if len(sealed) <= self._left:
            self._left -= len(sealed)
            self._open["encrypted_content"] = sealed
