"""Rendering conversations: cold, warm, after an append, and with runs that are hard on tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from benchmarks.cases import Case, Json, Row
from benchmarks.data import KINDS, Kind, conversation, text, user_message

_KIND_NAMES: dict[Kind, str] = {
    "prose": "English prose",
    "markdown": "Markdown",
    "code": "source code",
    "json": "indented JSON",
    "chinese": "Chinese",
    "unseen": "words never seen before",
}

# One message of each in a conversation. The others have rows of their own.
USUAL_KINDS: tuple[Kind, ...] = ("prose", "markdown", "code", "json")

hundred_messages = partial(conversation, messages=100, message_bytes=200)


def _cold_5kb(kind: Kind) -> Callable[[Random], list[Json]]:
    return partial(conversation, messages=7, message_bytes=5000, kinds=(kind,))


def new_message(random: Random) -> Json:
    return user_message(text("prose", 200, random))


def _run(character: str, length: int) -> Callable[[Random], list[Json]]:
    return lambda _random: [user_message(character * length)]


# tiktoken answers for the reference where that one fails.
_WITH_JUDGE = ("tiktoken", "core", "fast")

CASES = (
    Case("cold-short", "cold", partial(conversation, messages=8)),
    Case("cold-5kb", "cold", partial(conversation, messages=7, message_bytes=5000, kinds=USUAL_KINDS), count=10),
    *(Case(f"cold-5kb-{kind}", "cold", _cold_5kb(kind), count=6) for kind in KINDS),
    Case("cold-5-tools", "cold", partial(conversation, messages=3, tool_count=5, properties=10)),
    Case("append", "append", new_message, base=hundred_messages),
    Case("warm", "warm", hundred_messages),
    Case("spaces-100k", "cold", _run(" ", 100_000), count=1, rounds=6, varies=False),
    Case("spaces-100k-first", "cold", _run(" ", 100_000), count=1, rounds=3, fresh=True, varies=False),
    Case("letters-100k", "cold", _run("a", 100_000), count=1, rounds=6, varies=False),
    # How the time grows is a matter between our own two times, so they are measured side by side.
    Case("spaces-tenth", "cold", _run(" ", 100_000), _WITH_JUDGE, count=1, rounds=12, varies=False),
    Case(
        "spaces-1m",
        "cold",
        _run(" ", 1_000_000),
        ("openai-harmony", *_WITH_JUDGE),
        count=1,
        rounds=12,
        varies=False,
        fails=("openai-harmony",),
    ),
)

ROWS = (
    Row("cold-short", "render, cold, 3 tools, short messages", "cold-short", must=5, aim=20),
    Row("cold-5kb", "render, cold, 3 tools, messages of 5 kB", "cold-5kb", must=5, aim=20),
    Row("append", "append one message to 100 and render", "append", must=50, aim=200),
    Row("spaces-100k", "100,000 spaces as a message", "spaces-100k", must=100),
    Row(
        "spaces-1m",
        "1,000,000 spaces: our time over that of 100,000",
        "spaces-1m",
        "growth",
        must=13,
        compared_with="spaces-tenth",
    ),
    *(Row(f"cold-5kb-{kind}", f"  messages of 5 kB: {_KIND_NAMES[kind]}", f"cold-5kb-{kind}") for kind in KINDS),
    Row("cold-5-tools", "render, cold, 5 tools of 10 properties", "cold-5-tools"),
    Row("warm", "render 100 messages again, unchanged", "warm"),
    Row("spaces-100k-first", "100,000 spaces, the first in a process", "spaces-100k-first"),
    Row("letters-100k", "100,000 letters as a message", "letters-100k"),
)
