"""The 199,998 ordinary tokens of o200k, read from the package or from a file of the user.

Token `i` is `tokens[i]`. The published form is `o200k_base.tiktoken` (one token a line: base64, space, id). The package
ships a packed form, which is smaller and loads without base64:

    199,998 bytes        the length of each token
    the rest             the tokens, one after the other
    (all of it under zlib)

Both forms are refused unless their SHA-256 is the known one: a vocabulary with one wrong token would silently produce
wrong prompts.
"""

from __future__ import annotations

import hashlib
import zlib
from binascii import a2b_base64, b2a_base64
from itertools import accumulate, pairwise
from pathlib import Path

from harmonia.errors import ErrorCode, InputError, Position

TOKEN_COUNT = 199_998

PUBLISHED_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
PACKED_SHA256 = "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9"

_SHIPPED_NAME = "o200k.bin"


def read_shipped() -> list[bytes]:
    """The tokens that the package ships."""
    try:
        packed = zlib.decompress(Path(__file__).with_name(_SHIPPED_NAME).read_bytes())
    except (OSError, zlib.error) as error:
        problem = f"the vocabulary inside the package cannot be read: {error}; reinstall harmonia"
        raise InputError(ErrorCode.VOCABULARY_MISSING, problem) from error
    _check_digest(packed, PACKED_SHA256, f"harmonia/vocabulary/{_SHIPPED_NAME}")
    bounds = accumulate(packed[:TOKEN_COUNT], initial=TOKEN_COUNT)
    return [packed[start:end] for start, end in pairwise(bounds)]


def read_tiktoken_file(path: str | Path) -> list[bytes]:
    """The tokens from the user's `o200k_base.tiktoken`; any other file is refused."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        problem = f"the vocabulary file cannot be read: {error}"
        raise InputError(ErrorCode.VOCABULARY_MISSING, problem, Position(path=str(path))) from error
    _check_digest(data, PUBLISHED_SHA256, str(path))
    # The digest guarantees that every line is well-formed and that the ids run from 0 without a gap.
    return [a2b_base64(line.partition(b" ")[0]) for line in data.splitlines()]


def write_tiktoken_file(tokens: list[bytes], path: str | Path) -> None:
    """Write the published form: the inverse of `read_tiktoken_file`."""
    lines = (b2a_base64(token, newline=False) + b" %d\n" % rank for rank, token in enumerate(tokens))
    Path(path).write_bytes(b"".join(lines))


def _check_digest(data: bytes, expected: str, name: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        problem = f"{name} is not the o200k vocabulary: its SHA-256 is {found}, expected {expected}"
        raise InputError(ErrorCode.VOCABULARY_WRONG_FILE, problem, Position(path=name))
