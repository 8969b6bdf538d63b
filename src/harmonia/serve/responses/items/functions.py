"""Calls to tools that the client defines, and their results; and more definitions of such tools."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from harmonia.messages import Json
from harmonia.parts import Call
from harmonia.run.tools import Tool
from harmonia.run.tools.arguments import unwrap_input
from harmonia.serve.responses.items.base import CalledTool, ClientCall, ContentOutput, Item
from harmonia.tool_definitions import FUNCTIONS


class _DefinedCall(ClientCall, frozen=True, kw_only=True):
    name: str
    namespace: str | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")

    @classmethod
    def begin(cls, tool: Tool) -> Json:
        named: Json = {"name": tool.name}
        if tool.namespace != FUNCTIONS:
            named["namespace"] = tool.namespace
        return {**super().begin(tool), **named}


class FunctionCall(_DefinedCall, frozen=True, tag="function_call", kw_only=True):
    tool_type: ClassVar[str] = "function"
    id_prefix: ClassVar[str] = "fc"
    is_standard: ClassVar[bool] = True
    is_streamed: ClassVar[bool] = True
    input_event: ClassVar[str | None] = "response.function_call_arguments"
    input_fields: ClassVar[tuple[str, ...]] = ("arguments", "name")
    empty: ClassVar[Json] = {"arguments": ""}

    arguments: str = ""

    def called(self) -> CalledTool:
        return CalledTool(self.name, self.arguments, self.namespace)

    def bound_values(self, before: str) -> list[Any]:
        return [self.call_id, self.name, self.namespace, self.arguments]


class FunctionOutput(ContentOutput, frozen=True, tag="function_call_output", kw_only=True):
    name: str | None = None
    namespace: str | None = None


class CustomCall(_DefinedCall, frozen=True, tag="custom_tool_call", kw_only=True):
    tool_type: ClassVar[str] = "custom"
    id_prefix: ClassVar[str] = "ctc"
    input_event: ClassVar[str | None] = "response.custom_tool_call_input"
    input_fields: ClassVar[tuple[str, ...]] = ("input",)
    empty: ClassVar[Json] = {"input": ""}

    input: str = ""

    def called(self) -> CalledTool:
        return CalledTool(self.name, self.input, self.namespace, is_json=False)

    def bound_values(self, before: str) -> list[Any]:
        return [self.call_id, self.name, self.namespace, self.input]

    @classmethod
    def written(cls, call: Call) -> Json:
        return {"input": unwrap_input(call.text)}


class CustomOutput(ContentOutput, frozen=True, tag="custom_tool_call_output", kw_only=True):
    name: str | None = None


class AdditionalTools(Item, frozen=True, tag="additional_tools", kw_only=True):
    """More tools, from here on."""

    tools: list[Json]
    role: str | None = None
