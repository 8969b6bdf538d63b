"""Tokens, text and damaged text to events and messages, strict or tolerant, losing nothing."""

from harmonia.parser.faults import FAULTS, Fault
from harmonia.parser.headers import ToolKind, Tools
from harmonia.parser.parser import Mode, Parsed, Parser, parse
from harmonia.parser.parser_state import Limits

__all__ = ["FAULTS", "Fault", "Limits", "Mode", "Parsed", "Parser", "ToolKind", "Tools", "parse"]
