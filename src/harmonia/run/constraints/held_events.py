"""Holds back events of a completion until it has been validated.

    passed on at once   what is neither an answer nor a call: reasoning, and text before a call
    held back           everything from the first header that the validation is about, so that the order stays

What was passed on stays in the conversation, whatever becomes of the rest. What was held back can be discarded as a
whole, as long as no call and no answer was passed on before it. So a consumer never sees two answers, or a call that
was not made.
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
    """Whether the message of this header will be neither shown nor run, because the header is not certain."""
    return header.is_forged or header.trust < (Trust.CERTAIN if header.is_call else Trust.REPAIRED)


class HeldEvents:
    """Push the events of one completion; what it returns may be passed on."""

    __slots__ = ("_held", "_holds", "_is_closed", "_waiting", "can_discard", "passed_messages")

    def __init__(self, holds: Holds) -> None:
        self.passed_messages = 0
        # A call or an answer that was passed on stands; another completion might contradict it.
        self.can_discard = True
        self._holds = holds
        self._is_closed = False
        self._waiting: list[TurnEvent] = []  # of a message whose header is not complete yet
        self._held: list[TurnEvent] = []

    def push(self, event: TurnEvent) -> Sequence[TurnEvent]:
        """The events that may be passed on now."""
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
            self.passed_messages += 1
            if is_tool_address(message.recipient) or (message.channel == "final" and is_visible(message)):
                self.can_discard = False
        if not self._waiting:
            return (event,)
        waiting, self._waiting = self._waiting, []
        return (*waiting, event)

    def release(self) -> Sequence[TurnEvent]:
        """Everything that was held back, in order."""
        events = [*self._waiting, *self._held]
        self._waiting, self._held = [], []
        self.passed_messages += sum(isinstance(event, MessageEnded) for event in events)
        return events
