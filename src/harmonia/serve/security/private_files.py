"""Files that hold secrets: read only where nobody else can read them, written whole or not at all.

1. A file that its group or others may read or write is refused, with the command that mends it.
2. A file is made or replaced in one step. Whoever reads it sees all of the old or all of the new.
3. Two processes that make it at the same time end with one file; two that change it do so one after the other.
4. Nothing of a file's content is in an error.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, Generic, TypeVar

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position

if sys.platform != "win32":
    import fcntl

# A key takes some hundred bytes. What is longer is another file.
MAX_FILE_BYTES: Final = 4 * 1024 * 1024

_FOR_OTHERS: Final = 0o077
# Windows has no modes, no locks of folders, and two flags of its own.
_HAS_MODES: Final = os.name != "nt"
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
# To open a pipe would wait for its other end.
_NOT_WAITING: Final[int] = getattr(os, "O_NONBLOCK", 0)

Value = TypeVar("Value")
# What tells a file from the one that was there before: None where there is none.
_Stamp = tuple[int, int, int, int] | None


def read_private(path: Path, what: str, maker: str) -> bytes:
    """The content of a file that only its owner can read. Errors say `what` it is and, where it is missing, which
    command makes it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _BINARY | _NOT_WAITING)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise refuse_file(f"{what} {path} is not a regular file", path)
            if _HAS_MODES and mode & _FOR_OTHERS:
                raise refuse_file(
                    f"{what} {path} is open to other users: its mode is {stat.S_IMODE(mode):04o}, and should be 0600. "
                    f"Run: chmod 600 {shlex.quote(str(path))}",
                    path,
                )
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise refuse_file(f"{what} {path} does not exist; create it with: {maker}", path) from None
    except OSError as error:
        raise refuse_file(f"{what} {path} cannot be read: {error.strerror}", path) from error
    if len(data) > MAX_FILE_BYTES:
        raise refuse_file(f"{what} {path} has more than {MAX_FILE_BYTES:,} bytes", path)
    return data


def is_there(path: Path, what: str) -> bool:
    """Whether there is such a file. Not to know is an error."""
    try:
        return path.exists()
    except OSError as error:
        raise refuse_file(f"{what} {path} cannot be accessed: {error.strerror}", path) from error


def create_private(path: Path, data: bytes, what: str) -> bool:
    """Make a file of mode 0600, and its folder of mode 0700 where there is none. False if the file is there already,
    which it then stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = _write_part(path, data)
        try:
            # A link, unlike a rename, does not replace what is there; and unlike a file that was opened with O_EXCL, it
            # never shows half of the content.
            os.link(part, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            return _create_in_place(path, data)
        finally:
            os.unlink(part)
        _sync_folder(path.parent)
    except OSError as error:
        raise refuse_file(f"{what} {path} cannot be created: {error.strerror}", path) from error
    return True


def replace_private(path: Path, data: bytes, what: str) -> None:
    """Put another content in the place of a file, in one step. It keeps its owner."""
    try:
        target = path.resolve(strict=True)  # what a link leads to is replaced, not the link
        before = target.stat()
        part = _write_part(target, data)
        try:
            if _HAS_MODES:
                made = os.stat(part)
                if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
                    # An administrator changes the keys of a server that runs as somebody else.
                    os.chown(part, before.st_uid, before.st_gid)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise refuse_file(f"{what} {path} cannot be written: {error.strerror}", path) from error


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Nobody else who asks for this lock changes the file meanwhile. The lock is on its folder, because the file itself
    is replaced."""
    if sys.platform == "win32":
        yield
        return
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise refuse_file(f"the folder of {path} cannot be opened: {error.strerror}", path) from error
    try:
        # Some network file systems cannot lock a folder. Two people who change keys in the same moment are not worth
        # refusing all the others.
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def refuse_file(message: str, path: Path, line: int | None = None) -> InputError:
    """The one error of such a file. Its place is the file, and the line."""
    place = str(path) if line is None else f"{path}:{line}"
    return InputError(ErrorCode.SERVE_INVALID_OPTION, message, Position(path=place))


class Watched(Generic[Value]):
    """What a file says, read again when the file has changed.

    The file is looked at when the value is asked for, and at most every `check_every_s`. A file that is gone or cannot
    be read leaves the value as it was; `problem` has the error until the file is good again, and `on_problem` is told
    once.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Value],
        *,
        check_every_s: float,
        on_problem: Callable[[HarmonyError], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem: HarmonyError | None = None
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
                self._read_again()
        return self._value

    def _read_again(self) -> None:
        try:
            self._value = self._read(self._path)
            self.problem = None
        except HarmonyError as error:
            self.problem = error
            if self._on_problem is not None:
                self._on_problem(error)


def _stamp_of(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _write_part(path: Path, data: bytes) -> str:
    """A file beside the other, with all of its content, on the disk. mkstemp makes it with O_EXCL and mode 0600."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        _fill(descriptor, data)
    except BaseException:
        os.unlink(part)
        raise
    return part


def _create_in_place(path: Path, data: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
    except FileExistsError:
        return False
    try:
        _fill(descriptor, data)
    except BaseException:
        os.unlink(path)
        raise
    return True


def _fill(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    if not _HAS_MODES:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
