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
import hashlib
import hmac
import os
import re
import secrets
import shlex
import stat
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import msgspec

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.run.default_paths import seal_keys_file
from harmonia.run.private_files import chmod_command, create_private, mode_open_to_others, write_private

if sys.platform != "win32":
    import fcntl

# openai          as OpenAI's own API and its SDKs have it
# open-responses  as the Open Responses specification has it
Dialect = Literal["openai", "open-responses"]

# The owner of all data if the server needs no key.
NOBODY: Final = "nobody"
# A key takes some hundred bytes; a longer file is not a key file.
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
SECRET_BYTES: Final = 32

_ID_BYTES: Final = 24
_API_KEYS: Final = "the file of API keys"
_SEAL_KEYS: Final = "the file of sealing keys"
# Opening a pipe would wait for its other end.
_READ: Final[int] = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)

Value = TypeVar("Value")


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request. `owner` is the name of the key, to which all of its data belongs; `request_id` is in the log
    and in the answer's headers."""

    owner: str = NOBODY
    dialect: Dialect = "openai"
    request_id: str = ""


def new_id(prefix: str) -> str:
    """An id such as `resp_5f2c…`: 192 random bits, so that knowing some of them does not help to guess others."""
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


# ── API keys ────────────────────────────────────────────────────────────────────────────────────────────────────────

