"""`harmonia serve` as a process of its own, for tests with real clients; and captures for it to replay."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harmonia import decode
from harmonia.run.engines.recording import read_capture
from tests.support.engines.scripted import say

# Against a hang; nothing is measured with it.
WATCHDOG_S = 120.0

_TOKENS_PER_CHUNK = 3
_LISTENS = re.compile(r"listens at (http://\S+)")
# What the user of the machine has set is not what a test has set.
_NOT_INHERITED = ("HARMONIA_", "OPENAI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "XDG_")


@dataclass
class ServingProcess:
    """A server that listens. `said` is what it wrote to stderr, line by line."""

    url: str
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list[str])

    @property
    def base_url(self) -> str:
        """What clients are told."""
        return f"{self.url}/v1"


@contextmanager
def serving(folder: Path, *arguments: str, engine: str = "demo") -> Generator[ServingProcess]:
    """A server whose state is in this folder. It ends with the test, and must end well."""
    command = [sys.executable, "-m", "harmonia", "serve", "--engine", engine, "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(folder))
    assert process.stderr is not None
    watchdog = threading.Timer(WATCHDOG_S, process.kill)
    watchdog.start()
    said: list[str] = []
    listens: re.Match[str] | None = None
    for line in process.stderr:
        said.append(line.rstrip("\n"))
        if listens := _LISTENS.search(line):
            break
    watchdog.cancel()
    # A pipe that nobody reads would stop the server once it is full.
    reader = threading.Thread(target=lambda: said.extend(line.rstrip("\n") for line in process.stderr or ()))
    reader.start()
    try:
        assert listens is not None, "\n".join(said)
        yield ServingProcess(listens[1], process, said)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WATCHDOG_S)
        finally:
            process.kill()
            reader.join()
            process.stderr.close()
    assert process.returncode == 0, "\n".join(said)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process whose home is this folder, and that knows nothing of its user."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(_NOT_INHERITED)}
    return {**inherited, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **more}


def write_capture(path: Path, completions: Sequence[str], *, model: str = "gpt-oss-20b") -> str:
    """A capture of a model that says these completions one after the other, whatever it is asked. Gives the name of
    the engine that replays it."""
    lines: list[Mapping[str, Any]] = [
        {"type": "capture", "version": 1, "engine": "script", "model": model, "traits": {}}
    ]
    for run, completion in enumerate(completions):
        tokens = say(completion)
        lines.append({"type": "run", "run": run, "prompt": [], "request": {}})
        for at in range(0, len(tokens), _TOKENS_PER_CHUNK):
            lines.append({"type": "chunk", "run": run, "at_s": 0.0, "tokens": tokens[at : at + _TOKENS_PER_CHUNK]})
        lines.append({"type": "finish", "run": run, "at_s": 0.0, "reason": "stop", "usage": None, "notes": []})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replayed = [
        decode([token for timed in run.chunks for token in timed.chunk.tokens]) for run in read_capture(path).runs
    ]
    assert replayed == list(completions)
    return f"replay:{path}"
