"""Where a message came from: what was read, how sure the reading is, and what it was sampled as.

A message that somebody wrote has no origin. One that a parser read has one until it is edited; whether a call may be
run, whether a text may be shown and how the message renders again all rest on it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from harmonia.errors import ErrorCode

# tokens    token ids: a special token is one because the model sampled it
# text      text with special tokens spelled out: an echo of somebody's typing looks the same
# stripped  text whose special tokens a server removed: the structure is guessed
# items     the structured answer of a provider that read the tokens itself
Source = Literal["tokens", "text", "stripped", "items"]
Stop = Literal["end", "call", "return"]


class Trust(IntEnum):
    """How sure the reading of a message is. A lower one is never raised again."""

    GUESSED = 0  # the channel or the author is a guess: not shown, not run
    REPAIRED = 1  # something was mended, though there is no doubt who says what on which channel: shown, not run
    CERTAIN = 2  # as the model wrote it


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch of the input: tokens (None where text was read) and characters, special tokens spelled out."""

    start_token: int | None
    end_token: int | None
    start_char: int
    end_char: int


class Origin(msgspec.Struct, frozen=True):
    """How a parser came by a message.

    `header` reaches from `<|start|>` to `<|message|>`, `body` to the token that stopped it, which `stop` names.
    `faults` has the codes of the diagnostics about this message. `forged` marks a message of a role that a completion
    may not have. `shown` marks a text that is a guess and is shown all the same, because an operator said so.
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
    """The tokens a message was sampled as, from `<|start|>` to the token that stopped it, if one did.

    `role_end` is where the role ends that the prompt gives (`<|start|>assistant`), `header_end` where the body begins.
    Only a parser, or a store that can vouch for them, makes these: they are rendered as they are, special tokens
    included, so they are no part of a message's JSON.
    """

    tokens: tuple[int, ...]
    role_end: int
    header_end: int
