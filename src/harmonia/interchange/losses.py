"""Losses that are the same in every export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harmonia.interchange.values import CallIds, Lossy
from harmonia.messages import Conversation, call_id


def sampled_losses(conversation: Conversation) -> Iterator[Lossy]:
    """The tokens that messages were sampled as never leave: nobody could vouch for them when they come back."""
    number = sum(1 for message in conversation if message.sampled is not None)
    if number:
        messages = "a message" if number == 1 else f"{number} messages"
        yield Lossy("$.messages", "sampled", f"the tokens that {messages} were sampled as are not exported")


def call_id_losses(call_ids: CallIds | None) -> Iterator[Lossy]:
    """Ids of calls, for formats that have none; those that we would make again are no loss."""
    lost = [id_ for index, id_ in (call_ids or {}).items() if id_ != call_id(index)]
    if lost:
        others = f" and {len(lost) - 1} others" if len(lost) > 1 else ""
        yield Lossy("$.messages", "call_id", f"the ids of calls are not kept: {lost[0]}{others}")


def sort_losses(losses: Iterable[Lossy]) -> tuple[Lossy, ...]:
    """Those about the whole first, then message by message."""
    return tuple(sorted(losses, key=lambda loss: -1 if loss.message is None else loss.message))
