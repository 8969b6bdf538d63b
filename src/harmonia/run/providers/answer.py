"""The messages of one answer as events, one message after the other. No I/O.

    open  add*  close      for each message, in any order and interleaved
    finish                 once

1. The events of messages are not interleaved: what comes for a later message waits until the earlier one is closed.
2. No delta ends inside a character: half of a surrogate pair waits for the other half.
3. A call that is never named, and a text that stays empty, give no message.
4. The end of a text waits for what follows it: only then is it known whether the turn ended there. If a call follows,
   the text was a preamble, and its message is on `commentary`, though its deltas said `final`, as most texts are. The
   user may see both. A provider that reports which of the two it is, is believed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from harmonia.errors import EngineError, ErrorCode, Position
from harmonia.events import ArgumentsDelta, Event, Header, HeaderCompleted, MessageEnded, MessageStarted, TextDelta
from harmonia.messages import Author, Message, Role
from harmonia.parser.headers import is_visible
from harmonia.provenance import Origin, Span, Stop, Trust

_ASSISTANT: Final = Author(Role.ASSISTANT)

# More than any model samples. A provider that sends more is broken, and must not fill the memory.
MOST_MESSAGES: Final = 10_000
MOST_CHARS: Final = 50_000_000

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Structure in a text that the provider calls finished: it did not parse what the model sampled.
_LEAKED: Final = re.compile(
    r"<\|(?:start|channel|message|end|call|return|constrain)\|>|^analysis.*?assistantfinal", re.DOTALL
)

# Parts of a message that are for the user. Older servers name no type.
ANSWER_PARTS: Final = (None, "output_text", "text", "refusal")
_PHASES: Final = {None: "final", "": "final", "final": "final", "final_answer": "final", "commentary": "commentary"}


def channel_of(phase: object) -> str:
    """The channel of a message, by the phase or channel that its provider names. An unknown phase is reasoning."""
    return _PHASES.get(phase, "analysis") if phase is None or isinstance(phase, str) else "analysis"


def text_header(channel: str) -> Header:
    """The header of reasoning (`analysis`), of a preamble (`commentary`) or of the answer (`final`)."""
    return Header(_ASSISTANT, channel, is_visible=is_visible(_ASSISTANT, channel, None, None, Trust.CERTAIN))


def call_header(recipient: str, *, is_json: bool = True) -> Header:
    """The header of a call that the provider reports as one."""
    return Header(_ASSISTANT, "commentary", recipient, "<|constrain|>json" if is_json else None, is_call=True)


@dataclass(slots=True, eq=False)
class _Slot:
    """A message that is being received."""

    key: Hashable
    header: Header | None
    is_sure: bool
    trust: Trust = Trust.CERTAIN
    pieces: list[str] = field(default_factory=list[str])
    sent: int = 0  # pieces that were sent as deltas
    half: str = ""  # the first half of a surrogate pair
    closed: bool = False
    index: int = -1
    start: int = 0

    @property
    def can_start(self) -> bool:
        return self.header is not None and (self.header.is_call or bool(self.pieces))


class Answer:
    """Makes events of what a provider sends. `take` returns those that have become certain since the last time."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._slots: dict[Hashable, _Slot] = {}
        self._live: _Slot | None = None
        self._events: list[Event] = []
        self._chars = 0
        self.received_chars = 0
        self.is_empty = True  # nothing to show and nothing to call
        self._messages = 0

    # ── what the provider sends ─────────────────────────────────────────────────────────────────────────────────────

    def note(self, text: str) -> None:
        """Something for people that has no place in a conversation; reported once."""
        if text not in self.notes:
            self.notes.append(text)

    def open(self, key: Hashable, header: Header | None, *, is_sure: bool = False) -> None:
        """A message begins. Its header may follow, but nothing of it is sent before. `is_sure` means that the provider
        reported which of the visible channels it is on."""
        if self._messages + len(self._slots) >= MOST_MESSAGES:
            raise EngineError(ErrorCode.ENGINE_BAD_ANSWER, f"the provider sent more than {MOST_MESSAGES} messages")
        self._slots[key] = _Slot(key, header, is_sure)
        if header is not None and header.is_call:
            self._pump()

    def is_open(self, key: Hashable) -> bool:
        return key in self._slots and not self._slots[key].closed

    def header_of(self, key: Hashable) -> Header | None:
        return self._slots[key].header if key in self._slots else None

    def name(self, key: Hashable, header: Header) -> None:
        """The header of a message that was opened without one."""
        if (slot := self._slots.get(key)) is not None and slot.header is None:
            slot.header = header
            self._pump()

    def add(self, key: Hashable, text: str) -> None:
        """More text of a message."""
        slot = self._slots.get(key)
        if not text or slot is None or slot.closed:
            return
        self.received_chars += len(text)
        if self.received_chars > MOST_CHARS:
            raise EngineError(
                ErrorCode.ENGINE_BAD_ANSWER,
                f"the provider sent more than {MOST_CHARS:,} characters",
                Position(character=self._chars),
            )
        if slot.half or not text.isascii():
            text, slot.half = slot.half + text, ""
            if "\ud800" <= text[-1] <= "\udbff":
                slot.half, text = text[-1], text[:-1]
            if not (text := _mend(text)):
                return
        slot.pieces.append(text)
        self._pump()

    def settle(self, key: Hashable, whole: str) -> None:
        """The whole text of a message, as the provider repeats it: what was missing is added."""
        slot = self._slots.get(key)
        if slot is None or slot.closed:
            return
        if not slot.pieces:
            self.add(key, whole)
            return
        received = "".join(slot.pieces) + slot.half
        if whole.startswith(received):
            self.add(key, whole[len(received) :])
        elif _mend(whole) != _mend(received):
            # Which of the two was meant is unknown: a text is shown, a call is not run.
            slot.trust = Trust.REPAIRED
            self.note("the provider's deltas and the whole text that it repeats differ; the deltas were kept")

    def close(self, key: Hashable) -> None:
        """The provider reported that the message is complete."""
        if (slot := self._slots.get(key)) is not None and not slot.closed:
            self._flush_half(slot)
            slot.closed = True
            self._pump()

    def finish(self, *, is_whole: bool) -> None:
        """No more comes. What is incomplete ends without a stop, so that half a call is never run."""
        for slot in self._slots.values():
            self._flush_half(slot)
        if any(slot.header is None and slot.pieces for slot in self._slots.values()):
            self.note("the provider sent arguments of a call without a name; they were dropped")
        waiting = [slot for slot in self._slots.values() if slot.can_start]
        waiting.sort(key=lambda slot: slot is not self._live)  # stable: the one that has begun, then the others
        for slot, following in zip_longest(waiting, waiting[1:]):
            assert slot is not None and slot.header is not None
            if self._live is not slot:
                self._start(slot)
            self._send(slot)
            if not is_whole and not slot.closed:
                stop = None
            elif slot.header.is_call:
                stop = "call"
            else:
                stop = "return" if following is None and is_whole else "end"
            self._end(slot, stop, following)
        self._slots.clear()

    # ── what the reader gets ────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # ── the order of events ─────────────────────────────────────────────────────────────────────────────────────────

    def _pump(self) -> None:
        while True:
            live = self._live
            if live is None:
                live = next((slot for slot in self._slots.values() if slot.can_start), None)
                if live is None:
                    empty = [key for key, slot in self._slots.items() if slot.closed and not slot.can_start]
                    for key in empty:
                        del self._slots[key]
                    return
                self._start(live)
            self._send(live)
            assert live.header is not None
            if not live.closed:
                return
            if live.header.is_call:
                self._end(live, "call")
                continue
            following = next((slot for slot in self._slots.values() if slot is not live and slot.can_start), None)
            if following is None:
                return
            self._end(live, "end", following)

    def _start(self, slot: _Slot) -> None:
        assert slot.header is not None
        at = self._chars
        slot.index, self._messages = self._messages, self._messages + 1
        slot.start = at
        self._live = slot
        self._events.append(MessageStarted(slot.index, None, None, at, at))
        self._events.append(HeaderCompleted(slot.index, slot.header, None, None, at, at))

    def _send(self, slot: _Slot) -> None:
        assert slot.header is not None
        delta = ArgumentsDelta if slot.header.is_call else TextDelta
        for text in slot.pieces[slot.sent :]:
            start, self._chars = self._chars, self._chars + len(text)
            self._events.append(delta(text, slot.header, None, None, start, self._chars))
        slot.sent = len(slot.pieces)

    def _end(self, slot: _Slot, stop: Stop | None, following: _Slot | None = None) -> None:
        header = slot.header
        assert header is not None
        channel = header.channel
        if channel == "final" and not slot.is_sure and following is not None and following.header is not None:
            channel = "commentary" if following.header.is_call else channel
        at, text = self._chars, "".join(slot.pieces)
        spans = Span(None, None, slot.start, slot.start), Span(None, None, slot.start, at)
        origin = Origin("items", slot.trust, stop, *spans)
        message = Message.parsed(header.author, text, channel, header.recipient, header.content_type, origin, None)
        self._events.append(MessageEnded(slot.index, stop, message, None, None, at, at))
        self._live = None
        del self._slots[slot.key]
        is_shown = header.is_visible and bool(text.strip())
        self.is_empty = self.is_empty and not header.is_call and not is_shown
        if is_shown and _LEAKED.search(text):
            self.note(
                "the visible text contains Harmony's markup, because the provider did not parse what the model "
                "sampled; run `harmonia check` for details"
            )

    def _flush_half(self, slot: _Slot) -> None:
        if slot.half:
            slot.half = ""
            slot.pieces.append("\N{REPLACEMENT CHARACTER}")


def _mend(text: str) -> str:
    """Pairs of surrogates as the characters that they are; a lone one is replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
