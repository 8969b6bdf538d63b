"""The loop around a model: what it costs above the bare stream of an engine, and what a prompt with many tools costs.

The engine gives chunks that were made beforehand, so that nothing is measured but the loop: rendering the prompt,
parsing what comes, events, conversation, limits. The time of reading the bare stream is taken off. The reference's time
is that of its StreamableParser alone.
"""

from __future__ import annotations

from functools import partial
from random import Random

from benchmarks.bench_parse import long_completion
from benchmarks.cases import Case, Json, Row
from benchmarks.data import conversation, text, user_message

_TEN_THOUSAND, _HUNDRED_THOUSAND = 10_000, 100_000
_RESULT_BYTES = 16_000  # what a tool may well answer

_hundred_tools = partial(conversation, messages=3, tool_count=100, properties=20)
_ten_tools = partial(conversation, messages=3, tool_count=10, properties=20)


def _new_text(random: Random, size_bytes: int = _RESULT_BYTES) -> str:
    return text("prose", size_bytes, random)


def _new_message(random: Random, size_bytes: int = _RESULT_BYTES) -> Json:
    return user_message(_new_text(random, size_bytes))


_TOKENIZERS = ("tiktoken", "core", "fast")

CASES = (
    Case("turn", "turn", long_completion, count=3),
    Case("turn-eight", "turn", long_completion, count=3, chunk_tokens=8),
    Case("turn-tenth", "turn", partial(long_completion, tokens=_TEN_THOUSAND), count=1, rounds=6, varies=False),
    Case("turn-long", "turn", partial(long_completion, tokens=_HUNDRED_THOUSAND), count=1, rounds=6, varies=False),
    Case("tools-again", "append", _new_message, base=_hundred_tools, count=8, rounds=6, frozen=True),
    Case("tools-again-text", "encode", _new_text, _TOKENIZERS, count=8, rounds=6, each=True),
    Case(
        "tools-again-1kb", "append", partial(_new_message, size_bytes=1000), base=_hundred_tools, rounds=6, frozen=True
    ),
    Case("tools-again-1kb-text", "encode", partial(_new_text, size_bytes=1000), _TOKENIZERS, rounds=6, each=True),
    Case("tools-first", "cold", _hundred_tools, count=2, rounds=6),
    Case("tools-first-tenth", "cold", _ten_tools, count=4, rounds=6),
)

ROWS = (
    Row("turn", "the loop's own cost, one token at a time, over the reference's parser", "turn", "share", must=1),
    Row("turn-eight", "the loop's own cost, eight tokens at a time", "turn-eight", "share", must=1 / 3),
    Row(
        "turn-long",
        "the loop's own cost of 100,000 tokens over that of 10,000",
        "turn-long",
        "growth",
        must=13,
        compared_with="turn-tenth",
    ),
    Row(
        "tools-again",
        "render again, 100 tools of 20 properties, 16 kB new: over encoding the new text",
        "tools-again",
        "growth",
        must=1.2,
        compared_with="tools-again-text",
    ),
    Row(
        "tools-again-1kb",
        "  the same with 1 kB new",
        "tools-again-1kb",
        "growth",
        compared_with="tools-again-1kb-text",
    ),
    Row(
        "tools-first",
        "render 100 tools the first time, over 10 tools",
        "tools-first",
        "growth",
        must=13,
        compared_with="tools-first-tenth",
    ),
)
