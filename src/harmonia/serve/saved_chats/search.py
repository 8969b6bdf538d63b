"""Searches saved chats for words: in titles, and in what is visible of turns.

1. All words of a query must occur in the chat, in upper or lower case. The excerpt is from the turn that has most of
   them, at the place where they stand together, or where most of them are near each other.
2. Visible are messages of both sides, calls with their arguments, results, names of files. Reasoning is never searched,
   hidden or shown, nor are lists of an MCP server's tools, which are not shown, nor anything sealed.
3. There is no index. What is stored is encrypted so that deletion is real; an index would keep the words of deleted
   chats in places that no deletion overwrites. So chats are decrypted and read, the newest first, within limits.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, cast

import msgspec

from harmonia.messages import Json
from harmonia.serve.responses.items.base import is_reasoning
from harmonia.serve.store.base import Excerpt, Matcher, StoredChat, StoredChatTurn
from harmonia.serve.wire.validation import invalid

MOST_QUERY_CHARACTERS: Final = 200
MOST_WORDS: Final = 16
_BEFORE: Final = 40
_AFTER: Final = 120
# Fields of an item that people see, beside the parts of its content.
_VISIBLE: Final = (
    *("name", "arguments", "input", "output", "error", "reason"),
    *("server_label", "harmonia_arguments", "harmonia_output"),
)
# If a word occurs more often, only its first places are looked at.
_MOST_PLACES: Final = 1000
_PARTS: Final = ("text", "refusal", "filename")
# Composing the marks after a letter takes the square of their number, and no letter has this many. Marks are neither
# letters nor digits, so a long run of marks matches this.
_MANY_MARKS: Final = re.compile(r"([^\w\x00-\x7f]{64,})")
_STRETCH: Final = 4096


def words_of(query: str) -> list[str]:
    """The words to look for."""
    if len(query) > MOST_QUERY_CHARACTERS:
        invalid(f"the query has {len(query)} characters; at most {MOST_QUERY_CHARACTERS} are allowed", "$.query")
    words = list(dict.fromkeys(_composed(query).casefold().split()))
    if len(words) > MOST_WORDS:
        invalid(f"the query has {len(words)} words; at most {MOST_WORDS} are allowed", "$.query")
    return words


def look_for(words: list[str]) -> Matcher:
    """A look for these words."""

    # JSON escapes these.
    are_plain = all(word.isprintable() and not set(word) & {'"', "\\"} for word in words)
    written = [word.encode() for word in words if word.isascii()]

    def may_have_some(body: bytes) -> bool:
        """Whether a turn is worth decoding: if it is ASCII, its bytes show that many times faster."""
        if not are_plain or not body.isascii():
            return True
        lowered = body.lower()
        return any(word in lowered for word in written)

    def texts_in(chat: StoredChat, turns: Iterable[StoredChatTurn]) -> Iterator[tuple[str | None, str]]:
        yield None, chat.title
        for turn in turns:
            if may_have_some(turn.body):
                yield turn.id, "\n".join(visible_texts(msgspec.json.decode(turn.body)))

    def look(chat: StoredChat, turns: Iterable[StoredChatTurn]) -> Excerpt | None:
        missing, most = set(words), 0
        best: Excerpt | None = None
        for turn, text in texts_in(chat, turns):
            text = _composed(text)
            folded = text.casefold()
            here = [word for word in words if word in folded]
            missing.difference_update(here)
            # A turn shows more than the title, which is seen anyway.
            if len(here) > most or (here and len(here) == most and best is not None and best.turn is None):
                most, best = len(here), Excerpt(turn, text)
            if len(here) == len(words):
                break  # there is nothing better to find
        if missing or best is None:
            return None
        return best if best.turn is None else Excerpt(best.turn, _cut(best.text, words))

    return look


def visible_texts(turn: Json) -> Iterator[str]:
    """What people see of a turn."""
    for item in turn.get("items", ()):
        if is_reasoning(item) or item.get("type") == "mcp_list_tools":
            continue
        yield from _texts(item.get("content"))
        for name in _VISIBLE:
            yield from _texts(item.get(name))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from _texts(part)
    elif isinstance(value, dict):
        said = cast("Json", value)
        # The error of a call has a message or a content; a part has one of the others.
        yield from (text for name in (*_PARTS, "message") if isinstance(text := said.get(name), str))
        if said.get("type") == "mcp_tool_execution_error":
            yield from _texts(said.get("content"))


def _cut(text: str, words: list[str]) -> str:
    """The text around the words, on one line: where they stand together, or as many of them as possible."""
    folded = text.casefold()
    at = _best_place(folded, words)
    if len(folded) != len(text):
        at = _unfolded_place(text, at)
    start, end = max(0, at - _BEFORE), at + _AFTER
    shown = " ".join("".join(" " if not each.isprintable() else each for each in text[start:end]).split())
    return f"{'… ' if start else ''}{shown}{' …' if end < len(text) else ''}"


def _best_place(folded: str, words: list[str]) -> int:
    if together := re.search(r"\s++".join(map(re.escape, words)), folded):
        return together.start()
    places: list[tuple[int, str]] = []
    for word in words:
        found = re.finditer(re.escape(word), folded)
        places += ((match.start(), word) for match in islice(found, _MOST_PLACES))
    places.sort()
    # The longest stretch of places that an excerpt can show begins at each place in turn; words in it are counted.
    best, most, end = places[0][0], 0, 0
    seen: Counter[str] = Counter()
    for at, word in places:
        while end < len(places) and places[end][0] + len(places[end][1]) <= at + _AFTER:
            seen[places[end][1]] += 1
            end += 1
        number = sum(count > 0 for count in seen.values())
        if number > most:
            best, most = at, number
        seen[word] -= 1
    return best


def _unfolded_place(text: str, at: int) -> int:
    """Folding made some characters longer: count along until it has made as many as stand before the word."""
    made = place = 0
    while made + (long := len(text[place : place + _STRETCH].casefold())) < at:
        made += long
        place += _STRETCH
    while made < at:
        made += len(text[place].casefold())
        place += 1
    return place


def _composed(text: str) -> str:
    """Accents may be written in two ways."""
    if text.isascii():
        return text
    pieces = _MANY_MARKS.split(text)  # every second is a run, which stays as it is
    return "".join(piece if at % 2 else unicodedata.normalize("NFC", piece) for at, piece in enumerate(pieces))
