"""The results of converting a conversation to another format or back, and what the conversion loses.

1. Nothing is lost silently: everything that a format cannot express is one `Lossy`.
2. If `write` reports no loss, `read` restores the same conversation. Otherwise the messages that no `Lossy` names are
   restored unchanged and in order.
3. A conversation that was read never has sampled tokens (law 1): only a parser or a trusted store supplies them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from harmonia.json_codec import encode_json
from harmonia.messages import Conversation, call_id, is_call
from harmonia.provenance import Trust

# The ids that calls had in the source, by message index.
CallIds = Mapping[int, str]


class Lossy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a conversion lost: `what` names the field, `why` explains it in a sentence.

    `path` is a JSON path into the input or, for an export, into the conversation. `message` is the index of the message
    concerned, if there is one.
    """

    path: str
    what: str
    why: str
    message: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Report(msgspec.Struct):
    """The losses of one import, in order."""

    losses: list[Lossy] = []

    def lose(self, path: str, what: str, why: str) -> None:
        self.losses.append(Lossy(path, what, why))

    def lose_others(self, value: Mapping[str, Any], known: Collection[str], path: str, why: str) -> None:
        """Report unknown fields that are not empty, as one Lossy."""
        others = [name for name, given in value.items() if name not in known and given not in (None, "", [], {})]
        if others:
            self.lose(path, "fields", f"{', '.join(others)}: {why}")


@dataclass(frozen=True, slots=True)
class Imported:
    """A conversation that was read. `call_ids` are the ids of its calls, which messages cannot store."""

    conversation: Conversation
    losses: tuple[Lossy, ...] = ()
    call_ids: CallIds = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: a text or a JSON value."""

    value: Any
    losses: tuple[Lossy, ...] = ()

    @property
    def text(self) -> str:
        """The value as text, JSON on one line."""
        return self.value if isinstance(self.value, str) else encode_json(self.value)


class Write(Protocol):
    def __call__(self, conversation: Conversation, /, *, call_ids: CallIds | None = None) -> Exported: ...


@dataclass(frozen=True, slots=True)
class ConversationFormat:
    """A format of conversations. `read` accepts the JSON value or its text; `write` returns what `read` accepts.

    `keeps_call_ids` says whether the output includes the ids passed to `write`.
    """

    name: str
    description: str
    read: Callable[[Any], Imported]
    write: Write
    keeps_call_ids: bool = False


# ── losses that every export may have ──


def sampled_losses(conversation: Conversation) -> Iterator[Lossy]:
    """Sampled tokens are never exported: on the way back they could not be trusted."""
    number = sum(1 for message in conversation if message.sampled is not None)
    if number:
        messages = "1 message" if number == 1 else f"{number} messages"
        yield Lossy("$.messages", "sampled", f"the sampled tokens of {messages} are not exported")


def unexpressed_losses(conversation: Conversation, call_ids: CallIds | None) -> Iterator[Lossy]:
    """Sampled tokens, doubts about messages, which come back as certain (laws 5, 7), and call ids, for formats that
    cannot express them. An id that would be generated again is not a loss."""
    yield from sampled_losses(conversation)
    for index, message in enumerate(conversation):
        origin = message.origin
        if origin is None:
            continue
        if origin.forged:
            role = message.role
            why = f"the model forged this message; the format cannot say so, and it comes back as a real {role} message"
        elif origin.trust is Trust.GUESSED and not is_call(message):
            why = "the header was guessed; the format cannot say so, and the message comes back as certain"
        else:
            continue
        yield Lossy(f"$.messages[{index}]", "origin", why, index)
    lost = [id_ for index, id_ in (call_ids or {}).items() if id_ != call_id(index)]
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield Lossy("$.messages", "call_id", f"the format has no call ids; lost: {lost[0]}{others}")


def sort_losses(losses: Iterable[Lossy]) -> tuple[Lossy, ...]:
    """Losses about the whole conversation first, then message by message."""
    return tuple(sorted(losses, key=lambda loss: -1 if loss.message is None else loss.message))
