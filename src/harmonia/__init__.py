"""Harmonia: the complete Harmony stack for gpt-oss. `render` a conversation; data and verbs are below.

Importing it loads no vocabulary, opens no file and no socket; the first use does.
"""

from harmonia.builtin_tools import BROWSER, PYTHON
from harmonia.errors import (
    EngineError,
    ErrorCode,
    HarmonyError,
    InputError,
    Position,
    StoreError,
    StreamError,
    ToolError,
)
from harmonia.messages import (
    INSTRUCTION_ORDER,
    Author,
    ChannelConfig,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.renderer import MessageSpan, Rendered, Renderer, TrainOn, render
from harmonia.schema import to_typescript
from harmonia.vocabulary import IncrementalDecoder, Vocabulary, decode, decode_bytes, encode, is_special

__all__ = [
    "BROWSER",
    "INSTRUCTION_ORDER",
    "PYTHON",
    "Author",
    "ChannelConfig",
    "Conversation",
    "DeveloperContent",
    "EngineError",
    "ErrorCode",
    "HarmonyError",
    "IncrementalDecoder",
    "InputError",
    "Message",
    "MessageSpan",
    "Position",
    "ReasoningEffort",
    "Rendered",
    "Renderer",
    "ResponseFormat",
    "Role",
    "StoreError",
    "StreamError",
    "SystemContent",
    "ToolDescription",
    "ToolError",
    "ToolNamespace",
    "TrainOn",
    "Vocabulary",
    "decode",
    "decode_bytes",
    "encode",
    "is_special",
    "render",
    "to_typescript",
]
