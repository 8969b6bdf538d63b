"""Files with conversations, as saved chats.

    harmonia-chat    our own JSON: the whole tree, with new ids
    chat, responses, harmony-json, markdown, harmony, tokens    what harmonia.interchange reads, as one branch
    JSON lines, or a list of conversations: several at once

1. Whatever is read is text (law 1): a conversation becomes ordinary items, without seals and tokens. Only our own JSON
   keeps its seals, which open only for the key they were made for.
2. What could not be imported is reported in words.
3. Either everything in a file is read, or the error says where reading stopped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.inspection.inputs import json_fault
from harmonia.interchange import Imported, Lossy, format_named, recognise, recognise_value, to_responses_body
from harmonia.interchange.request_settings import leading_system
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Json, SystemContent
from harmonia.serve.config.settings import Limits
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.saved_chats import request
from harmonia.serve.saved_chats.request import FORMAT, VERSION, ChatFile, check_size, read_turn
from harmonia.serve.saved_chats.titles import clean_title, made_title, split_title
from harmonia.serve.security.keys import new_id
from harmonia.serve.store.base import StoredChatTurn
from harmonia.serve.wire.validation import invalid, read_json, read_struct
from harmonia.serve.wire.work_limits import MOST_CHARACTERS, MOST_SPECIALS, count_specials, too_large
from harmonia.vocabulary import FIRST_SPECIAL

_TEXT: Final = "$.text"
_MOST_LOSSES: Final = 100
_HEADINGS_OF_A_MESSAGE: Final = 4
_LONG_ID: Final = re.compile(r"[0-9]{6,}")
_SAMPLED: Final = ("harmony", "tokens")


@dataclass(frozen=True, slots=True)
class Draft:
    """A chat that is not stored yet."""

    title: str
    settings: bytes
    turns: list[StoredChatTurn]
    leaf: str | None
    created_at: int | None = None


@dataclass(slots=True)
class ImportedFile:
    chats: list[Draft] = field(default_factory=list[Draft])
    formats: list[str] = field(default_factory=list[str])
    losses: list[str] = field(default_factory=list[str])

    @property
    def format(self) -> str:
        return ", ".join(dict.fromkeys(self.formats))


def read_file(text: str, name: str, limits: Limits, now: float, tools: Sequence[ServerTool] = ()) -> ImportedFile:
    """All conversations of a file. Slow: for a thread. `tools` are those of the server."""
    if len(text) > request.MOST_IMPORTED_CHARACTERS:
        too_large(f"the file has {len(text)} characters; at most {request.MOST_IMPORTED_CHARACTERS} are allowed", _TEXT)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        invalid("the file is empty", _TEXT)
    file = ImportedFile()
    losses: list[str] = []
    for where, document in _documents(text, limits.depth):
        try:
            losses += (f"{where}{loss}" for loss in _read(document, text, name, limits, now, file, tools))
            if sum(len(draft.turns) for draft in file.chats) > request.MOST_IMPORTED_TURNS:
                too_large(f"the file has more than {request.MOST_IMPORTED_TURNS} turns, which is the limit", _TEXT)
        except InputError as error:
            raise _placed(error, where) from error
    file.losses = losses[:_MOST_LOSSES]
    if len(losses) > _MOST_LOSSES:
        file.losses.append(f"and {len(losses) - _MOST_LOSSES} more")
    return file


def _placed(error: InputError, where: str) -> InputError:
    inner = error.at.path
    at = "" if inner in (None, "$", _TEXT) or inner in error.message else f" (at {inner})"
    # The JSON reader speaks of the body of a request; here it is a file in that body.
    message = re.sub(r"^the body\b", "the file" if not where else "it", error.message)
    return InputError(error.code, f"{where}{message}{at}", Position(error.at.token, path=_TEXT))


def _documents(text: str, depth: int) -> list[tuple[str, Any]]:
    """The conversations of a file, as JSON values or text, each with a description of its place."""
    if not text.lstrip().startswith(("{", "[")):
        return [("", text)]
    try:
        value = read_json(text.encode(), depth=depth)
    except InputError as error:
        lines = _lines(text, depth)
        if lines:
            return lines
        if error.code is ErrorCode.SERVE_TOO_LARGE or error.at.path is not None:
            raise _placed(error, "") from error
        return [("", text)]  # Harmony text and Markdown may also begin with a bracket
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    if not listed or not all(_is_conversation(each) for each in listed):
        return [("", value)]
    if len(listed) > request.MOST_IMPORTED:
        too_large(f"the file has {len(listed)} conversations; at most {request.MOST_IMPORTED} are allowed", _TEXT)
    return [(f"conversation {at}: ", each) for at, each in enumerate(listed, 1)]


def _lines(text: str, depth: int) -> list[tuple[str, Any]]:
    """The lines of a JSON Lines file; nothing if the first is not JSON."""
    found: list[tuple[str, Any]] = []
    # One by one: a list of all lines of a file of line breaks would be a hundred times its size.
    for at, line in enumerate(io.StringIO(text, newline="\n"), 1):
        if not line.strip():
            continue
        where = f"line {at}: "
        try:
            value = read_json(line.rstrip("\n").encode(), depth=depth)
        except InputError as error:
            if not found:
                return []
            raise _placed(error, where) from error
        if len(found) >= request.MOST_IMPORTED:
            too_large(
                f"the file has more than {request.MOST_IMPORTED} lines with conversations, which is the limit", _TEXT
            )
        found.append((where, value))
    return found


def _is_conversation(value: Any) -> bool:
    entry = cast("Json", value) if isinstance(value, dict) else {}
    return entry.get("format") == FORMAT or isinstance(entry.get("messages"), list)


def _read(
    document: Any, text: str, name: str, limits: Limits, now: float, file: ImportedFile, tools: Sequence[ServerTool]
) -> list[str]:
    """Read one conversation. Returns what could not be imported."""
    if isinstance(document, dict) and cast("Json", document).get("format") == FORMAT:
        file.formats.append(FORMAT)
        file.chats.append(_read_own(cast("Json", document)))
        return []
    format_name = _recognised(document)
    title = ""
    _check_length(_entries(document, format_name), limits)
    if format_name in _SAMPLED:
        _check_sampled(text)
    if format_name == "markdown" and isinstance(document, str):
        title, document = split_title(document)
    imported = format_named(format_name).read(document)
    _check_length(len(imported.conversation), limits)
    file.formats.append(format_name)
    # A prompt shows which tools the model had; other formats only which were declared.
    offered = tools if format_name in _SAMPLED else ()
    draft, losses = _draft(imported, title, name, now, offered)
    file.chats.append(draft)
    return [_sentence(loss) for loss in (*imported.losses, *losses) if _is_lost(loss)]


def _recognised(document: Any) -> str:
    try:
        return recognise(document) if isinstance(document, str) else recognise_value(cast("object", document))
    except InputError as error:
        # The client cannot choose the format here.
        why = error.message.partition(": ")[2].partition("; say which")[0]
        why = (json_fault(document) if isinstance(document, str) else None) or why
        message = f"this cannot be read as a conversation{f': {why}' if why else ''}"
        raise InputError(error.code, message, error.at) from error


def _is_lost(loss: Lossy) -> bool:
    """Whether the loss matters. Typed spellings of special tokens are kept as text, every prompt ends with the header
    of an answer, and each request has its own date."""
    is_open_header = loss.what == ErrorCode.HEADER_UNFINISHED.value and loss.why.endswith("'<|start|>assistant'")
    return not is_open_header and loss.what not in (ErrorCode.BODY_SPELLED_TOKEN.value, "conversation_start_date")


def _sentence(loss: Lossy) -> str:
    why = loss.why.removesuffix(".")
    where = "" if loss.path in ("", "$") else f" (at {loss.path})"
    return f"{why[:1].upper()}{why[1:]}{where}."


def _entries(document: Any, format_name: str) -> int:
    """About how many messages there are, before they are made, which takes a hundred times as long."""
    if isinstance(document, str):
        # Not every heading is a message: fenced texts have headings, too.
        return document.count("\n## ") // _HEADINGS_OF_A_MESSAGE if format_name == "markdown" else 0
    values = cast("Json", document).values() if isinstance(document, dict) else (document,)
    return max((len(cast("list[Any]", each)) for each in values if isinstance(each, list)), default=0)


def _check_length(number: int, limits: Limits) -> None:
    if number > limits.items:
        too_large(f"the conversation has {number} messages; at most {limits.items} are allowed", _TEXT)


def _check_sampled(text: str) -> None:
    """Check the number of special tokens: each may be a message or a fault, which is what parsing costs."""
    if len(text) > MOST_CHARACTERS:
        too_large(f"the file has {len(text)} characters of Harmony; at most {MOST_CHARACTERS} are allowed", _TEXT)
    number = count_specials(text, is_stripped=False)
    number += sum(int(found[0][:9]) >= FIRST_SPECIAL for found in _LONG_ID.finditer(text))
    if number > MOST_SPECIALS:
        too_large(f"the file has {number} special tokens; at most {MOST_SPECIALS} are allowed", _TEXT)


# ── our own ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read_own(value: Json) -> Draft:
    if value.get("version") != VERSION:
        invalid(f"the file has version {value.get('version')!r:.20}; this server reads version {VERSION}", "$.version")
    file = read_struct(value, ChatFile)
    _check_turns(len(file.turns))
    settings = check_size(file.settings, request.MOST_SETTINGS_BYTES, "$.settings")
    ids: dict[str, str] = {}
    turns: list[StoredChatTurn] = []
    first: list[Json] = []
    size = 0
    for at, given in enumerate(file.turns):
        path = f"$.turns[{at}]"
        turn, _ = read_turn(given, path)
        if turn.id in ids:
            invalid(f"two turns have the id {turn.id}", f"{path}.id")
        if turn.parent is not None and turn.parent not in ids:
            invalid(f"no turn before this one has the id {turn.parent}", f"{path}.parent")
        parent = None if turn.parent is None else ids[turn.parent]
        ids[turn.id] = new_id("turn")
        turns.append(_stored({**cast("Json", given), "id": ids[turn.id], "parent": parent}))
        size += len(turns[-1].body)
        first = first or (turn.items if turn.role == "user" else [])
    _check_turns(size=size)
    if file.leaf is not None and file.leaf not in ids:
        invalid("the file has no such turn", "$.leaf")
    title = clean_title(file.title) or made_title(first)
    leaf = None if file.leaf is None else ids[file.leaf]
    return Draft(title, settings, turns, leaf, None if file.created_at is None else int(file.created_at))


def _check_turns(number: int = 0, size: int = 0) -> None:
    for given, most, what in ((number, request.MOST_TURNS, "turns"), (size, request.MOST_CHAT_BYTES, "bytes")):
        if given > most:
            too_large(f"the chat has {given} {what}; at most {most} are allowed", "$.turns")


def _stored(turn: Json) -> StoredChatTurn:
    return StoredChatTurn(turn["id"], turn["parent"], encode_bytes(turn))


# ── others ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draft(
    imported: Imported, title: str, name: str, now: float, offered: Sequence[ServerTool]
) -> tuple[Draft, list[Lossy]]:
    conversation, identity = _split_identity(imported.conversation)
    written = to_responses_body(conversation, call_ids=imported.call_ids)
    body: Json = written.value
    losses = list(written.losses)
    items: list[Json] = body["input"]
    settings: Json = {} if identity is None else {"identity": identity}
    if items and items[0].get("role") in ("developer", "system"):
        settings["instructions"] = "\n\n".join(part["text"] for part in items.pop(0)["content"])
    functions = [tool for tool in body.get("tools", ()) if tool.get("type") == "function"]
    # Tools that this server offers are not declared a second time; those that are missing are off.
    names = {tool.get("name") for tool in functions}
    own = [tool for tool in functions if tool.get("name") not in {each.tool.name for each in offered}]
    if own:
        settings["functions"] = own
    if off := [f"{each.server}.{each.name}" for each in offered if each.tool.name not in names]:
        settings["tools_off"] = off
    if len(functions) < len(body.get("tools", ())):
        losses.append(Lossy("$.tools", "tools", "a chat declares functions only; other tools were left out"))
    if "reasoning" in body:
        settings["effort"] = body["reasoning"]["effort"]
    if "text" in body:
        losses.append(Lossy("$.text", "text", "a chat has no response format; it was left out"))
    if not items:
        invalid("the file has no message", _TEXT)
    data = check_size(settings, request.MOST_SETTINGS_BYTES, "$.settings")
    turns = _turns_of(items, now)
    _check_turns(len(turns), sum(len(turn.body) for turn in turns))
    stem = name.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    shown = clean_title(title) or made_title(items) or clean_title(stem)
    return Draft(shown, data, turns, turns[-1].id), losses


def _split_identity(conversation: Conversation) -> tuple[Conversation, str | None]:
    """The conversation with the default identity, and its own identity if that is another."""
    usual = SystemContent().model_identity
    system = leading_system(conversation)
    if system is None or not system.model_identity or system.model_identity == usual:
        return conversation, None
    first = conversation[0].replace(content=system.replace(model_identity=usual))
    return Conversation([first, *conversation.messages[1:]]), system.model_identity


def _turns_of(items: list[Json], now: float) -> list[StoredChatTurn]:
    """One branch: consecutive items of one side are a turn."""
    turns: list[StoredChatTurn] = []
    start = 0
    for end in range(1, len(items) + 1):
        role = _role_of(items[start])
        if end < len(items) and _role_of(items[end]) == role and end - start < request.MOST_ITEMS:
            continue
        turn: Json = {
            "id": new_id("turn"),
            "parent": turns[-1].id if turns else None,
            "role": role,
            "items": items[start:end],
            "status": "completed",
            "created_at": int(now),
            "details": {"imported": True},
        }
        read_turn(turn)
        turns.append(_stored(turn))
        start = end
    return turns


def _role_of(item: Json) -> str:
    """Whose item it is. Results of tools are the person's, as in a chat where people answer calls."""
    if item["type"] == "message":
        return "assistant" if item["role"] == "assistant" else "user"
    return "user" if item["type"].endswith("_output") else "assistant"
