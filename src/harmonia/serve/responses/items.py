"""The items that a client may send, and what each says to the model.

    message                       developer and system: instructions; user; assistant, by its phase
    reasoning                     what its seal holds; without one, its text, if it has any
    function_call, custom_tool_call, shell_call, local_shell_call, apply_patch_call, mcp_call      a call to the tool
    …_output                      the tool's answer, joined to its call by call_id
    mcp_approval_request, mcp_approval_response     a call that waits, and what was decided about it
    mcp_list_tools                nothing: what it lists is declared anyway
    additional_tools              more tools
    item_reference                the stored item

All other types are refused by name. Every part of a content is text in the end: what is no text is described, because
the model reads nothing else, and no address is ever fetched.
"""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import msgspec

from harmonia.messages import Json
from harmonia.serve.wire.attachments import describe_part
from harmonia.serve.wire.request_warnings import RequestWarnings
from harmonia.serve.wire.validation import invalid, read_struct, unsupported

# Before the types of items that the dialect open-responses does not know.
SLUG: Final = "harmonia:"

Status = Literal["in_progress", "completed", "incomplete", "failed", "calling"]
Phase = Literal["commentary", "final_answer"]


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """What all have in common. `status` and `id` are the server's own words, said back to it; so is
    `harmonia_continues` of those that have it: such an item goes on with the one before it."""

    id: str | None = None
    status: Status | None = None
    created_by: str | None = None
    caller: Json | None = None


class MessageItem(_Item, frozen=True, tag="message", kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Any] | None = None
    phase: Phase | None = None
    name: None = None
    harmonia_continues: bool | None = None
    encrypted_content: str | None = None


class ReasoningItem(_Item, frozen=True, tag="reasoning", kw_only=True):
    """`harmonia_channel` and `harmonia_call` say what it is where it is no thought; the server says so for people, and
    reads neither."""

    summary: list[Any] | None = None
    content: list[Any] | None = None
    harmonia_continues: bool | None = None
    harmonia_channel: str | None = None
    harmonia_call: Json | None = None
    encrypted_content: str | None = None


class FunctionCall(_Item, frozen=True, tag="function_call", kw_only=True):
    name: str
    call_id: str
    arguments: str = ""
    namespace: str | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")
    encrypted_content: str | None = None


class CustomCall(_Item, frozen=True, tag="custom_tool_call", kw_only=True):
    name: str
    call_id: str
    input: str = ""
    namespace: str | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")
    encrypted_content: str | None = None


class FunctionOutput(_Item, frozen=True, tag="function_call_output", kw_only=True):
    call_id: str
    output: str | list[Any]
    name: str | None = None
    namespace: str | None = None


class CustomOutput(_Item, frozen=True, tag="custom_tool_call_output", kw_only=True):
    call_id: str
    output: str | list[Any]
    name: str | None = None


class ShellCall(_Item, frozen=True, tag="shell_call", kw_only=True):
    call_id: str
    action: Json
    environment: Json | None = None
    encrypted_content: str | None = None


class ShellOutput(_Item, frozen=True, tag="shell_call_output", kw_only=True):
    call_id: str
    output: str | list[Any]
    max_output_length: int | None = None


class LocalShellCall(_Item, frozen=True, tag="local_shell_call", kw_only=True):
    call_id: str
    action: Json
    encrypted_content: str | None = None


class LocalShellOutput(_Item, frozen=True, tag="local_shell_call_output", kw_only=True):
    """OpenAI's has the id of the call as `id`; some clients send `call_id`."""

    output: str
    call_id: str | None = None


class PatchCall(_Item, frozen=True, tag="apply_patch_call", kw_only=True):
    call_id: str
    operation: Json
    encrypted_content: str | None = None


class PatchOutput(_Item, frozen=True, tag="apply_patch_call_output", kw_only=True):
    call_id: str
    output: str | None = None


class McpCall(_Item, frozen=True, tag="mcp_call", kw_only=True):
    name: str
    server_label: str
    arguments: str = ""
    output: str | None = None
    error: str | Json | None = None
    approval_request_id: str | None = None
    harmonia_by_hand: bool | None = None
    encrypted_content: str | None = None


class McpApprovalRequest(_Item, frozen=True, tag="mcp_approval_request", kw_only=True):
    name: str
    server_label: str
    arguments: str = ""
    encrypted_content: str | None = None


class McpApprovalResponse(_Item, frozen=True, tag="mcp_approval_response", kw_only=True):
    """`harmonia_arguments` are what the call is run with instead; `harmonia_output` is its result, and nothing is
    run."""

    approval_request_id: str
    approve: bool
    reason: str | None = None
    harmonia_arguments: str | None = None
    harmonia_output: str | None = None


