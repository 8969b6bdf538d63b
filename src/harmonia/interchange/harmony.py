"""Harmony text, with special tokens spelled out: what a model reads and writes.

Reading it is parsing it, tolerantly; what the parser mended is reported. Text that spells a special token is refused on
the way out, because it would be one on the way back. What is lost is found by reading back what was written.

Instructions, function tools and system messages without tools of their own come back as the contents they were made of,
where those render as the same text. What the model reads of a schema is less than the schema: a whole number comes back
as a number. Tools whose declarations are not what the renderer writes stay text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harmonia.errors import InputError, Position
from harmonia.interchange.conversion import CallIds, Exported, Format, Imported, Lossy
from harmonia.interchange.losses import call_id_losses, origin_losses, sampled_losses, sort_losses
from harmonia.interchange.message_defaults import differences, left_out
from harmonia.messages import (
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.parser import Parsed, parse
from harmonia.provenance import Trust
from harmonia.renderer import render
from harmonia.renderer.contents import declares_functions, developer_said, system_said
from harmonia.schema import Loss
from harmonia.schema.declaration_reader import read_namespaces
from harmonia.vocabulary import CHANNEL, MESSAGE, SPELLING_BY_ID

_Content = str | SystemContent | DeveloperContent
_TOOLS: Final = "# Tools\n\n## "
_INSTRUCTIONS: Final = "# Instructions\n\n"
_ABOUT: Final = re.compile(r"^(?:Knowledge cutoff: |Current date: |Reasoning: |# Valid channels: )", re.MULTILINE)
_SYSTEM: Final = re.compile(
    r"(?:Knowledge cutoff: (?P<cutoff>[^\n]*))?"
    r"(?:(?:^|\n)Current date: (?P<date>[^\n]*))?"
    r"(?:(?:^|\n\n)Reasoning: (?P<effort>low|medium|high))?"
    r"(?:(?:^|\n\n)# Valid channels: (?P<channels>[^\n .][^\n.]*)\."
    r"(?P<required> Channel must be included for every message\.)?"
    r"(?:\nCalls to these tools must go to the commentary channel: 'functions'\.)?)?"
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
    developers = [_developer_content(each.text) for each in parsed if each.role is Role.DEVELOPER]
    has_functions = any(isinstance(each, DeveloperContent) and declares_functions(each) for each in developers)
    for message in parsed:
        if message.origin is not None and message.origin.forged:
            why = f"the model wrote a message in the name of {message.role}; it is left out"
            losses.append(Lossy("$", "message", why))
        else:
            content = _content_of(message, has_functions=has_functions)
            if message.role in (Role.SYSTEM, Role.DEVELOPER) and _has_tools_as_text(content):
                why = "the tools are kept as the text that the model reads; their schemas cannot be read out of it"
                losses.append(Lossy(f"$.messages[{len(messages)}]", "tools", why, len(messages)))
            messages.append(_unsampled(message, content))
    return Imported(Conversation(messages), tuple(losses))


def _has_tools_as_text(content: _Content) -> bool:
    """Whether declarations stand in a text."""
    if isinstance(content, SystemContent) or (isinstance(content, DeveloperContent) and content.tools):
        return False
    text = content if isinstance(content, str) else content.instructions or ""
    return _TOOLS in text and "\nnamespace " in text


def _unsampled(message: Message, content: _Content) -> Message:
    """The message without its tokens. What was not certain stays so: it is neither shown nor run."""
    origin = message.origin
    if origin is None or origin.trust is Trust.CERTAIN:
        # Anybody can write tokens into a file, so a call that is read from one is not certain.
        return message.replace(content=content)
    return Message.parsed(
        message.author, content, message.channel, message.recipient, message.content_type, origin, None
    )


def _content_of(message: Message, *, has_functions: bool) -> _Content:
    """What the text of a message was made of, if that would make the same text."""
    match message.role:
        case Role.DEVELOPER:
            return _developer_content(message.text)
        case Role.SYSTEM:
            return _system_content(message.text, has_functions=has_functions)
        case _:
            return message.text


def _developer_content(text: str) -> str | DeveloperContent:
    rest, found, declared = text.rpartition(_TOOLS) if _TOOLS in text else (text, "", "")
    tools = _read_tools(declared) if found else None
    if tools is None:
        rest = text
    if rest and not rest.startswith(_INSTRUCTIONS):
        return text
    said = rest if tools is None else rest.removesuffix("\n\n")
    content = DeveloperContent(said.removeprefix(_INSTRUCTIONS) if rest else None, tools)
    try:
        return content if developer_said(content, "$").text == text else text
    except InputError:
        return text


def _read_tools(declared: str) -> dict[str, ToolNamespace] | None:
    namespaces = read_namespaces(f"## {declared}")
    if namespaces is None:
        return None
    return {
        each.name: ToolNamespace(
            each.name,
            each.description,
            tuple(ToolDescription(tool.name, tool.description, tool.parameters) for tool in each.tools),
        )
        for each in namespaces
    }


def _system_content(text: str, *, has_functions: bool) -> str | SystemContent:
    about = _ABOUT.search(text)
    if about is None:
        return text  # one line alone is somebody's own text, not an identity
    identity = text[: about.start()].rstrip("\n") or None
    found = _SYSTEM.fullmatch(text[about.start() :])
    if found is None or not (found["effort"] or found["channels"] or found["cutoff"]):
        return text
    channels = found["channels"]
    content = SystemContent(
        identity,
        found["cutoff"],
        found["date"],
        None if found["effort"] is None else ReasoningEffort(found["effort"]),
        ChannelConfig(tuple(channels.split(", ")), found["required"] is not None) if channels else None,
    )
    return content if system_said(content, "$", has_functions=has_functions).text == text else text


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
