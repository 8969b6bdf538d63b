"""One value for every tool: what it is called, what it takes, how it is called. Where it came from does not matter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from harmonia.grammar import TextForm
from harmonia.messages import Json, ToolNamespace

# json  the arguments are one JSON object that fits `parameters`
# text  the arguments are free text, such as python's code
Takes = Literal["json", "text"]

FUNCTIONS = "functions"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `name` is its owner's name for it and may be anything; a ToolSet makes it legal for the model.

    `invoke` gets the arguments (a dictionary, or the text where the tool takes text) and gives the result, at once or
    as an awaitable; where it is None, the call is handed to whoever consumes the turn. A tool without a `namespace` is
    called by its own name alone, like python. `timeout_s` of None leaves the limit to the run. Without
    `checks_arguments`, a call goes to its runner whether they fit or not: it has its own ways to tell the model.
    Those of a `strict` tool have to fit: a run demands it of the model, as it demands the `text_form` of a text. Where
    `is_strangers`, the schema comes from somebody who is not trusted, and is checked within bounds. With
    `defer_loading` the model is not told of the tool; whoever tells it later finds the tool in place. `annotations` are
    the hints of an MCP server about its tool, for people and clients; neither the model nor a run reads them.
    """

    name: str
    description: str | None = None
    parameters: Json | bool | None = None
    invoke: Callable[[Any], Awaitable[Any] | Any] | None = None
    namespace: str | None = FUNCTIONS
    takes: Takes = "json"
    timeout_s: float | None = None
    checks_arguments: bool = True
    defer_loading: bool = False
    strict: bool = False
    text_form: TextForm | None = None
    is_strangers: bool = False
    annotations: Json | None = None

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        *,
        namespace: str | None = None,
        timeout_s: float | None = None,
        strict: bool | None = None,
    ) -> Tool:
        """A tool that calls a Python function; its signature, annotations and docstring say how. See functions.py."""
        from harmonia.run.tools.python_functions import ToolOptions, tool_of_function

        return tool_of_function(function, ToolOptions(name, description, namespace, timeout_s, strict))

    @classmethod
    def from_definition(cls, definition: Json) -> Tool:
        """A tool from the JSON of OpenAI's APIs, nested or flat, or of MCP. Nothing here runs it."""
        from harmonia.run.tools.definitions import tool_of_definition

        return tool_of_definition(definition)

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
