"""A real engine without a model: every token is drawn at random, under the masks of a grammar where there is one.

It stands for the worst model there is. What it says under a grammar is well-formed because of the grammar alone.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from functools import cache

from harmonia import encode
from harmonia.run.engines import Chunk, Finish, Request, Traits, Usage
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, VOCABULARY_SIZE

_SPECIAL = (RETURN, CALL, MESSAGE, CHANNEL, CONSTRAIN, END, START)
_MOST_TOKENS = 600
_TRIES = 64


class MaskedEngine:
    """Draws tokens by a seed, and likes to come to an end. What it was asked is kept."""

    name = "masked"
    model = "no-weights"

    def __init__(self, seed: int = 0, *, most: int = _MOST_TOKENS) -> None:
        self.traits = Traits(takes_grammar="llguidance")
        self.requests: list[Request] = []
        self._random = random.Random(seed)
        self._most = most

    async def generate(self, prompt: Sequence[int], request: Request) -> AsyncGenerator[Chunk | Finish, None]:
        self.requests.append(request)
        matcher = None if request.grammar is None else Matcher(request.grammar)
        most = min(self._most, request.sampling.max_tokens or self._most)
        for count in range(most):
            if matcher is None:
                token = self._random.randrange(VOCABULARY_SIZE - 100)
            else:
                token = self._draw(matcher.mask())
                matcher.commit(token)
            yield Chunk([token])
            if token in (RETURN, CALL):
                yield Finish("stop", Usage(len(prompt), count + 1))
                return
        yield Finish("length", Usage(len(prompt), most))

    async def close(self) -> None:
        pass

    def _draw(self, mask: bytes) -> int:
        """A token that the mask admits: often one that ends something, otherwise any."""
        for likely, tokens in ((0.5, _SPECIAL), (0.5, _closers())):
            admitted = [token for token in tokens if _admits(mask, token)]
            if admitted and self._random.random() < likely:
                return self._random.choice(admitted)
        for _ in range(_TRIES):
            token = self._random.randrange(len(mask) * 8)
            if _admits(mask, token):
                return token
        at = self._random.choice([at for at, bits in enumerate(mask) if bits])
        return self._random.choice([at * 8 + bit for bit in range(8) if mask[at] >> bit & 1])


@cache
def _closers() -> tuple[int, ...]:
    return tuple(token for text in ('"', '"}', "}", "]", '":', ",", "1", "true") for token in encode(text))


def _admits(mask: bytes, token: int) -> bool:
    return bool(mask[token >> 3] >> (token & 7) & 1)
