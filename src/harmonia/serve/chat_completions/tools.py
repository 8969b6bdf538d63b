"""The tools of a request, and which of them the model may or must call. Their calls are part of the answer; those to
tools that run here are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harmonia.run.tools import Tool, ToolSet
from harmonia.serve.chat_completions.request import CreateCompletion
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire import request_tools
from harmonia.serve.wire.request_tools import (
    Chosen,
    SchemaBudget,
    choose,
    read_client_tool,
    refuse_repeated,
    refuse_size,
)
from harmonia.serve.wire.validation import invalid
from harmonia.tool_definitions.reader import CHAT, LEGACY_FUNCTIONS
from harmonia.tool_definitions.tool_choice import CHAT_CHOICE, LEGACY_CHOICE

CallKind = Literal["function", "custom"]


def read_tools(request: CreateCompletion, hosted: Sequence[Tool], limits: Limits, schemas: SchemaBudget) -> ToolSet:
    """The tools of a request, and those that run here."""
    if request.functions is not None and request.tools is not None:
        invalid("a request cannot have functions and tools; send tools", "$.functions")
    path, spelling, given = "$.tools", CHAT, request.tools or []
    if request.functions is not None:
        path, spelling, given = "$.functions", LEGACY_FUNCTIONS, request.functions
    if len(given) > limits.tools:
        refuse_size(f"there are {len(given)} tools; at most {limits.tools} are accepted", path)
    tools: dict[str, Tool] = {}
    for at, each in enumerate(given):
        tool = read_client_tool(each, f"{path}[{at}]", spelling, limits, schemas)
        if tool.name in tools:
            refuse_repeated(tool.name, f"{tool.path}.name")
        tools[tool.name] = tool
    return ToolSet([*tools.values(), *hosted])


def read_choice(request: CreateCompletion, tools: ToolSet) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    if request.functions is not None:
        if request.tool_choice is not None:
            invalid("tool_choice chooses among tools, but the request has functions", "$.tool_choice")
        if request.function_call == "required":
            invalid("expected auto, none or an object", "$.function_call")
        wanted = request_tools.read_choice(request.function_call, "$.function_call", LEGACY_CHOICE)
        chosen = choose(wanted, tools, "$.function_call")
    else:
        if request.function_call is not None:
            invalid("function_call chooses among functions, but the request has none", "$.function_call")
        wanted = request_tools.read_choice(request.tool_choice, "$.tool_choice", CHAT_CHOICE)
        chosen = choose(wanted, tools, "$.tool_choice")
    choice, toolset, demanded = chosen
    if wanted.mode == "one":
        return choice, tools.allow([choice]), demanded
    if wanted.tools is not None:
        # The client does not know the tools that run here, so it did not mean to forbid them.
        hosted = [tools.recipient_of(tool) for tool in tools if tool.invoke is not None]
        return choice, tools.allow([*(toolset.allowed or ()), *hosted]), demanded
    return chosen
