"""Every fault at every position of streams whose truth is known, scored by the characters that come back.

A character of a body that is still in the damaged stream is recovered where a message has it; it is on the right
channel where that message also has the role and the channel it had. It leaks where a user would see it and should not.
`main()` prints the table, with openai-harmony (`strict=False`) beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from harmonia import parse
from harmonia.events import ArgumentsDelta, TextDelta
from harmonia.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    END_OF_TEXT,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    default_vocabulary,
    encode,
)

if TYPE_CHECKING:
    from openai_harmony import HarmonyEncoding

STOPS = (END, CALL, RETURN)
SPECIALS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN, END_OF_TEXT, 200013)

COMPLETIONS = (
    "<|channel|>analysis<|message|>The user wants a sum. 2 + 2 = 4.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>The answer is **4**.<|return|>",
    "<|channel|>final<|message|>Paris is the capital of France.<|return|>",
    "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 3}<|call|>',
    "<|channel|>analysis<|message|>Plan first.<|end|><|start|>assistant<|channel|>commentary<|message|>I will look "
    'that up.<|end|><|start|>assistant to=browser.search<|channel|>commentary code<|message|>{"query": "x"}<|call|>',
    "<|channel|>analysis to=python code<|message|>import math\nprint(math.pi ** 2)\n<|call|>",
    "<|channel|>analysis<|message|>Emoji 🦜 and 日本語 text, e\u0301.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>こんにちは 👋🏽, naïve café!<|return|>",
)
CONVERSATIONS = (
    "<|start|>system<|message|>You are ChatGPT.\n\nReasoning: low<|end|><|start|>user<|message|>What is 2 + 2?<|end|>"
    "<|start|>assistant<|channel|>final<|message|>It is four.<|end|>",
    "<|start|>user<|message|>Weather in Tokyo?<|end|><|start|>assistant<|channel|>analysis<|message|>Call it.<|end|>"
    '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Tokyo"}'
    '<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>{"sunny": true}<|end|>'
    "<|start|>assistant<|channel|>final<|message|>Sunny today.<|return|>",
    "<|start|>developer<|message|># Instructions\n\nBe brief.<|end|><|start|>user:alice<|message|>Hallo, wie geht's?"
    "<|end|><|start|>assistant<|channel|>final<|message|>Gut, danke!<|return|>",
    "<|start|>user<|message|>Fix it\n<|end|>\n<|start|>assistant<|channel|>commentary to=apply_patch code\n<|message|>"
    "*** Begin Patch\n+x = 1\n*** End Patch<|call|>",
)


class Author(NamedTuple):
    """Whose body a token is part of: enough to tell whether a parser put it where it was."""

    role: str
    channel: str | None
    is_visible: bool


class Unit(NamedTuple):
    """A token of the stream, and whose body it is in; None in headers and for tokens that were put in."""

    token: int
    owner: Author | None
    is_word: bool  # an ordinary token of a header


Units = list[Unit]


class Score(NamedTuple):
    """Characters: how many there were, came back, came back on the right channel, and leaked."""

    cases: int = 0
    raised: int = 0
    chars: int = 0
    recovered: int = 0
    right: int = 0
    leaked: int = 0

    def plus(self, other: Score) -> Score:
        return Score(*(one + two for one, two in zip(self, other, strict=True)))


def streams() -> Iterator[tuple[Units, str | None]]:
    for texts, role in ((COMPLETIONS, "assistant"), (CONVERSATIONS, None)):
        for text in texts:
            yield units_of(encode(text, special="all"), role), role


def units_of(tokens: list[int], role: str | None) -> Units:
    """The tokens with their owners, by the strict reading of a well-formed stream."""
    owners: list[Author | None] = [None] * len(tokens)
    is_header = [True] * len(tokens)
    for event in parse(tokens, role, "strict").events:
        if isinstance(event, TextDelta | ArgumentsDelta):
            assert event.start_token is not None and event.end_token is not None
            owner = Author(event.header.role.value, event.header.channel, event.header.is_visible)
            for at in range(event.start_token, event.end_token):
                owners[at], is_header[at] = owner, False
    return [
        Unit(token, owner, header and token < FIRST_SPECIAL)
        for token, owner, header in zip(tokens, owners, is_header, strict=True)
    ]


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def put_in(text: str | int) -> Units:
    tokens = [text] if isinstance(text, int) else encode(text)
    return [Unit(token, None, token < FIRST_SPECIAL) for token in tokens]


def delete_special(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.token >= FIRST_SPECIAL:
            yield units[:at] + units[at + 1 :]


def delete_header_word(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.is_word:
            yield units[:at] + units[at + 1 :]


def delete_body_token(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.owner is not None:
            yield units[:at] + units[at + 1 :]


def double_special(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.token >= FIRST_SPECIAL:
            yield units[: at + 1] + put_in(unit.token) + units[at + 1 :]


def insert_special_in_header(units: Units) -> Iterator[Units]:
    yield from _insert_special(units, in_body=False)


def insert_special_in_body(units: Units) -> Iterator[Units]:
    yield from _insert_special(units, in_body=True)


def _insert_special(units: Units, *, in_body: bool) -> Iterator[Units]:
    for at in range(len(units) + 1):
        if (at < len(units) and units[at].owner is not None) == in_body:
            for special in SPECIALS:
                yield units[:at] + put_in(special) + units[at:]


def stray_word_in_header(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.owner is None:
            for word in (" stray", "stray ", "\n", " json"):
                yield units[:at] + put_in(word) + units[at:]


def garbage_for_header_word(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.is_word:
            for word in ("xyz", " ", "≠"):
                yield units[:at] + put_in(word) + units[at + 1 :]


def glue_word_to_header_word(units: Units) -> Iterator[Units]:
    for at, unit in enumerate(units):
        if unit.is_word:
            for word in ("json", "x", "final", "assistant"):
                yield units[: at + 1] + put_in(word) + units[at + 1 :]


def truncate(units: Units) -> Iterator[Units]:
    for at in range(len(units)):
        yield units[:at]


def swap_neighbours(units: Units) -> Iterator[Units]:
    for at, (one, other) in enumerate(pairwise(units)):
        yield [*units[:at], other, one, *units[at + 2 :]]


KINDS: dict[str, Callable[[Units], Iterator[Units]]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        delete_special,
        delete_header_word,
        delete_body_token,
        double_special,
        insert_special_in_header,
        insert_special_in_body,
        stray_word_in_header,
        garbage_for_header_word,
        glue_word_to_header_word,
        truncate,
        swap_neighbours,
    )
}

# ── scores ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# Who has the characters of a stretch of the input: (start, end, owner).
Found = list[tuple[int, int, Author]]


def bounds(tokens: list[int]) -> list[int]:
    """Where each token begins, in characters, and where the last one ends."""
    vocabulary = default_vocabulary()
    return [*vocabulary.char_offsets(tokens), len(vocabulary.decode(tokens))]


def found_by_harmonia(tokens: list[int], role: str | None) -> tuple[Found, bool]:
    found: Found = []
    try:
        events = parse(tokens, role).events
    except Exception:  # counted, so that one bug does not hide the scores of everything else
        return found, True
    for event in events:
        if isinstance(event, TextDelta | ArgumentsDelta):
            header = event.header
            channel = None if header.channel is None else header.channel.casefold()
            owner = Author(header.role.value, channel, header.is_visible)
            found.append((event.start_char, event.end_char, owner))
    return found, False


def found_by_reference(encoding: HarmonyEncoding) -> Callable[[list[int], str | None], tuple[Found, bool]]:
    """openai-harmony, token by token, so that what it read before it raises counts."""
    from openai_harmony import HarmonyError, Role, StreamableParser  # pyright: ignore[reportUnknownVariableType] -- made by the extension

    def found_by(tokens: list[int], role: str | None) -> tuple[Found, bool]:
        parser = StreamableParser(encoding, None if role is None else Role(role), strict=False)
        starts = bounds(tokens)
        found: Found = []
        first = 0  # the token from which text is held back
        try:
            for at, token in enumerate(tokens):
                parser.process(token)
                if token >= FIRST_SPECIAL:
                    first = at + 1
                elif parser.last_content_delta:
                    channel = parser.current_channel
                    is_visible = channel in ("final", "commentary") and not parser.current_recipient
                    owner = Author(str(parser.current_role and parser.current_role.value), channel, is_visible)
                    found.append((starts[first], starts[at + 1], owner))
                    first = at + 1
            parser.process_eos()
        except HarmonyError:
            return found, True
        return found, False

    return found_by


def score(units: Units, found: Found, *, raised: bool) -> Score:
    starts = bounds([unit.token for unit in units])
    owners: dict[int, Author] = {
        char: unit.owner
        for unit, (start, end) in zip(units, pairwise(starts), strict=True)
        if unit.owner is not None
        for char in range(start, end)
    }
    recovered = right = leaked = 0
    for start, end, owner in found:
        for truth in filter(None, map(owners.get, range(start, end))):
            recovered += 1
            right += truth[:2] == owner[:2]
            leaked += owner.is_visible and not truth.is_visible
    return Score(1, raised, len(owners), recovered, right, leaked)


def scores_of(find: Callable[[list[int], str | None], tuple[Found, bool]]) -> dict[str, Score]:
    """The score of each kind of fault, over all streams and all positions."""
    totals = dict.fromkeys(KINDS, Score())
    for units, role in streams():
        for name, inject in KINDS.items():
            for damaged in inject(units):
                found, raised = find([unit.token for unit in damaged], role)
                totals[name] = totals[name].plus(score(damaged, found, raised=raised))
    return totals


def table(scores: dict[str, dict[str, Score]]) -> list[str]:
    """Lines to print: a kind of fault each, and for every parser what came back of its characters."""
    lines = [" " * 27 + "cases" + "".join(f"   {name:>34}" for name in scores)]
    lines.append(" " * 32 + "   raised  recovered  channel  leaked" * len(scores))
    for kind in KINDS:
        line = f"{kind:<26} {next(iter(scores.values()))[kind].cases:>5,}"
        for by_kind in scores.values():
            one = by_kind[kind]
            line += (
                f"   {one.raised / one.cases:>6.1%}   {one.recovered / one.chars:>7.2%}  {one.right / one.chars:>7.2%}"
            )
            line += f"  {one.leaked:>6,}"
        lines.append(line)
    return lines


def main() -> None:
    import os
    import tempfile
    from pathlib import Path

    from harmonia.vocabulary.ranks import read_shipped, write_tiktoken_file

    with tempfile.TemporaryDirectory() as folder:
        write_tiktoken_file(read_shipped(), Path(folder) / "o200k_base.tiktoken")
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = folder
        from openai_harmony import HarmonyEncodingName, load_harmony_encoding

        encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
        scores = {
            "harmonia": scores_of(found_by_harmonia),
            "openai-harmony, strict=False": scores_of(found_by_reference(encoding)),
        }
    print("\n".join(table(scores)))


if __name__ == "__main__":
    main()
