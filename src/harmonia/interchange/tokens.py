"""Token ids of Harmony. Reading and writing is that of harmony.py, but no text is refused: ids are never ambiguous."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from harmonia.interchange.conversion import CallIds, Exported, Format, Imported
from harmonia.interchange.documents import Object, list_at, refuse, value_of
from harmonia.interchange.harmony import imported_from, losses_of
from harmonia.messages import Conversation, Role
from harmonia.parser import parse
from harmonia.renderer import render
from harmonia.vocabulary import CHANNEL, MESSAGE

_NOT_IN_IDS: Final = re.compile(r"[^\s,0-9-]")
_ID: Final = re.compile(r"-?[0-9]{1,18}")
_NAMES_OF_LISTS: Final = ("tokens", "token_ids")


def looks_like_ids(text: str) -> bool:
    words = _listed(text)
    return words is not None and any(character.isdigit() for character in words)


def read_tokens(given: Any) -> Imported:
    """A conversation from token ids: a list, `{"tokens": […]}`, or text with white space or commas between them."""
    ids = _read_ids(given)
    role = Role.ASSISTANT if ids[:1] in ([CHANNEL], [MESSAGE]) else None
    return imported_from(parse(ids, role))


def write_tokens(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    rendered = render(conversation, next_role=None)
    return Exported(rendered.tokens, losses_of(conversation, parse(rendered.tokens), rendered.losses, call_ids))


def _listed(text: str) -> str | None:
    """What stands between the brackets of a list of ids, which may be left out; None where it is something else."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return None if _NOT_IN_IDS.search(inner) else inner


def _read_ids(given: Any) -> list[int]:
    if isinstance(given, str | bytes):
        text = given.decode(errors="replace") if isinstance(given, bytes) else given
        listed = _listed(text)
        if listed is not None:
            words = listed.replace(",", " ").split()
            if all(map(_ID.fullmatch, words)):
                return [int(word) for word in words]
        given = value_of(text)
    path = "$"
    if isinstance(given, dict):
        value = cast(Object, given)
        name = next((name for name in _NAMES_OF_LISTS if name in value), None)
        if name is None:
            refuse("there are no tokens", path)
        given, path = value[name], f"$.{name}"
    ids: list[int] = []
    for at, each in enumerate(list_at(given, path)):
        for id_ in cast("list[Any]", each) if isinstance(each, list) else (each,):
            if type(id_) is not int:
                refuse("that is no token id", f"{path}[{at}]")
            ids.append(id_)
    return ids


TOKENS: Final = Format(
    "tokens",
    "Token ids: a JSON list, or numbers with white space between them",
    read_tokens,
    write_tokens,
)
