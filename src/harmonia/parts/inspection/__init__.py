"""What a model sampled, for people who look at it: what the input is, what it cost, what is wrong, as JSON values."""

from harmonia.parts.inspection.descriptions import (
    describe_diagnostic,
    describe_event,
    describe_message,
    describe_position,
    describe_token,
)
from harmonia.parts.inspection.inputs import As, Input, Kind, recognise
from harmonia.parts.inspection.reading import is_malformed, parse_input, read_declared
from harmonia.parts.inspection.report import describe_trace
from harmonia.parts.inspection.traced import OptionWords, Trace, hint_for, trace

__all__ = [
    "As",
    "Input",
    "Kind",
    "OptionWords",
    "Trace",
    "describe_diagnostic",
    "describe_event",
    "describe_message",
    "describe_position",
    "describe_token",
    "describe_trace",
    "hint_for",
    "is_malformed",
    "parse_input",
    "read_declared",
    "recognise",
    "trace",
]
