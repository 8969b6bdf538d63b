"""The items of a response: what a client may send, and what it gets."""

from harmonia.serve.responses.items.base import (
    SLUG,
    CallAnswer,
    CalledTool,
    CallItem,
    CallOutput,
    ClientCall,
    Item,
    ItemReference,
    SealedItem,
    ServerCall,
    texts_of,
)
from harmonia.serve.responses.items.functions import AdditionalTools, CustomCall, FunctionCall
from harmonia.serve.responses.items.mcp import (
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    listed_tool,
    write_error,
)
from harmonia.serve.responses.items.messages import (
    MessageItem,
    ReasoningItem,
    is_reasoning,
    may_have_reasoning,
    visible_item,
    without_reasoning_text,
)
from harmonia.serve.responses.items.table import BUILT_IN, BY_TYPE, CALLS, ITEMS, call_item, item_type, read_item

__all__ = [
    "BUILT_IN",
    "BY_TYPE",
    "CALLS",
    "ITEMS",
    "SLUG",
    "AdditionalTools",
    "CallAnswer",
    "CallItem",
    "CallOutput",
    "CalledTool",
    "ClientCall",
    "CustomCall",
    "FunctionCall",
    "Item",
    "ItemReference",
    "McpApprovalRequest",
    "McpApprovalResponse",
    "McpCall",
    "McpListTools",
    "MessageItem",
    "ReasoningItem",
    "SealedItem",
    "ServerCall",
    "call_item",
    "is_reasoning",
    "item_type",
    "listed_tool",
    "may_have_reasoning",
    "read_item",
    "texts_of",
    "visible_item",
    "without_reasoning_text",
    "write_error",
]
