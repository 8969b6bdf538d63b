"""Sealed reasoning: what a model thought leaves the server as a text that only the server can read and write.

A client sends it back, and the server continues with the same messages and the same tokens. These tokens become part of
a prompt as they are, special ones included, so a seal has to prove that they came from here (law 1).

    hs2.KEYID.BASE64URL         salt (16) nonce (12) expiry (8) ciphertext and tag
    inside the ciphertext       form (1) length (4) payload padding

1. Encryption is AES-256-GCM. Each seal has its own key, the HMAC-SHA-256 of the secret and a random salt: a nonce that
   is used twice with one key would allow forgeries, and with 96 random bits that happens within some billion seals.
2. Version, key id, owner, model and expiry are associated data, so none of them can be changed. So is what the seal
   belongs to (`bound_to`): the kind of its item and everything that the item says in the open (`binding` in
   serve/responses/items/base.py). With any other item the seal does not open. The raw tokens of a sampling, which are
   only inspected, are their own kind.
3. Whatever is wrong with a seal, the answer is the same. Only an expiry is reported: it is known after the seal was
   verified, so only its owner learns of it.
4. What is opened has at most MAX_OPENED_BYTES, and at most MAX_RATIO times the bytes that were sent, so that no small
   request becomes large. Padding ensures the second, and hides the exact length of the content.
5. Seals of version hs1, from before `bound_to`, open only if the caller says what is used in its place.
"""

from __future__ import annotations

import hmac
import math
import re
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from harmonia.errors import NOWHERE, ErrorCode, HarmonyError, InputError, Position
from harmonia.messages import Message
from harmonia.run.events import AsSampled
from harmonia.serve.security.keys import (
    SealKey,
    WatchedFile,
    decode_base64,
    encode_base64,
    ensure_seal_keys,
    read_seal_keys,
)
from harmonia.serve.security.trusted_messages import read_messages, read_sampled, write_messages, write_sampled

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_OPENED_BYTES: Final = 64 * 1024 * 1024
MAX_RATIO: Final = 4
DEFAULT_DAYS: Final = 30.0
MAX_DAYS: Final = 36_500.0  # as settings.Days

_VERSION: Final = "hs2"
_UNBOUND_VERSION: Final = "hs1"
_CONTEXT: Final = b"harmonia seal 1\0"
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_BLOCK_BYTES: Final = 256
_EXPIRY: Final = struct.Struct(">Q")
_LENGTH: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">BI")
_CLEAR_BYTES: Final = _SALT_BYTES + _NONCE_BYTES + _EXPIRY.size
_PLAIN: Final = 0
_DEFLATED: Final = 1
_LEVEL: Final = 6
_SECONDS_PER_DAY: Final = 86_400
_FORM: Final = re.compile(r"(hs[12])\.([0-9a-f]{8})\.([A-Za-z0-9_-]+)")
# The text of the largest content, with room for the head and the padding.
_MAX_TEXT: Final = (MAX_OPENED_BYTES + _CLEAR_BYTES + _TAG_BYTES + 2 * _BLOCK_BYTES) * 4 // 3 + 64
_SAMPLED: Final = b"sampled"
# What hs1 used in place of `bound_to` for messages of any item.
UNBOUND: Final = b""

T = TypeVar("T")


