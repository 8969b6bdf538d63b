"""What passes between a conversation and another format: what was read, what was written, and what did not fit.

1. Nothing is lost in silence: each thing that a format has no place for is one Lossy.
2. Where `write` reports nothing, `read` gives the same conversation back. Where it reports something, the messages that
   no Lossy names come back as they were, in their order.
3. What is read never has sampled tokens (law 1): they come from a parser or a store that can vouch for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from harmonia.json_codec import encode_json
from harmonia.messages import Conversation

# Message indices of calls, and the ids that the calls had where they were read.
CallIds = Mapping[int, str]


class Lossy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that did not come through. `what` is the field, `why` a sentence for people.

    `path` is a JSON path of what was read or, in an export, of the conversation; `message` is an index into the
    conversation, where it is about one of its messages.
    """

    path: str
    what: str
    why: str
    message: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A conversation that was read. `call_ids` has the ids of its calls, which messages have no place for."""

    conversation: Conversation
    losses: tuple[Lossy, ...] = ()
    call_ids: CallIds = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: a text, or a JSON value."""

    value: Any
    losses: tuple[Lossy, ...] = ()

    @property
    def text(self) -> str:
        """The value as text; JSON stands on one line."""
        return self.value if isinstance(self.value, str) else encode_json(self.value)


class Write(Protocol):
    def __call__(self, conversation: Conversation, /, *, call_ids: CallIds | None = None) -> Exported: ...


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write conversations. `read` takes the JSON value or its text; `write` gives what `read` takes.

    `keeps_call_ids` says whether what is written has the ids that `write` is given.
    """

    name: str
    description: str
    read: Callable[[Any], Imported]
    write: Write
    keeps_call_ids: bool = False
