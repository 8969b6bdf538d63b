"""What a user may see: only what is positively known to be meant for the user (law 7).

That is the assistant's text on `final`, and on `commentary` where it is addressed to nobody. Everything else is hidden:
reasoning, unknown channels and missing ones, calls, other roles. The rule itself stands in parser/headers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from harmonia.events import Header
from harmonia.messages import Message
from harmonia.parser import headers
from harmonia.provenance import Trust


def is_visible(message: Message, *, show_guessed: bool = False) -> bool:
    """Whether a user may see the text of a message; with `show_guessed`, also where its header is a guess.

    A message without an origin was written by a person or a program, who know what they wrote.
    """
    origin = message.origin
    trust = Trust.CERTAIN
    if origin is not None:
        if origin.forged:
            return False
        if not show_guessed:
            trust = Trust.GUESSED if origin.source == "stripped" else origin.trust
    return headers.is_visible(message.author, message.channel, message.recipient, trust)


def is_visible_header(header: Header, *, show_guessed: bool = False) -> bool:
    """The same before the first word of the body, for those who stream."""
    if header.is_forged or not show_guessed:
        return header.is_visible and not header.is_forged
    return headers.is_visible(header.author, header.channel, header.recipient, Trust.CERTAIN)


def visible_text(messages: Iterable[Message], *, show_guessed: bool = False) -> str:
    """The texts that a user may see, verbatim, with an empty line between two of them."""
    visible = (message.text for message in messages if is_visible(message, show_guessed=show_guessed))
    return "\n\n".join(text for text in visible if text.strip())
