"""Files of a chat: text files as part of a question, and conversations on disk, one private JSON file each.

What was sampled is kept as the same tokens, so that a chat that goes on later has the prompt it would have had.
Such tokens are rendered as they are, special ones included; so they are believed only in a file that nobody else can
write, and must read as the very message beside them. A doubt about a message is kept, too, so what was hidden stays so.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harmonia.cli.options import decode
from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_bytes
from harmonia.messages import Conversation, Message, Role
from harmonia.parser import parse
from harmonia.provenance import Origin, Sampled, Trust
from harmonia.run.default_paths import chats_folder
from harmonia.run.private_files import write_private
from harmonia.vocabulary import VOCABULARY_SIZE

_VERSION: Final = 1
_ID: Final = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_FIRST_LINE: Final = re.compile(r"--- (.+) ---\n")  # of a file in a question
_OTHERS_MAY_WRITE: Final = 0o022


class Summary(msgspec.Struct, frozen=True):
    """A saved chat in a list: when it was last used, whom with, and how it began."""

    id: str
    changed: float
    model: str
    messages: int
    question: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    id: str
    model: str
    messages: list[dict[str, Any]]
    engine: str | None = None


class SavedChats:
    """The chats of a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or chats_folder()

    @staticmethod
    def new_id() -> str:
        return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"

    def save(self, chat_id: str, conversation: Conversation, model: str, engine: str | None = None) -> Path:
        """Write a chat, whole or not at all. `engine` is the name by which its engine is found again."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(chat_id)
        file = _File(_VERSION, chat_id, model, [_to_dict(message) for message in conversation], engine)
        write_private(path, encode_bytes(file))
        return path

    def load(self, chat_id: str | None = None) -> tuple[str, Conversation]:
        """The chat of this id, or the one that was used last."""
        if chat_id is None:
            found = self._files()
            if not found:
                raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, "there is no saved chat to continue")
            chat_id = found[-1].stem
        path = self._path(chat_id)
        try:
            file = _read(path)
        except FileNotFoundError:
            raise InputError(
                ErrorCode.MESSAGES_INVALID_VALUE, f"there is no saved chat {chat_id}; --list shows the saved chats"
            ) from None
        is_ours = not path.stat().st_mode & _OTHERS_MAY_WRITE
        return chat_id, Conversation(_from_dict(each, believe=is_ours) for each in file.messages)

    def engine_of(self, chat_id: str) -> tuple[str | None, str]:
        """The names of the engine, where it is known, and of the model that a chat was with."""
        file = _read(self._path(chat_id))
        return file.engine, file.model

    def list(self) -> list[Summary]:
        """All chats, the last one last. Damaged ones are left out; whoever names one is told."""
        listed: list[Summary] = []
        for path in self._files():
            try:
                file = _read(path)
                messages = [Message.from_dict(_plain(each)) for each in file.messages]
            except (InputError, FileNotFoundError):
                continue
            question = next((message.text for message in messages if message.role is Role.USER), "")
            listed.append(Summary(path.stem, path.stat().st_mtime, file.model, len(messages), without_files(question)))
        return listed

    def _files(self) -> list[Path]:
        files = [path for path in self.folder.glob("*.json") if _ID.fullmatch(path.stem)]
        return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def _path(self, chat_id: str) -> Path:
        if _ID.fullmatch(chat_id) is None:
            raise InputError(
                ErrorCode.MESSAGES_INVALID_VALUE, f"{chat_id!r} is not the id of a chat; --list shows the ids"
            )
        return self.folder / f"{chat_id}.json"


def _read(path: Path) -> _File:
    at = Position(path=str(path))
    try:
        file = msgspec.convert(json.loads(path.read_bytes()), _File)
    except (ValueError, RecursionError) as error:  # also what msgspec raises
        raise InputError(ErrorCode.MESSAGES_INVALID_JSON, f"the saved chat is damaged: {error}", at) from error
    if file.version != _VERSION:
        raise InputError(
            ErrorCode.MESSAGES_INVALID_JSON,
            f"the saved chat has version {file.version}; this release reads version {_VERSION}",
            at,
        )
    return file


def _to_dict(message: Message) -> dict[str, Any]:
    kept = message.to_dict()
    if message.sampled is not None:
        kept["sampled"] = msgspec.to_builtins(message.sampled)
    if message.origin is not None and _is_doubtful(message.origin):
        kept["origin"] = msgspec.to_builtins(message.origin)
    return kept


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in ("sampled", "origin")}


def _from_dict(value: dict[str, Any], *, believe: bool) -> Message:
    message = Message.from_dict(_plain(value))
    if message.role is not Role.ASSISTANT:
        return message  # nothing else was sampled
    try:
        origin = msgspec.convert(value.get("origin"), Origin | None)
        sampled = msgspec.convert(value.get("sampled"), Sampled | None)
    except msgspec.ValidationError:
        return message
    if origin is not None:
        # It can only lower the trust in a message that would have it whole without.
        return message.with_origin(origin) if _is_doubtful(origin) else message
    if sampled is None or not believe or not all(0 <= token < VOCABULARY_SIZE for token in sampled.tokens):
        return message
    # The tokens have to say what the file says in words, and nothing else.
    parsed = parse(list(sampled.tokens))
    return parsed.messages[0] if parsed.messages == (message,) and not parsed.diagnostics else message


def _is_doubtful(origin: Origin) -> bool:
    return origin.trust is not Trust.CERTAIN or origin.source == "stripped" or origin.forged


# ── files of a question ─────────────────────────────────────────────────────────────────────────────────────────────


def with_files(question: str, paths: Sequence[Path]) -> str:
    """The texts of the files, each between lines with its name, and then the question."""
    parts = [f"--- {path.name} ---\n{_read_text(path)}\n--- end of {path.name} ---" for path in paths]
    return "\n\n".join([*parts, question] if question else parts)


def without_files(question: str) -> str:
    """The question without its files; their names, if there was no question."""
    names: list[str] = []
    rest = question
    while (found := _FIRST_LINE.match(rest)) is not None:
        name = found.group(1)
        end = f"\n--- end of {name} ---"
        at = rest.find(end, found.end() - 1)
        if at < 0:
            break
        names.append(name)
        rest = rest[at + len(end) :].removeprefix("\n\n")
    return rest or ", ".join(names)


def _read_text(path: Path) -> str:
    try:
        return decode(path.read_bytes(), str(path)).removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n")
    except OSError as error:
        raise InputError(ErrorCode.RUN_INVALID_OPTION, f"cannot read {path}: {error.strerror}") from error
