"""A tokenizer in plain Python for the first short ASCII texts, before a real engine is worth its loading time.

A command that renders one prompt is done with this one before tiktoken would have been loaded. It is the algorithm
as one would explain it, too: split the text into pieces, look each piece up, and merge the bytes of the rest.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

# Together, texts of this many characters are encoded here; then a real engine pays.
WORK_LIMIT: Final = 20_000
# Merging is quadratic, and a piece is usually a word.
_PIECE_LIMIT: Final = 64

# The pieces of o200k (see engines.py), with the Unicode classes reduced to their ASCII members.
_WHITE: Final = rb" \t\n\v\f\r"
_CONTRACTION: Final = rb"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PIECES: Final = re.compile(
    b"|".join(
        (
            rb"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+" + _CONTRACTION,
            rb"[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*" + _CONTRACTION,
            rb"[0-9]{1,3}",
            rb" ?[^%bA-Za-z0-9]+[\r\n/]*" % _WHITE,
            rb"[%b]*[\r\n]+" % _WHITE,
            rb"[%b]+(?![^%b])" % (_WHITE, _WHITE),
            rb"[%b]+" % _WHITE,
        )
    )
)


class Starter:
    """Encodes until its work is done, then says None."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._ranks = {token: rank for rank, token in enumerate(tokens)}
        self._work = 0

    def encode(self, text: str) -> list[int] | None:
        """The tokens of `text`, or None where a real engine should take over from here on."""
        self._work += len(text)
        if self._work > WORK_LIMIT or not text.isascii():
            return None
        pieces: list[bytes] = _PIECES.findall(text.encode())
        tokens = list(map(self._ranks.get, pieces))
        if None not in tokens:
            return tokens  # pyright: ignore[reportReturnType] -- what the line above checks
        if max(map(len, pieces)) > _PIECE_LIMIT:
            return None
        return [token for piece in pieces for token in self._merge(piece)]

    def _merge(self, piece: bytes) -> list[int]:
        """Byte-pair encoding: join the two neighbours whose union has the lowest rank, until no union has one."""
        ranks = self._ranks
        parts = [piece] if piece in ranks else [bytes([byte]) for byte in piece]
        while len(parts) > 1:
            unions = [ranks.get(left + right, _NO_RANK) for left, right in pairwise(parts)]
            lowest = min(unions)
            if lowest == _NO_RANK:
                break
            at = unions.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [ranks[part] for part in parts]


_NO_RANK: Final = 1 << 32
