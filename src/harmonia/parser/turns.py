"""A turn of the model: from where it may speak to where it hands over, and whether it said anything to the user."""

from __future__ import annotations

from harmonia.events import Header, TurnEnded
from harmonia.parser.headers import CHANNELS, lacks_recipient
from harmonia.provenance import Stop, Trust


class Turn:
    """What happened since the last end of a turn."""

    __slots__ = ("_hidden", "_shows_something", "is_open")

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._shows_something = False
        self._hidden: dict[str, None] = {}

    def note(self, header: Header, content: str, stop: Stop | None = None) -> None:
        """A message of the assistant's ended, and how."""
        says_something = bool(content) and not content.isspace()
        is_shown = header.is_visible and not (stop == "call" and _lacks_recipient(header, stop))
        if (header.is_call and header.trust is Trust.CERTAIN) or (is_shown and says_something):
            self._shows_something = True
        elif says_something or header.is_call:
            self._hidden[_why_hidden(header, stop)] = None

    def end(self, stop: Stop | None) -> TurnEnded:
        because = None
        if not self._shows_something:
            because = f"there is only {', '.join(self._hidden)}" if self._hidden else "there is no text"
        self._shows_something = False
        self._hidden = {}
        self.is_open = False
        return TurnEnded(stop, because)


def _lacks_recipient(header: Header, stop: Stop | None) -> bool:
    return lacks_recipient(header.author, header.channel, header.recipient, header.content_type, stop)


def _why_hidden(header: Header, stop: Stop | None) -> str:
    if header.is_call:
        return "a call that is not certain"
    channel = None if header.channel is None else header.channel.lower()
    may_be_answer = header.recipient is None and channel in (None, "final", "commentary")
    setting = ", which is hidden unless guessed is shown" if may_be_answer else ""
    if header.trust is Trust.GUESSED:
        return f"text under a header that was guessed{setting}"
    if _lacks_recipient(header, stop):
        return "a call without a recipient"
    if channel is None:
        return f"text without a channel{setting}"
    return f"text on {channel}" if channel in CHANNELS else "text on an unknown channel"
