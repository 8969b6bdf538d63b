"""What the APIs say of sampling where a request says nothing, and how they write log-probabilities."""

from __future__ import annotations

from typing import Final

from harmonia.messages import Json
from harmonia.run.engines.base import Alternative, TokenLogprob
from harmonia.vocabulary import decode_bytes

# What a request means that names neither. Engines have defaults of their own, such as 0.8 and 0.95, or greedy.
DEFAULT_TEMPERATURE: Final = 1.0
DEFAULT_TOP_P: Final = 1.0

# Stands for "impossible", which JSON has no number for.
_LEAST_LOGPROB: Final = -9999.0


def write_token(given: TokenLogprob | Alternative) -> Json:
    """A token, its bytes, which need not be a whole character, and its log-probability."""
    data = given.text.encode(errors="replace") if given.token is None else decode_bytes([given.token])
    return {"token": given.text, "logprob": max(given.logprob, _LEAST_LOGPROB), "bytes": list(data)}


def write_logprob(given: TokenLogprob) -> Json:
    """The same with the likeliest tokens in its place."""
    return {**write_token(given), "top_logprobs": [write_token(other) for other in given.top]}
