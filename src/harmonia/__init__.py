"""Harmonia: the complete Harmony stack for gpt-oss. `render` a conversation, `parse` what a model sampled.

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
from harmonia.events import (
    ArgumentsDelta,
    Diagnostic,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    MessageStarted,
    Repaired,
    Skipped,
    TextDelta,
    TurnEnded,
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
from harmonia.parser import Limits, Parsed, Parser, parse
from harmonia.provenance import Origin, Sampled, Span, Trust
from harmonia.renderer import MessageSpan, Rendered, Renderer, TrainOn, render
from harmonia.schema import to_typescript
from harmonia.vocabulary import IncrementalDecoder, Vocabulary, decode, decode_bytes, encode, is_special

__all__ = [
    "BROWSER",
    "INSTRUCTION_ORDER",
    "PYTHON",
    "ArgumentsDelta",
    "Author",
    "ChannelConfig",
    "Conversation",
    "DeveloperContent",
    "Diagnostic",
    "EngineError",
    "ErrorCode",
    "Event",
    "HarmonyError",
    "Header",
    "HeaderCompleted",
    "IncrementalDecoder",
    "InputError",
    "Limits",
    "Message",
    "MessageEnded",
    "MessageSpan",
    "MessageStarted",
    "Origin",
    "Parsed",
    "Parser",
    "Position",
    "ReasoningEffort",
    "Rendered",
    "Renderer",
    "Repaired",
    "ResponseFormat",
    "Role",
    "Sampled",
    "Skipped",
    "Span",
    "StoreError",
    "StreamError",
    "SystemContent",
    "TextDelta",
    "ToolDescription",
    "ToolError",
    "ToolNamespace",
    "TrainOn",
    "Trust",
    "TurnEnded",
    "Vocabulary",
    "decode",
    "decode_bytes",
    "encode",
    "is_special",
    "parse",
    "render",
    "to_typescript",
]
