"""What a model sampled, for people who look at it: what the input is, what it cost, what is wrong, as JSON values."""

from harmonia.parts.inspection.descriptions import (
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_position,
    describe_token,
)
from harmonia.parts.inspection.inputs import As, Input, Kind, is_completion, recognise
from harmonia.parts.inspection.reading import is_malformed, parse_input, read_declared
from harmonia.parts.inspection.replays import Replayed, ReplayStep, replay
from harmonia.parts.inspection.report import describe_raised, describe_trace
from harmonia.parts.inspection.schema_costs import SchemaCost, find_schema_costs
from harmonia.parts.inspection.spellings import TypedSpelling, find_typed_spellings
from harmonia.parts.inspection.traced import OptionWords, Trace, TracedMessage, TracedText, TracedTurn, hint_for, trace

__all__ = [
    "As",
    "Input",
    "Kind",
    "OptionWords",
    "ReplayStep",
    "Replayed",
    "SchemaCost",
    "Trace",
    "TracedMessage",
    "TracedText",
    "TracedTurn",
    "TypedSpelling",
    "describe_diagnostic",
    "describe_event",
    "describe_message",
    "describe_position",
    "describe_raised",
    "describe_token",
    "describe_trace",
    "find_schema_costs",
    "find_typed_spellings",
    "hint_for",
    "is_completion",
    "is_malformed",
    "parse_input",
    "read_declared",
    "recognise",
    "replay",
    "trace",
]
