"""The keys that reasoning is sealed with: a JSON file, for its owner's eyes only.

    {"version": 1, "keys": [{"id": "3f9a0c1e", "created": "2026-11-16T08:25:00Z", "secret": "…"}]}

The last key seals, all of them open. So `rotate` adds one and loses nothing, and `retire` ends what was sealed with
one. A file that cannot be read is refused and never overwritten: its keys may still be wanted.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.run.default_paths import seal_keys_file
from harmonia.serve.security.private_files import (
    create_private,
    is_there,
    locked,
    read_private,
    refuse_file,
    replace_private,
)

SECRET_BYTES: Final = 32

_VERSION: Final = 1
_WHAT: Final = "the file of sealing keys"
_ID: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key. Its id stands in every seal; its secret stands nowhere, not even in its repr."""

    id: str
    created: str
    secret: bytes = field(repr=False)


class _Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    created: str
    secret: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: list[_Key]


def default_path() -> Path:
    """Where the keys are if nothing else is set."""
    try:
        return seal_keys_file()
    except (OSError, RuntimeError) as error:  # the second where there is no home
        raise InputError(
            ErrorCode.SERVE_INVALID_OPTION,
            f"there is no state folder for {_WHAT}: {error}; name a file, or set XDG_STATE_HOME",
            Position(path="seal_key_file"),
        ) from error


def read_seal_keys(path: Path) -> tuple[SealKey, ...]:
    """All keys of a file, the newest last."""
    data = read_private(path, _WHAT, "harmonia keys rotate")
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:  # it says where, and never what
        raise _damaged(path, str(error)) from None
    except UnicodeDecodeError:
        raise _damaged(path, "not UTF-8") from None
    if file.version != _VERSION:
        raise refuse_file(f"{_WHAT} {path} has version {file.version}; this release reads version {_VERSION}", path)
    keys = tuple(SealKey(key.id, key.created, _decode_secret(key.secret)) for key in file.keys)
    if not keys:
        raise _damaged(path, "it has no key")
    for index, key in enumerate(keys):
        if _ID.fullmatch(key.id) is None or key.id in {other.id for other in keys[:index]}:
            raise _damaged(path, f"the id of key {index} is not 8 unique hexadecimal digits")
        if len(key.secret) != SECRET_BYTES:
            raise _damaged(path, f"the secret of key {index} is not {SECRET_BYTES} bytes in base64url")
    return keys


def ensure_seal_keys(path: Path) -> tuple[SealKey, ...]:
    """The keys of a file, which is made with a first key if it is not there."""
    if not is_there(path, _WHAT):
        create_private(path, _write([_new_key(())]), _WHAT)  # or another server was quicker, and its file is read
    return read_seal_keys(path)


def rotate(path: Path) -> SealKey:
    """Add a key, which seals from now on. What the others sealed is still opened."""
    if not is_there(path, _WHAT):
        return ensure_seal_keys(path)[-1]
    with locked(path):
        keys = read_seal_keys(path)
        key = _new_key(keys)
        replace_private(path, _write([*keys, key]), _WHAT)
    return key


def retire(path: Path, key_id: str) -> SealKey:
    """Remove a key: what it sealed is never opened again. The one that seals has to be followed by another first."""
    with locked(path):
        keys = read_seal_keys(path)
        found = next((key for key in keys if key.id == key_id), None)
        if found is None:
            raise _refuse_id(f"there is no sealing key {key_id!r} in {path}; it has {', '.join(k.id for k in keys)}")
        if found is keys[-1]:
            raise _refuse_id(f"{key_id} is the key that seals now; add another with `harmonia keys rotate` first")
        replace_private(path, _write([key for key in keys if key is not found]), _WHAT)
    return found


def _new_key(others: Sequence[SealKey]) -> SealKey:
    taken = {key.id for key in others}
    while (key_id := secrets.token_hex(4)) in taken:
        pass
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return SealKey(key_id, created, secrets.token_bytes(SECRET_BYTES))


def _write(keys: Sequence[SealKey]) -> bytes:
    written = [_Key(key.id, key.created, _encode_secret(key.secret)) for key in keys]
    return msgspec.json.format(msgspec.json.encode(_File(_VERSION, written)), indent=2) + b"\n"


def _encode_secret(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def _decode_secret(text: str) -> bytes:
    """The secret, or nothing where it is not written as we write it."""
    try:
        secret = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    return secret if _encode_secret(secret) == text else b""


def _damaged(path: Path, why: str) -> InputError:
    return refuse_file(
        f"{_WHAT} {path} is damaged: {why}. Restore a backup; or move the file away, and the server will create "
        "a new one, which cannot open anything sealed before",
        path,
    )


def _refuse_id(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path="id"))
