"""The one value for a tool that somebody defines; `harmonia.run.Tool` adds what runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from harmonia.messages import Json

# json  the arguments are one JSON object that fits `parameters`
# text  the arguments are free text, such as python's code
Takes = Literal["json", "text"]
# lark   a grammar in Lark's notation, whose first rule is `start`
# regex  a regular expression for the whole text
Syntax = Literal["lark", "regex"]

FUNCTIONS: Final = "functions"
# Between the label of an MCP server and the name of its tool, in the name that the model reads.
SERVER_SEPARATOR: Final = "___"


class TextForm(msgspec.Struct, frozen=True):
    """The grammar of the text that a custom tool takes, as its owner wrote it."""

    syntax: Syntax
    definition: str


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool: its owner's name for it, which may be anything, and what it takes.

    A tool without a `namespace` is called by its own name alone, like python. A `strict` tool's arguments have to fit
    `parameters`, as its text has to fit `text_form`. The model is not told of a tool with `defer_loading`. `server` is
    the label of the MCP server that has the tool; `built_in` the type of a tool that an API defines by its type alone,
    such as shell. `path` is where a request defines it.
    """

    name: str
    description: str | None = None
    parameters: Json | bool | None = None
    namespace: str | None = field(default=FUNCTIONS, kw_only=True)
    takes: Takes = field(default="json", kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    text_form: TextForm | None = field(default=None, kw_only=True)
    defer_loading: bool = field(default=False, kw_only=True)
    built_in: str | None = field(default=None, kw_only=True)
    server: str | None = field(default=None, kw_only=True)
    path: str | None = field(default=None, kw_only=True, compare=False)

    @property
    def kind(self) -> str:
        """function, custom, mcp, or the type of a built-in tool."""
        return self.built_in or ("mcp" if self.server else "custom" if self.takes == "text" else "function")

    @property
    def own_name(self) -> str:
        """Its name without that of its server."""
        return self.name.removeprefix(f"{self.server}{SERVER_SEPARATOR}") if self.server else self.name
