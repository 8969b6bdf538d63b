"""Contents with schemas in a packed form: what a renderer remembers them by.

Callers may change a schema in place, so contents are packed anew for each rendering, and a change is noticed. With a
hundred tools that takes longer than rendering what is new. `freeze` makes a copy that nobody else holds: it is packed
once, and known again by its identity.

What is printed depends on nothing that the packed form does not say (see schema/documents.py).
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import pack, split_validation_error, unpack
from harmonia.messages import Content, DeveloperContent, Message, SystemContent

_DECODER: Final = msgspec.msgpack.Decoder(list[str | SystemContent | DeveloperContent])

# By the identity of a frozen content: a weak reference to it, which removes the entry with it, and its packed form.
_FROZEN: Final[dict[int, tuple[weakref.ref[Any], bytes]]] = {}


def freeze(message: Message) -> Message:
    """A copy of a message that is cheap to render again: its contents are nobody else's, and are not to be changed.

    Whoever changes a schema inside the copy itself changes nothing of what is rendered. It pays for a developer message
    with many tools. What was sampled, and text, is as cheap as it is.
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
        raise InputError(ErrorCode.VOCABULARY_LONE_SURROGATE, "the content has half of a surrogate pair") from error
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema in the message is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"a schema in the message is not JSON: {error}") from error


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
