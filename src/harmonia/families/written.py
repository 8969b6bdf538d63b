"""What several families write the same way: the JSON of a tool, and of arguments."""

from __future__ import annotations

import json

from harmonia.messages import ToolDescription
from harmonia.parser.arguments import json_fault


def described_as_openai(tool: ToolDescription) -> str:
    """A tool as the JSON in which OpenAI's API takes it, and most chat templates show it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    known = {key: value for key, value in function.items() if value is not None}
    return json.dumps({"type": "function", "function": known}, ensure_ascii=False)


def json_arguments(arguments: str) -> str:
    """Arguments for a place where JSON must stand: what is no JSON becomes a string of it."""
    return arguments if json_fault(arguments) is None else json.dumps(arguments, ensure_ascii=False)
