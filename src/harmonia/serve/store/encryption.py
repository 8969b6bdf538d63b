"""The content of one response, chat or turn of a chat, readable only while its secret is there.

Deleting the secret deletes everything that was written under it, wherever copies of the bytes may be; migrations.py
says why that is needed. The secret lies in the same file: this does not protect a store from who can read it.

Each text is bound to its place: content that was moved to another response, chat or position does not open.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from harmonia.errors import ErrorCode, InputError, StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_NAME_BYTES: Final = 16


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


class Secrecy:
    """Writes and reads under one secret. `owner` and `id_`, of the response or the chat, are part of every place."""

    __slots__ = ("_cipher", "_context", "_secret")

    def __init__(self, secret: bytes, owner: str, id_: str) -> None:
        self._secret = secret
        self._context = (owner, id_)
        self._cipher = load_cipher()(secret)

    def hide(self, content: bytes, *place: str | int) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._bind(place))

    def reveal(self, hidden: bytes, *place: str | int) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(hidden[:_NONCE_BYTES], hidden[_NONCE_BYTES:], self._bind(place))
        except (InvalidTag, ValueError, TypeError) as error:
            raise StoreError(ErrorCode.STORE_DAMAGED, "what is stored does not open") from error

    def name(self, item_id: str) -> bytes:
        """What an id is looked up by."""
        return hashlib.blake2b(
            item_id.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=_NAME_BYTES
        ).digest()

    def _bind(self, place: tuple[str | int, ...]) -> bytes:
        return msgspec.msgpack.encode((*self._context, *place))


def load_cipher() -> type[AESGCM]:
    """From the extra; where that is missing, an error that says how to get it."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise InputError(
            ErrorCode.SERVE_MISSING_EXTRA, "the store needs cryptography: pip install 'harmonia[server]'"
        ) from error
    return AESGCM
