"""Contents with schemas in a packed form: what a renderer remembers them by.

Callers may change a schema in place, so contents are packed anew for each rendering, and a change is noticed. With a
hundred tools that takes longer than rendering what is new. `freeze` makes a copy that nobody else holds: it is packed
once, and known again by its identity.

What is printed depends on nothing that the packed form does not say (see schema/documents.py).
"""

from __future__ import annotations

import json
import weakref
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Content, DeveloperContent, Message, SystemContent

_BINARY, _JSON = b"b", b"j"
_WITH_FUNCTIONS, _WITHOUT = b"+", b"-"
_CONTENTS = list[str | SystemContent | DeveloperContent]
_DECODER: Final = msgspec.msgpack.Decoder(_CONTENTS)

# By the identity of a frozen content: something that lives as long as it does, and its packed forms without functions
# and with them. A content that is gone takes its entry along.
_FROZEN: Final[dict[int, tuple[weakref.ref[Any], bytes, bytes]]] = {}


def freeze(message: Message) -> Message:
    """A copy of a message that is cheap to render again: its contents are nobody else's, and are not to be changed.

    Whoever changes a schema inside the copy itself changes nothing of what is rendered. It pays for a developer message
    with many tools. What was sampled, and text, is as cheap as it is.
    """
    content = message.content
    if not isinstance(content, SystemContent | DeveloperContent) or id(content) in _FROZEN:
        return message
    packed = pack((content,), has_functions=False)
    (copy,) = unpack(packed)
    key = id(copy)
    reference = weakref.ref(copy, lambda _gone: _FROZEN.pop(key, None))
    _FROZEN[key] = (reference, packed, pack((copy,), has_functions=True))
    return message.replace(content=copy)


def packed_contents(message: Message, *, has_functions: bool) -> bytes:
    """All that the text of a message's contents depends on."""
    frozen = _FROZEN.get(id(message.content))
    if frozen is not None:
        return frozen[2] if has_functions else frozen[1]
    return pack(message.contents, has_functions=has_functions)


def pack(contents: tuple[Content, ...], *, has_functions: bool) -> bytes:
    flag = _WITH_FUNCTIONS if has_functions else _WITHOUT
    try:
        try:
            return _BINARY + flag + msgspec.msgpack.encode(contents)
        except OverflowError:  # an integer of more than 64 bits
            return _JSON + flag + json.dumps(msgspec.to_builtins(contents)).encode()
    except UnicodeEncodeError as error:
        raise InputError(ErrorCode.VOCABULARY_LONE_SURROGATE, "the content has half of a surrogate pair") from error
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema of the message nests too deep") from error
    except (TypeError, ValueError) as error:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"a schema of the message is not JSON: {error}") from error


def unpack(packed: bytes) -> list[Any]:
    """The contents again, as values of their own; a value of the wrong type is found, and its path named."""
    try:
        if packed.startswith(_JSON):
            return msgspec.convert(json.loads(packed[2:]), _CONTENTS)
        return _DECODER.decode(packed[2:])
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "a schema of the message nests too deep") from error
    except msgspec.ValidationError as error:
        # msgspec ends its sentence with " - at `$[0].model_identity`".
        sentence, _, path = str(error).partition(" - at `$")
        at = Position(path="$.content" + path.rstrip("`"))
        raise InputError(ErrorCode.MESSAGES_INVALID_VALUE, sentence, at) from error
