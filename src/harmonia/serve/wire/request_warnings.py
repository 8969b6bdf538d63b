"""Keys that a client carries along and that the server does not know.

Many clients send back whatever they were sent, and add notes of their own to it. In messages, items, calls and the
parts of their contents,

1. an unknown key is passed over, and the answer's `warnings` name it; one that is null says nothing;
2. an unknown key that begins with `harmonia_` is refused: it is one of ours, misspelled, and somebody relies on it.

An unknown field of a body, of a tool or of a tool choice is refused, because it asks for something; see validation.py.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, Final, cast

from msgspec import inspect

from harmonia.messages import Json
from harmonia.serve.wire.validation import MOST_SHOWN, unknown_field

_OURS: Final = "harmonia_"
# More than this many different keys are no longer named.
_MOST_NAMED: Final = 8


class RequestWarnings:
    """Collects unknown keys while a request is read: each once, with the place where it first stood."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._others = 0
        self._empty: list[str] = []  # the places of messages without any text

    def add_empty_message(self, path: str) -> None:
        """A message there says nothing, and is left out."""
        self._empty.append(path.removeprefix("$."))

    def drop_unknown(self, given: Json, known: Collection[str], path: str) -> Json:
        """The object without its unknown keys. Raises where one of them is ours."""
        if all(name in known for name in given):
            return given
        for name in given:
            if name not in known and given[name] is not None:
                self._note(name, known, path)
        return {name: value for name, value in given.items() if name in known}

    def drop_unknown_fields(self, given: Json, kind: Any, path: str) -> Json:
        """The same with the fields of a struct, and of the structs that it holds."""
        fields = _fields_of(kind)
        kept = self.drop_unknown(given, fields, path)
        for name, held in fields.items():
            value = kept.get(name) if held is not None else None
            if isinstance(value, dict):
                kept = {**kept, name: self.drop_unknown_fields(cast("Json", value), held, f"{path}.{name}")}
        return kept

    def _note(self, name: str, known: Collection[str], path: str) -> None:
        if name.startswith(_OURS):
            raise unknown_field(name, list(known), path)
        shown = name[:MOST_SHOWN]
        if shown in self._places:
            return
        if len(self._places) == _MOST_NAMED:
            self._others += 1
        else:
            self._places[shown] = path.removeprefix("$.")

    @property
    def texts(self) -> list[str]:
        """What to tell the client."""
        told = [f"{path}: the unknown key {name!r} was ignored" for name, path in self._places.items()]
        if self._others:
            told.append("more unknown keys were ignored")
        if self._empty:
            others = f", and {len(self._empty) - 1} more" if len(self._empty) > 1 else ""
            told.append(f"{self._empty[0]}{others}: the message is empty and was left out")
        return told


@cache
def _fields_of(kind: Any) -> dict[str, Any]:
    """The names that a struct has on the wire, each with the struct that it holds, or None."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fields = {field.encode_name: _struct_in(field.type) for field in info.fields}
    return fields if info.tag_field is None else {info.tag_field: None, **fields}


def _struct_in(type_: inspect.Type) -> Any:
    types = type_.types if isinstance(type_, inspect.UnionType) else (type_,)
    return next((each.cls for each in types if isinstance(each, inspect.StructType)), None)
