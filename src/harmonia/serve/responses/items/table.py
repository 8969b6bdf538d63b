"""The types of items. A new one is a class in a module beside this one, and a row here."""

from __future__ import annotations

from typing import Final, cast

from harmonia.messages import Json
from harmonia.run.tools import Tool
from harmonia.serve.responses.items import apply_patch, base, mcp, shell
from harmonia.serve.responses.items.base import SLUG, CallItem, ClientCall, Item, ItemReference
from harmonia.serve.wire.validation import RequestWarnings, invalid, read_struct, unsupported

ITEMS: Final[tuple[type[Item], ...]] = (
    base.MessageItem,
    base.ReasoningItem,
    base.FunctionCall,
    base.CustomCall,
    base.FunctionOutput,
    base.CustomOutput,
    shell.ShellCall,
    shell.ShellOutput,
    shell.LocalShellCall,
    shell.LocalShellOutput,
    apply_patch.PatchCall,
    apply_patch.PatchOutput,
    mcp.McpCall,
    mcp.McpApprovalRequest,
    mcp.McpApprovalResponse,
    mcp.McpListTools,
    base.AdditionalTools,
    ItemReference,
)

BY_TYPE: Final[dict[str, type[Item]]] = {each.type_name(): each for each in ITEMS}
CALLS: Final[dict[str, type[CallItem]]] = {name: each for name, each in BY_TYPE.items() if issubclass(each, CallItem)}
# The tools that the API defines and the client runs, by the type of their definitions.
BUILT_IN: Final[dict[str, type[ClientCall]]] = {
    each.tool_type: each for each in CALLS.values() if issubclass(each, ClientCall) and each.declaration is not None
}
_CALL_OF_TOOL: Final = {each.tool_type: each for each in CALLS.values()}


def call_item(tool: Tool) -> type[CallItem]:
    """The type of the item that a call to the tool becomes."""
    if tool.server is not None:
        return mcp.McpApprovalRequest if tool.invoke is None else mcp.McpCall
    return _CALL_OF_TOOL[tool.kind]


def item_type(item: Json) -> type[Item] | None:
    """The type of an item's JSON, in either dialect; None if it is unknown."""
    return BY_TYPE.get(str(item.get("type") or base.MessageItem.type_name()).removeprefix(SLUG))


def read_item(value: object, path: str, warnings: RequestWarnings | None = None) -> Item:
    """One item. A message may leave its type out. Unknown keys go to `warnings`."""
    if not isinstance(value, dict):
        invalid("an item must be a JSON object", path)
    item = cast("Json", value)
    kind = item.get("type")
    if kind is None:
        kind = "message" if "role" in item else "item_reference"
        if "role" not in item and not set(item) <= {"id", "type"}:
            invalid("an item needs a type, or a role if it is a message", path)
    kind = str(kind).removeprefix(SLUG)
    item = {**item, "type": kind}
    known = BY_TYPE.get(kind)
    if known is None:
        unsupported(f"unsupported type of item: {kind!r}; this server reads {', '.join(BY_TYPE)}", f"{path}.type")
    read = read_struct((warnings or RequestWarnings()).drop_unknown_fields(item, known, path), known, path)
    if read.caller is not None and read.caller.get("type") != "direct":
        unsupported("calls are made by the model itself, not by programs; leave caller out", f"{path}.caller")
    return read
