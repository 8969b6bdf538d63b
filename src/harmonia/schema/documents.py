"""What callers hand in as a schema, as the JSON it stands for.

Python has more than JSON: a tuple is a list there, a Decimal a text. Printing begins with what JSON says, so that it
depends on nothing else; and what JSON cannot say is refused.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import pack, unpack
from harmonia.schema.values import Json

_DECODER: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()


def as_json(schema: object, path: str = "$") -> Json:
    """The schema made of dictionaries, lists, texts, numbers, booleans and None only."""
    try:
        document: Any = unpack(pack(schema), _DECODER)
    except UnicodeEncodeError:
        return schema  # pyright: ignore[reportReturnType] -- half of a surrogate pair is the vocabulary's to refuse
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "The schema nests too deep.", Position(path=path)) from error
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"The schema is not JSON: {error}", Position(path=path)) from error
    if not _has_text_keys(document):
        raise InputError(ErrorCode.SCHEMA_INVALID, "The schema has a key that is no text.", Position(path=path))
    return document


def _has_text_keys(document: Any) -> bool:
    waiting: list[Any] = [document]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if not all([isinstance(key, str) for key in here]):  # pyright: ignore[reportUnknownVariableType]
                return False
            waiting.extend(here.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        elif isinstance(here, list):
            waiting.extend(here)  # pyright: ignore[reportUnknownArgumentType]
    return True
