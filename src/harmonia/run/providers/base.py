"""What a provider is: a service that takes messages and reads Harmony itself.

    (MessageStarted HeaderCompleted (TextDelta | ArgumentsDelta)* MessageEnded)*  Finish

1. The events are those of the parser, so the consumer of a turn cannot tell a provider from an engine. They have no
   spans: `start_token` and `end_token` are None, characters are counted within the answer.
2. A call that the provider reports as one is certain: it read the tokens, and nothing is guessed here. Its message has
   the origin "items".
3. Whatever a provider sends that a conversation cannot hold is reported in `Finish.notes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

from harmonia.events import Event
from harmonia.messages import Conversation
from harmonia.run.engines.base import PROVIDER_TRAITS, Finish, Request, Traits
from harmonia.run.engines.http import Patience, Server
from harmonia.run.engines.urls import api_address
from harmonia.run.providers.bodies import Body, ToolNames
from harmonia.run.providers.round_trip import Reader, exchange


class Provider(Protocol):
    """A provider that answers a conversation."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def traits(self) -> Traits:
        """`PROVIDER_TRAITS`, or those with more that is known."""
        ...

    def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]: ...

    async def close(self) -> None: ...


class HttpProvider(ABC):
    """A provider at `base_url`, such as `https://host/v1`.

    `extra` goes into every body as it is, for what a provider takes beyond its API. No connection is held between
    answers, and several tasks may ask at once.
    """

    NAME: ClassVar[str]
    PATH: ClassVar[str]

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.server = Server(api_address(base_url), api_key=api_key, headers=headers, patience=patience)
        self._model = model
        self._extra = dict(extra or {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._model} at {self.server.url}>"

    @property
    def name(self) -> str:
        return self.NAME

    @property
    def model(self) -> str:
        return self._model

    @property
    def traits(self) -> Traits:
        return PROVIDER_TRAITS

    @property
    def url(self) -> str:
        """The address of the API."""
        return self.server.url

    async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
        """The provider's answer, as it comes."""
        body = self._make_body(conversation, request)
        answer = exchange(self.server, self.PATH, body.value, self._make_reader(body.names), body.notes)
        async with aclosing(answer):
            async for event in answer:
                yield event

    async def close(self) -> None:
        await self.server.close()

    @abstractmethod
    def _make_body(self, conversation: Conversation, request: Request) -> Body: ...

    @abstractmethod
    def _make_reader(self, names: ToolNames) -> Reader: ...