class Seals:
    """Seals and opens with the keys of a file, which is created if it does not exist.

    Another process may add and retire keys; that is noticed within `check_every_s`, and at once when a seal names an
    unknown key. If the file is damaged then, the keys stay as they were, and `on_problem` is called.
    """

    def __init__(
        self,
        path: Path,
        *,
        days: float = DEFAULT_DAYS,
        clock: Callable[[], float] = time.time,
        check_every_s: float = 2.0,
        on_problem: Callable[[HarmonyError], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (math.isfinite(days) and 0 < days <= MAX_DAYS):
            message = f"seal_days is {days}; expected more than 0 and at most {MAX_DAYS:,.0f}"
            raise InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path="seal_days"))
        self._aesgcm = load_cipher()
        self._days = days
        self._clock = clock
        self.path = path
        ensure_seal_keys(path)
        self._keys = WatchedFile(path, read_seal_keys, check_every_s, on_problem, monotonic)

    def seal(self, data: bytes, *, owner: str, model: str, bound_to: bytes = b"") -> str:
        """A text from which only `open`, for the same owner, model and `bound_to`, makes the data again."""
        if len(data) > MAX_OPENED_BYTES:
            message = f"{len(data):,} bytes to seal; the limit is {MAX_OPENED_BYTES:,}"
            raise InputError(ErrorCode.SERVE_TOO_LARGE, message)
        key = self._keys.value()[-1]
        salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)
        expires = math.ceil(self._clock() + self._days * _SECONDS_PER_DAY)
        cipher = self._cipher(key, salt)
        sealed = cipher.encrypt(nonce, _pack(data), _associated(_VERSION, key.id, owner, model, expires, bound_to))
        return f"{_VERSION}.{key.id}.{encode_base64(salt + nonce + _EXPIRY.pack(expires) + sealed)}"

    def open(
        self,
        text: str,
        *,
        owner: str,
        model: str,
        bound_to: bytes = b"",
        unbound: bytes | None = None,
        at: Position = NOWHERE,
    ) -> bytes:
        """What was sealed for this owner, model and `bound_to`. A seal of version hs1 opens only with `unbound` in its
        place. `at` is the place of the text in a request."""
        try:
            data, expires = self._verify(text, owner, model, bound_to, unbound)
        except _NotOurs:
            raise _refuse(
                "this server did not seal this for this API key, model and item, or the seal or the item was changed",
                at,
            ) from None
        if self._clock() >= expires:
            raise _refuse("this seal has expired", at)
        return data

    def seal_messages(self, messages: Iterable[Message], *, owner: str, model: str, bound_to: bytes = b"") -> str:
        """Seal messages with the tokens they were sampled as."""
        return self.seal(write_messages(messages), owner=owner, model=model, bound_to=bound_to)

    def open_messages(
        self,
        text: str,
        *,
        owner: str,
        model: str,
        bound_to: bytes = b"",
        unbound: bytes | None = None,
        at: Position = NOWHERE,
    ) -> list[Message]:
        """The messages that were sealed, with their tokens."""
        data = self.open(text, owner=owner, model=model, bound_to=bound_to, unbound=unbound, at=at)
        return _decode(read_messages, data, at)

    def seal_sampled(self, sampled: AsSampled, *, owner: str, model: str) -> str:
        """Seal what an engine sent, as it came."""
        return self.seal(write_sampled(sampled), owner=owner, model=model, bound_to=_SAMPLED)

    def open_sampled(self, text: str, *, owner: str, model: str, at: Position = NOWHERE) -> AsSampled:
        """What `seal_sampled` sealed, to inspect. No seal of messages opens here, and none of these opens as one."""
        data = self.open(text, owner=owner, model=model, bound_to=_SAMPLED, unbound=_SAMPLED, at=at)
        return _decode(read_sampled, data, at)

    def _verify(self, text: str, owner: str, model: str, bound_to: bytes, unbound: bytes | None) -> tuple[bytes, int]:
        version, key_id, body = _parts_of(text)
        if version == _UNBOUND_VERSION:
            if unbound is None:
                raise _NotOurs
            bound_to = unbound
        key = self._find_key(key_id)
        salt, nonce = body[:_SALT_BYTES], body[_SALT_BYTES : _SALT_BYTES + _NONCE_BYTES]
        expires = _expiry_of(body)
        associated = _associated(version, key_id, owner, model, expires, bound_to)
        from cryptography.exceptions import InvalidTag

        try:
            packed = self._cipher(key, salt).decrypt(nonce, body[_CLEAR_BYTES:], associated)
        except InvalidTag:
            raise _NotOurs from None
        return _unpack(packed), expires

    def _find_key(self, key_id: str) -> SealKey:
        # Another server that shares the file may have sealed with a key that is seconds old.
        for at_once in (False, True):
            for key in self._keys.value(at_once=at_once):
                if key.id == key_id:
                    return key
        raise _NotOurs

    def _cipher(self, key: SealKey, salt: bytes) -> AESGCM:
        return self._aesgcm(hmac.digest(key.secret, _CONTEXT + salt, "sha256"))


