"""A drop-in for openai-harmony 0.0.8: the same names, signatures, JSON, tokens and errors, by our renderer and parser.

Change `import openai_harmony` to `from harmonia import openai_harmony`. docs/guides/migration.md lists other changes.
"""

from harmonia.openai_harmony.encoding import HarmonyEncoding, HarmonyEncodingName, load_harmony_encoding
from harmonia.openai_harmony.models import (
    Author,
    Content,
    Conversation,
    DeveloperContent,
    HarmonyError,
    Message,
    Role,
    SystemContent,
    TextContent,
    ToolDescription,
)
from harmonia.openai_harmony.models import ChannelConfig as ChannelConfig
from harmonia.openai_harmony.models import ReasoningEffort as ReasoningEffort
from harmonia.openai_harmony.models import RenderConversationConfig as RenderConversationConfig
from harmonia.openai_harmony.models import RenderOptions as RenderOptions
from harmonia.openai_harmony.models import T as T
from harmonia.openai_harmony.models import ToolNamespaceConfig as ToolNamespaceConfig
from harmonia.openai_harmony.models import raise_disallowed_special_token as raise_disallowed_special_token
from harmonia.openai_harmony.streaming import ParsedMessages as ParsedMessages
from harmonia.openai_harmony.streaming import StreamableParser, StreamState

# What the reference exports to `import *`; the other names can be imported, too.
__all__ = [
    "Author",
    "Content",
    "Conversation",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "Message",
    "Role",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "ToolDescription",
    "load_harmony_encoding",
]
