"""Harmony text, with special tokens spelled out: what a model reads and writes.

Reading it is parsing it, tolerantly; what the parser mended is reported. Text that spells a special token is refused on
the way out, because it would be one on the way back. What is lost is found by reading back what was written.

Instructions, and system messages without tools, come back as the contents they were made of, because those render as
the same text. Tools do not: what the model reads of a schema is less than the schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harmonia.errors import Position
from harmonia.interchange.canonical import differences, left_out
from harmonia.interchange.losses import call_id_losses, origin_losses, sampled_losses, sort_losses
from harmonia.interchange.values import CallIds, Exported, Format, Imported, Lossy
from harmonia.messages import (
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
)
from harmonia.parser import Parsed, parse
from harmonia.provenance import Trust
from harmonia.renderer import render
from harmonia.renderer.contents import developer_said, system_said
from harmonia.schema import Loss
from harmonia.vocabulary import CHANNEL, MESSAGE, SPELLING_BY_ID

_TOOLS: Final = "# Tools\n\n## "
_INSTRUCTIONS: Final = "# Instructions\n\n"
_SYSTEM: Final = re.compile(
    r"(?P<identity>(?!Knowledge cutoff: |Current date: |Reasoning: |# )[^\n]+)?"
    r"(?:(?:^|\n)Knowledge cutoff: (?P<cutoff>[^\n]*))?"
    r"(?:(?:^|\n)Current date: (?P<date>[^\n]*))?"
    r"(?:(?:^|\n\n)Reasoning: (?P<effort>low|medium|high))?"
    r"(?:(?:^|\n\n)# Valid channels: (?P<channels>[^\n .][^\n.]*)\."
    r"(?P<required> Channel must be included for every message\.)?)?"
)
_COMPLETION: Final = (SPELLING_BY_ID[CHANNEL], SPELLING_BY_ID[MESSAGE])


def read_harmony(given: str | bytes) -> Imported:
    """A conversation from Harmony text; a completion, which begins inside a header, is the assistant's."""
    text = given if isinstance(given, str) else given.decode(errors="replace")
    text = text.removeprefix("\ufeff")
    role = Role.ASSISTANT if text.lstrip().startswith(_COMPLETION) else None
    return imported_from(parse(text, role))


def write_harmony(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The conversation as a stored history; an InputError where a text spells a special token."""
    rendered = render(conversation, next_role=None)
    text = rendered.text
    return Exported(text, losses_of(conversation, parse(text), rendered.losses, call_ids))


# ── text and token ids ───────────────────────────────────────────────────────────────────────────────────────────────


def imported_from(parsed: Parsed) -> Imported:
    losses = [Lossy(_place(each.at), each.code.value, each.message) for each in parsed.diagnostics]
    messages: list[Message] = []
    for message in parsed:
        if message.origin is not None and message.origin.forged:
            why = f"the model wrote a message in the name of {message.role}; it is left out"
            losses.append(Lossy("$", "message", why))
        else:
            if message.role in (Role.SYSTEM, Role.DEVELOPER) and _TOOLS in message.text:
                why = "the tools are kept as the text that the model reads; their schemas cannot be read out of it"
                losses.append(Lossy(f"$.messages[{len(messages)}]", "tools", why, len(messages)))
            messages.append(_unsampled(message))
    return Imported(Conversation(messages), tuple(losses))


def _unsampled(message: Message) -> Message:
    """The message without its tokens. What was not certain stays so: it is neither shown nor run."""
    origin = message.origin
    if origin is None or origin.trust is Trust.CERTAIN:
        # Anybody can write tokens into a file, so a call that is read from one is not certain.
        return message.replace(content=_content_of(message))
    return Message.parsed(
        message.author, _content_of(message), message.channel, message.recipient, message.content_type, origin, None
    )


def _content_of(message: Message) -> str | SystemContent | DeveloperContent:
    """What the text of a message was made of, if that would make the same text."""
    text = message.text
    if message.role is Role.DEVELOPER and text.startswith(_INSTRUCTIONS):
        instructions = DeveloperContent(text.removeprefix(_INSTRUCTIONS))
        return instructions if developer_said(instructions, "$").text == text else text
    found = _SYSTEM.fullmatch(text) if message.role is Role.SYSTEM else None
    # One line alone is somebody's own text, not an identity.
    if found is not None and (found["effort"] or found["channels"] or found["cutoff"]):
        channels = found["channels"]
        content = SystemContent(
            found["identity"],
            found["cutoff"],
            found["date"],
            None if found["effort"] is None else ReasoningEffort(found["effort"]),
            ChannelConfig(tuple(channels.split(", ")), found["required"] is not None) if channels else None,
        )
        return content if system_said(content, "$", has_functions=False).text == text else text
    return text


def losses_of(
    conversation: Conversation, parsed: Parsed, schema_losses: Sequence[Loss], call_ids: CallIds | None
) -> tuple[Lossy, ...]:
    losses = [*sampled_losses(conversation), *origin_losses(conversation), *call_id_losses(call_ids)]
    losses += [Lossy(loss.path, loss.keyword, loss.sentence) for loss in schema_losses]
    back = imported_from(parsed).conversation
    for index, message in enumerate(conversation):
        if index < len(back):
            losses += differences(index, message, back[index], "Harmony text")
        else:
            losses.append(left_out(index, "it does not come back as a message of its own"))
    return sort_losses(losses)


def _place(at: Position) -> str:
    return str(at) or "$"


HARMONY: Final = Format(
    "harmony",
    "Harmony text with special tokens spelled out: what a model reads and writes",
    read_harmony,
    write_harmony,
)
