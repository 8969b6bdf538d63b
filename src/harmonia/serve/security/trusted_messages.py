"""Messages with the tokens they were sampled as: encoded for the store and for sealed content, and calls rebuilt.

The writer of these bytes decides which special tokens a prompt has (law 1). So they are read only from our own store or
from a seal that was just verified, never from a request. The raw output of an engine is encoded here as well; it is
only inspected, and no message can be read from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from harmonia.errors import ErrorCode, StoreError
from harmonia.messages import Author, Json, Message, Role
from harmonia.parser import parse
from harmonia.provenance import Origin, Sampled
from harmonia.run.events import AsSampled
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, MESSAGE, encode

_VERSION: Final = 1


class _TrustedMessage(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One message. `message` is its JSON if its content is not a single text."""

    role: Role
    name: str | None
    content: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    origin: Origin | None
    sampled: Sampled | None
    message: Json | None = None


class _Bundle(msgspec.Struct, frozen=True, array_like=True):
    version: int
    messages: list[_TrustedMessage]


class _Raw(msgspec.Struct, frozen=True, array_like=True):
    version: int
    tokens: tuple[int, ...]
    text: str
    given: tuple[int, ...]


T = TypeVar("T", _Bundle, _Raw)


def write_messages(messages: Iterable[Message]) -> bytes:
    """Encode messages with their origin and tokens."""
    return msgspec.msgpack.encode(_Bundle(_VERSION, [_write(message) for message in messages]))


def read_messages(data: bytes) -> list[Message]:
    """Decode what `write_messages` encoded."""
    return [_read(each) for each in _decode(data, _Bundle, "messages").messages]


def write_sampled(sampled: AsSampled) -> bytes:
    """Encode the raw output of an engine, without its faults."""
    return msgspec.msgpack.encode(_Raw(_VERSION, sampled.tokens, sampled.text, sampled.given))


def read_sampled(data: bytes) -> AsSampled:
    """Decode what `write_sampled` encoded."""
    raw = _decode(data, _Raw, "output")
    return AsSampled(raw.tokens, raw.text, raw.given)


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        decoded = msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise StoreError(ErrorCode.STORE_DAMAGED, f"the stored {what} cannot be decoded") from error
    if decoded.version != _VERSION:
        message = f"the stored {what} has version {decoded.version}; this server reads version {_VERSION}"
        raise StoreError(ErrorCode.STORE_NEWER, message)
    return decoded


def call_as_sampled(recipient: str, arguments: str, *, is_json: bool = True) -> Message:
    """A call that a client sends back, as the tokens that the model most likely sampled.

    The renderer's canonical form has the tool after the role, `assistant to=functions.x<|channel|>commentary`; the
    models write it after the channel, `assistant<|channel|>commentary to=functions.x`. An engine's cache is useful only
    as far as the prompt agrees with what was sampled, so calls are written the models' way. All special tokens are
    ours, name and arguments are ordinary text (law 1), and the parser reads the result. If that does not give the same
    call back, the result is the plain call, which renders safely.
    """
    plain = Message.call(recipient, arguments, content_type="<|constrain|>json" if is_json else None)
    header = encode(f"commentary to={recipient}" + (" " if is_json else ""))
    kind = [CONSTRAIN, *encode("json")] if is_json else []
    tokens = [CHANNEL, *header, *kind, MESSAGE, *encode(arguments), CALL]
    messages = parse(tokens, role=Role.ASSISTANT).messages
    if len(messages) != 1 or messages[0] != plain or messages[0].sampled is None:
        return plain
    return messages[0]


def _write(message: Message) -> _TrustedMessage:
    text = message.content if isinstance(message.content, str) else None
    header = (message.channel, message.recipient, message.content_type)
    whole = message.to_dict() if text is None else None
    return _TrustedMessage(message.role, message.name, text, *header, message.origin, message.sampled, whole)


def _read(trusted: _TrustedMessage) -> Message:
    if trusted.message is not None or trusted.content is None:
        return Message.from_dict(trusted.message)
    author = Author(trusted.role, trusted.name)
    header = (trusted.channel, trusted.recipient, trusted.content_type)
    if trusted.origin is None:
        return Message(author, trusted.content, *header)
    return Message.parsed(author, trusted.content, *header, trusted.origin, trusted.sampled)
