"""What an upstream is: a provider that speaks messages. Harmony happens at the far end; here stays one conversation.

    (MessageStarted HeaderCompleted (TextDelta | ArgumentsDelta)* MessageEnded)*  Finish

1. The events are those of the parser, so whoever reads a turn cannot tell an upstream from an engine. They have no
   spans: `start_token` and `end_token` are None, characters are counted within the answer.
2. A call that the provider reports as one is certain: the far end read the tokens, and this side guesses nothing. Its
   message has the origin "items".
3. What a provider says that has no place in a conversation is reported in `Finish.notes`, not lost in silence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from harmonia.events import Event
from harmonia.messages import Conversation
from harmonia.run.engines.base import Finish, Request


class Upstream(Protocol):
    """A provider that answers a conversation."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]: ...

    async def close(self) -> None: ...
