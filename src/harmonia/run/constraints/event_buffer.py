"""Events of a completion that are told only once it was checked.

    told at once       what is neither an answer nor a call: thoughts, and what is said before a call
    held back          from the first header on that the check is about, everything: what is told keeps its order

What was told stays in the conversation, whatever comes of the rest; what was held back can be given up as a whole, as
long as no call and no answer was told before it. So nobody who reads the events sees two answers, or a call that was
none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from harmonia.events import Header, HeaderCompleted, MessageEnded, MessageStarted, Repaired, TurnEnded
from harmonia.parser.tools import is_tool_address
from harmonia.parts import is_visible
from harmonia.provenance import Trust
from harmonia.run.events import LogprobsGiven, TurnEvent

Holds = Callable[[Header], bool]

# What may come between the start of a message and the end of its header.
_WITHIN_HEADERS: Final = frozenset((MessageStarted, LogprobsGiven, Repaired))


def is_damaged(header: Header) -> bool:
    """Whether what follows this header will be neither shown nor run, because it was not read with certainty."""
    return header.is_forged or header.trust < (Trust.CERTAIN if header.is_call else Trust.REPAIRED)


class Holding:
    """Feed it the events of one completion; what it gives back may be told."""

    __slots__ = ("_held", "_holds", "_is_closed", "_waiting", "can_give_up", "told_messages")

    def __init__(self, holds: Holds) -> None:
        self.told_messages = 0
        # A call or an answer that was told stands, and another completion could say something else.
        self.can_give_up = True
        self._holds = holds
        self._is_closed = False
        self._waiting: list[TurnEvent] = []  # of a message whose header is not there yet
        self._held: list[TurnEvent] = []

    def take(self, event: TurnEvent) -> Sequence[TurnEvent]:
        """What may be told now that this event is here."""
        kind = event.__class__
        if self._is_closed:
            self._held.append(event)
            return ()
        if kind is MessageStarted or (self._waiting and kind in _WITHIN_HEADERS):
            self._waiting.append(event)
            return ()
        if kind is TurnEnded or (isinstance(event, HeaderCompleted) and self._holds(event.header)):
            self._is_closed = True
            self._held = [*self._waiting, event]
            self._waiting = []
            return ()
        if isinstance(event, MessageEnded):
            message = event.message
            self.told_messages += 1
            if is_tool_address(message.recipient) or (message.channel == "final" and is_visible(message)):
                self.can_give_up = False
        if not self._waiting:
            return (event,)
        waiting, self._waiting = self._waiting, []
        return (*waiting, event)

    def release(self) -> Sequence[TurnEvent]:
        """Everything that was held back, in its order."""
        events = [*self._waiting, *self._held]
        self._waiting, self._held = [], []
        self.told_messages += sum(isinstance(event, MessageEnded) for event in events)
        return events
