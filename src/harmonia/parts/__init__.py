"""Messages as people and programs want them: calls, parts of a user interface, what is visible, the normalised form."""

from harmonia.parts.calls import Call, CallStatus, call_of, split_name
from harmonia.parts.message_parts import (
    Part,
    PartDelta,
    PartEnded,
    PartKind,
    PartStarted,
    PartStream,
    PartUpdate,
    Text,
    Think,
    ToolCall,
    parts_of,
)
from harmonia.parts.normal_form import Normalised, normalise, normalise_history, normalise_trace, normalised_error
from harmonia.parts.traces import CHUNK_MARKER, Trace, read_traces
from harmonia.parts.visibility import (
    Guessed,
    GuessedAsFinal,
    is_visible,
    is_visible_header,
    shown_message,
    visible_text,
)

__all__ = [
    "CHUNK_MARKER",
    "Call",
    "CallStatus",
    "Guessed",
    "GuessedAsFinal",
    "Normalised",
    "Part",
    "PartDelta",
    "PartEnded",
    "PartKind",
    "PartStarted",
    "PartStream",
    "PartUpdate",
    "Text",
    "Think",
    "ToolCall",
    "Trace",
    "call_of",
    "is_visible",
    "is_visible_header",
    "normalise",
    "normalise_history",
    "normalise_trace",
    "normalised_error",
    "parts_of",
    "read_traces",
    "shown_message",
    "split_name",
    "visible_text",
]
