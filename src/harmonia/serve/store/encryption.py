"""Encrypt the content of one response, chat or turn, so that overwriting its secret deletes it.

Deleting the secret deletes everything encrypted with it, wherever copies of the bytes are; sqlite/migrations.py
explains why. The secret is in the same file: this does not protect a store from readers of the file.

Content is bound to its place: moved to another response, chat or position, it cannot be decrypted.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, StoreError
from harmonia.serve.security.sealed_content import load_cipher

SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_NAME_BYTES: Final = 16


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


class ContentCipher:
    """Encrypts with one secret. `owner` and `id_`, of the response or the chat, are part of every place."""

    __slots__ = ("_cipher", "_context", "_secret")

    def __init__(self, secret: bytes, owner: str, id_: str) -> None:
        self._secret = secret
        self._context = (owner, id_)
        self._cipher = load_cipher()(secret)

    def encrypt(self, content: bytes, *place: str | int) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._bind(place))

    def decrypt(self, encrypted: bytes, *place: str | int) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], self._bind(place))
        except (InvalidTag, ValueError, TypeError) as error:
            raise StoreError(ErrorCode.STORE_DAMAGED, "stored content cannot be decrypted") from error

    def name(self, item_id: str) -> bytes:
        """The keyed hash by which an id is looked up."""
        return hashlib.blake2b(
            item_id.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=_NAME_BYTES
        ).digest()

    def _bind(self, place: tuple[str | int, ...]) -> bytes:
        return msgspec.msgpack.encode((*self._context, *place))
