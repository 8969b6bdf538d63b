"""Parsed messages as the drop-in's: which of them a program gets to see, and how they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import BaseModel

import harmonia.messages as native
from harmonia.events import Diagnostic, Event, Header, HeaderCompleted, MessageEnded
from harmonia.openai_harmony.models import Author, Message, Role, TextContent
from harmonia.provenance import Trust

ROLES: Final = {role.value: role for role in Role}
# The reference calls a tool after its role where the header does not name it.
UNNAMED_TOOL: Final = native.Author(native.Role.TOOL, native.Role.TOOL.value)

# The slots of a model, written past its `__setattr__`.
_set_dict, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class ParsedMessages(list[Message]):
    """The messages of a completion, as a list that also knows what was mended.

    `diagnostics` are the faults that were found, with code and position. `parsed` are the messages as Harmonia's own
    values, which know where they stood and how far they are to be trusted.
    """

    __slots__ = ("diagnostics", "parsed")

    def __init__(
        self,
        shown: Iterable[native.Message],
        parsed: Sequence[native.Message],
        diagnostics: Sequence[Diagnostic],
        role: Role | None,
    ) -> None:
        super().__init__(as_messages(shown, role))
        self.parsed = tuple(parsed)
        self.diagnostics = tuple(diagnostics)


def is_withheld(header: Header, previous: native.Message | None) -> bool:
    """Whether a strict program must not see this message, the one behind `previous`.

    Behind a body that has no end the reference takes everything for text. A message is read there instead; but a user's
    or a system message that a model wrote, or a call that had to be mended, is nothing to spring on a program that asks
    for roles and recipients only.
    """
    is_swallowed = previous is not None and previous.origin is not None and previous.origin.stop is None
    return is_swallowed and (header.is_forged or (header.is_call and header.trust is not Trust.CERTAIN))


def without_withheld(events: Iterable[Event]) -> list[native.Message]:
    """The messages among these events that a strict program sees."""
    shown: list[native.Message] = []
    previous: native.Message | None = None
    withheld = False
    for event in events:
        if isinstance(event, HeaderCompleted):
            withheld = is_withheld(event.header, previous)
        elif isinstance(event, MessageEnded):
            previous = event.message
            if not withheld:
                shown.append(previous)
    return shown


def as_messages(messages: Iterable[native.Message], role: Role | None) -> list[Message]:
    """Messages of the drop-in; `role` is the one that was given for the first."""
    made = [_as_message(message) for message in messages]
    if role == Role.TOOL and made and made[0].author.name == UNNAMED_TOOL.name:
        made[0].author.name = None  # its role was not read, and so is not its name
    return made


def _as_message(message: native.Message) -> Message:
    """Servers make many, and validation would take most of the time; this is what pydantic's `model_construct` does,
    three times and at once."""
    role, name = ROLES[message.author.role], message.author.name
    author, content, made = Author.__new__(Author), TextContent.__new__(TextContent), Message.__new__(Message)
    _set_dict(author, {"role": role, "name": UNNAMED_TOOL.name if name is None and role is Role.TOOL else name})
    _set_fields_set(author, {"role", "name"})
    _set_dict(content, {"text": message.content})  # a parsed message has one content, and that is text
    _set_fields_set(content, {"text"})
    _set_dict(
        made,
        {
            "author": author,
            "content": [content],
            "channel": message.channel,
            "recipient": message.recipient,
            "content_type": message.content_type,
        },
    )
    _set_fields_set(made, {"author", "content", "channel", "recipient", "content_type"})
    _set_extra(author, None)
    _set_private(author, None)
    _set_extra(content, None)
    _set_private(content, None)
    _set_extra(made, None)
    _set_private(made, None)
    return made
