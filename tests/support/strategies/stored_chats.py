"""Chats to store, for the tests of the store and of what is built on it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from harmonia.serve.security.keys import new_id
from harmonia.serve.store.base import ChatLimits, StoredChat, StoredChatTurn

Json = dict[str, Any]

LIMITS = ChatLimits(2000, 2**26)


def said(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def answered(text: str) -> Json:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
        "phase": "final_answer",
    }


def a_turn(turn_id: str, parent: str | None = None, *items: Json, **others: Any) -> Json:
    """A turn as a client sends it; one without items says hello. The model's where the first item is."""
    listed = list(items) or [said("Hello")]
    first = listed[0]
    is_user = first.get("role") == "user" or str(first["type"]).endswith(("_output", "_response"))
    turn: Json = {
        "id": turn_id,
        "parent": parent,
        "role": "user" if is_user else "assistant",
        "items": listed,
        "status": "completed",
        "created_at": 1000,
        "details": {},
    }
    return {**turn, **others}


def a_stored_turn(turn_id: str, parent: str | None = None, text: str = "Hello") -> StoredChatTurn:
    return StoredChatTurn(turn_id, parent, msgspec.json.encode(a_turn(turn_id, parent, said(text))))


def a_chat(chat_id: str | None = None, owner: str = "ann", **others: Any) -> StoredChat:
    return StoredChat(chat_id or new_id("chat"), owner, 1000, 1000, **others)


def secrets_of_chats(path: Path) -> dict[str, bytes]:
    """What each chat and each turn in the file is encrypted under."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "SELECT id, secret FROM chats JOIN secrets ON slot = key"
            " UNION ALL SELECT id, secret FROM chat_turns JOIN secrets ON slot = key"
        )
        return dict(rows.fetchall())
    finally:
        connection.close()
