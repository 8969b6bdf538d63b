"""Reads tool definitions, tool choices and response formats, whoever sends them. Pure: no I/O."""

from harmonia.tool_definitions.definition import FUNCTIONS, Takes, TextForm, ToolDefinition
from harmonia.tool_definitions.reader import convert_tools_for_harmony, read_definition, read_namespace, unwrap
from harmonia.tool_definitions.response_format import JSON_OBJECT, read_response_format
from harmonia.tool_definitions.tool_choice import Choice, NamedTool, read_tool_choice

__all__ = [
    "FUNCTIONS",
    "JSON_OBJECT",
    "Choice",
    "NamedTool",
    "Takes",
    "TextForm",
    "ToolDefinition",
    "convert_tools_for_harmony",
    "read_definition",
    "read_namespace",
    "read_response_format",
    "read_tool_choice",
    "unwrap",
]
