"""`harmonia serve` as a process of its own, as a person starts it; and captures for it to replay."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from harmonia import decode
from harmonia.run.engines.recording import read_capture
from tests.support.commands import Command, environment_of
from tests.support.engines.scripted import say

_TOKENS_PER_CHUNK = 3


@dataclass
class ServerProcess:
    """A server that listens. `said` is what it writes to stderr, line by line."""

    process: Command
    url: str
    said: list[str]

    @property
    def base_url(self) -> str:
        """What clients are told."""
        return f"{self.url}/v1"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait()

    def line_with(self, words: str) -> str:
        return next(line.strip() for line in self.said if words in line)


@contextmanager
def server_process(
    *arguments: str, folder: Path, engine: str = "demo", first: str = "", **variables: str
) -> Generator[ServerProcess]:
    """A server on any free port, whose state is in this folder. It ends with the block, and must end well if the block
    does. `first` is Python that runs before it."""
    environment = environment_of(folder, HARMONIA_ENGINE=engine, **variables)
    said: list[str] = []
    with Command(["serve", "--port", "0", *arguments], environment, stdout=DEVNULL, first=first) as process:
        assert process.stderr is not None
        # The line for Python is the last one.
        for line in process.stderr:
            said.append(line)
            if " -c " in line:
                break
        else:
            raise AssertionError(f"the server ended with {process.wait()}: {''.join(said)}")
        url = next(line.rpartition(" ")[2].strip() for line in said if "listens at" in line)
        # What it logs must not fill the pipe.
        reader = threading.Thread(target=said.extend, args=(process.stderr,))
        reader.start()
        try:
            server = ServerProcess(process, url, said)
            yield server
            if process.returncode is None:
                code = server.stop()
                assert code == 0, "".join(said)
        finally:
            process.kill()
            reader.join()


@asynccontextmanager
async def async_server_process(*arguments: str, folder: Path, **variables: str) -> AsyncGenerator[ServerProcess]:
    """The same, for a test whose own event loop the server needs: it plays the engine."""
    started = server_process(*arguments, folder=folder, **variables)
    server = await asyncio.to_thread(started.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(started.__exit__, *sys.exc_info())


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
