"""Inspects what a model sampled: what the input is, what it cost, what is wrong with it, as JSON values."""

from harmonia.inspection.inputs import As, Input, is_completion, is_malformed, parse_input, read_declared, recognise
from harmonia.inspection.report import (
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_position,
    describe_raised,
    describe_token,
    describe_trace,
    replay,
)
from harmonia.inspection.trace import (
    OptionWords,
    Trace,
    TracedMessage,
    TracedText,
    TracedTurn,
    find_schema_costs,
    find_typed_spellings,
    hint_for,
    trace,
)

__all__ = [
    "As",
    "Input",
    "OptionWords",
    "Trace",
    "TracedMessage",
    "TracedText",
    "TracedTurn",
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
