"""A tool that a run can call: its definition, and what runs it. Where it came from does not matter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

import msgspec

from harmonia.messages import Json, ToolNamespace
from harmonia.tool_definitions import FUNCTIONS, Takes, ToolDefinition, read_definition

__all__ = ["FUNCTIONS", "Takes", "Tool", "ToolResult"]


class ToolOptions(TypedDict, total=False):
    """What the decorator and `Tool.from_function` say of a function beside what it says itself."""

    name: str | None
    description: str | None
    namespace: str | None
    timeout_s: float | None
    strict: bool | None


@dataclass(frozen=True, slots=True)
class Tool(ToolDefinition):
    """A tool. `name` is its owner's name for it and may be anything; a ToolSet makes it legal for the model.

    `invoke` gets the arguments (a dictionary, or the text where the tool takes text) and returns the result, at once or
    as an awaitable; where it is None, the call goes to whoever consumes the turn. `timeout_s` of None leaves the limit
    to the run. Without `checks_arguments`, a call goes to its runner whether its arguments fit or not. The schema of an
    `untrusted` tool is checked within bounds. `annotations` are an MCP server's hints about its tool, for people and
    clients; neither the model nor a run reads them.
    """

    invoke: Callable[[Any], Awaitable[Any] | Any] | None = None
    timeout_s: float | None = field(default=None, kw_only=True)
    checks_arguments: bool = field(default=True, kw_only=True)
    untrusted: bool = field(default=False, kw_only=True)
    annotations: Json | None = field(default=None, kw_only=True)

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """A tool that calls a Python function; its signature, annotations and docstring say how, and the options."""
        from harmonia.run.tools.python_functions import tool_of_function

        return tool_of_function(function, options)

    @classmethod
    def from_definition(cls, definition: object, path: str = "$") -> Tool:
        """A tool from the JSON of OpenAI's APIs, nested or flat, or of MCP. Nothing here runs it."""
        tool = read_definition(definition, path, make=cls)
        return tool if tool.description else replace(tool, description=None)

    @classmethod
    def from_namespace(cls, namespace: ToolNamespace) -> list[Tool]:
        """The tools of a namespace; one without tools, such as `PYTHON`, is itself a tool that takes text."""
        if not namespace.tools:
            return [cls(namespace.name, namespace.description, namespace=None, takes="text")]
        return [cls(tool.name, tool.description, tool.parameters, namespace=namespace.name) for tool in namespace.tools]


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered, as the text that the model reads. `cut_chars` were left out, and the text says so."""

    text: str
    is_error: bool = False
    cut_chars: int = 0
