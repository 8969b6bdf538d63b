"""What a server answered to a call, as the text that a model reads.

Text stays as it is. Pictures, sounds and other bytes become a line that says what is there. Structured content is JSON,
and is left out where the text says the same: servers send it twice, once for programs and once for models.
"""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


# Joiners, and the two selectors that choose between an emoji and its outline: ordinary writing needs them.
_KEPT: Final = frozenset("\n\t\u200c\u200d\ufe0e\ufe0f")
# Controls, formats, surrogates, and the two separators that some programs read as line breaks.
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# The keys of a JSON Schema that hold prose.
_PROSE: Final = frozenset(("description", "title", "$comment"))


def readable(text: str) -> str:
    """The text with what would not be seen spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_spell, text.replace("\r\n", "\n")))


def readable_line(text: str) -> str:
    """The same on one line."""
    return " ".join(readable(text).split())


def readable_schema(schema: Any) -> Any:
    """A JSON Schema with its prose made readable. Names, patterns and literals stay as they are: calls need them."""
    if isinstance(schema, list):
        return [readable_schema(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: readable(value) if key in _PROSE and isinstance(value, str) else readable_schema(value)
        for key, value in cast("dict[str, Any]", schema).items()
    }


def _spell(character: str) -> str:
    if character in _KEPT:
        return character
    code = ord(character)
    is_unseen = unicodedata.category(character) in _UNSEEN or any(code in selectors for selectors in _SELECTORS)
    return f"⟨U+{code:04X}⟩" if is_unseen else character


def text_of(result: CallToolResult) -> str:
    """The answer as text, all of it: limits are the business of whoever puts it into a prompt."""
    blocks = [_text_of_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not _says(blocks, structured):
        blocks.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(blocks)


def _text_of_block(block: ContentBlock) -> str:
    from mcp.types import TextResourceContents

    if block.type == "text":
        return block.text
    if block.type == "image" or block.type == "audio":
        return f"[{block.type}: {_kind(block.mime_type)}{_size(block.data)}, not shown]"
    if block.type == "resource_link":
        told = readable_line(f"{block.name}: {block.description}" if block.description else block.name)
        return f"[link: {_kind(block.mime_type)}{readable_line(block.uri)} ({told})]"
    resource = block.resource
    place = f"{_kind(resource.mime_type)}{readable_line(resource.uri)}"
    # A file that a tool was asked for often comes this way, so its text is what the model wants.
    if isinstance(resource, TextResourceContents):
        return f"[resource: {place}]\n{resource.text}"
    return f"[resource: {place}, {_size(resource.blob)}, not shown]"


def _kind(mime_type: str | None) -> str:
    return f"{readable_line(mime_type)}, " if mime_type else ""


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4 - base64[-2:].count('='):,} bytes"


def _says(blocks: list[str], structured: Any) -> bool:
    """Whether the text blocks are the structured content again: whole, or what a wrapper `{"result": …}` holds."""
    said: list[Any] = []
    for block in blocks:
        try:
            said.append(json.loads(block))
        except (ValueError, RecursionError):
            said.append(block)
    candidates = [structured]
    if isinstance(structured, dict) and cast("dict[str, Any]", structured).keys() == {"result"}:
        candidates.append(cast("dict[str, Any]", structured)["result"])
    # A list is often sent as one block for each item; a text stands for itself.
    return any([value] in (said, blocks) or value in (said, blocks) for value in candidates)