class McpListTools(_Item, frozen=True, tag="mcp_list_tools", kw_only=True):
    server_label: str
    tools: list[Json] = []
    error: str | Json | None = None


class AdditionalTools(_Item, frozen=True, tag="additional_tools", kw_only=True):
    tools: list[Json]
    role: str | None = None


class ItemReference(_Item, frozen=True, tag="item_reference", kw_only=True):
    pass


Item = (
    MessageItem
    | ReasoningItem
    | FunctionCall
    | CustomCall
    | FunctionOutput
    | CustomOutput
    | ShellCall
    | ShellOutput
    | LocalShellCall
    | LocalShellOutput
    | PatchCall
    | PatchOutput
    | McpCall
    | McpApprovalRequest
    | McpApprovalResponse
    | McpListTools
    | AdditionalTools
    | ItemReference
)

_KINDS: Final[dict[str, type[Item]]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": FunctionCall,
    "custom_tool_call": CustomCall,
    "function_call_output": FunctionOutput,
    "custom_tool_call_output": CustomOutput,
    "shell_call": ShellCall,
    "shell_call_output": ShellOutput,
    "local_shell_call": LocalShellCall,
    "local_shell_call_output": LocalShellOutput,
    "apply_patch_call": PatchCall,
    "apply_patch_call_output": PatchOutput,
    "mcp_call": McpCall,
    "mcp_approval_request": McpApprovalRequest,
    "mcp_approval_response": McpApprovalResponse,
    "mcp_list_tools": McpListTools,
    "additional_tools": AdditionalTools,
    "item_reference": ItemReference,
}
_TEXT_PARTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
# Fields of a text part that say nothing to the model: citations, log-probabilities, hints for a cache.
_BESIDE_TEXT: Final = frozenset(("type", "text", "annotations", "logprobs", "prompt_cache_breakpoint"))
_REFUSAL: Final = frozenset(("type", "refusal"))


def read_item(value: object, path: str, warnings: RequestWarnings | None = None) -> Item:
    """One item. A message may leave its type out. Unknown keys go to `warnings`."""
    if not isinstance(value, dict):
        invalid("an item is a JSON object", path)
    item = cast("Json", value)
    kind = item.get("type")
    if kind is None:
        kind = "message" if "role" in item else "item_reference" if set(item) <= {"id", "type"} else None
    elif isinstance(kind, str):
        kind = kind.removeprefix(SLUG)
    if kind is None:
        invalid("an item needs a type, or a role", path)
    item = {**item, "type": kind}
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        unsupported(
            f"items of type {kind!r} are not supported; known are {', '.join(_KINDS)}",
            f"{path}.type",
        )
    read = read_struct((warnings or RequestWarnings()).drop_unknown_fields(item, known, path), known, path)
    caller = read.caller
    if caller is not None and caller.get("type") != "direct":
        unsupported("calls are made by the model itself, not by programs", f"{path}.caller")
    return read


def texts_of(content: str | list[Any] | None, path: str, warnings: RequestWarnings | None = None) -> tuple[str, ...]:
    """The parts of a content as texts. They follow one another without a gap, but what describes a file or an image
    stands on lines of its own: `[end of file]` belongs to no sentence. Unknown keys go to `warnings`."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (content,)
    warnings = warnings or RequestWarnings()
    texts = [_text_of(part, f"{path}[{at}]", warnings) for at, part in enumerate(content)]
    for at in range(len(texts) - 1):
        ends_line = not texts[at] or texts[at].endswith("\n")
        if not ends_line and (_is_described(content[at]) or _is_described(content[at + 1])):
            texts[at] += "\n"
    return tuple(texts)


def _is_described(part: object) -> bool:
    kind = cast("Json", part).get("type") if isinstance(part, dict) else "text"
    return kind != "refusal" and kind not in _TEXT_PARTS


def _text_of(given: object, path: str, warnings: RequestWarnings) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        invalid("a part of a content is a JSON object", path)
    part = cast("Json", given)
    kind = part.get("type")
    if kind == "refusal":
        return _text_at(warnings.drop_unknown(part, _REFUSAL, path), "refusal", path)
    if kind in _TEXT_PARTS:
        return _text_at(warnings.drop_unknown(part, _BESIDE_TEXT, path), "text", path)
    return describe_part(part, path, warnings)


def _text_at(part: Json, name: str, path: str) -> str:
    text = part.get(name)
    if not isinstance(text, str):
        invalid(f"expected a text, got {type(text).__name__}", f"{path}.{name}")
    return text
