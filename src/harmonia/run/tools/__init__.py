"""Tools: one value for all kinds, and sets of them."""

from harmonia.run.tools.tool import Tool, ToolResult

__all__ = ["Tool", "ToolResult"]
