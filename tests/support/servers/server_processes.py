"""`harmonia serve` as a process of its own, as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# A watchdog against a hang; nothing is measured by it.
WATCHDOG_S = 60


def environment_of(folder: Path, **variables: str) -> dict[str, str]:
    """An environment in which nothing of the machine's own is set, and whose state is kept in a folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HARMONIA_")}
    # The programs that are started find the Python of the tests.
    path = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    return {**inherited, "PATH": path, "XDG_STATE_HOME": str(folder), **variables}


def run_harmonia(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harmonia", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment_of(folder, **variables),
        stdin=subprocess.DEVNULL,
        timeout=WATCHDOG_S,
    )


@dataclass
class ServerProcess:
    """A server that listens. `said` is what it printed until then, and `url` where it listens."""

    process: subprocess.Popen[str]
    url: str
    said: list[str] = field(default_factory=list[str])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(WATCHDOG_S)

    def line_with(self, words: str) -> str:
        return next(line.strip() for line in self.said if words in line)


@contextmanager
def server_process(*arguments: str, folder: Path, **variables: str) -> Generator[ServerProcess]:
    """A server on any free port, in front of the demo unless told otherwise."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harmonia", "serve", "--port", "0", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=environment_of(folder, **{"HARMONIA_ENGINE": "demo", **variables}),
    )
    watchdog = threading.Timer(WATCHDOG_S * 3, process.kill)
    watchdog.start()
    assert process.stderr is not None
    # What it logs must not fill the pipe.
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        said: list[str] = []
        # The line for Python is the last one.
        while not said or " -c " not in said[-1]:
            line = process.stderr.readline()
            assert line, f"the server ended with {process.wait()}: {''.join(said)}"
            said.append(line)
        url = next(line.rpartition(" ")[2].strip() for line in said if "listens at" in line)
        drain.start()
        yield ServerProcess(process, url, said)
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.wait()
        if drain.ident is not None:
            drain.join()
        process.stderr.close()
