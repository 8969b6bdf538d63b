"""Saved chats as files, and the request that a branch of one stands for.

    json       the whole chat with all of its branches, in our own format, which is read back without loss
    markdown   one branch, for people; it can be read back as well
    harmony    one branch as the model had it: the prompt and the answer, special tokens spelled out
    tokens     the same as token ids

1. No seal is opened here. Hidden reasoning is a seal without a text: the JSON keeps it as it is, and Markdown leaves it
   out. For the other two, serve/inspector/turn_trace.py opens it and leaves out what is hidden.
2. If the operator hides reasoning, no text of any is in a file or in a chat that is read, even if the server showed it
   before or it came with an imported file. What is stored stays as it is.
3. The request is the one that the page sends for the branch, so that the export is what the model had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from harmonia.interchange import read_responses, write_markdown
from harmonia.interchange.request_settings import leading_system
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, Message, SystemContent
from harmonia.serve.config.settings import Limits
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.responses.items.base import (
    CallAnswer,
    CallItem,
    is_reasoning,
    may_have_reasoning,
    without_reasoning_text,
)
from harmonia.serve.responses.items.table import item_type
from harmonia.serve.saved_chats.request import FORMAT, VERSION, ExportFormat
from harmonia.serve.saved_chats.titles import write_title
from harmonia.serve.store.base import StoredChat, StoredChatTurn
from harmonia.serve.wire.attachments import describe_part
from harmonia.serve.wire.validation import MOST_VALUES
from harmonia.serve.wire.work_limits import too_large

# The ending of a file, and its media type.
FILES: Final[dict[ExportFormat, tuple[str, str]]] = {
    "json": (".json", "application/json"),
    "markdown": (".md", "text/markdown; charset=utf-8"),
    "harmony": (".harmony.txt", "text/plain; charset=utf-8"),
    "tokens": (".tokens.json", "application/json"),
}
_UNFINISHED: Final = ("in_progress", "incomplete", "calling")
_SEAL: Final = "encrypted_content"
# Fields that only the API needs.
_NOT_FOR_PEOPLE: Final = ("id", "status", _SEAL, "approval_request_id")
_REFUSED: Final = "The user refused this call"


def branch_of(turns: Sequence[StoredChatTurn], leaf: str | None, limits: Limits) -> list[Json]:
    """The turns from the first to the leaf. A branch stands for a request, and may be as large as one."""
    by_id = {turn.id: turn for turn in turns}
    kept: list[StoredChatTurn] = []
    while leaf is not None:
        kept.append(by_id[leaf])
        leaf = kept[-1].parent
    if sum(len(turn.body) for turn in kept) > limits.body_bytes:
        too_large(f"the branch has more than {limits.body_bytes} bytes, which is the limit", "$.leaf")
    if sum(turn.body.count(b",") for turn in kept) > MOST_VALUES:
        too_large(f"the branch has more than {MOST_VALUES} values, which is the limit", "$.leaf")
    found: list[Json] = [msgspec.json.decode(turn.body) for turn in reversed(kept)]
    if sum(len(turn["items"]) for turn in found) > limits.items:
        too_large(f"the branch has more than {limits.items} items, which is the limit", "$.leaf")
    return found


def hide_reasoning(turns: Iterable[StoredChatTurn]) -> tuple[list[StoredChatTurn], int]:
    """The turns without the text of any reasoning, and how many had one. Seals stay."""
    shown: list[StoredChatTurn] = []
    hidden = 0
    for turn in turns:
        if may_have_reasoning(turn.body):
            said: Json = json.loads(turn.body)  # with integers of any size
            bare = [without_reasoning_text(item) if is_reasoning(item) else item for item in said["items"]]
            texts = sum(item != before for item, before in zip(bare, said["items"], strict=True))
            if texts:
                hidden += texts
                turn = msgspec.structs.replace(turn, body=encode_bytes({**said, "items": bare}))
        shown.append(turn)
    return shown, hidden


def write_json(chat: StoredChat, turns: Iterable[StoredChatTurn]) -> bytes:
    """The whole chat. The turns are written as they are given."""
    head = encode_bytes(
        {
            "format": FORMAT,
            "version": VERSION,
            "title": chat.title,
            "created_at": chat.created_at,
            "updated_at": chat.updated_at,
            "leaf": chat.leaf,
        }
    )
    listed = b",\n".join(turn.body for turn in turns)
    return head[:-1] + b',"settings":' + chat.settings + b',"turns":[\n' + listed + b"\n]}\n"


# ── for people ──────────────────────────────────────────────────────────────────────────────────────────────────────


def write_chat_markdown(title: str, settings: Json, branch: list[Json], *, hides: bool) -> tuple[bytes, int]:
    """The branch as Markdown, under its title, and how many messages are not in it because they are hidden."""
    sendable = sendable_items(branch)
    items = [item for item in sendable if not is_reasoning(item) or (_has_text(item) and not hides)]
    hidden = len(sendable) - len(items)
    body: Json = {"input": list(_for_people(items))}
    for name, setting in (("instructions", "instructions"), ("tools", "functions")):
        if settings.get(setting):
            body[name] = settings[setting]
    if settings.get("effort"):
        body["reasoning"] = {"effort": settings["effort"]}
    conversation, identity = read_responses(body).conversation, settings.get("identity")
    if isinstance(identity, str) and identity.strip():
        system = leading_system(conversation)
        named = (system or SystemContent()).replace(model_identity=identity.strip())
        conversation = Conversation([Message.system(named), *conversation.messages[0 if system is None else 1 :]])
    return f"{write_title(title)}{write_markdown(conversation).text}".encode(), hidden


def _for_people(items: list[Json]) -> Iterator[Json]:
    """The items without seals; files are the texts that the model read, and a decided approval is the call it was."""
    asked = {item["id"]: item for item in items if item.get("type") == "mcp_approval_request" and item.get("id")}
    # A call that ran after its approval is there with its result.
    ran = {item.get("approval_request_id") for item in items if item.get("type") == "mcp_call"}
    for item in items:
        kind = item.get("type")
        if kind == "mcp_approval_response":
            request = asked.get(item.get("approval_request_id"))
            if request is not None and request.get("id") not in ran and (call := _decided(request, item)):
                yield call
            continue
        bare = {name: value for name, value in item.items() if name not in _NOT_FOR_PEOPLE}
        content = item.get("content")
        if isinstance(content, list):
            parts = cast("list[Any]", content)
            bare["content"] = [_part_for_people(part, is_last=at == len(parts)) for at, part in enumerate(parts, 1)]
        yield bare


def _decided(request: Json, response: Json) -> Json | None:
    arguments = response.get("harmonia_arguments") or request.get("arguments")
    output = response.get("harmonia_output")
    if not response.get("approve"):
        reason = response.get("reason")
        output = f"{_REFUSED}: {reason}" if reason else f"{_REFUSED}."
    if output is None:
        return None
    known = {name: request.get(name) for name in ("name", "server_label")}
    return {"type": "mcp_call", **known, "arguments": arguments, "output": output}


def _part_for_people(part: Any, *, is_last: bool) -> Any:
    if not isinstance(part, dict):
        return part
    said = cast("Json", part)
    if said.get("type") in ("input_file", "file"):
        # The text after a file begins on a line of its own.
        return {"type": "input_text", "text": describe_part(said, "$") + ("" if is_last else "\n")}
    return {name: value for name, value in said.items() if name not in ("annotations", "logprobs")}


# ── for the model ───────────────────────────────────────────────────────────────────────────────────────────────────


def split_branch(branch: list[Json]) -> tuple[list[Json], list[Json]]:
    """The input, and the output: the last turn, if that is the model's."""
    items = sendable_items(branch)
    is_answered = bool(branch) and branch[-1].get("role") == "assistant"
    asked = len(sendable_items(branch[:-1])) if is_answered else len(items)
    return items[:asked], items[asked:]


