"""An engine that says what it is told to say, for tests of what stands around engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from harmonia import encode
from harmonia.errors import HarmonyError
from harmonia.run.engines import Chunk, Finish, Request, Traits, Usage

Line = Sequence[int] | str | Chunk | Finish | Exception | asyncio.Event


def say(text: str) -> list[int]:
    """Tokens of a completion, special ones spelled out."""
    return encode(text, special="all")


def think(text: str) -> str:
    return f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant"


def final(text: str) -> str:
    return f"<|channel|>final<|message|>{text}<|return|>"


def calls(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


class ScriptedEngine:
    """Each generate says the next part of the script: texts become tokens, in chunks of the size that is asked for.

    An exception in the script is raised there, and an asyncio.Event is waited for. What the engine saw, and whether it
    was closed in the middle, is kept.
    """

    name = "scripted"
    model = "script"

    def __init__(
        self, *script: str | Sequence[Line], chunk: int = 1, is_text: bool = False, traits: Traits | None = None
    ) -> None:
        self._script = [[part] if isinstance(part, str) else part for part in script]
        self._chunk = chunk
        self._is_text = is_text
        self.traits = traits or Traits(takes_tokens=not is_text, gives_tokens=not is_text)
        self.prompts: list[list[int]] = []
        self.requests: list[Request] = []
        self.sampled: list[list[int]] = []
        self.closed_early = 0
        self.closed = 0
        self.running = 0

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        self.prompts.append(list(prompt))
        self.requests.append(request)
        sampled: list[int] = []
        self.sampled.append(sampled)
        script = self._script[min(len(self.prompts), len(self._script)) - 1]
        is_whole = False
        self.running += 1
        try:
            for line in script:
                if isinstance(line, HarmonyError | Exception):
                    is_whole = True
                    raise line
                if isinstance(line, asyncio.Event):
                    await line.wait()
                elif isinstance(line, Finish):
                    is_whole = True
                    yield line
                    return
                elif isinstance(line, Chunk):
                    yield line
                elif self._is_text:
                    assert isinstance(line, str)
                    for at in range(0, len(line), self._chunk):
                        yield Chunk(text=line[at : at + self._chunk])
                else:
                    tokens = say(line) if isinstance(line, str) else list(line)
                    for at in range(0, len(tokens), self._chunk):
                        piece = tokens[at : at + self._chunk]
                        sampled += piece
                        yield Chunk(piece)
            is_whole = True
            yield Finish("stop", Usage(len(prompt), len(sampled)))
        finally:
            self.running -= 1
            self.closed_early += not is_whole

    async def close(self) -> None:
        self.closed += 1
