"""The renderer's cache: a bounded store of rendered messages, and the packed contents that serve as its keys.

Callers may change a schema in place, so contents are packed again for each rendering, and a change is noticed. With a
hundred tools, packing takes longer than rendering a new message. `freeze` makes a private copy that is packed once and
recognised by its identity. The printed text depends on nothing outside the packed form (see schema/document.py).

The store has two generations: an entry found in the old one moves to the new one; when the new one is full, it becomes
the old one, and the entries of the previous old one are dropped. A list ordered by use would keep about the same
entries, but would have to be rewritten on each hit.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import pack, split_validation_error, unpack
from harmonia.messages import Content, DeveloperContent, Message, SystemContent

_DECODER: Final = msgspec.msgpack.Decoder(list[str | SystemContent | DeveloperContent])

# By the identity of a frozen content: a weak reference to it, which removes the entry with it, and its packed form.
_FROZEN: Final[dict[int, tuple[weakref.ref[Any], bytes]]] = {}


def freeze(message: Message) -> Message:
    """A copy of a message that is cheap to render again. Its contents are private and must not be changed.

    Changing a schema inside the copy does not change what is rendered. Freezing pays off for a developer message with
    many tools; sampled messages and text are cheap anyway.
    """
    content = message.content
    if not isinstance(content, SystemContent | DeveloperContent) or id(content) in _FROZEN:
        return message
    packed = _pack_contents((content,))
    (copy,) = unpack_contents(packed)
    key = id(copy)
    _FROZEN[key] = (weakref.ref(copy, lambda _gone: _FROZEN.pop(key, None)), packed)
    return message.replace(content=copy)


def packed_contents(message: Message) -> bytes:
    """Everything that the text of a message's contents depends on, except whether functions are declared."""
    frozen = _FROZEN.get(id(message.content))
    return frozen[1] if frozen is not None else _pack_contents(message.contents)


def _pack_contents(contents: tuple[Content, ...]) -> bytes:
    try:
        return pack(contents)
    except UnicodeEncodeError as error:
        raise InputError(
            ErrorCode.VOCABULARY_LONE_SURROGATE,
            "the content contains half of a surrogate pair, which UTF-8 cannot encode",
        ) from error
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema in the message is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"a schema in the message is not valid JSON: {error}") from error


def unpack_contents(packed: bytes) -> list[Any]:
    """The contents again, as new values. A value of the wrong type is an InputError with its path."""
    try:
        return unpack(packed, _DECODER)
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema in the message is nested too deeply") from error
    except msgspec.ValidationError as error:
        sentence, path = split_validation_error(error)
        at = Position(path=f"$.content{path.removeprefix('$')}")
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, sentence, at) from error


Value = TypeVar("Value")


class Memory(Generic[Value]):
    """Values by key, of at most `limit` bytes in total; the caller gives the sizes."""

    __slots__ = ("_lock", "_new", "_new_size", "_old", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._new: dict[Hashable, tuple[Value, int]] = {}
        self._old: dict[Hashable, tuple[Value, int]] = {}
        self._new_size = 0

    def get(self, key: Hashable) -> Value | None:
        found = self._new.get(key)
        if found is None and self._old:
            found = self._old.get(key)
            if found is not None:
                self.put(key, *found)
        return None if found is None else found[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        half = self.limit // 2
        if size > half:
            return
        with self._lock:
            if self._new_size + size > half:
                self._old, self._new, self._new_size = self._new, {}, 0
            self._new[key] = value, size
            self._new_size += size

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())
