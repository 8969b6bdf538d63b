"""Finds spellings of control tokens in ordinary text, a sign of prompt injection.

In token ids, a spelling and a control token differ, so each spelling can be reported with what it was encoded as. In
text they look the same: what looks like structure is structure, and only spellings that are certainly text are found.
Near misses such as `<|END|>` or `< |end| >` are found too: they are always text, but may have been meant as more.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from harmonia.inspection.trace import Trace, TracedMessage
from harmonia.vocabulary import FIRST_SPECIAL, ID_BY_SPELLING, VOCABULARY_SIZE, Vocabulary

# Every quantifier is bounded, so matching is linear. The characters are those that look like `<`, `|` and `>`; one
# blank or zero-width character may separate them.
_GAP: Final = "[\\s\u200b-\u200d\u2060\ufeff\\\\]?"
_BAR: Final = "[|\uff5c\u00a6\u2502\u2223]"
_LIKELY: Final = re.compile(
    f"[<\uff1c\u2039\u3008\u2329]{_GAP}{_BAR}{_GAP}([A-Za-z0-9_]{{1,24}}){_GAP}{_BAR}{_GAP}[>\uff1e\u203a\u3009\u232a]"
)
_FIELDS: Final = ("name", "recipient", "channel", "content_type")


class TypedSpelling(msgspec.Struct, frozen=True):
    """A spelling: its message, field and position, and what it was encoded as. `near` marks a near miss."""

    message: int
    role: str
    where: str
    text: str
    start_char: int
    end_char: int
    start_token: int | None
    ids: list[int]
    became: Literal["text", "special"]
    near: bool


def find_typed_spellings(traced: Trace, vocabulary: Vocabulary, most: int) -> list[TypedSpelling]:
    """The first `most` spellings, in order."""
    found: list[TypedSpelling] = []
    for item in traced.messages:
        for each in _spellings_of(item, traced.text, vocabulary):
            found.append(each)
            if len(found) >= most:
                return found
    return found


def _spellings_of(item: TracedMessage, text: str, vocabulary: Vocabulary) -> Iterator[TypedSpelling]:
    header, body = (item.start_char, item.body_char), (item.body_char, item.stop_char)
    yield from _in_part(item, "header", item.header_ids, item.start_token, text, header, vocabulary)
    yield from _in_part(item, "body", item.body_ids, item.body_token, text, body, vocabulary)


def _in_part(
    item: TracedMessage,
    where: Literal["header", "body"],
    ids: list[int],
    start_token: int | None,
    text: str,
    span: tuple[int, int],
    vocabulary: Vocabulary,
) -> Iterator[TypedSpelling]:
    start, end = span
    offsets: list[int] | None = None
    at = start
    while (match := _LIKELY.search(text, at, end)) is not None:
        at = match.end()
        spelling = f"<|{match[1].lower()}|>"
        if spelling not in ID_BY_SPELLING:
            continue
        if offsets is None:
            offsets = vocabulary.char_offsets(ids)
        first = max(bisect_right(offsets, match.start() - start) - 1, 0)
        last = max(bisect_left(offsets, match.end() - start), first + 1)
        written = ids[first:last]
        is_special = any(FIRST_SPECIAL <= token < VOCABULARY_SIZE for token in written)
        if is_special and where == "header":
            continue  # the structure itself
        yield TypedSpelling(
            item.index,
            item.message.role.value,
            "body" if where == "body" else _field_with(item, match.group()),
            match.group(),
            match.start(),
            match.end(),
            None if start_token is None else start_token + first,
            written,
            "special" if is_special else "text",
            match.group() not in ID_BY_SPELLING,
        )


def _field_with(item: TracedMessage, text: str) -> str:
    return next((name for name in _FIELDS if text in (getattr(item.message, name) or "")), "header")
