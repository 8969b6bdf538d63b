"""Where a message came from: what was read, how certain the reading is, and the tokens it was sampled as.

A message written by a person or a program has no origin. A parsed message has one until it is edited. Whether a call
may run, whether text may be shown and how a message renders again all depend on it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from harmonia.errors import ErrorCode

# tokens    token ids: a special token is special because the model sampled it
# text      text with special tokens spelled out: an echo of typed text looks the same
# stripped  text whose special tokens a server removed: the structure is guessed
# items     the structured answer of a provider that parsed the tokens itself
Source = Literal["tokens", "text", "stripped", "items"]
Stop = Literal["end", "call", "return"]


class Trust(IntEnum):
    """How certain the reading of a message is. It is only ever lowered."""

    GUESSED = 0  # the channel or the author is a guess: not shown, not run
    REPAIRED = 1  # something was repaired, but author and channel are certain: shown, not run
    CERTAIN = 2  # as the model wrote it


class Span(msgspec.Struct, frozen=True, gc=False):
    """A range of the input in tokens (None where text was read) and in characters, special tokens spelled out."""

    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class Origin(msgspec.Struct, frozen=True):
    """How a parser read a message.

    `header` is from `<|start|>` to `<|message|>`, `body` from there to the stop token, which `stop` names.
    `faults` has the codes of the diagnostics about this message. `forged` marks a message of a role that must not
    occur in a completion. `shown` marks guessed text that is shown because the operator configured it.
    """

    source: Source
    trust: Trust
    stop: Stop | None
    header: Span
    body: Span
    faults: tuple[ErrorCode, ...] = ()
    forged: bool = False
    shown: bool = False


class Sampled(msgspec.Struct, frozen=True):
    """The tokens a message was sampled as, from `<|start|>` to its stop token, if it has one.

    `role_end` is the end of the part that the prompt gives (`<|start|>assistant`), `header_end` the start of the body.
    Only a parser or an authenticated store creates these, because they are rendered unchanged, special tokens included.
    They are not part of a message's JSON.
    """

    tokens: tuple[int, ...]
    role_end: int
    header_end: int
