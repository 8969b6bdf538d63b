"""Tools: one value for all kinds, and sets of them."""

from harmonia.run.tools.python_functions import tool
from harmonia.run.tools.results import DEFAULT_LIMIT_CHARS, error_result, result_message, result_of
from harmonia.run.tools.tool import FUNCTIONS, Takes, Tool, ToolResult
from harmonia.run.tools.tool_set import ToolLike, ToolSet, is_legal, legal_names
from harmonia.tool_definitions import convert_tools_for_harmony

__all__ = [
    "DEFAULT_LIMIT_CHARS",
    "FUNCTIONS",
    "Takes",
    "Tool",
    "ToolLike",
    "ToolResult",
    "ToolSet",
    "convert_tools_for_harmony",
    "error_result",
    "is_legal",
    "legal_names",
    "result_message",
    "result_of",
    "tool",
]
