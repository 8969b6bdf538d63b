"""Conversations in other formats and back, with a report of what is lost."""

from harmonia.interchange.api_messages import SystemAs
from harmonia.interchange.chat_completions import from_chat_messages, read_chat, to_chat_body, to_chat_messages
from harmonia.interchange.conversion import ConversationFormat, Exported, Imported, Lossy
from harmonia.interchange.formats import FORMATS, format_named, recognise, recognise_value
from harmonia.interchange.markdown import write_markdown
from harmonia.interchange.request_settings import chat_tools, responses_tools
from harmonia.interchange.responses import read_responses, to_responses_body

__all__ = [
    "FORMATS",
    "ConversationFormat",
    "Exported",
    "Imported",
    "Lossy",
    "SystemAs",
    "chat_tools",
    "format_named",
    "from_chat_messages",
    "read_chat",
    "read_responses",
    "recognise",
    "recognise_value",
    "responses_tools",
    "to_chat_body",
    "to_chat_messages",
    "to_responses_body",
    "write_markdown",
]
