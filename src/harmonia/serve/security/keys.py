"""Keys: API keys, which say who may use a server and under which name, and the keys with which reasoning is sealed.

API keys are a text file with one key on each line:

    # blank lines and lines that begin with # are ignored
    alice sk-harmonia-…            a name and its key
    bob sha256:9f86d081…           a name and the digest of its key, so that the file holds no secret
    sk-harmonia-…                  a key alone: its name is made of its digest

1. A key is compared by its SHA-256 with all keys, in constant time and without an early end.
2. Neither a key nor a digest is in an error or a repr.
3. A file may change while the server runs. If it cannot be read then, the keys stay as they were; a file of API keys
   without any key lets nobody in.

Sealing keys are a JSON file. The last key seals, and all of them open. So `rotate` adds one and loses nothing, and
`retire` ends what was sealed with one. A file that cannot be read is refused and never overwritten: its keys may still
be needed.

    {"version": 1, "keys": [{"id": "3f9a0c1e", "created": "2026-11-16T08:25:00Z", "secret": "…"}]}
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.run.default_paths import seal_keys_file
from harmonia.serve.security.private_files import (
    Watched,
    create_private,
    is_there,
    locked,
    read_private,
    refuse_file,
    replace_private,
)

# openai          as OpenAI's own API and its SDKs have it
# open-responses  as the Open Responses specification has it
Dialect = Literal["openai", "open-responses"]

# Whose data it is where the server asks for no key.
NOBODY: Final = "nobody"

_ID_BYTES: Final = 24


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request. `owner` is the name of the key, which all of its data belongs to; `request_id` is in the log
    and in the answer's headers."""

    owner: str = NOBODY
    dialect: Dialect = "openai"
    request_id: str = ""


def new_id(prefix: str) -> str:
    """An id such as `resp_5f2c…`: 192 random bits, so that knowing some says nothing of the others."""
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


MIN_KEY_LENGTH: Final = 16
MAX_KEY_LENGTH: Final = 512
KEY_PREFIX: Final = "sk-harmonia-"

