"""A model without a mind, under a grammar: any admitted token is as likely as any other, with a wish to come to an end.

Without that wish it would hardly ever stop: of the tokens that may be next in a text, one in two hundred thousand ends
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random
from typing import Any, Final, cast

from harmonia import encode
from harmonia.messages import Json
from harmonia.run.engines.grammar_mask import Matcher
from harmonia.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START

_STOPS: Final = (CALL, RETURN, END)
_SPECIAL: Final = (CALL, RETURN, END, START, CHANNEL, MESSAGE, CONSTRAIN)
# What closes the things that JSON opens, and what ends a patch.
_CLOSING: Final = (
    *(encode(text)[0] for text in ('"', '"}', "}", "]", '":', ",", ":", "0", '"]', "\n")),
    *encode("*** End Patch\n"),
)


def is_admitted(mask: bytes, token: int) -> bool:
    return bool(mask[token >> 3] >> (token & 7) & 1)


def admitted_tokens(mask: bytes) -> list[int]:
    return [index * 8 + bit for index, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1]


def pick(mask: bytes, random: Random) -> int:
    """Any admitted token, each as likely as the others."""
    for _ in range(64):
        token = random.randrange(len(mask) * 8)
        if is_admitted(mask, token):
            return token
    return random.choice(admitted_tokens(mask))


def sample(
    matcher: Matcher, random: Random, *, most: int = 400, hurry: float = 0.2, wanted: Iterable[int] = _STOPS
) -> list[int]:
    """The tokens of a completion. `hurry` is how often a token of `wanted`, or one that closes something, is taken
    where it is admitted; it is never far from the end behind half of `most`."""
    tokens: list[int] = []
    while not matcher.is_over and len(tokens) < most:
        mask = matcher.mask()
        token = None
        if random.random() < (hurry if len(tokens) < most // 2 else 0.9):
            liked = [each for each in wanted if is_admitted(mask, each)]
            liked = liked or [each for each in _CLOSING if is_admitted(mask, each)]
            token = random.choice(liked) if liked else None
        if token is None:
            token = pick(mask, random)
        matcher.commit(token)
        tokens.append(token)
    return tokens


def sample_restlessly(matcher: Matcher, random: Random, *, most: int = 400) -> list[int]:
    """A completion by one who prefers special tokens to any text, and tries each where it is admitted."""
    return sample(matcher, random, most=most, hurry=0.7, wanted=_SPECIAL)


def has_no_number_beyond_floats(value: Any) -> bool:
    """The one thing that a grammar lets through and a strict reader does not: `1e999` is JSON, and no number."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        value = list(cast("Json", value).values())
    parts: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    return all(has_no_number_beyond_floats(part) for part in parts)
