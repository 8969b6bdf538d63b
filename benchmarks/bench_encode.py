"""Text to tokens, against tiktoken itself."""

from __future__ import annotations

from random import Random

from benchmarks.cases import Case, Row
from benchmarks.data import KINDS, mixed_text, text

_LARGE_BYTES = 1_000_000


def _large(random: Random) -> str:
    return mixed_text(_LARGE_BYTES, random)


def _short(random: Random) -> str:
    return text(random.choice(KINDS), 40, random)


CASES = (
    Case("encode-large", "encode", _large, ("tiktoken", "core", "fast"), count=1, rounds=6),
    Case("encode-short", "encode", _short, ("tiktoken", "core", "fast"), count=2000),
)

ROWS = (
    Row(
        "encode-large",
        "encode 1 MB of mixed text",
        "encode-large",
        against="tiktoken",
        size_bytes=_LARGE_BYTES,
    ),
    Row("encode-short", "encode 2,000 texts of 40 bytes", "encode-short", against="tiktoken"),
)
