"""The servers, seen from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.processes import RivalDied

_ROOT = Path(__file__).parents[2]

Json = dict[str, Any]


class ServerProcess:
    """One server in a process of its own, on a core of its own where there are two."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="harmonia-benchmarks-")
        self._talk = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 -- closed in close()
        code = "import sys; from benchmarks.server.host import main; main(*sys.argv[1:])"
        core = cores()[1]
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, name, self._folder.name, "" if core is None else str(core)],
            cwd=_ROOT,
            env={key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HARMONIA_"))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            text=True,
        )
        self.port: int = self._read()["port"]

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def ask(self, do: str, **fields: Any) -> Json:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty answer says so
        return self._read()

    def _read(self) -> Json:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._talk.seek(0)
            raise RivalDied(f"the server {self.name!r} ended: {self._talk.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._talk.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def cores() -> tuple[int | None, int | None]:
    """A core for the client and another one for the server; none where there are not two to choose from."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    given = sorted(_GIVEN)
    return (given[0], given[1]) if len(given) > 1 else (None, None)


# Before anything was pinned.
_GIVEN = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()


@contextmanager
def pinned() -> Generator[None]:
    """Keep this process, which is the client, on its core."""
    core = cores()[0]
    if core is None:
        yield
        return
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, _GIVEN)
