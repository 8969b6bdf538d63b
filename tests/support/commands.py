"""`harmonia` as a process of its own, as a person calls it.

A new process loads Harmonia first, which takes ten times as long as what most tests ask of it. So a command is a fork
of one process that has loaded it (`fork_server.py`). It has its own files, environment, session and signals, and ends
as any process does. Tests of what is loaded, or of Python's own switches, start a new process.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Self

from tests.support.watchdog import WATCHDOG_S

_HERE = Path(__file__).parent


def environment_of(folder: Path, **variables: str) -> dict[str, str]:
    """An environment that knows nothing of its user: what is kept is kept in this folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(_NOT_INHERITED)}
    # The programs that are started find the Python of the tests.
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    return {**inherited, "PATH": path, "XDG_STATE_HOME": str(folder), **variables}


_NOT_INHERITED = ("HARMONIA_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "XDG_", "NO_COLOR")


class Command:
    """A `harmonia` that runs. Its files are those of `subprocess`, and its pipes have text. `with` ends it.

    With `first`, which is Python to run before it, or another PYTHONPATH, it is a new process.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: int = DEVNULL,
        stdout: int = PIPE,
        stderr: int = PIPE,
        terminal: int | None = None,
        new_session: bool = False,
        first: str = "",
    ) -> None:
        given: list[int] = []
        theirs: list[int] = []
        ours: list[IO[str] | None] = []
        for number, file in enumerate((stdin, stdout, stderr)):
            own: IO[str] | None = None
            if file == DEVNULL:
                file = os.open(os.devnull, os.O_RDWR)
                theirs.append(file)
            elif file == PIPE:
                read, write = os.pipe()
                file, end = (read, write) if number == 0 else (write, read)
                theirs.append(file)
                own = os.fdopen(end, "w" if number == 0 else "r", encoding="utf-8")
            given.append(file)
            ours.append(own)
        self.stdin, self.stdout, self.stderr = ours
        is_new = first or environment.get("PYTHONPATH") != os.environ.get("PYTHONPATH")
        start = partial(_New, first) if is_new else _Forked
        self._process: _New | _Forked = start(arguments, environment, given, terminal, new_session)
        for file in theirs:
            os.close(file)
        self.pid = self._process.pid
        self.returncode: int | None = None
        self._waiting = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
        self.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end: the exit code, or the signal that ended it as a negative number."""
        with self._waiting:
            if self.returncode is None:
                watchdog = threading.Timer(WATCHDOG_S, self.kill)
                watchdog.start()
                self.returncode = self._process.wait()
                watchdog.cancel()
        return self.returncode


def run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: str | bytes = ""
) -> subprocess.CompletedProcess[str]:
    """Run `harmonia` to its end, without a terminal, not even that of whoever runs the tests."""
    said: dict[str, str] = {}
    with Command(arguments, environment, stdin=PIPE, new_session=True) as command:
        assert command.stdin is not None and command.stdout is not None and command.stderr is not None
        errors = command.stderr
        read_error = threading.Thread(target=lambda: said.update(stderr=errors.read()))
        write = threading.Thread(target=_write, args=(command.stdin, stdin))
        read_error.start()
        write.start()
        said["stdout"] = command.stdout.read()
        read_error.join()
        write.join()
        code = command.wait()
    return subprocess.CompletedProcess(["harmonia", *arguments], code, said["stdout"], said["stderr"])


def run_harmonia(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(arguments, environment_of(folder, **variables))


def _write(pipe: IO[str], data: str | bytes) -> None:
    # It need not read.
    with suppress(BrokenPipeError), pipe, os.fdopen(pipe.fileno(), "wb", closefd=False) as raw:
        raw.write(data.encode() if isinstance(data, str) else data)


class _New:
    """A new process."""

    def __init__(
        self,
        first: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int],
        terminal: int | None,
        new_session: bool,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{first}\nfrom harmonia.cli import main\nmain()", *arguments],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            env=environment,
            start_new_session=new_session,
            pass_fds=() if terminal is None else (terminal,),
            preexec_fn=None if terminal is None else partial(fcntl.ioctl, terminal, termios.TIOCSCTTY, 0),
        )
        self.pid = self._process.pid

    def wait(self) -> int:
        return self._process.wait()


class _Forked:
    """A fork of the process that has loaded Harmonia, which reports its process id and then its exit code."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int],
        terminal: int | None,
        new_session: bool,
    ) -> None:
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": os.getcwd(),
            "new_session": new_session,
        }
        reported, report = os.pipe()
        _fork_server().ask(request, [*files, report, *([] if terminal is None else [terminal])])
        os.close(report)
        self._reported = os.fdopen(reported, "rb")
        self.pid = int(self._reported.readline())

    def wait(self) -> int:
        with self._reported:
            return int(self._reported.readline())


class _ForkServer:
    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(_HERE / "fork_server.py"), str(theirs.fileno())],
                stdin=DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._asking = threading.Lock()
        atexit.register(self.end)

    def ask(self, request: Mapping[str, object], files: Sequence[int]) -> None:
        data = json.dumps(request).encode() + b"\n"
        with self._asking:
            sent = socket.send_fds(self._channel, [data], list(files))
            self._channel.sendall(data[sent:])

    def end(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def _fork_server() -> _ForkServer:
    return _ForkServer()
