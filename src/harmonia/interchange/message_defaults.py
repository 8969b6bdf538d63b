"""The messages that readers make, and how a message differs from the one that will be made of it.

A format that has no channels and no content types says less than a message does, so its reader has to choose. The
choices stand here, once: a writer makes the message that the reader will make, compares, and reports what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harmonia.interchange.conversion import Lossy
from harmonia.messages import (
    Author,
    Content,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    is_builtin,
    is_tool_address,
)
from harmonia.parts import is_visible

Texts = str | tuple[str, ...]

FUNCTIONS: Final = "functions."
EMPTY: Final = "the message is empty"
_JSON_CONSTRAINED: Final = "<|constrain|>json"
_CODE: Final = "code"
_FIELDS: Final = ("role", "name", "channel", "recipient", "content_type")


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def bare_name(recipient: str) -> str:
    """A tool's name where there are no namespaces: `functions.x` is x, all others keep their namespace.

    A function that would then look like another tool, such as `functions.python`, keeps it too.
    """
    name = recipient.removeprefix(FUNCTIONS)
    return name if name and "." not in name and not is_builtin(name) else recipient


def full_name(name: str) -> str:
    """The recipient that a function's name stands for: x is `functions.x`; python and names with a dot are whole."""
    return name if "." in name or is_builtin(name) else f"{FUNCTIONS}{name}"


def free_form_name(name: str) -> str:
    """The recipient of a custom tool: its own name, unless that is nobody's to call, such as `user`."""
    return name if is_tool_address(name) else f"{FUNCTIONS}{name}"


def is_free_form(recipient: str) -> bool:
    """Whether a tool takes text, not JSON: those without a namespace, such as python, are called so."""
    return "." not in recipient


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def user(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.USER, name), content)


def developer(content: Texts, name: str | None = None) -> Message:
    """Instructions. Several parts are lines of one text."""
    text = content if isinstance(content, str) else "\n".join(content)
    return Message(Author(Role.DEVELOPER, name), DeveloperContent(text))


def system(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.SYSTEM, name), content)


def assistant(content: Texts, channel: str, name: str | None = None) -> Message:
    return Message(Author(Role.ASSISTANT, name), content, channel)


def call(recipient: str, arguments: str, name: str | None = None) -> Message:
    """A call as the models write it: functions on commentary with JSON, the built-in tools on analysis."""
    if is_builtin(recipient):
        channel, content_type = "analysis", _CODE
    else:
        channel, content_type = "commentary", None if is_free_form(recipient) else _JSON_CONSTRAINED
    return Message(Author(Role.ASSISTANT, name), arguments, channel, recipient, content_type)


def result(recipient: str, content: Texts) -> Message:
    """What a tool answered, on the channel on which it was called."""
    channel = "analysis" if is_builtin(recipient) else "commentary"
    return Message(Author(Role.TOOL, recipient), content, channel, "assistant")


# ── reading messages ────────────────────────────────────────────────────────────────────────────────────────────────


def is_hidden(message: Message) -> bool:
    """Whether the assistant's text is not for the user; one that somebody wrote without a channel is."""
    if message.channel is None and message.origin is None:
        return False
    return not is_visible(message) and not _is_said_to_nobody(message)


def texts_of(message: Message) -> Texts:
    """The text contents as they stand, or as a tuple where there are several."""
    content = message.content
    if isinstance(content, str):
        return content
    texts = tuple(part for part in message.contents if isinstance(part, str))
    return texts[0] if len(texts) == 1 else texts


def is_empty(message: Message) -> bool:
    """Whether a message has no text at all, and no settings."""
    content = message.content
    if isinstance(content, DeveloperContent):
        return content == DeveloperContent(content.instructions) and not content.instructions
    return all(part == "" for part in message.contents)


def joined(content: Texts) -> str:
    return content if isinstance(content, str) else "".join(content)


def _is_said_to_nobody(message: Message) -> bool:
    # To a role or to everybody, on a channel that users see: it is the address that is odd, not the text.
    recipient = message.recipient
    return recipient is not None and not is_tool_address(recipient) and is_visible(_without_address(message))


def _without_address(message: Message) -> Message:
    if message.origin is None:
        return message.replace(recipient=None)
    return Message.parsed(
        message.author, message.text, message.channel, None, message.content_type, message.origin, None
    )


# ── what differs ────────────────────────────────────────────────────────────────────────────────────────────────────


def differences(index: int, message: Message, back: Message, format_name: str) -> Iterator[Lossy]:
    """What is lost of a message that is read back as another."""
    path = f"$.messages[{index}]"
    for name in _FIELDS:
        value, returned = getattr(message, name), getattr(back, name)
        if value != returned:
            why = f"{format_name} has no place for {_named(name, value)}; it comes back with {_named(name, returned)}"
            yield Lossy(f"{path}.{name}", name, why, index)
    if message.content != back.content:
        yield from _content_differences(index, message.contents, back.contents, format_name)


def left_out(index: int, why: str) -> Lossy:
    """A whole message that is not written."""
    return Lossy(f"$.messages[{index}]", "message", f"the message is left out: {why}", index)


def _content_differences(
    index: int, contents: tuple[Content, ...], back: tuple[Content, ...], format_name: str
) -> Iterator[Lossy]:
    path = f"$.messages[{index}].content"
    if len(contents) == len(back) == 1 and type(contents[0]) is type(back[0]) and not isinstance(contents[0], str):
        content, returned = contents[0], back[0]
        for name in type(content).__struct_fields__:
            if getattr(content, name) != getattr(returned, name):
                why = f"{format_name} does not bring back the {name} of this {_kind(content)} as they are"
                yield Lossy(f"{path}.{name}", name, why, index)
        return
    why = f"the content is {_kinds(contents)}; in {format_name} it comes back as {_kinds(back)}"
    yield Lossy(path, "content", why, index)


def _kinds(contents: tuple[Content, ...]) -> str:
    kinds = [_kind(content) for content in contents]
    counts = {kind: kinds.count(kind) for kind in kinds}
    return " and ".join(kind if count == 1 else f"{count} {kind}s" for kind, count in counts.items()) or "nothing"


def _kind(content: Content) -> str:
    match content:
        case SystemContent():
            return "system content"
        case DeveloperContent():
            return "developer content"
        case _:
            return "text"


def _named(name: str, value: object) -> str:
    noun = name.replace("_", " ")
    return f"no {noun}" if value is None else f"the {noun} {value}"
