"""One value for every tool: what it is called, what it takes, how it is called. Where it came from does not matter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from harmonia.messages import Json

# json  the arguments are one JSON object that fits `parameters`
# text  the arguments are free text, such as python's code
Takes = Literal["json", "text"]

FUNCTIONS = "functions"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `name` is its owner's name for it and may be anything; a ToolSet makes it legal for the model.

    `invoke` gets the arguments (a dictionary, or the text where the tool takes text) and gives the result, at once or
    as an awaitable; where it is None, the call is handed to whoever consumes the turn. A tool without a `namespace` is
    called by its own name alone, like python. `timeout_s` of None leaves the limit to the run.
    """

    name: str
    description: str | None = None
    parameters: Json | bool | None = None
    invoke: Callable[[Any], Awaitable[Any] | Any] | None = None
    namespace: str | None = FUNCTIONS
    takes: Takes = "json"
    timeout_s: float | None = None


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered, as the text that the model reads. `cut_chars` were left out, and the text says so."""

    text: str
    is_error: bool = False
    cut_chars: int = 0
