"""Parsing completions: short ones, long ones at once, and long ones as they are sampled.

Every completion is one that the reference reads rightly, because both sides must give the same messages. They are
token ids: the reference reads nothing else.
"""

from __future__ import annotations

import json
from functools import cache, partial
from random import Random

from benchmarks.cases import Case, Row
from benchmarks.data import Kind, text

# "What is 2 + 2?", as gpt-oss answered: 36 tokens, two messages.
SEED_COMPLETION = (
    *(200005, 35644, 200008, 1844, 31064, 25, 392, 4827, 382, 220, 17, 659, 220, 17, 16842, 12295, 81645, 13, 51441),
    *(6052, 13, 200007, 200006, 173781, 200005, 17196, 200008, 17, 659, 220, 17, 314, 220, 19, 13, 200002),
)
_SHORT_ANALYSIS, _SHORT_FINAL = 18, 8  # the tokens of its bodies

_LONG_ANALYSIS = 100
_LONG, _HUNDRED_THOUSAND, _MILLION = 10_000, 100_000, 1_000_000

_LONG_KINDS: tuple[Kind, ...] = ("prose", "code", "json", "markdown", "prose", "code", "json", "chinese")
# Characters of two to four bytes; some of them take several tokens, so that tokens end inside them.
_UNICODE = "“Naïve café”, he said – 日本語 … 🦜🏳️‍🌈 κόσμος, жизнь, 𝒳 ≠ ∅.\n\n"


def _encode(written: str) -> list[int]:
    # Not at the top: the benchmarks of start-up must be able to import this package and nothing else.
    from harmonia.vocabulary import encode

    return encode(written)


@cache
def _special(spelling: str) -> int:
    from harmonia.vocabulary import ID_BY_SPELLING

    return ID_BY_SPELLING[f"<|{spelling}|>"]


def _message(header: list[int], body: list[int], stop: str) -> list[int]:
    return [*header, _special("message"), *body, _special(stop)]


def _on_channel(channel: str) -> list[int]:
    return [_special("channel"), *_encode(channel)]


def _completion(analysis: list[int], final: list[int]) -> list[int]:
    """Behind the prompt's `<|start|>assistant`: some analysis, then the answer."""
    return [
        *_message(_on_channel("analysis"), analysis, "end"),
        *_message([_special("start"), *_encode("assistant"), *_on_channel("final")], final, "return"),
    ]


def _body(tokens: int, random: Random, kinds: tuple[Kind, ...] = ("prose",)) -> list[int]:
    """Text of so many tokens. What is cut off at its end is replaced by full stops, as it may be half a character."""
    body: list[int] = []
    while len(body) < tokens:
        for kind in kinds:
            body += _encode(text(kind, 1000, random))
            if len(kinds) > 1:
                body += _encode(_UNICODE)
    return body[: tokens - 4] + _encode(".") * 4


def short_completion(random: Random) -> list[int]:
    return _completion(
        _encode(text("prose", 400, random))[:_SHORT_ANALYSIS], _encode(text("prose", 200, random))[:_SHORT_FINAL]
    )


def long_completion(random: Random, tokens: int = _LONG) -> list[int]:
    """A completion of exactly so many tokens."""
    analysis = _body(_LONG_ANALYSIS, random)
    around = len(_completion(analysis, []))
    # Very long ones repeat themselves: it takes a while to invent a million tokens, and nothing remembers bodies.
    body = _body(min(tokens - around, _HUNDRED_THOUSAND), random, _LONG_KINDS)
    return _completion(analysis, (body * (tokens // len(body) + 1))[: tokens - around - 4] + body[-4:])


def _call(random: Random) -> list[int]:
    """A tool call of about ten thousand tokens."""
    analysis = _body(_LONG_ANALYSIS, random)
    files: list[dict[str, str]] = []
    count = 0
    while count < _LONG:
        file = {"path": text("unseen", 20, random), "content": text("code", 2000, random), "note": _UNICODE}
        files.append(file)
        count += len(_encode(json.dumps(file, ensure_ascii=False)))
    arguments = _encode(json.dumps({"files": files}, ensure_ascii=False))
    header = [
        *(_special("start"), *_encode("assistant"), *_on_channel("commentary"), *_encode(" to=functions.write_files ")),
        *(_special("constrain"), *_encode("json")),
    ]
    return [*_message(_on_channel("analysis"), analysis, "end"), *_message(header, arguments, "call")]


CASES = (
    Case("parse-short", "parse", short_completion, given=(list(SEED_COMPLETION),), count=200),
    Case("parse-short-first", "parse", short_completion, count=1, rounds=6, fresh=True),
    Case("parse-stream", "stream", long_completion, count=3),
    Case("parse-whole", "parse", long_completion, count=5),
    Case("parse-stream-channel", "stream", long_completion, count=3, with_channel=True),
    Case("parse-stream-16", "stream", long_completion, count=3, chunk_tokens=16),
    Case("parse-stream-call", "stream", _call, count=3),
    Case("parse-tenth", "parse", partial(long_completion, tokens=_HUNDRED_THOUSAND), count=1, rounds=3, varies=False),
    Case("parse-1m", "parse", partial(long_completion, tokens=_MILLION), count=1, rounds=3, varies=False),
    Case(
        "parse-stream-tenth",
        "stream",
        partial(long_completion, tokens=_HUNDRED_THOUSAND),
        count=1,
        rounds=3,
        varies=False,
    ),
    Case("parse-stream-1m", "stream", partial(long_completion, tokens=_MILLION), count=1, rounds=3, varies=False),
)

ROWS = (
    Row("parse-short", "parse 36 tokens, two messages, a parser for each", "parse-short", must=15, aim=30),
    Row("parse-stream", "stream 10,000 tokens, one by one, every delta taken", "parse-stream", must=4, aim=8),
    Row("parse-whole", "parse 10,000 tokens at once", "parse-whole", must=10, aim=15),
    Row("parse-short-first", "parse 36 tokens, the first in a process", "parse-short-first"),
    Row("parse-stream-channel", "  every delta taken with its channel", "parse-stream-channel"),
    Row("parse-stream-16", "stream 10,000 tokens in chunks of 16", "parse-stream-16"),
    Row("parse-stream-call", "stream the arguments of a call, 10,000 tokens", "parse-stream-call"),
    Row(
        "parse-1m",
        "parse 1,000,000 tokens: our time over that of 100,000",
        "parse-1m",
        "growth",
        compared_with="parse-tenth",
    ),
    Row(
        "parse-stream-1m",
        "stream 1,000,000 tokens: our time over that of 100,000",
        "parse-stream-1m",
        "growth",
        compared_with="parse-stream-tenth",
    ),
)
