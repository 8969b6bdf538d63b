"""Bodies to structs, exactly: what is unknown, missing, of the wrong type or out of range is refused with its path."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError, Position

T = TypeVar("T")

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def read_struct(value: Any, kind: type[T], path: str = "$") -> T:
    """The value as a struct that forbids unknown fields."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        # msgspec ends its sentence with " - at `$.tools[0].name`".
        sentence, _, tail = str(error).rpartition(" - at `")
        inner = tail.rstrip("`") if sentence else "$"
        sentence = sentence or str(error)
        where = path + inner.removeprefix("$")
        unknown = _UNKNOWN.match(sentence)
        if unknown is not None:
            field = unknown[1][:100]
            raise InputError(
                ErrorCode.SERVE_UNKNOWN_FIELD, f"unknown parameter {field!r}", Position(path=f"{where}.{field}")
            ) from None
        raise InputError(ErrorCode.SERVE_INVALID_FIELD, sentence, Position(path=where)) from None


def invalid(message: str, path: str) -> NoReturn:
    """Refuse a value."""
    raise InputError(ErrorCode.SERVE_INVALID_FIELD, message, Position(path=path))


def unsupported(message: str, path: str) -> NoReturn:
    """Refuse what the API has and this server has not."""
    raise InputError(ErrorCode.SERVE_UNSUPPORTED, message, Position(path=path))
