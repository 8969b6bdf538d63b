"""Calls to tools of MCP servers, which run here: the call, the request for an approval, the decision, and the list of a
server's tools."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta

from harmonia.messages import Json
from harmonia.run.tools import Tool
from harmonia.serve.responses.items.base import CallAnswer, Item, ServerCall, dump


class McpCall(ServerCall, frozen=True, tag="mcp_call", kw_only=True):
    id_prefix: ClassVar[str] = "mcp"
    is_streamed: ClassVar[bool] = True
    input_event: ClassVar[str | None] = "response.mcp_call_arguments"
    input_fields: ClassVar[tuple[str, ...]] = ("arguments",)
    bound: ClassVar[tuple[str, ...]] = ("server_label", "name", "arguments", "output", "error")

    output: str | None = None
    error: str | Json | None = None
    approval_request_id: str | None = None
    harmonia_by_hand: Annotated[bool | None, Meta(description="A person answered in place of the tool.")] = None

    @property
    def result_text(self) -> str:
        """What the tool answered. Clients may send an error in another form than `write_error`."""
        if self.output is not None:
            return self.output
        if self.error is None or isinstance(self.error, str):
            return self.error or ""
        content: Any = self.error.get("content")
        held = cast("list[object]", content) if isinstance(content, list) else []
        parts = [cast("Json", part) for part in held if isinstance(part, dict)]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        return "".join(texts) if texts else dump(self.error)


def write_error(text: str) -> Json:
    """The error of an MCP tool as `mcp_call` items have it."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


class McpApprovalRequest(ServerCall, frozen=True, tag="mcp_approval_request", kw_only=True):
    id_prefix: ClassVar[str] = "mcpr"
    id_field: ClassVar[str] = "id"
    is_always_sealed: ClassVar[bool] = True
    bound: ClassVar[tuple[str, ...]] = ("id", "server_label", "name", "arguments")


class McpApprovalResponse(CallAnswer, frozen=True, tag="mcp_approval_response", kw_only=True):
    approval_request_id: str
    approve: bool
    reason: str | None = None
    harmonia_arguments: Annotated[
        str | None,
        Meta(description="What the call is run with instead: one JSON object, as a string. Only if it is approved."),
    ] = None
    harmonia_output: Annotated[
        str | None,
        Meta(description="What a person answers in place of the tool; nothing is run. Only if it is approved."),
    ] = None

    @classmethod
    def answered(cls, item: Json) -> object:
        return item.get("approval_request_id")


class McpListTools(Item, frozen=True, tag="mcp_list_tools", kw_only=True):
    """The tools of a server. The model reads nothing of it: they are declared anyway."""

    id_prefix: ClassVar[str] = "mcpl"

    server_label: str
    tools: Annotated[
        list[Json],
        Meta(description="As this server listed them. If you send them back, they are not listed again."),
    ] = msgspec.field(default_factory=list[Json])
    error: str | Json | None = None


def listed_tool(tool: Tool) -> Json:
    """A tool as the list of its server has it."""
    schema: object = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    return {
        "name": tool.own_name,
        "description": tool.description,
        "input_schema": schema,
        "annotations": tool.annotations,
    }
