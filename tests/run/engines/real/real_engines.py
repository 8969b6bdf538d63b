"""Asking a real engine, and starting and stopping the one that is a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import harmonia
from harmonia.run.engines.base import Chunk, Engine, Finish, Request, Sampling, TokenLogprob
from tests.support.watchdog import WATCHDOG_S

T = TypeVar("T")


@dataclass
class Answer:
    """What an engine said, as it came."""

    chunks: list[list[int]] = field(default_factory=list[list[int]])
    logprobs: list[TokenLogprob] = field(default_factory=list[TokenLogprob])
    finish: Finish | None = None

    @property
    def tokens(self) -> list[int]:
        return [token for chunk in self.chunks for token in chunk]

    @property
    def text(self) -> str:
        return harmonia.decode(self.tokens)


def run_watched(work: Awaitable[T]) -> T:
    async def watched() -> T:
        return await asyncio.wait_for(work, WATCHDOG_S)

    return asyncio.run(watched())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that a thread or another process does, and of which nobody tells us."""
    while not holds():
        await asyncio.sleep(0.005)


async def read(engine: Engine, prompt: Sequence[int], into: Answer, **sampling: Any) -> None:
    async with aclosing(engine.generate(prompt, Request(Sampling(**sampling)))) as stream:
        async for piece in stream:
            match piece:
                case Chunk():
                    assert into.finish is None
                    into.chunks.append(list(piece.tokens))
                    into.logprobs += piece.logprobs
                case Finish():
                    into.finish = piece


def ask(engine: Engine, prompt: Sequence[int], **sampling: Any) -> Answer:
    answer = Answer()
    run_watched(read(engine, prompt, answer, **sampling))
    assert answer.finish is not None
    return answer


class LlamaServer:
    """A running llama.cpp server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=WATCHDOG_S) as answer:
            return json.load(answer)

    def post(self, path: str, body: object) -> Any:
        content = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=WATCHDOG_S) as answer:
            return json.load(answer)

    @property
    def is_busy(self) -> bool:
        return any(slot["is_processing"] for slot in self.get("/slots"))

    @property
    def decoded_tokens(self) -> int:
        """Of what is being sampled."""
        slots: list[Any] = [slot for slot in self.get("/slots") if slot["is_processing"]]
        return sum(int(each["n_decoded"]) for slot in slots for each in slot["next_token"])

    @property
    def sampled_tokens(self) -> int:
        """Of all its life."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=WATCHDOG_S) as answer:
            lines = answer.read().decode().splitlines()
        (line,) = (line for line in lines if line.startswith("llamacpp:tokens_predicted_total "))
        return int(float(line.split()[1]))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def frozen(self) -> Generator[None]:
        """It keeps its connections and does nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def start_llama(file: Path, context: int = 1024, *names: str) -> Generator[LlamaServer]:
    program = Path(__file__).with_name("llama_server.py")
    log = file.with_suffix(".log")
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [sys.executable, str(program), str(file), str(context), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, log.read_text()
            yield LlamaServer(process, url)
        finally:
            process.stdin.close()
            try:
                process.wait(WATCHDOG_S)
            except subprocess.TimeoutExpired:
                process.kill()
