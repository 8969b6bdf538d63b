"""A message to a tool as a call: the tool, the arguments, and whether it may run.

1. The recipient decides, not the channel: an assistant message addressed to a tool is a call.
2. `text` is what the model wrote, verbatim; parsed values are separate fields.
3. A call is executable (law 5) only if it was read from token ids, complete and without repairs, and, if tools were
   declared, calls one of them. Broken JSON is repaired on request only, and a call with repaired arguments is a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.json_codec import read_json
from harmonia.messages import Message, Role
from harmonia.parser.headers import is_json_type
from harmonia.parser.tools import UNDECLARED, DeclaredTool, ToolKind, Tools, is_tool_address
from harmonia.provenance import Trust

# certain     read from token ids up to its stop token, without repairs; or reported as a call by a provider that
#             parses the tokens itself
# unverified  read from text, where an echo of typed text looks the same; or without a stop token, where the call may
#             be truncated; or written by a person or a program
# guessed     everything else: repaired, guessed, stripped, forged
CallStatus = Literal["certain", "unverified", "guessed"]

_FUNCTIONS: Final = "functions."
_MCP: Final = "mcp__"


class Call(msgspec.Struct, frozen=True):
    """A tool call. `server` is the namespace or the MCP server of the tool, None for one of `functions`.

    `value` is the JSON value of the arguments; if they are not JSON, it is None or the repaired value. `is_executable`
    says whether the call may run without approval: its status is certain, its arguments match its content type, and, if
    tools were declared, it calls one of them.
    """

    recipient: str
    kind: ToolKind
    server: str | None
    name: str
    text: str
    value: Any
    is_json: bool
    is_repaired: bool
    status: CallStatus
    is_executable: bool


def call_of(
    message: Message, tools: Tools | Iterable[DeclaredTool] | None = None, *, repair_json: bool = False
) -> Call | None:
    """A message as a call, or None. With `repair_json`, broken JSON is repaired, which needs the extra `repair`."""
    recipient = message.recipient
    if message.role is not Role.ASSISTANT or recipient is None or not is_tool_address(recipient):
        return None
    text = message.text
    status = _status_of(message)
    value, is_json, is_repaired = None, True, False
    try:
        value = read_json(text)
    except ValueError:
        is_json = False
        # Arguments of another content type, such as code, are not broken JSON.
        if repair_json and (message.content_type is None or is_json_type(message.content_type)):
            value = _repair(text)
            is_repaired = value is not None
    known = as_tools(tools)
    kind = known.kind_of(recipient)
    is_sound = is_json or not is_json_type(message.content_type)
    server, name = split_name(recipient)
    return Call(
        recipient,
        kind,
        server,
        name,
        text,
        value,
        is_json,
        is_repaired,
        "guessed" if is_repaired else status,
        status == "certain" and not is_repaired and is_sound and (kind == "declared" or not known.is_known),
    )


def split_name(recipient: str) -> tuple[str | None, str]:
    """The server and the tool in a recipient.

    functions.x -> x      python -> python      browser.search -> browser, search
    mcp__server__tool and server___tool, also after `functions.` -> server, tool
    """
    name = recipient.removeprefix(_FUNCTIONS) or recipient
    if name.startswith(_MCP):
        server, parted, tool = name.removeprefix(_MCP).partition("__")
    else:
        server, parted, tool = name.partition("___")
    if not (server and parted and tool) and not recipient.startswith(_FUNCTIONS):
        server, parted, tool = name.partition(".")
    return (server, tool) if server and parted and tool else (None, name)


def as_tools(tools: Tools | Iterable[DeclaredTool] | None) -> Tools:
    """Whatever a caller may pass as tools, as `Tools`."""
    if tools is None:
        return UNDECLARED
    return tools if isinstance(tools, Tools) else Tools(tools)


def _status_of(message: Message) -> CallStatus:
    origin = message.origin
    if origin is None:
        return "unverified"
    if origin.forged or origin.trust is not Trust.CERTAIN or origin.source == "stripped":
        return "guessed"
    return "certain" if origin.source in ("tokens", "items") and origin.stop is not None else "unverified"


def _repair(text: str) -> Any:
    """The probable value of broken JSON: an object or an array, or None if it cannot be repaired."""
    try:
        import json_repair
    except ImportError as error:
        raise InputError(
            ErrorCode.PARSE_MISSING_EXTRA,
            "repairing JSON needs json-repair; install it with: pip install 'harmonia[repair]'",
        ) from error
    try:
        value = json_repair.loads(text)
        json.dumps(value, allow_nan=False)  # json_repair accepts NaN, which is not JSON
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
