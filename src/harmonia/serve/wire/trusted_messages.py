"""Messages as bytes, with the tokens they were sampled as: for a store, and for what is sealed. Never for a request.

Whoever can write these bytes decides which special tokens a prompt has (law 1). So they are read only from a store of
ours, or from behind a seal that was just verified. What an engine sent as it came is written here as well; it is only
ever looked at, and no message can be read from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from harmonia.errors import ErrorCode, StoreError
from harmonia.messages import Author, Json, Message, Role
from harmonia.provenance import Origin, Sampled
from harmonia.run.events import AsSampled

_VERSION: Final = 1


class _Vouched(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One message. `message` is its JSON where its content is more than one text."""

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
    messages: list[_Vouched]


class _Raw(msgspec.Struct, frozen=True, array_like=True):
    version: int
    tokens: tuple[int, ...]
    text: str
    given: tuple[int, ...]


_DECODER: Final = msgspec.msgpack.Decoder(_Bundle)
_RAW_DECODER: Final = msgspec.msgpack.Decoder(_Raw)
_ENCODER: Final = msgspec.msgpack.Encoder()


def write_messages(messages: Iterable[Message]) -> bytes:
    """The messages with all that is known of them."""
    return _ENCODER.encode(_Bundle(_VERSION, [_write(message) for message in messages]))


def read_messages(data: bytes) -> list[Message]:
    """What `write_messages` wrote."""
    try:
        bundle = _DECODER.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise StoreError(ErrorCode.STORE_DAMAGED, "the stored messages cannot be read again") from error
    if bundle.version != _VERSION:
        raise StoreError(ErrorCode.STORE_NEWER, f"the messages are of version {bundle.version}, not {_VERSION}")
    return [_read(each) for each in bundle.messages]


def write_sampled(sampled: AsSampled) -> bytes:
    """What an engine sent, without its faults."""
    return _ENCODER.encode(_Raw(_VERSION, sampled.tokens, sampled.text, sampled.given))


def read_sampled(data: bytes) -> AsSampled:
    """What `write_sampled` wrote."""
    try:
        raw = _RAW_DECODER.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise StoreError(ErrorCode.STORE_DAMAGED, "what was sampled cannot be read again") from error
    if raw.version != _VERSION:
        raise StoreError(ErrorCode.STORE_NEWER, f"what was sampled is of version {raw.version}, not {_VERSION}")
    return AsSampled(raw.tokens, raw.text, raw.given)


def _write(message: Message) -> _Vouched:
    content: Any = message.content
    is_text = isinstance(content, str)
    return _Vouched(
        message.role,
        message.name,
        content if is_text else None,
        message.channel,
        message.recipient,
        message.content_type,
        message.origin,
        message.sampled,
        None if is_text else message.to_dict(),
    )


def _read(vouched: _Vouched) -> Message:
    if vouched.message is not None or vouched.content is None:
        return Message.from_dict(vouched.message)
    author = Author(vouched.role, vouched.name)
    if vouched.origin is None:
        return Message(author, vouched.content, vouched.channel, vouched.recipient, vouched.content_type)
    return Message.parsed(
        author,
        vouched.content,
        vouched.channel,
        vouched.recipient,
        vouched.content_type,
        vouched.origin,
        vouched.sampled,
    )
