"""Follow `$ref` inside one document. Nothing outside it is ever read: a remote reference is refused.

A reference is local if it is empty, a JSON pointer (`#/$defs/Node`), an anchor (`#node`), or one of these behind
the document's own `$id`. Two spellings of one place give equal `steps`, so callers can compare them.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.paths import Place, path_text, place_of, steps_to
from harmonia.schema.values import Json

Steps: TypeAlias = tuple[str | int, ...]

_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Target(NamedTuple):
    """What a reference leads to: the schema, the steps from the root to it, and the same steps as a place."""

    schema: dict[str, Json] | bool
    steps: Steps
    place: Place


class References:
    """The references of one document, each looked up once."""

    __slots__ = ("_anchors", "_document", "_root_path", "_targets")

    def __init__(self, document: dict[str, Json], root_path: str) -> None:
        self._document = document
        self._root_path = root_path
        self._targets: dict[str, Target] = {}
        self._anchors: dict[str, Target] | None = None

    def resolve(self, reference: str, place: Place) -> Target:
        """The schema that `reference`, found at `place`, stands for; InputError where there is none."""
        target = self._targets.get(reference)
        if target is None:
            target = self._targets[reference] = self._look_up(reference, place)
        return target

    def _look_up(self, reference: str, place: Place) -> Target:
        base, _, fragment = reference.partition("#")
        own = self._document.get("$id", self._document.get("id"))
        if base and not (isinstance(own, str) and base == own.partition("#")[0]):
            raise InputError(
                ErrorCode.SCHEMA_REMOTE_REFERENCE,
                f"The reference {reference!r} leaves the document; only local references are followed.",
                self._position(place),
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            target = self._anchored(fragment)
        else:
            target = self._pointed_to(fragment.split("/")[1:])
        if target is None:
            raise InputError(
                ErrorCode.SCHEMA_UNKNOWN_REFERENCE,
                f"The reference {reference!r} leads to no schema of the document.",
                self._position(place),
            )
        return target

    def _pointed_to(self, tokens: list[str]) -> Target | None:
        value: Json = self._document
        steps: list[str | int] = []
        for token in tokens:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
                steps.append(name)
            elif isinstance(value, list) and _ARRAY_INDEX.fullmatch(name) and int(name) < len(value):
                value = value[int(name)]
                steps.append(int(name))
            else:
                return None
        if not isinstance(value, dict | bool):
            return None
        return Target(value, tuple(steps), place_of(tuple(steps)))

    def _anchored(self, name: str) -> Target | None:
        if self._anchors is None:
            self._anchors = {}
            waiting: list[tuple[Json, Place]] = [(self._document, None)]
            seen: set[int] = set()
            while waiting:
                value, place = waiting.pop()
                if not isinstance(value, dict | list) or id(value) in seen:
                    continue
                seen.add(id(value))
                if isinstance(value, list):
                    waiting.extend([(item, (place, index)) for index, item in enumerate(value)])
                    continue
                waiting.extend([(item, (place, key)) for key, item in value.items()])
                # Drafts 4 and 6 wrote an anchor as an id that is only a fragment.
                for keyword, mark in (("$anchor", ""), ("$id", "#"), ("id", "#")):
                    anchor = value.get(keyword)
                    if isinstance(anchor, str) and anchor.startswith(mark):
                        target = Target(value, steps_to(place), place)
                        self._anchors.setdefault(anchor.removeprefix(mark), target)
        return self._anchors.get(name)

    def _position(self, place: Place) -> Position:
        return Position(path=path_text((place, "$ref"), self._root_path))
