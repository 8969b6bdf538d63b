"""The default channel, recipient and content type of imported messages, and what an export loses against them.

A format without channels and content types says less than a message, so its reader has to fill in defaults. They are
defined once, here: a writer builds the message that the reader will build, compares, and reports the differences.
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
    """A tool's name for formats without namespaces: `functions.x` becomes x; other tools keep their namespace.

    So does a function whose name would then look like another tool's, such as `functions.python`.
    """
    name = recipient.removeprefix(FUNCTIONS)
    return name if name and "." not in name and not is_builtin(name) else recipient


def full_name(name: str) -> str:
    """The recipient of a function: x becomes `functions.x`; python and names with a dot stay as they are."""
    return name if "." in name or is_builtin(name) else f"{FUNCTIONS}{name}"


def free_form_name(name: str) -> str:
    """The recipient of a custom tool: its own name, unless a tool cannot have that name, such as `user`."""
    return name if is_tool_address(name) else f"{FUNCTIONS}{name}"


def is_free_form(recipient: str) -> bool:
    """Whether a tool takes plain text instead of JSON, as tools without a namespace do, such as python."""
    return "." not in recipient


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def user(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.USER, name), content)


def developer(content: Texts, name: str | None = None) -> Message:
    """Instructions; several parts become the lines of one text."""
    text = content if isinstance(content, str) else "\n".join(content)
    return Message(Author(Role.DEVELOPER, name), DeveloperContent(text))


def system(content: Texts, name: str | None = None) -> Message:
    return Message(Author(Role.SYSTEM, name), content)


def assistant(content: Texts, channel: str, name: str | None = None) -> Message:
    return Message(Author(Role.ASSISTANT, name), content, channel)


def call(recipient: str, arguments: str, name: str | None = None) -> Message:
    """A call as models write it: functions on commentary with JSON, built-in tools on analysis."""
    if is_builtin(recipient):
        channel, content_type = "analysis", _CODE
    else:
        channel, content_type = "commentary", None if is_free_form(recipient) else _JSON_CONSTRAINED
    return Message(Author(Role.ASSISTANT, name), arguments, channel, recipient, content_type)


def result(recipient: str, content: Texts) -> Message:
    """The result of a tool, on the channel of its call."""
    channel = "analysis" if is_builtin(recipient) else "commentary"
    return Message(Author(Role.TOOL, recipient), content, channel, "assistant")


# ── reading messages ────────────────────────────────────────────────────────────────────────────────────────────────


def is_hidden(message: Message) -> bool:
    """Whether an assistant message is hidden from the user. Text without a channel that was not sampled is visible."""
    if message.channel is None and message.origin is None:
        return False
    return not is_visible(message) and not _has_odd_recipient(message)


def texts_of(message: Message) -> Texts:
    """The text of a message, or a tuple of texts if it has several."""
    content = message.content
    if isinstance(content, str):
        return content
    texts = tuple(part for part in message.contents if isinstance(part, str))
    return texts[0] if len(texts) == 1 else texts


def is_empty(message: Message) -> bool:
    """Whether a message has neither text nor settings."""
    content = message.content
    if isinstance(content, DeveloperContent):
        return content == DeveloperContent(content.instructions) and not content.instructions
    return all(part == "" for part in message.contents)


def joined(content: Texts) -> str:
    return content if isinstance(content, str) else "".join(content)


def _has_odd_recipient(message: Message) -> bool:
    # Addressed to a role or to everybody on a visible channel: only the recipient is odd, the text is visible.
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
    """The losses of a message that will be read back as another one."""
    path = f"$.messages[{index}]"
    for name in _FIELDS:
        value, returned = getattr(message, name), getattr(back, name)
        if value != returned:
            why = f"{format_name} cannot express {_named(name, value)}; it comes back with {_named(name, returned)}"
            yield Lossy(f"{path}.{name}", name, why, index)
    if message.content != back.content:
        yield from _content_differences(index, message.contents, back.contents, format_name)


def left_out(index: int, why: str) -> Lossy:
    """The loss of a whole message."""
    return Lossy(f"$.messages[{index}]", "message", f"the message was omitted: {why}", index)


def _content_differences(
    index: int, contents: tuple[Content, ...], back: tuple[Content, ...], format_name: str
) -> Iterator[Lossy]:
    path = f"$.messages[{index}].content"
    if len(contents) == len(back) == 1 and type(contents[0]) is type(back[0]) and not isinstance(contents[0], str):
        content, returned = contents[0], back[0]
        for name in type(content).__struct_fields__:
            if getattr(content, name) != getattr(returned, name):
                why = f"{format_name} does not restore the {name} of this {_kind(content)} unchanged"
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
