"""The items of a response while they grow, and what stands in each from the beginning."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, cast

from harmonia.messages import Json, Message
from harmonia.parts import Call
from harmonia.run.tools.arguments import unwrap_input
from harmonia.serve.responses.tools import OfferedTool
from harmonia.serve.security.identity import new_id

LISTING: Final = "mcp_list_tools"
_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    LISTING: "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
}


@dataclass(slots=True)
class OutputItem:
    """An item. `messages` are what the model sampled, and what it was told of it."""

    wire: Json
    index: int
    kind: str
    messages: tuple[Message, ...] = ()
    is_done: bool = False
    texts: list[str] = field(default_factory=list[str])
    logprobs: list[Json] = field(default_factory=list[Json])
    delta_head: bytes = b""  # of its delta events, up to the sequence number
    delta_tail: bytes = b""  # and behind the text
    delta_type: str = ""

    @property
    def id(self) -> str:
        return self.wire["id"]


def begin_listing(type_: str, index: int, server: str) -> OutputItem:
    """The list of the tools of an MCP server, before they are in it."""
    wire: Json = {"type": type_, "id": new_id(_PREFIXES[LISTING]), "status": "in_progress"}
    return OutputItem(wire | {"server_label": server, "tools": []}, index, LISTING)


def listed_tool(offered: OfferedTool) -> Json:
    """A tool as the list of its server has it."""
    tool = offered.tool
    schema: object = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    return {
        "name": offered.name,
        "description": tool.description,
        "input_schema": schema,
        "annotations": tool.annotations,
    }


def begin_item(kind: str, type_: str, index: int, offered: OfferedTool | None) -> OutputItem:
    """An item in progress: every field is there, and empty."""
    wire: Json = {"type": type_, "id": new_id(_PREFIXES[kind]), "status": "in_progress"}
    match kind:
        case "message":
            wire |= {"role": "assistant", "content": []}
        case "reasoning":
            wire |= {"summary": [], "content": []}  # clients read the length of both
        case "mcp_call" | "mcp_approval_request":
            assert offered is not None
            wire |= {"server_label": offered.server, "name": offered.name, "arguments": ""}
        case _:
            assert offered is not None
            wire |= {"call_id": new_id("call"), **_EMPTY.get(kind, {})}
            if kind in ("function_call", "custom_tool_call"):
                wire["name"] = offered.name
                if offered.namespace is not None:
                    wire["namespace"] = offered.namespace
    return OutputItem(wire, index, kind)


_EMPTY: Final[dict[str, Json]] = {
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "shell_call": {"action": {"commands": []}},
    "local_shell_call": {"action": {"type": "exec", "command": [], "env": {}}},
}
_OPERATION: Final = ("type", "path", "diff")


def call_fields(kind: str, call: Call) -> Json:
    """What the model wrote, as the fields of its item. The run has checked that it fits."""
    value: Any = call.value
    arguments = cast("Json", value) if isinstance(value, dict) else {}
    match kind:
        case "custom_tool_call":
            return {"input": unwrap_input(call.text)}
        case "shell_call":
            action = {name: arguments.get(name) for name in ("commands", "timeout_ms", "max_output_length")}
            return {"action": action}
        case "local_shell_call":
            return {"action": {"type": "exec", "env": {}, **arguments}}
        case "apply_patch_call":
            return {"operation": {name: arguments[name] for name in _OPERATION if name in arguments}}
        case _:
            return {"arguments": call.text}


def write_error(text: str) -> Json:
    """What an MCP tool said when it failed."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


def error_text(error: str | Json | None) -> str:
    """The same, read; clients may send another form of it."""
    if error is None or isinstance(error, str):
        return error or ""
    content: Any = error.get("content")
    if isinstance(content, list):
        parts = [cast("Json", part) for part in cast("list[object]", content) if isinstance(part, dict)]
        texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
        if texts:
            return "".join(texts)
    return json.dumps(error, ensure_ascii=False)
