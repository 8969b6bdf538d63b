"""What a seal is bound to: the kind of its item, and everything that the item says in the open.

    message                 channel, and the text of the whole message, also where the item has only the rest of it
    reasoning               nothing more: what it says is behind the seal
    a call of the client's  call_id, name, namespace and arguments, or what the kind has in their place
    mcp_call                server, name, arguments and result
    mcp_approval_request    id, server, name and arguments

1. The same function gives this when an item is sealed and when it comes back. Beside an item that says something else,
   or is of another kind, a seal does not open. So whether it opens depends on what the client has seen, and never on
   what the seal holds: no guess of hidden text can be tried with it.
2. Clients may leave out ids (but those of calls and approval requests, which other items name), states and fields that
   are null.
"""

from __future__ import annotations

import json
from typing import Any, assert_never, cast

from harmonia.messages import Json
from harmonia.serve.responses import items as wire
from harmonia.serve.responses.items import texts_of

SealableItem = (
    wire.MessageItem
    | wire.ReasoningItem
    | wire.FunctionCall
    | wire.CustomCall
    | wire.ShellCall
    | wire.LocalShellCall
    | wire.PatchCall
    | wire.McpCall
    | wire.McpApprovalRequest
)


def binding_of(item: SealableItem, before: str = "") -> bytes:
    """What the seal of this item is bound to. `before` is the text that the item continues, if it does."""
    match item:
        case wire.MessageItem():
            text = before + "".join(texts_of(item.content, "$"))
            said: list[Any] = [item.role, item.phase or "final_answer", text]
        case wire.ReasoningItem():
            said = []
        case wire.FunctionCall():
            said = [item.call_id, item.name, item.namespace, item.arguments]
        case wire.CustomCall():
            said = [item.call_id, item.name, item.namespace, item.input]
        case wire.ShellCall() | wire.LocalShellCall():
            said = [item.call_id, without_nulls(item.action)]
        case wire.PatchCall():
            said = [item.call_id, without_nulls(item.operation)]
        case wire.McpCall():
            said = [item.server_label, item.name, item.arguments, item.output, item.error]
        case wire.McpApprovalRequest():
            said = [item.id, item.server_label, item.name, item.arguments]
        case _:
            assert_never(item)
    # ASCII: half a surrogate pair in a text has no other encoding.
    return json.dumps([item.__struct_config__.tag, *said], sort_keys=True).encode()


def without_nulls(value: Any) -> Any:
    """An object without the fields that are null: some clients leave them out, others add them."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in cast("Json", value).items() if each is not None}
