"""Conversations in other formats and back, with a report of what is lost."""

from harmonia.interchange.api_messages import SystemAs
from harmonia.interchange.chat_completions import (
    from_chat_messages,
    read_chat,
    to_chat_body,
    to_chat_messages,
)
from harmonia.interchange.conversion import CallIds, ConversationFormat, Exported, Imported, Lossy
from harmonia.interchange.formats import FORMATS, format_named, recognise, recognise_value
from harmonia.interchange.harmony import (
    read_harmony,
    read_harmony_json,
    read_tokens,
    write_harmony,
    write_harmony_json,
    write_tokens,
)
from harmonia.interchange.markdown import read_markdown, write_markdown
from harmonia.interchange.responses import read_responses, to_responses_body, to_responses_items
from harmonia.interchange.settings import chat_tools, responses_tools

__all__ = [
    "FORMATS",
    "CallIds",
    "ConversationFormat",
    "Exported",
    "Imported",
    "Lossy",
    "SystemAs",
    "chat_tools",
    "format_named",
    "from_chat_messages",
    "read_chat",
    "read_harmony",
    "read_harmony_json",
    "read_markdown",
    "read_responses",
    "read_tokens",
    "recognise",
    "recognise_value",
    "responses_tools",
    "to_chat_body",
    "to_chat_messages",
    "to_responses_body",
    "to_responses_items",
    "write_harmony",
    "write_harmony_json",
    "write_markdown",
    "write_tokens",
]
