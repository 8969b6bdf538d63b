"""The demo engine: prompt tokens in, the tokens of a speaker without a model out.

1. Deterministic: the same prompt and the same request give the same tokens. There is no clock and no chance; a seed
   only chooses the words that an answer opens with.
2. Well-formed: strict parsing finds no fault in what it says, unless the user's message asks for one (`/demo`).
3. Arguments and answers fit their schemas wherever a value that does is found; where not, a note of Finish says so.
4. The work is linear in the prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.history import shared_prefix
from harmonia.run.engines.base import Alternative, Chunk, Finish, Request, TokenLogprob, Traits, Usage
from harmonia.run.engines.demo.continuing import continue_prompt
from harmonia.run.engines.demo.misbehaviour import Script, script_for
from harmonia.run.engines.demo.prompts import read_prompt
from harmonia.run.engines.demo.speech import compose
from harmonia.vocabulary import decode

# As gpt-oss has it, so that what does not fit there does not fit here.
_CONTEXT_TOKENS: Final = 131_072


class DemoEngine:
    """An engine without a model, to try everything with. Any model name will do.

    It gives `tokens_per_chunk` tokens at a time and waits `delay_s` seconds before each chunk.
    """

    def __init__(
        self,
        model: str = "demo",
        *,
        tokens_per_chunk: int = 1,
        delay_s: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if tokens_per_chunk < 1:
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"tokens_per_chunk is {tokens_per_chunk}, not 1 or more")
        if not delay_s >= 0:
            raise InputError(ErrorCode.ENGINE_INVALID_OPTION, f"delay_s is {delay_s}, not 0 or more")
        self._model = model
        self._tokens_per_chunk = tokens_per_chunk
        self._delay_s = delay_s
        self._sleep = sleep
        self._previous: list[int] = []

    @property
    def name(self) -> str:
        return "demo"

    @property
    def model(self) -> str:
        return self._model

    @property
    def traits(self) -> Traits:
        return Traits(gives_logprobs=True, context_tokens=_CONTEXT_TOKENS)

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        tokens = list(prompt)
        room = _CONTEXT_TOKENS - len(tokens)
        if room <= 0:
            raise EngineError(
                ErrorCode.ENGINE_OUT_OF_CONTEXT,
                f"the prompt has {len(tokens)} tokens; the demo engine's context has {_CONTEXT_TOKENS}",
            )
        cached = shared_prefix(self._previous, tokens)
        self._previous = tokens
        script, notes = _script(tokens, request)
        wanted = request.sampling.max_tokens
        limit = room if wanted is None else min(max(wanted, 0), room)
        left = script.tokens
        sampled = 0
        while chunk := list(islice(left, min(self._tokens_per_chunk, limit - sampled))):
            # The loop is let go at every chunk, so that a stream without delays can be cancelled, too.
            await self._sleep(self._delay_s)
            sampled += len(chunk)
            yield Chunk(chunk, logprobs=_logprobs(chunk, request.sampling.logprobs))
        is_cut = next(left, None) is not None
        if script.error is not None and not is_cut:
            raise script.error
        usage = Usage(len(tokens), sampled, cached)
        yield Finish("length" if is_cut else script.reason, usage, notes)

    async def close(self) -> None:
        """There is nothing to give back."""
        self._previous = []


def _script(tokens: list[int], request: Request) -> tuple[Script, tuple[str, ...]]:
    prompt = read_prompt(tokens)
    if not prompt.results and prompt.open.where == "role":
        script = script_for(prompt.user, request)
        if script is not None:
            return script, ()
    speech = compose(prompt, request)
    return Script(iter(continue_prompt(prompt, speech, request))), speech.notes


def _logprobs(chunk: list[int], wanted: int | None) -> tuple[TokenLogprob, ...]:
    """Nothing else might have been said, so the probability of every token is 1."""
    if wanted is None:
        return ()
    spelled = [(token, decode([token])) for token in chunk]
    return tuple(
        TokenLogprob(token, text, 0.0, (Alternative(token, text, 0.0),) if wanted > 0 else ())
        for token, text in spelled
    )
