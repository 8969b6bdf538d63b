"""Losses that are the same in every export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harmonia.interchange.conversion import CallIds, Lossy
from harmonia.messages import Conversation, call_id, is_call
from harmonia.provenance import Trust


def sampled_losses(conversation: Conversation) -> Iterator[Lossy]:
    """The tokens that messages were sampled as never leave: nobody could vouch for them when they come back."""
    number = sum(1 for message in conversation if message.sampled is not None)
    if number:
        messages = "a message" if number == 1 else f"{number} messages"
        yield Lossy("$.messages", "sampled", f"the tokens that {messages} were sampled as are not exported")


def origin_losses(conversation: Conversation) -> Iterator[Lossy]:
    """Doubts about messages, for formats that write them like any other: who reads them back has none (laws 5, 7)."""
    for index, message in enumerate(conversation):
        origin = message.origin
        if origin is None:
            continue
        if origin.forged:
            role = message.role
            why = f"that the model wrote it in the name of {role} is not kept; it comes back as the {role}'s"
        elif origin.trust is Trust.GUESSED and not is_call(message):
            why = "that its header was guessed is not kept; it comes back as if it were certain"
        else:
            continue
        yield Lossy(f"$.messages[{index}]", "origin", why, index)


def call_id_losses(call_ids: CallIds | None) -> Iterator[Lossy]:
    """Ids of calls, for formats that have none; those that we would make again are no loss."""
    lost = [id_ for index, id_ in (call_ids or {}).items() if id_ != call_id(index)]
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield Lossy("$.messages", "call_id", f"the ids of calls are not kept: {lost[0]}{others}")


def sort_losses(losses: Iterable[Lossy]) -> tuple[Lossy, ...]:
    """Those about the whole first, then message by message."""
    return tuple(sorted(losses, key=lambda loss: -1 if loss.message is None else loss.message))
