"""Readable Markdown that can be read back as the same conversation.

    ## assistant, channel `commentary`, to `functions.get_weather`, type `<|constrain|>json`

    ```json
    {"location": "Tokyo"}
    ```

A message is a heading and its content. The heading has the role and the other header fields; a value that contains
backticks or control characters is written as a JSON string. The content is plain text. It is fenced if plain text would
be ambiguous (it contains a heading or a fence, or begins or ends with a blank line) or if there are several contents. A
fence is longer than any fence in its text, so every text survives. The second word after a fence marks structured
content:

    ```text instructions         instructions of a developer content
    ```json developer_content    the rest of it, or all of it
    ```json system_content       a system content

Text before the first heading is omitted and reported.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import (
    CallIds,
    Exported,
    Imported,
    Report,
    sort_losses,
    text_of,
    unexpressed_losses,
)
from harmonia.json_codec import encode_json, json_fault, read_json, refuse_surrogates
from harmonia.messages import Author, Content, Conversation, DeveloperContent, Message, Role, SystemContent

_VALUE: Final = r"`(?P<{0}>[^`\n]*)`"
_ROLES: Final = "|".join(role.value for role in Role)
_HEADING: Final = re.compile(
    rf"## (?P<role>{_ROLES})"
    rf"(?:, name {_VALUE.format('name')})?"
    rf"(?:, channel {_VALUE.format('channel')})?"
    rf"(?:, to {_VALUE.format('recipient')})?"
    rf"(?:, type {_VALUE.format('content_type')})?"
    r"(?P<empty>, without content)?[ \t]*"
)
_FIELDS: Final = (("name", "name"), ("channel", "channel"), ("to", "recipient"), ("type", "content_type"))
_PLAIN_VALUE: Final = re.compile(r"[^\s`\"\x00-\x1f\x7f](?:[^`\x00-\x1f\x7f\u0085\u2028\u2029]*[^\s`\x00-\x1f\x7f])?")
_FENCE: Final = re.compile(r"(?P<fence>`{3,})(?P<info>[^`]*)")
# Lines that plain text must not contain: a message heading, and anything that would swallow the headings after it.
_NOT_PLAIN: Final = re.compile(r"^(?:## | *(?:```|~~~|<))", re.MULTILINE)
_BACKTICKS: Final = re.compile(r"`{3,}")


def looks_like_markdown(text: str) -> bool:
    """Whether the text has a message heading."""
    return any(_HEADING.fullmatch(line.rstrip("\r")) for line in text.split("\n") if line.startswith("## "))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_markdown(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    """The conversation as Markdown. Only sampled tokens, doubts and call ids are lost."""
    text = "\n".join(f"{_write_heading(message)}\n{_write_contents(message)}" for message in conversation)
    return Exported(refuse_surrogates(text), sort_losses(unexpressed_losses(conversation, call_ids)))


def _write_heading(message: Message) -> str:
    heading = f"## {message.role}"
    for word, field in _FIELDS:
        value = getattr(message, field)
        if value is not None:
            plain = value if _PLAIN_VALUE.fullmatch(value) else json.dumps(value).replace("`", "\\u0060")
            heading += f", {word} `{plain}`"
    return heading if message.contents else f"{heading}, without content"


def _write_contents(message: Message) -> str:
    content = message.content
    if isinstance(content, str) and not _is_json(content) and _is_plain(content):
        return f"\n{content}\n" if content else ""
    return "".join(f"\n{_write_content(part)}" for part in message.contents)


def _write_content(content: Content) -> str:
    match content:
        case str():
            return _write_block(content, "json" if _is_json(content) else "text")
        case SystemContent():
            return _write_block(_write_struct(content), "json system_content")
        case DeveloperContent():
            rest = cast("dict[str, Any]", json.loads(_write_struct(content)))
            instructions = rest.pop("instructions", None)
            if instructions is None:
                # An explicit null, because the instructions of a preceding content would be read as part of this one.
                return _write_block(encode_json({"instructions": None, **rest}, indent=2), "json developer_content")
            block = _write_block(instructions, "text instructions")
            return f"{block}\n{_write_block(encode_json(rest, indent=2), 'json developer_content')}" if rest else block


def _write_struct(content: SystemContent | DeveloperContent) -> str:
    written: Any = Message(Role.USER, content).to_dict()["content"][0]
    return encode_json({name: value for name, value in written.items() if name != "type"}, indent=2)


def _write_block(text: str, info: str) -> str:
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{info}\n{text}\n{fence}\n"


def _is_plain(text: str) -> bool:
    return text == text.strip() and "\r" not in text and _NOT_PLAIN.search(text) is None


def _is_json(text: str) -> bool:
    return text.startswith(("{", "[")) and json_fault(text) is None


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_markdown(given: str | bytes) -> Imported:
    """A conversation from the output of `write_markdown`, possibly edited by hand."""
    text = text_of(given)
    # An editor that uses CR LF uses it for every line; our output has at least one line without it.
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        text = text.replace("\r\n", "\n")
    report = Report()
    messages: list[Message] = []
    heading: re.Match[str] | None = None
    lines: list[str] = []
    character = start = 0
    fence = ""

    def end_message() -> None:
        if heading is not None:
            messages.append(_read_message(heading, lines, start))
        elif any(line.strip() for line in lines):
            report.lose("$", "text", "the text before the first message was omitted")

    for line in text.split("\n"):
        found = None
        if fence:
            fence = "" if line.rstrip() == fence else fence
        elif opening := _FENCE.fullmatch(line):
            fence = opening["fence"]
        else:
            found = _HEADING.fullmatch(line)
        if found:
            end_message()
            heading, lines, start = found, [], character
        else:
            lines.append(line)
        character += len(line) + 1
    end_message()
    if heading is None and text.strip():
        raise InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, "no message heading found, such as `## user`")
    return Imported(Conversation(messages), tuple(report.losses))


def _read_message(heading: re.Match[str], lines: list[str], character: int) -> Message:
    values = {field: _read_value(heading[field], character) for _, field in _FIELDS}
    contents = () if heading["empty"] else _read_contents(lines, character)
    return Message(Author(Role(heading["role"]), values.pop("name")), contents, **values)


def _read_value(written: str | None, character: int) -> str | None:
    if written is None or not written.startswith('"'):
        return written
    try:
        value = read_json(written)
    except ValueError as error:
        raise _invalid(f"{written} in the heading is not a valid JSON string", character) from error
    return value if isinstance(value, str) else written


def _read_contents(lines: list[str], character: int) -> tuple[Content, ...]:
    first = next((line for line in lines if line.strip()), "")
    if _FENCE.fullmatch(first) is None:
        filled = [at for at, line in enumerate(lines) if line.strip()] or [0]
        return ("\n".join(lines[filled[0] : filled[-1] + 1]),)
    contents: list[Content] = []
    instructions: str | None = None
    for info, text in _blocks(lines, character):
        kind = info.split()[1] if len(info.split()) > 1 else ""
        if instructions is not None:
            rest = _read_object(text, character) if kind == "developer_content" else None
            is_rest = rest is not None and "instructions" not in rest
            fields = {**(rest if is_rest and rest else {}), "instructions": instructions}
            contents.append(_read_struct("developer_content", fields, character))
            instructions = None
            if is_rest:
                continue
        match kind:
            case "instructions":
                instructions = text
            case "developer_content" | "system_content":
                contents.append(_read_struct(kind, _read_object(text, character), character))
            case _:
                contents.append(text)
    if instructions is not None:
        contents.append(DeveloperContent(instructions))
    return tuple(contents)


def _blocks(lines: list[str], character: int) -> list[tuple[str, str]]:
    """The fenced blocks of a message: the words after the fence, and the text."""
    blocks: list[tuple[str, str]] = []
    fence, info, text = "", "", list[str]()
    for line in lines:
        if fence and line.rstrip() == fence:
            blocks.append((info, "\n".join(text)))
            fence = ""
        elif fence:
            text.append(line)
        elif opening := _FENCE.fullmatch(line):
            fence, info, text = opening["fence"], opening["info"], []
        elif line.strip():
            raise _invalid("the message has text outside its fenced blocks; put it into a block too", character)
    if fence:
        raise _invalid("a fenced block of the message is not closed", character)
    return blocks


def _read_object(text: str, character: int) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise _invalid(f"a block of the message is not valid JSON: {error}", character) from error
    if not isinstance(value, dict):
        raise _invalid("a block of the message is not a JSON object", character)
    return cast("dict[str, Any]", value)


def _read_struct(kind: str, fields: dict[str, Any], character: int) -> Content:
    try:
        return Message.from_dict({"role": "user", "content": [{**fields, "type": kind}]}).contents[0]
    except InputError as error:
        raise _invalid(f"a block of the message is not a valid {kind}: {error.message}", character) from error


def _invalid(message: str, character: int) -> InputError:
    return InputError(ErrorCode.INTERCHANGE_INVALID_VALUE, message, Position(character=character))