class _NotOurs(Exception):
    """Whatever is wrong with a seal. It never leaves this module."""


def _refuse(message: str, at: Position) -> InputError:
    advice = "send the item without its encrypted_content, or leave it out if it is reasoning"
    return InputError(ErrorCode.SERVE_BAD_SEAL, f"encrypted_content: {message}; {advice}", at)


def _decode(read: Callable[[bytes], T], data: bytes, at: Position) -> T:
    try:
        return read(data)
    except HarmonyError:
        # For a client this is a seal that cannot be opened, not a fault of the server.
        raise _refuse("another version of this server sealed this", at) from None


def is_unbound(text: str) -> bool:
    """Whether this is a seal of version hs1, which fits any item."""
    return text.startswith(f"{_UNBOUND_VERSION}.")


def expires_at(text: str) -> int:
    """When a seal expires that was just opened, in seconds since 1970."""
    return _expiry_of(_parts_of(text)[2])


def _parts_of(text: str) -> tuple[str, str, bytes]:
    """Version, key id and body of a seal."""
    if len(text) > _MAX_TEXT or (found := _FORM.fullmatch(text)) is None:
        raise _NotOurs
    body = decode_base64(found[3])
    if body is None or len(body) < _CLEAR_BYTES + _TAG_BYTES:
        raise _NotOurs
    return found[1], found[2], body


def _expiry_of(body: bytes) -> int:
    (expires,) = _EXPIRY.unpack_from(body, _SALT_BYTES + _NONCE_BYTES)
    return expires


def _associated(version: str, key_id: str, owner: str, model: str, expires: int, bound_to: bytes) -> bytes:
    # Each with its length, so that it matters where one ends and the next begins.
    texts = (version, key_id, owner, model, str(expires))
    written = [each.encode("utf-8", "surrogatepass") for each in texts]
    if bound_to or version != _UNBOUND_VERSION:
        written.append(bound_to)
    return b"".join(_LENGTH.pack(len(each)) + each for each in written)


def _pack(data: bytes) -> bytes:
    deflated = zlib.compress(data, _LEVEL)
    form, payload = (_DEFLATED, deflated) if len(deflated) < len(data) else (_PLAIN, data)
    size = max(_HEAD.size + len(payload), len(data) // MAX_RATIO)
    padded = -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
    return (_HEAD.pack(form, len(payload)) + payload).ljust(padded, b"\0")


def _unpack(packed: bytes) -> bytes:
    """What `_pack` packed. It was verified, so only a later form of ours can be wrong here."""
    if len(packed) < _HEAD.size:
        raise _NotOurs
    form, length = _HEAD.unpack_from(packed)
    payload = packed[_HEAD.size : _HEAD.size + length]
    if len(payload) != length:
        raise _NotOurs
    if form == _PLAIN and length <= MAX_OPENED_BYTES:
        return payload
    if form == _DEFLATED:
        stream = zlib.decompressobj()
        with suppress(zlib.error):
            # One byte more than is allowed shows that there is more.
            data = stream.decompress(payload, MAX_OPENED_BYTES + 1)
            if len(data) <= MAX_OPENED_BYTES and stream.eof and not stream.unused_data:
                return data
    raise _NotOurs


def load_cipher() -> type[AESGCM]:
    """AES-GCM from the extra `server`; an error with the install command if it is missing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        why = "seals and the store need cryptography: pip install 'harmonia[server]'"
        raise InputError(ErrorCode.SERVE_MISSING_EXTRA, why) from error
    return AESGCM
