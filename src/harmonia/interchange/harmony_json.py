"""The JSON of conversations, ours and the reference's. It lacks sampled tokens only."""

from __future__ import annotations

from typing import Any, Final

from harmonia.interchange.conversion import CallIds, Exported, Format, Imported
from harmonia.interchange.documents import value_of
from harmonia.interchange.losses import call_id_losses, origin_losses, sampled_losses, sort_losses
from harmonia.messages import Conversation


def read_harmony_json(given: Any) -> Imported:
    """A conversation from its own JSON, which is the reference's too: `{"messages": […]}` or the list alone."""
    return Imported(Conversation.from_dict(value_of(given)))


def write_harmony_json(conversation: Conversation, *, call_ids: CallIds | None = None) -> Exported:
    losses = sort_losses([*sampled_losses(conversation), *origin_losses(conversation), *call_id_losses(call_ids)])
    return Exported(conversation.to_dict(), losses)


HARMONY_JSON: Final = Format(
    "harmony-json",
    "Harmonia's and openai-harmony's JSON of a conversation, which has everything",
    read_harmony_json,
    write_harmony_json,
)
