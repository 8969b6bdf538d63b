"""The bodies of `/v1/chats`: what a client may send. Pure: no store, no model.

Items, details and settings belong to the client: they are kept unchanged, within limits, and only their types and sizes
are checked.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.serve.wire.validation import doc, invalid, read_struct
from harmonia.serve.wire.work_limits import too_large

MOST_TITLE_CHARACTERS: Final = 200
MOST_TURN_BYTES: Final = 8 * 1024 * 1024
MOST_CHAT_BYTES: Final = 64 * 1024 * 1024
MOST_TURNS: Final = 2000
MOST_ITEMS: Final = 1000
MOST_DETAILS_BYTES: Final = 256 * 1024
MOST_SETTINGS_BYTES: Final = 512 * 1024
MOST_CHATS: Final = 20_000
MOST_IMPORTED: Final = 100
MOST_IMPORTED_TURNS: Final = 50_000
MOST_IMPORTED_CHARACTERS: Final = 16 * 1024 * 1024
MOST_NAME_CHARACTERS: Final = 255

FORMAT: Final = "harmonia-chat"
VERSION: Final = 1

ExportFormat = Literal["json", "markdown", "harmony", "tokens"]
TurnStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

_TURN_ID: Final = re.compile(r"turn_[A-Za-z0-9]{1,64}")
_LONGEST_TYPE: Final = 64

_TurnId = Annotated[str, doc("`turn_` and letters or digits.", pattern=r"^turn_[A-Za-z0-9]{1,64}$")]
_Time = Annotated[float, doc("Seconds since 1970.", ge=0, le=10**12)]
_Title = Annotated[str, Meta(max_length=MOST_TITLE_CHARACTERS)]
_Settings = Annotated[Json, doc("How answers are requested. It is kept unchanged.")]


class CreateChat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new saved chat."""

    title: Annotated[_Title | None, doc("Made from the first message of the user if it is left out.")] = None
    settings: _Settings = {}


class ChangeChat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a saved chat; what is left out stays."""

    title: Annotated[_Title, doc("An empty one is made from the first message.")] | msgspec.UnsetType = msgspec.UNSET
    leaf: Annotated[str, doc("The turn at the end of the branch that is shown.")] | msgspec.UnsetType | None = (
        msgspec.UNSET
    )
    settings: _Settings | msgspec.UnsetType = msgspec.UNSET


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A turn: what the person or the model said, as items of the Responses API."""

    id: _TurnId
    parent: Annotated[_TurnId | None, doc("The turn that this one follows. It must exist, and it never changes.")]
    role: Literal["user", "assistant"]
    items: Annotated[list[Json], doc("Items of the Responses API.", max_length=MOST_ITEMS)]
    status: TurnStatus
    created_at: _Time
    details: Annotated[Json, doc("Anything else about the turn. It is kept unchanged.")] = {}


class ImportChats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file with conversations."""

    text: Annotated[str, doc("The contents of the file.")]
    name: Annotated[str, doc("The name of the file.", max_length=MOST_NAME_CHARACTERS)] = ""


class ChatFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole saved chat in our own format: all of its branches."""

    format: Literal["harmonia-chat"]
    version: int
    title: str = ""
    created_at: _Time | None = None
    updated_at: _Time | None = None
    leaf: str | None = None
    settings: Json = {}
    turns: list[Any]


def read_turn(value: Any, path: str = "$") -> tuple[Turn, bytes]:
    """A turn, and its JSON as it is stored."""
    turn = read_struct(value, Turn, path)
    for name in ("id", "parent"):
        given = cast("str | None", getattr(turn, name))
        if given is not None and not is_turn_id(given):
            invalid(f"the {name} of a turn must be `turn_` followed by letters and digits", f"{path}.{name}")
    for at, item in enumerate(turn.items):
        kind = item.get("type")
        if not isinstance(kind, str) or not 0 < len(kind) <= _LONGEST_TYPE:
            invalid(f"an item needs a type of at most {_LONGEST_TYPE} characters", f"{path}.items[{at}].type")
    check_size(turn.details, MOST_DETAILS_BYTES, f"{path}.details")
    # Not the struct: an item may have a number that is too large for its encoder.
    data = encode_bytes({**value, "details": turn.details})
    if len(data) > MOST_TURN_BYTES:
        too_large(f"the turn has {len(data)} bytes; at most {MOST_TURN_BYTES} are allowed", path)
    return turn, data


def check_size(value: Json, most: int, path: str) -> bytes:
    """The value as JSON, if it is not too large."""
    data = encode_bytes(value)
    if len(data) > most:
        too_large(f"this has {len(data)} bytes; at most {most} are allowed", path)
    return data


def is_turn_id(text: str) -> bool:
    return _TURN_ID.fullmatch(text) is not None
