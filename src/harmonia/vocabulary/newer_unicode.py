"""The characters that gigatoken and tiktoken put into different classes.

gigatoken 0.10.0 knows Unicode 17, tiktoken 0.14 Unicode 16: to the one these are letters, marks or numerals, to the
other they are not assigned yet. They are found by asking both about every code point in several surroundings,
which the exhaustive tests do again.
"""

from __future__ import annotations

import re
from typing import Final

GIGATOKEN_VERSION: Final = "0.10.0"

RANGES: Final = (
    (0x0088F, 0x0088F),
    (0x00C5C, 0x00C5C),
    (0x00CDC, 0x00CDC),
    (0x01ACF, 0x01ADD),
    (0x01AE0, 0x01AEB),
    (0x0A7CE, 0x0A7CF),
    (0x0A7D2, 0x0A7D2),
    (0x0A7D4, 0x0A7D4),
    (0x0A7F1, 0x0A7F1),
    (0x10940, 0x10959),
    (0x10EC5, 0x10EC7),
    (0x10EFA, 0x10EFB),
    (0x11B60, 0x11B67),
    (0x11DB0, 0x11DDB),
    (0x11DE0, 0x11DE9),
    (0x16EA0, 0x16EB8),
    (0x16EBB, 0x16ED3),
    (0x16FF2, 0x16FF6),
    (0x187F8, 0x187FF),
    (0x18D09, 0x18D1E),
    (0x18D80, 0x18DF2),
    (0x1E6C0, 0x1E6DE),
    (0x1E6E0, 0x1E6F5),
    (0x1E6FE, 0x1E6FF),
    (0x2B73A, 0x2B73F),
    (0x2CEA2, 0x2CEAD),
    (0x323B0, 0x33479),
)


def _beginning(code_point: int) -> bytes:
    # Two bytes of the four are enough beyond the first plane, where texts are rare.
    encoded = chr(code_point).encode()
    return encoded[:2] if len(encoded) == 4 else encoded


# Searched in UTF-8, because a str is searched range by range, and there are many. It finds some characters
# too many, which costs no more than the slower engine.
_NEWER: Final = re.compile(
    b"|".join(sorted({_beginning(point) for first, last in RANGES for point in range(first, last + 1)}))
)


def has_newer_characters(text: str) -> bool:
    """Whether `text` may hold one of them. Lone surrogates are an engine's to refuse."""
    return _NEWER.search(text.encode(errors="surrogatepass")) is not None
