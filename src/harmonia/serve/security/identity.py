"""Who asks, and the ids that nobody can guess."""

from __future__ import annotations

import secrets
from typing import Final, Literal

import msgspec

# openai          as OpenAI's own API and its SDKs have it
# open-responses  as the Open Responses specification has it
Dialect = Literal["openai", "open-responses"]

# Whose data it is where the server asks for no key.
NOBODY: Final = "nobody"

_RANDOM_BYTES: Final = 24


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request. `owner` is the name of the key, which all of its data belongs to; `request_id` is in the log
    and in the answer's headers."""

    owner: str = NOBODY
    dialect: Dialect = "openai"
    request_id: str = ""


def new_id(prefix: str) -> str:
    """An id such as `resp_5f2c…`: 192 random bits, so that knowing some says nothing of the others."""
    return f"{prefix}_{secrets.token_hex(_RANDOM_BYTES)}"
