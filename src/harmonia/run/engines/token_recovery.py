"""Tokens whose text came and whose ids did not, found again. Pure.

A server that holds back tokens ending inside a character sends, with the token that ends the character, the text of all
of them. Known are that text, the last token and, mostly, how many are missing.
"""

from __future__ import annotations

from functools import lru_cache

from harmonia.vocabulary import FIRST_SPECIAL, default_vocabulary

# More tokens in a row that all end inside a character are no text, and not searched for.
MAX_MISSING = 16
MAX_SEARCHED_BYTES = 256


def restore_tokens(text: str, last: int, missing: int | None = None) -> tuple[list[int], bool]:
    """The tokens before `last` which with it spell `text`, and whether they are certain to.

    They are not where the server wrote U+FFFD for bytes that are no UTF-8; the tokens of what it wrote stand in then.
    """
    vocabulary = default_vocabulary()
    data = text.encode("utf-8", "replace")
    ending = vocabulary.decode_bytes([last])
    if last >= FIRST_SPECIAL and not data.endswith(ending):
        ending = b""  # the server does not spell it
    if data.endswith(ending):
        before = data[: len(data) - len(ending)]
        if not before:
            return [], True
        if _ends_inside(before):
            usual = vocabulary.encode(text)
            if usual[-1] == last and missing in (None, len(usual) - 1):
                return usual[:-1], True
            if (found := _split(before, missing)) is not None:
                return found, True
    else:
        before = data  # the beginning of `last` ended a character, or was no UTF-8 itself
    return vocabulary.encode(before.decode("utf-8", "replace")), False


def _split(data: bytes, missing: int | None) -> list[int] | None:
    """`data` as tokens, so many as are missing, each of which ends inside a character; the longest first."""
    if len(data) > MAX_SEARCHED_BYTES or (missing or 1) > MAX_MISSING:
        return None
    tokens = _tokens_by_bytes()
    ends = [end for end in range(len(data), 0, -1) if _ends_inside(data[:end])]
    dead: set[tuple[int, int | None]] = set()

    def split(start: int, left: int | None) -> list[int] | None:
        if start == len(data):
            return [] if not left else None
        if left == 0 or (start, left) in dead:
            return None
        for end in ends:
            if end <= start:
                break
            token = tokens.get(data[start:end])
            if token is not None and (rest := split(end, None if left is None else left - 1)) is not None:
                return [token, *rest]
        dead.add((start, left))
        return None

    return split(0, missing)


def _ends_inside(data: bytes) -> bool:
    """Whether the last character lacks bytes."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length > back
    return False


@lru_cache(maxsize=1)
def _tokens_by_bytes() -> dict[bytes, int]:
    return {data: token for token, data in enumerate(default_vocabulary().token_bytes[:FIRST_SPECIAL])}
