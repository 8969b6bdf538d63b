"""A message as segments: a special token is an int, ordinary text a str. Nothing else makes special tokens.

    <|start|> role[:name] [ to=recipient] [<|channel|> channel] [ content type] <|message|> content… stop

Each str is encoded on its own, because the reference does so: text that is cut elsewhere gives other tokens.

A header is a line of words, so a word with a space in it would be read as two, and one that spells a special token
would be one as soon as the prompt is sent as text. Such a word is refused; the reference writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import Message, Role, SystemContent
from harmonia.renderer.contents import developer_text, system_text
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE

Segment = int | str
RecipientSection = Literal["role", "channel"]
CallStop = Literal["call", "end"]


class Form(NamedTuple):
    """How messages are written, where there is a choice."""

    recipient_section: RecipientSection = "role"
    call_stop: CallStop = "call"
    exact_reference: bool = False


class Segments(NamedTuple):
    """A message in parts."""

    role: str  # stands behind <|start|>; a prompt that asks for the message ends with it
    header: list[Segment]  # the rest of the header, <|message|> included
    body: Sequence[str]
    stop: int


# The recipient that means nobody in particular: it is not written.
EVERYBODY: Final = "all"

_CONSTRAIN_SPELLING: Final = "<|constrain|>"
_ROLE_NAMES: Final = frozenset(role.value for role in Role)
_WORD: Final = re.compile(r"(?!to=)[^\s<>|\x00-\x1f\x7f]+")


def segment(message: Message, form: Form, *, has_functions: bool) -> Segments:
    """The segments of one message; see the module."""
    if not form.exact_reference:
        _refuse_unsafe_header(message)
    author, recipient, channel, content = message.author, message.recipient, message.channel, message.content
    header: list[Segment] = []
    if author.role is Role.TOOL:
        if author.name is None:
            raise InputError(ErrorCode.RENDER_UNNAMED_TOOL, "a tool message needs the name of its tool")
        role = author.name
    else:
        role = author.role.value
        if author.name is not None:
            header.append(f":{author.name}")

    address = None if recipient is None or recipient == EVERYBODY else f" to={recipient}"
    recipient_is_last = form.recipient_section == "channel" and channel is not None
    if address is not None and not recipient_is_last:
        header.append(address)
    if channel is not None:
        header += (CHANNEL, channel)
    if address is not None and recipient_is_last:
        header.append(address)
    if message.content_type is not None:
        header += _content_type(message.content_type)
    header.append(MESSAGE)

    body = (content,) if isinstance(content, str) else _texts(message, form, has_functions=has_functions)
    return Segments(role, header, body, stop_token(message, form))


def stop_token(message: Message, form: Form) -> int:
    """The token that ends a message in history."""
    if message.role is not Role.ASSISTANT or message.recipient is None or form.call_stop == "end":
        return END
    # The reference ends a message to everybody like a call, though it does not write the recipient.
    return CALL if message.recipient != EVERYBODY or form.exact_reference else END


def _content_type(content_type: str) -> tuple[Segment, ...]:
    if content_type.startswith(_CONSTRAIN_SPELLING):
        rest = content_type.removeprefix(_CONSTRAIN_SPELLING)
        return (" ", CONSTRAIN, rest) if rest else (" ", CONSTRAIN)
    return (f" {content_type}",)


def _texts(message: Message, form: Form, *, has_functions: bool) -> list[str]:
    texts: list[str] = []
    for content in message.contents:
        if isinstance(content, str):
            texts.append(content)
            continue
        expected = Role.SYSTEM if isinstance(content, SystemContent) else Role.DEVELOPER
        if message.role is not expected:
            raise InputError(
                ErrorCode.RENDER_MISPLACED_CONTENT,
                f"{type(content).__name__} may stand only in a {expected} message, not in one of role {message.role}",
            )
        if isinstance(content, SystemContent):
            texts.append(system_text(content, has_functions=has_functions, exact_reference=form.exact_reference))
        else:
            texts.append(developer_text(content, exact_reference=form.exact_reference))
    return texts


def _refuse_unsafe_header(message: Message) -> None:
    role, name = message.author.role, message.author.name
    if name is not None:
        _refuse_unless_word("name", name)
        # The author of a tool message is its name alone, so that name must not be somebody else's.
        if role is Role.TOOL and name.partition(":")[0] in _ROLE_NAMES:
            raise _unsafe("name", name, "it would be read as the role of the message")
    if message.channel is not None:
        _refuse_unless_word("channel", message.channel)
    if message.recipient is not None:
        _refuse_unless_word("recipient", message.recipient)
    if message.content_type is not None:
        # The leading <|constrain|> is structure; one of the seeds of the format writes a space behind it.
        word = message.content_type.removeprefix(_CONSTRAIN_SPELLING)
        if word is not message.content_type:
            word = word.removeprefix(" ")
        _refuse_unless_word("content type", word)


def _refuse_unless_word(field: str, value: str) -> None:
    if _WORD.fullmatch(value) is None:
        raise _unsafe(
            field,
            value,
            "it would be read as a recipient"
            if value.startswith("to=")
            else "it must be one word, without white space, control characters, '<', '>' and '|'",
        )


def _unsafe(field: str, value: str, reason: str) -> InputError:
    return InputError(ErrorCode.RENDER_UNSAFE_HEADER, f"the {field} {value!r} cannot be written safely: {reason}")
