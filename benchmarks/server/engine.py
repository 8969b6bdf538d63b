"""An engine that has its tokens already and gives them one by one, without delay, unless it is told to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from harmonia.run.engines.base import Chunk, Finish, Request, Traits


@dataclass(frozen=True)
class Script:
    """What a stream does: its pieces (tokens, or the bytes of events), whether it waits behind the first few of them,
    and how long it sleeps before each of the others."""

    pieces: Sequence[int] | Sequence[bytes]
    holds_behind: int | None = None
    pace_s: float = 0.0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Between two pieces, behind the first few."""
        if self.pace_s:
            try:
                async with asyncio.timeout(self.pace_s):
                    await self.released.wait()
            except TimeoutError:
                pass
        else:
            await self.released.wait()


class PreparedEngine:
    """A stream follows the script that was there when it began."""

    name = "prepared"
    model = "gpt-oss-20b"
    traits = Traits()

    def __init__(self) -> None:
        self.script = Script(())
        self.prompt: list[int] = []  # the last one
        self._chunks: list[Chunk] = []

    def follow(self, script: Script) -> None:
        self.script = script
        self._chunks = [Chunk((token,)) for token in script.pieces if isinstance(token, int)]

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        self.prompt = list(prompt)
        script, chunks = self.script, self._chunks
        if script.holds_behind is None:
            for chunk in chunks:
                yield chunk
        else:
            for chunk in chunks[: script.holds_behind]:
                yield chunk
            for chunk in chunks[script.holds_behind :]:
                await script.wait()
                yield chunk
        yield Finish("stop")

    async def close(self) -> None:
        pass