_MIN_LENGTH: Final = 16
_MAX_LENGTH: Final = 512
_PREFIX: Final = "sk-harmonia-"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY: Final = re.compile(rf"[\x21-\x7e]{{{_MIN_LENGTH},{_MAX_LENGTH}}}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_HASHED: Final = "sha256:"
_LIKE_A_KEY: Final = "sk-"
_BEARER: Final = re.compile(r"\s*bearer\s+(\S+)\s*", re.IGNORECASE)
_KEY_HEADERS: Final = ("api-key", "x-api-key")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A line of the file. `is_hashed`: the file has only the digest."""

    name: str
    digest: bytes = field(repr=False)
    line: int
    is_hashed: bool


class ApiKeys:
    """The keys of a file, which is read again within `check_every_s` of a change."""

    def __init__(
        self,
        path: Path,
        *,
        check_every_s: float = 2.0,
        on_problem: Callable[[HarmonyError], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = WatchedFile(path, read_api_keys, check_every_s, on_problem, monotonic)
        if not self._keys.value():
            raise _refuse(path, f"{_API_KEYS} {path} has no key; create one with: {_maker(path)}")

    def find(self, key: str) -> str | None:
        """The name of whoever has this key."""
        digest = _digest_of(key)
        found: str | None = None
        for each in self._keys.value():
            # No early end: the time must not reveal which key it was, or whether there is one.
            if hmac.compare_digest(each.digest, digest):
                found = each.name
        return found


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """The key that a request brings: `Authorization: Bearer KEY`, else `api-key` or `x-api-key`.

    A header that is repeated with different values is ignored: a program on the way may have read the other value.
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


def new_api_key(path: Path, name: str) -> str:
    """Create a key, add its digest to a file, and return the key, which cannot be shown again."""
    if (why := _wrong_with_name(name)) is not None:
        raise _refuse("name", why)
    key = _PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    line = f"{name} {_HASHED}{_digest_of(key).hex()}\n"
    with _reporting(path, _API_KEYS, "created"):
        if not path.exists() and create_private(path, line.encode()):
            return key
    with _changing(path, _API_KEYS):
        lines = _lines_of(path)
        if any(each.name == name for each in _read_lines(lines, path)):
            raise _refuse("name", f"{path} already has a key for {name}; remove it first, or choose another name")
        if lines[-1]:
            lines.append("")  # the last line had no end
        write_private(path, ("\n".join(lines) + line).encode())
    return key


def remove_api_key(path: Path, name: str) -> None:
    """Remove a key from a file. The other lines stay as they are."""
    with _changing(path, _API_KEYS):
        lines = _lines_of(path)
        found = next((key for key in _read_lines(lines, path) if key.name == name), None)
        if found is None:
            raise _refuse("name", f"{path} has no key for {name!r}; `harmonia keys list --file {path}` lists the names")
        del lines[found.line - 1]
        write_private(path, "\n".join(lines).encode())


def _lines_of(path: Path) -> list[str]:
    data = _read_file(path, _API_KEYS, _maker(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refuse_line("not UTF-8", path, data[: error.start].count(b"\n") + 1) from None
    return text.split("\n")  # not splitlines, which also splits where no editor does


def _read_lines(lines: list[str], path: Path) -> tuple[ApiKey, ...]:
    keys: list[ApiKey] = []
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        key = _read_line(fields, path, number)
        if (first := digests.setdefault(key.digest, number)) != number:
            raise _refuse_line(f"the same key as in line {first}", path, number)
        if (first := names.setdefault(key.name, number)) != number:
            raise _refuse_line(f"the name {key.name} is already in line {first}", path, number)
        keys.append(key)
    return tuple(keys)


def _read_line(fields: list[str], path: Path, number: int) -> ApiKey:
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
        expected = f"a key must have {_MIN_LENGTH} to {_MAX_LENGTH} characters, all visible ASCII"
        raise _refuse_line(f"{expected}; this one has {len(written)}", path, number)
    else:
        digest = _digest_of(written)
    name = fields[0] if len(fields) == 2 else f"key-{digest.hex()[:12]}"
    if (why := _wrong_with_name(name)) is not None:
        raise _refuse_line(why, path, number)
    return ApiKey(name, digest, number, is_hashed)


def _wrong_with_name(name: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        # It is not shown: if the key was written before the name, the log would contain the key.
        return "invalid name: use 1 to 64 letters, digits, dots, underscores or hyphens"
    if name.startswith(_LIKE_A_KEY):
        return f"a name that begins with {_LIKE_A_KEY} is probably a key, and names appear in logs: expected NAME KEY"
    if name == NOBODY:
        return f"the name {NOBODY} is reserved for clients of a server without API keys; choose another"
    return None


def _maker(path: Path) -> str:
    return f"harmonia keys new NAME --file {shlex.quote(str(path))}"


def _digest_of(key: str) -> bytes:
    # A header may contain anything, even half of a surrogate pair.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _refuse_line(why: str, path: Path, line: int) -> InputError:
    return _refuse(f"{path}:{line}", f"{_API_KEYS} {path}, line {line}: {why}")


# ── sealing keys ────────────────────────────────────────────────────────────────────────────────────────────────────

_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key. Every seal contains its id; nothing contains its secret, not even its repr."""

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


def default_seal_keys() -> Path:
    """Where the keys are if nothing else is set."""
    try:
        return seal_keys_file()
    except (OSError, RuntimeError) as error:  # the second if there is no home
        why = f"there is no state folder for {_SEAL_KEYS}: {error}; name a file, or set XDG_STATE_HOME"
        raise _refuse("seal_key_file", why) from error


def read_seal_keys(path: Path) -> tuple[SealKey, ...]:
    """All keys of a file, the newest last."""
    data = _read_file(path, _SEAL_KEYS, "harmonia keys rotate")
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:  # it says where, and never what
        raise _damaged(path, str(error)) from None
    except UnicodeDecodeError:
        raise _damaged(path, "not UTF-8") from None
    if file.version != _VERSION:
        why = f"{_SEAL_KEYS} {path} has version {file.version}; this release reads version {_VERSION}"
        raise _refuse(path, why)
    keys = tuple(SealKey(key.id, key.created, decode_base64(key.secret) or b"") for key in file.keys)
    if not keys:
        raise _damaged(path, "it has no key")
    for index, key in enumerate(keys):
        if _ID.fullmatch(key.id) is None or key.id in {other.id for other in keys[:index]}:
            raise _damaged(path, f"the id of key {index} is not 8 unique hexadecimal digits")
        if len(key.secret) != SECRET_BYTES:
            raise _damaged(path, f"the secret of key {index} is not {SECRET_BYTES} bytes in base64url")
    return keys


def ensure_seal_keys(path: Path) -> tuple[SealKey, ...]:
    """The keys of a file, which is created with a first key if it does not exist."""
    with _reporting(path, _SEAL_KEYS, "created"):
        if not path.exists():
            create_private(path, _write([_new_key(())]))  # if another server was quicker, its file is read
    return read_seal_keys(path)


def rotate(path: Path) -> SealKey:
    """Add a key, which seals from now on. What the others sealed can still be opened."""
    with _reporting(path, _SEAL_KEYS, "created"):
        is_new = not path.exists()
    if is_new:
        return ensure_seal_keys(path)[-1]
    with _changing(path, _SEAL_KEYS):
        keys = read_seal_keys(path)
        key = _new_key(keys)
        write_private(path, _write([*keys, key]))
    return key


def retire(path: Path, key_id: str) -> SealKey:
    """Remove a key: what it sealed can no longer be opened. The newest cannot be removed."""
    with _changing(path, _SEAL_KEYS):
        keys = read_seal_keys(path)
        found = next((key for key in keys if key.id == key_id), None)
        if found is None:
            raise _refuse("id", f"there is no sealing key {key_id!r} in {path}; it has {', '.join(k.id for k in keys)}")
        if found is keys[-1]:
            raise _refuse("id", f"{key_id} is the key that seals now; add another with `harmonia keys rotate` first")
        write_private(path, _write([key for key in keys if key is not found]))
    return found


def encode_base64(data: bytes) -> str:
    """The base64url of some bytes, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64(text: str) -> bytes | None:
    """The bytes of a text that `encode_base64` wrote; None for any other text."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    # The last letter may have unused bits, and other letters are skipped: only one spelling is accepted.
    return data if encode_base64(data) == text else None


def _new_key(others: Sequence[SealKey]) -> SealKey:
    taken = {key.id for key in others}
    while (key_id := secrets.token_hex(4)) in taken:
        pass
    return SealKey(key_id, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), secrets.token_bytes(SECRET_BYTES))


def _write(keys: Sequence[SealKey]) -> bytes:
    written = [_Key(key.id, key.created, encode_base64(key.secret)) for key in keys]
    return msgspec.json.format(msgspec.json.encode(_File(_VERSION, written)), indent=2) + b"\n"


def _damaged(path: Path, why: str) -> InputError:
    return _refuse(
        path,
        f"{_SEAL_KEYS} {path} is damaged: {why}. Restore a backup; or move the file away, and the server will create "
        "a new one, which cannot open anything sealed before",
    )


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class WatchedFile(Generic[Value]):
    """The value of a file, read again when the file has changed.

    The file is looked at when the value is needed, at most every `check_every_s`. If it is gone or cannot be read, the
    value stays as it was, and `on_problem` is called once.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Value],
        check_every_s: float,
        on_problem: Callable[[HarmonyError], None] | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._path = path
        self._read = read
        self._check_every_s = check_every_s
        self._on_problem = on_problem
        self._monotonic = monotonic
        # Before the file is read, so that a change in between is seen the next time.
        self._stamp = _stamp_of(path)
        self._value = read(path)
        self._looked_at = monotonic()

    def value(self, *, at_once: bool = False) -> Value:
        """The newest value. `at_once` looks at the file in any case."""
        now = self._monotonic()
        if at_once or now - self._looked_at >= self._check_every_s:
            self._looked_at = now
            stamp = _stamp_of(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._value = self._read(self._path)
                except HarmonyError as error:
                    if self._on_problem is not None:
                        self._on_problem(error)
        return self._value


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _read_file(path: Path, what: str, maker: str) -> bytes:
    """The content of a private file. Nothing of it is in an error."""
    with _reporting(path, what, "read"):
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            raise _refuse(path, f"{what} {path} does not exist; create it with: {maker}") from None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refuse(path, f"{what} {path} is not a regular file")
            if mode := mode_open_to_others(status):
                why = f"{what} {path} is open to other users: its mode is {mode}, and should be 0600"
                raise _refuse(path, f"{why}. Run: {chmod_command(path)}")
            data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise _refuse(path, f"{what} {path} has more than {MAX_FILE_BYTES:,} bytes")
    return data


@contextmanager
def _reporting(path: Path, what: str, done: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _refuse(path, f"{what} {path} cannot be {done}: {error.strerror}") from error


@contextmanager
def _changing(path: Path, what: str) -> Generator[None]:
    """Lock a file against other processes that change it. The lock is on its folder, because the file is replaced.

    Not filelock: it locks a file of its own and leaves that beside the keys.
    """
    with _reporting(path, what, "written"):
        if sys.platform == "win32":
            yield
            return
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            # Some network file systems cannot lock a folder; that two people change keys at once is unlikely.
            with suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _refuse(place: str | Path, message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=str(place)))
