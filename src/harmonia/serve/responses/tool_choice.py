"""The tool choice of a request, in the words of a run."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

import msgspec

from harmonia.messages import Json
from harmonia.run.engines.base import ToolChoice
from harmonia.run.tools import ToolSet
from harmonia.serve.responses.tools import Offer, OfferedTool
from harmonia.serve.wire.validation import invalid, read_struct, unsupported

_PATH: Final = "$.tool_choice"
_PLAIN: Final = ("auto", "none", "required")


class Chosen(msgspec.Struct, frozen=True):
    """`toolset` declares all tools and runs those that are allowed; `choice` is for the run."""

    choice: ToolChoice
    toolset: ToolSet


class _Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tools: list[Json]
    type: Literal["allowed_tools"] = "allowed_tools"
    mode: Literal["auto", "required", "none"] = "auto"


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


def read_choice(given: str | Json | None, offer: Offer) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    toolset = offer.toolset
    if given is None:
        return Chosen("auto", toolset)
    if isinstance(given, str):
        if given not in _PLAIN:
            invalid(f"expected {', '.join(_PLAIN)} or an object, got {given!r}", _PATH)
        if given == "required" and not len(toolset):
            invalid("a call is required, and there are no tools", _PATH)
        # A model may call all the same, and then the call is not handed over.
        return Chosen(given, toolset.allow([]) if given == "none" else toolset)
    if given.get("type") == "allowed_tools":
        allowed = read_struct(given, _Allowed, _PATH)
        tools: list[OfferedTool] = []
        for at, each in enumerate(allowed.tools):
            tools += _named(each, offer, f"{_PATH}.tools[{at}]")
        if allowed.mode == "required" and not tools:
            invalid("a call is required, and no tool is allowed", _PATH)
        chosen = toolset.allow([toolset.recipient_of(tool.tool) for tool in tools])
        return Chosen(allowed.mode, chosen)
    found = _named(given, offer, _PATH)
    if len(found) == 1:
        return Chosen(toolset.recipient_of(found[0].tool), toolset)
    # A whole server: some call, and only to it.
    return Chosen("required", toolset.allow([toolset.recipient_of(tool.tool) for tool in found]))


def _named(given: Any, offer: Offer, path: str) -> list[OfferedTool]:
    if not isinstance(given, dict):
        invalid("a tool is named by an object with a type", path)
    named = read_struct(cast("Json", given), _Named, path)
    match named.type:
        case "function" | "custom":
            if named.name is None:
                invalid("which tool? There is no name", f"{path}.name")
            tool = offer.named(named.name, named.namespace)
            found = [] if tool is None else [tool]
            if tool is not None and (tool.item == "custom_tool_call") is not (named.type == "custom"):
                invalid(f"{named.name} is no tool of type {named.type} in this request", f"{path}.type")
        case "mcp":
            found = [] if named.server_label is None else offer.of_server(named.server_label, named.name)
        case "shell" | "local_shell" | "apply_patch":
            found = offer.of_kind([f"{named.type}_call"])
        case _:
            unsupported(f"a choice of type {named.type!r} is not here", f"{path}.type")
    if not found:
        invalid(f"there is no such tool in this request: {named.name or named.server_label or named.type}", path)
    return found
