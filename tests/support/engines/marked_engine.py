"""An engine that says what a test put into it last, with log-probabilities, as tokens or as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from harmonia import decode
from harmonia.run.engines import Chunk, Finish, Request, Traits, Usage
from harmonia.run.engines.base import Alternative, TokenLogprob
from tests.support.engines.scripted import say

Part = str | Sequence[int] | Exception | asyncio.Event | Finish


class MarkedEngine:
    """`parts` is what it says: texts and tokens; an exception is raised there, and an event is waited for."""

    name = "marked"
    model = "gpt-oss-20b"

    def __init__(self, *, is_text: bool = False) -> None:
        self._is_text = is_text
        self.traits = Traits(not is_text, not is_text, gives_logprobs=not is_text)
        self.parts: Sequence[Part] = ()
        self.asked = 0
        self.reached = asyncio.Event()  # an event that is waited for

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        count = 0
        self.asked += 1
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, asyncio.Event):
                self.reached.set()
                await part.wait()
            elif isinstance(part, Finish):
                yield part
                return
            elif self._is_text:
                text = part if isinstance(part, str) else decode(part)
                for at in range(0, len(text), 3):
                    yield Chunk(text=text[at : at + 3])
            else:
                for token in say(part) if isinstance(part, str) else part:
                    if count == request.sampling.max_tokens:
                        yield Finish("length", Usage(len(prompt), count))
                        return
                    count += 1
                    yield Chunk((token,), logprobs=(_logprob(token),) if request.sampling.logprobs is not None else ())
        yield Finish("stop", Usage(len(prompt), count))

    async def close(self) -> None:
        pass


def _logprob(token: int) -> TokenLogprob:
    text = decode([token]) if 0 <= token < 201088 else "?"
    return TokenLogprob(token, text, -0.5, (Alternative(token, text, -0.5),))
