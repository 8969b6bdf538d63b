"""The processes of the rivals, seen from outside."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.cases import Start
from harmonia.vocabulary.ranks import read_shipped, write_tiktoken_file

_ROOT = Path(__file__).parent.parent


class RivalDied(Exception):
    """A rival's process ended without an answer."""


class Worker(Protocol):
    """A rival that answers requests (see `benchmarks.worker`)."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]: ...
    def close(self) -> None: ...


@contextmanager
def environment() -> Generator[dict[str, str]]:
    """The environment of all rivals: the reference finds its vocabulary, which is written from ours."""
    with tempfile.TemporaryDirectory(prefix="harmonia-benchmarks-") as folder:
        write_tiktoken_file(read_shipped(), Path(folder, "o200k_base.tiktoken"))
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUST_"))}
        yield variables | {"TIKTOKEN_ENCODINGS_BASE": folder, "PYTHONHASHSEED": "0"}


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, name: str, variables: dict[str, str]) -> None:
        self._name = name
        self._talk = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 -- closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from benchmarks.worker import main; main(sys.argv[1])", name],
            cwd=_ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty answer below says so
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._talk.seek(0)
            raise RivalDied(f"the process of {self._name} ended: {self._talk.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()
        self._talk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def start_fresh(name: str, start: Start, variables: dict[str, str]) -> dict[str, Any]:
    """One start of a rival in a new process; `process_seconds` is what the whole process took."""
    command = f"from benchmarks.fresh import main; main({name!r}, {start.engine_loaded!r}, {start.bare!r})"
    given = marshal.dumps((start.messages(), list(start.completion)))
    began = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=_ROOT, env=variables, input=given, capture_output=True, check=False
    )
    process_seconds = perf_counter() - began
    if done.returncode:
        raise RivalDied(f"the process of {name} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return {**(json.loads(done.stdout) if done.stdout else {}), "process_seconds": process_seconds}
