"""Inputs: texts, tools and conversations, generated from seeds. The same seed gives the same input everywhere.

Texts are English prose, Markdown, source code, indented JSON, Chinese, or `unseen`: words that were made up, so that
no tokenizer can have met them before. Frequent words are as much more frequent than rare ones as in real writing
(Zipf's law), and some words of every English text are made up, as names are.

Messages and tools have the reference's JSON form. The schemas hold only what the reference declares without loss,
because both sides must give the same tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate, cycle
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

Json = dict[str, Any]
Kind = Literal["prose", "markdown", "code", "json", "chinese", "unseen"]

KINDS: tuple[Kind, ...] = get_args(Kind)

_MADE_UP_SHARE = 0.03
_NUMBER_SHARE = 0.02


def _words(name: str) -> list[str]:
    """The words of a list, the most frequent first."""
    return Path(__file__).with_name("words").joinpath(f"{name}.txt").read_text(encoding="utf-8").split()


def _zipf(words: list[str]) -> list[float]:
    return list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))


_ENGLISH, _CHINESE, _SYLLABLES = _words("english"), _words("chinese"), _words("syllables")
_ENGLISH_WEIGHTS = _zipf(_ENGLISH)
_CHINESE_WEIGHTS = _zipf(_CHINESE)

# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def text(kind: Kind, size_bytes: int, random: Random) -> str:
    """A text of this kind, `size_bytes` long in UTF-8 (or one character less)."""
    parts: list[str] = []
    size = 0
    write = _WRITERS[kind]
    while size < size_bytes:
        part = write(random)
        parts.append(part)
        size += len(part.encode())
    return "".join(parts).encode()[:size_bytes].decode(errors="ignore")


def mixed_text(size_bytes: int, random: Random) -> str:
    """Text of all kinds in turns of about 2 kB."""
    return "\n\n".join(text(KINDS[turn % len(KINDS)], 2000, random) for turn in range(max(1, size_bytes // 2000)))


def _english_words(random: Random, count: int) -> list[str]:
    words = random.choices(_ENGLISH, cum_weights=_ENGLISH_WEIGHTS, k=count)
    for index in range(count):
        chance = random.random()
        if chance < _MADE_UP_SHARE:
            words[index] = _made_up_word(random).capitalize()
        elif chance < _MADE_UP_SHARE + _NUMBER_SHARE:
            words[index] = str(random.randrange(1, 10 ** random.randrange(1, 6)))
    return words


def _made_up_word(random: Random) -> str:
    return "".join(random.choices(_SYLLABLES, k=random.randrange(2, 5)))


def _identifier(random: Random) -> str:
    return "_".join(word for word in random.choices(_ENGLISH[60:], k=random.randrange(1, 4)) if word.isalpha()) or "x"


def _sentence(random: Random) -> str:
    words = _english_words(random, random.randrange(5, 22))
    words[0] = words[0].capitalize()
    if len(words) > 9:
        words[len(words) // 2] += ","
    return " ".join(words) + random.choice("...?!")


def _paragraph(random: Random) -> str:
    return " ".join(_sentence(random) for _ in range(random.randrange(2, 6))) + "\n\n"


def _markdown(random: Random) -> str:
    title = " ".join(_english_words(random, 3)).title()
    bullets = "\n".join(f"- **{_identifier(random)}**: {_sentence(random)}" for _ in range(random.randrange(2, 5)))
    rows = "\n".join(
        f"| `{_identifier(random)}` | {random.randrange(1000)} | {' '.join(_english_words(random, 3))} |"
        for _ in range(random.randrange(2, 5))
    )
    return (
        f"## {title}\n\n{_paragraph(random)}{bullets}\n\n| name | value | note |\n|---|---:|---|\n{rows}\n\n"
        f"See [{_identifier(random)}](docs/{_identifier(random)}.md).\n\n```python\n{_code(random)}```\n\n"
    )


def _code(random: Random) -> str:
    name, items, value, other = (_identifier(random) for _ in range(4))
    return (
        f"def {name}({items}: list[str], *, {value}: int = {random.randrange(100)}) -> dict[str, int]:\n"
        f'    """{_sentence(random)}"""\n'
        f"    {other}: dict[str, int] = {{}}\n"
        f"    for index, item in enumerate({items}):\n"
        f"        if len(item) > {value} and item not in {other}:\n"
        f"            {other}[item] = index + {random.randrange(10)}  # {' '.join(_english_words(random, 5))}\n"
        f'    return {{key: {other}[key] for key in sorted({other})}} or {{"{_identifier(random)}": -1}}\n\n\n'
    )


def _records(random: Random) -> str:
    record = {
        "id": random.randrange(10**6),
        "name": " ".join(_english_words(random, 2)),
        "tags": [_identifier(random) for _ in range(3)],
        "position": {"latitude": round(random.uniform(-90, 90), 4), "longitude": round(random.uniform(-180, 180), 4)},
        "active": random.random() < 0.5,
        "note": _sentence(random) if random.random() < 0.5 else None,
    }
    return json.dumps([record], indent=2) + "\n"


def _chinese(random: Random) -> str:
    words = random.choices(_CHINESE, cum_weights=_CHINESE_WEIGHTS, k=random.randrange(8, 24))
    words.insert(len(words) // 2, "，")
    return "".join(words) + random.choice("。。。？！")


def _unseen(random: Random) -> str:
    return " ".join(_made_up_word(random) + _made_up_word(random) for _ in range(12)) + ".\n"


_WRITERS: dict[Kind, Callable[[Random], str]] = {
    "prose": _paragraph,
    "markdown": _markdown,
    "code": _code,
    "json": _records,
    "chinese": _chinese,
    "unseen": _unseen,
}

# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tools(count: int, properties: int, random: Random) -> list[Json]:
    """Descriptions of function tools with so many properties each."""
    return [_tool(f"{_identifier(random)}_{index}", properties, random) for index in range(count)]


def _tool(name: str, properties: int, random: Random) -> Json:
    declared = {f"{_identifier(random)}_{index}": _property(index, random) for index in range(properties)}
    return {
        "name": name,
        "description": _sentence(random),
        "parameters": {"type": "object", "properties": declared, "required": list(declared)[: (properties + 1) // 2]},
    }


def _property(index: int, random: Random) -> Json:
    description = " ".join(_english_words(random, random.randrange(3, 10)))
    forms: tuple[Json, ...] = (
        {"type": "string", "description": description},
        {"type": "number", "description": description},
        {"type": "string", "enum": [_identifier(random) for _ in range(3)], "description": description},
        {"type": "array", "items": {"type": "string"}, "description": description},
        {"type": "boolean"},
    )
    return forms[index % len(forms)]


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────────────


def conversation(
    random: Random,
    *,
    messages: int = 8,
    message_bytes: int = 60,
    kinds: tuple[Kind, ...] = ("prose",),
    tool_count: int = 3,
    properties: int = 4,
) -> list[Json]:
    """A conversation that calls tools: `messages` in all, `message_bytes` to a body, the kinds taking turns."""
    declared = tools(tool_count, properties, random)
    opening: list[Json] = [
        {
            "role": "system",
            "content": [{"type": "system_content", "conversation_start_date": f"2025-06-{random.randrange(10, 30)}"}],
        },
        {
            "role": "developer",
            "content": [
                {
                    "type": "developer_content",
                    "instructions": _sentence(random),
                    "tools": {"functions": {"name": "functions", "tools": declared}},
                }
            ],
        },
    ]
    return (opening + list(_turns(random, messages, message_bytes, kinds, declared)))[:messages]


def user_message(body: str) -> Json:
    """What a person said."""
    return {"role": "user", "content": body}


def _turns(random: Random, count: int, size: int, kinds: tuple[Kind, ...], declared: list[Json]) -> Iterator[Json]:
    kind = cycle(kinds)
    for _ in range(count // 5 + 1):
        yield user_message(text(next(kind), size, random))
        yield {"role": "assistant", "channel": "analysis", "content": text(next(kind), size, random)}
        recipient = f"functions.{random.choice(declared)['name']}"
        yield {
            "role": "assistant",
            "channel": "commentary",
            "recipient": recipient,
            "content_type": "<|constrain|>json",
            "content": json.dumps({_identifier(random): " ".join(_english_words(random, 4))}),
        }
        yield {
            "role": "tool",
            "name": recipient,
            "channel": "commentary",
            "recipient": "assistant",
            "content": text(next(kind), size, random),
        }
        yield {"role": "assistant", "channel": "final", "content": text(next(kind), size, random)}