_API_KEYS: Final = "the file of API keys"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY: Final = re.compile(rf"[\x21-\x7e]{{{MIN_KEY_LENGTH},{MAX_KEY_LENGTH}}}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_HASHED: Final = "sha256:"
_RANDOM_BYTES: Final = 32
_LIKE_A_KEY: Final = "sk-"
_BLANKS: Final = " \t\r"
_BEARER: Final = re.compile(r"\s*bearer\s+(\S+)\s*", re.IGNORECASE)
_KEY_HEADERS: Final = ("api-key", "x-api-key")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A line of the file. `is_hashed` says whether the file has the digest only."""

    name: str
    digest: bytes = field(repr=False)
    line: int
    is_hashed: bool


class ApiKeys:
    """The keys of a file, read again when it has changed: a new key is known within `check_every_s`, and a removed one
    is not."""

    def __init__(
        self,
        path: Path,
        *,
        check_every_s: float = 2.0,
        on_problem: Callable[[HarmonyError], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._keys = Watched(
            path, read_api_keys, check_every_s=check_every_s, on_problem=on_problem, monotonic=monotonic
        )
        if not self._keys.value():
            raise refuse_file(f"{_API_KEYS} {path} has no key; create one with: {_maker(path)}", path)

    @property
    def problem(self) -> HarmonyError | None:
        """Why the keys are not those of the file, if they are not."""
        return self._keys.problem

    @property
    def names(self) -> tuple[str, ...]:
        """Whose keys are known, in the order of the file."""
        return tuple(key.name for key in self._keys.value())

    def find(self, key: str) -> str | None:
        """The name of whoever has this key."""
        digest = _digest_of(key)
        found: str | None = None
        for each in self._keys.value():
            # No early end: how long it takes must not say which key it was, or whether there is one.
            if hmac.compare_digest(each.digest, digest):
                found = each.name
        return found


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """The key that a request brings: `Authorization: Bearer KEY`, else `api-key` or `x-api-key`.

    A header that is there twice, with different values, is as good as none: another program on the way may have read
    the other one.
    """
    values: dict[str, set[str]] = {}
    for name, value in headers.items():
        values.setdefault(name.lower(), set()).add(value)
    authorization = values.get("authorization", set[str]())
    if len(authorization) > 1:
        return None
    for value in authorization:
        if (bearer := _BEARER.fullmatch(value)) is not None:
            return bearer[1]
    for name in _KEY_HEADERS:
        given = {stripped for value in values.get(name, ()) if (stripped := value.strip())}
        if given:
            return given.pop() if len(given) == 1 else None
    return None


def read_api_keys(path: Path) -> tuple[ApiKey, ...]:
    """All keys of a file, which may be none."""
    return _read_lines(_lines_of(path), path)


def _read_lines(lines: list[str], path: Path) -> tuple[ApiKey, ...]:
    keys: list[ApiKey] = []
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    for number, line in enumerate(lines, start=1):
        if (key := _read_line(line, path, number)) is None:
            continue
        if (first := digests.setdefault(key.digest, number)) != number:
            raise _refuse_line(f"the same key as in line {first}", path, number)
        if (first := names.setdefault(key.name, number)) != number:
            raise _refuse_line(f"the name {key.name} is already in line {first}", path, number)
        keys.append(key)
    return tuple(keys)


def new_api_key(path: Path, name: str) -> str:
    """Make a key, add its digest to a file, and give the key, which nobody can find out again."""
    check_name(name)
    key = KEY_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    line = f"{name} {_HASHED}{_digest_of(key).hex()}\n"
    if not is_there(path, _API_KEYS) and create_private(path, line.encode(), _API_KEYS):
        return key
    with locked(path):
        lines = _lines_of(path)
        if any(each.name == name for each in _read_lines(lines, path)):
            raise _refuse_name(f"{path} already has a key for {name}; remove it first, or choose another name")
        if lines[-1]:
            lines.append("")  # the last line had no end
        replace_private(path, ("\n".join(lines) + line).encode(), _API_KEYS)
    return key


def remove_api_key(path: Path, name: str) -> None:
    """Take a key out of a file. The other lines stay as they are."""
    with locked(path):
        lines = _lines_of(path)
        found = next((key for key in _read_lines(lines, path) if key.name == name), None)
        if found is None:
            raise _refuse_name(f"{path} has no key for {name!r}")
        del lines[found.line - 1]
        replace_private(path, "\n".join(lines).encode(), _API_KEYS)


def check_name(name: str) -> None:
    """Refuse a name that is not safe in a log, or that stands for those without a key."""
    if (why := _wrong_with_name(name)) is not None:
        raise _refuse_name(why)


def _lines_of(path: Path) -> list[str]:
    data = read_private(path, _API_KEYS, _maker(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _refuse_line("not UTF-8", path, line) from None
    return text.split("\n")  # not splitlines, which knows ends of lines that no editor counts


def _read_line(line: str, path: Path, number: int) -> ApiKey | None:
    line = line.strip(_BLANKS)
    if not line or line.startswith("#"):
        return None
    fields = line.split()
    if len(fields) > 2:
        raise _refuse_line("expected NAME KEY, or only KEY; put a comment on its own line", path, number)
    written = fields[-1]
    is_hashed = written.startswith(_HASHED)
    if is_hashed:
        written = written.removeprefix(_HASHED)
        if _DIGEST.fullmatch(written) is None:
            raise _refuse_line(f"{_HASHED} must be followed by 64 hexadecimal digits", path, number)
        digest = bytes.fromhex(written)
    elif _KEY.fullmatch(written) is None:
        raise _refuse_line(
            f"a key must have {MIN_KEY_LENGTH} to {MAX_KEY_LENGTH} characters, all visible ASCII; "
            f"this one has {len(written)}",
            path,
            number,
        )
    else:
        digest = _digest_of(written)
    name = fields[0] if len(fields) == 2 else f"key-{digest.hex()[:12]}"
    if (why := _wrong_with_name(name)) is not None:
        raise _refuse_line(why, path, number)
    return ApiKey(name, digest, number, is_hashed)


def _wrong_with_name(name: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        # It is not shown: whoever wrote the key first and the name behind it would have it in the log.
        return "a name must have 1 to 64 letters, digits, dots, underscores or hyphens; this one does not"
    if name.startswith(_LIKE_A_KEY):
        return f"a name that begins with {_LIKE_A_KEY} is probably a key, and names appear in logs: expected NAME KEY"
    if name == NOBODY:
        return f"the name {NOBODY} is reserved for clients of a server without API keys; choose another"
    return None


def _maker(path: Path) -> str:
    return f"harmonia keys new NAME --file {shlex.quote(str(path))}"


def _digest_of(key: str) -> bytes:
    # A header may have anything; what cannot be encoded is no key of ours.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _refuse_line(why: str, path: Path, line: int) -> InputError:
    return refuse_file(f"{_API_KEYS} {path}, line {line}: {why}", path, line)


def _refuse_name(why: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, why, Position(path="name"))


SECRET_BYTES: Final = 32

_VERSION: Final = 1
_SEAL_KEYS: Final = "the file of sealing keys"
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
            f"there is no state folder for {_SEAL_KEYS}: {error}; name a file, or set XDG_STATE_HOME",
            Position(path="seal_key_file"),
        ) from error


def read_seal_keys(path: Path) -> tuple[SealKey, ...]:
    """All keys of a file, the newest last."""
    data = read_private(path, _SEAL_KEYS, "harmonia keys rotate")
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:  # it says where, and never what
        raise _damaged(path, str(error)) from None
    except UnicodeDecodeError:
        raise _damaged(path, "not UTF-8") from None
    if file.version != _VERSION:
        raise refuse_file(
            f"{_SEAL_KEYS} {path} has version {file.version}; this release reads version {_VERSION}", path
        )
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
    if not is_there(path, _SEAL_KEYS):
        create_private(path, _write([_new_key(())]), _SEAL_KEYS)  # or another server was quicker, and its file is read
    return read_seal_keys(path)


def rotate(path: Path) -> SealKey:
    """Add a key, which seals from now on. What the others sealed is still opened."""
    if not is_there(path, _SEAL_KEYS):
        return ensure_seal_keys(path)[-1]
    with locked(path):
        keys = read_seal_keys(path)
        key = _new_key(keys)
        replace_private(path, _write([*keys, key]), _SEAL_KEYS)
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
        replace_private(path, _write([key for key in keys if key is not found]), _SEAL_KEYS)
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
        f"{_SEAL_KEYS} {path} is damaged: {why}. Restore a backup; or move the file away, and the server will create "
        "a new one, which cannot open anything sealed before",
        path,
    )


def _refuse_id(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path="id"))
