"""Tools: one value for all kinds, and sets of them."""

from harmonia.run.tools.python_functions import tool
from harmonia.run.tools.results import error_result, result_message, result_of
from harmonia.run.tools.tool import Tool, ToolResult
from harmonia.run.tools.tool_set import ToolLike, ToolSet
from harmonia.tool_definitions import convert_tools_for_harmony

__all__ = [
    "Tool",
    "ToolLike",
    "ToolResult",
    "ToolSet",
    "convert_tools_for_harmony",
    "error_result",
    "result_message",
    "result_of",
    "tool",
]