def request_for(settings: Json, items: list[Json], tools: Sequence[ServerTool]) -> Json:
    """The request that the page sends for these items."""
    request: Json = {"input": items, "store": False}
    for field, name in (("instructions", "instructions"), ("harmonia_identity", "identity")):
        told = settings.get(name)
        if isinstance(told, str) and told.strip():
            request[field] = told.strip()
    offered = [*_servers_on(settings, tools), *(settings.get("functions") or ())]
    if offered:
        request["tools"] = offered
    if settings.get("effort"):
        request["reasoning"] = {"effort": settings["effort"]}
    return request


def without_seals(items: list[Json]) -> tuple[list[Json], int]:
    """The items without their seals, and how many were nothing but a seal."""
    bare = [
        {name: value for name, value in item.items() if name != _SEAL}
        for item in items
        if not is_reasoning(item) or _has_text(item)
    ]
    return bare, len(items) - len(bare)


def sendable_items(branch: Iterable[Json]) -> list[Json]:
    """What may go back to the model: nothing empty, no unfinished call, no result without its call."""
    calls: set[object] = set()
    found: list[Json] = []
    for item in (item for turn in branch for item in turn["items"]):
        kind = item_type(item)
        if kind is not None and issubclass(kind, CallItem):
            is_sendable = item.get("status") not in _UNFINISHED
            calls.update([item.get(kind.id_field)] if is_sendable else [])
        elif kind is not None and issubclass(kind, CallAnswer):
            is_sendable = kind.answered(item) in calls
        else:
            is_said = is_reasoning(item) or (item.get("type") == "message" and item.get("role") == "assistant")
            is_sendable = not is_said or item.get(_SEAL) is not None or _has_text(item)
        found += [item] if is_sendable else []
    return found


def is_final(item: Json) -> bool:
    """Whether this is a complete answer for the user."""
    is_answer = item.get("type") == "message" and item.get("phase") != "commentary"
    return is_answer and item.get("status") not in _UNFINISHED


def _has_text(item: Json) -> bool:
    """Whether a message or a reasoning has a text."""
    content = item.get("content")
    if not isinstance(content, list):
        return bool(content)
    parts = (cast("Json", part) for part in cast("list[Any]", content) if isinstance(part, dict))
    return any(part.get("text") or part.get("refusal") for part in parts)


def _servers_on(settings: Json, tools: Sequence[ServerTool]) -> list[Json]:
    """Nothing if all tools are on; otherwise each server with a tool, or one without tools if all are off."""
    given = settings.get("tools_off")
    off = cast("list[Any]", given) if isinstance(given, list) else []
    on: dict[str, list[str]] = {}
    for tool in tools:
        names = on.setdefault(tool.server, [])
        if tool.server not in off and f"{tool.server}.{tool.name}" not in off:
            names.append(tool.name)
    if sum(map(len, on.values())) == len(tools):
        return []
    named = [{"type": "mcp", "server_label": label, "allowed_tools": names} for label, names in on.items() if names]
    return named or [{"type": "mcp", "server_label": label, "allowed_tools": []} for label in list(on)[:1]]
