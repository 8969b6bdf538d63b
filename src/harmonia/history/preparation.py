"""From the whole conversation to what the next prompt has of it. Nothing goes without a reason.

The whole conversation is the one to keep: calls have their ids by their places in it, and a policy must see all of it
each time. What was prepared is for rendering.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.history.policies import DOCUMENTED, Policy
from harmonia.messages import Conversation, Message, is_admitted, is_forged

FORGED = "forged: a completion may not have a message of this role"
NOT_ASSISTANT = "not the assistant's: a completion may not have a message of this role"


class Dropped(msgspec.Struct, frozen=True):
    """A message that went: its place in what was given, and why."""

    index: int
    message: Message
    reason: str


class Prepared(msgspec.Struct, frozen=True):
    """What the prompt keeps, and what went. `kept` has the place of each message in the conversation that was given.

    A message that stands in for others, such as a summary, has None there.
    """

    conversation: Conversation
    dropped: tuple[Dropped, ...]
    kept: tuple[int | None, ...]


class Received(msgspec.Struct, frozen=True):
    """A conversation with what a model wrote, and what was refused of it; `index` counts the model's messages."""

    conversation: Conversation
    refused: tuple[Dropped, ...]


def prepare(conversation: Conversation | Iterable[Message], policy: Policy = DOCUMENTED) -> Prepared:
    """The conversation as the next prompt should have it, by a policy. Forged messages go by any policy (law 5)."""
    messages = as_messages(conversation)
    reasons: dict[int, str] = {index: FORGED for index, message in enumerate(messages) if is_forged(message)}
    if not callable(policy):
        raise InputError(ErrorCode.HISTORY_INVALID_OPTION, f"{policy!r} is no policy; DOCUMENTED is one")
    for index, reason in policy(messages):
        if not 0 <= index < len(messages):
            raise InputError(
                ErrorCode.HISTORY_INVALID_OPTION,
                f"the policy {getattr(policy, 'name', policy)} drops message {index} of {len(messages)}",
            )
        reasons.setdefault(index, reason)
    return without(messages, reasons)


def without(messages: tuple[Message, ...], reasons: dict[int, str]) -> Prepared:
    """These messages without some, each for its reason."""
    kept = tuple(index for index in range(len(messages)) if index not in reasons)
    dropped = tuple(Dropped(index, messages[index], reason) for index, reason in sorted(reasons.items()))
    return Prepared(Conversation(messages[index] for index in kept), dropped, kept)


def receive(conversation: Conversation | Iterable[Message], parsed: Iterable[Message]) -> Received:
    """What `Conversation.add_parsed` does, and what it left out: messages that do not speak for the assistant."""
    messages = as_messages(conversation)
    written = tuple(parsed)
    refused = tuple(
        Dropped(index, message, FORGED if is_forged(message) else NOT_ASSISTANT)
        for index, message in enumerate(written)
        if not is_admitted(message)
    )
    return Received(Conversation(messages).add_parsed(written), refused)


def as_messages(conversation: Conversation | Iterable[Message]) -> tuple[Message, ...]:
    """What callers may give as a conversation, as messages."""
    return (conversation if isinstance(conversation, Conversation) else Conversation(conversation)).messages
