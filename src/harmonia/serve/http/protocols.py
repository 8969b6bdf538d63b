"""The services that the HTTP layer calls, as protocols, so that tests can bring their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from harmonia.messages import Json
from harmonia.run.engines.base import Traits
from harmonia.serve.security.keys import Caller
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.validation import Query


class Generation(Protocol):
    """A running generation. Either `events` or `result` is used, once."""

    @property
    def wants_stream(self) -> bool: ...

    @property
    def output_tokens(self) -> int | None:
        """The number of tokens sampled so far, if known; for log and metrics."""
        ...

    @property
    def failure(self) -> Exception | None:
        """Why the generation failed after its start, which the events have reported already; for log and metrics. An
        exception that is not a HarmonyError is a bug."""
        ...

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Ends with exactly one terminal event and raises nothing. Closing it, or cancelling the task that waits for
        the next event, cancels the generation."""
        ...

    async def result(self) -> bytes:
        """The JSON of the complete answer. Cancelling the waiting task cancels the generation."""
        ...

    def cancel(self) -> None:
        """End the generation soon, as if the client had asked: the events continue to their terminal event, and
        `result` returns the output so far. Called when the server stops or the time is up, perhaps twice."""
        ...


class GenerationService(Protocol):
    async def create(self, value: Any, caller: Caller) -> Generation: ...


class ResponsesService(GenerationService, Protocol):
    async def retrieve(self, response_id: str, caller: Caller, query: Query) -> bytes: ...
    async def delete(self, response_id: str, caller: Caller) -> bytes: ...
    async def cancel(self, response_id: str, caller: Caller) -> bytes: ...
    async def input_items(self, response_id: str, caller: Caller, query: Query) -> bytes: ...
    async def input_tokens(self, value: Any, caller: Caller) -> bytes: ...


class ExportedFile(Protocol):
    """A saved chat as a file; see serve/saved_chats/service.py."""

    @property
    def data(self) -> bytes: ...
    @property
    def media_type(self) -> str: ...
    @property
    def disposition(self) -> str: ...
    @property
    def left_out(self) -> int: ...


class SavedChatsService(Protocol):
    async def list_(self, caller: Caller, query: Query) -> bytes: ...
    async def create(self, value: Any, caller: Caller) -> bytes: ...
    async def retrieve(self, chat_id: str, caller: Caller) -> bytes: ...
    async def change(self, chat_id: str, value: Any, caller: Caller) -> bytes: ...
    async def delete(self, chat_id: str, caller: Caller) -> bytes: ...
    async def put_turn(self, chat_id: str, turn_id: str, value: Any, caller: Caller) -> bytes: ...
    async def delete_turn(self, chat_id: str, turn_id: str, caller: Caller) -> bytes: ...
    async def export(self, chat_id: str, caller: Caller, query: Query) -> ExportedFile: ...
    async def import_(self, value: Any, caller: Caller) -> bytes: ...


class Keys(Protocol):
    def find(self, key: str) -> str | None: ...


class CheckedStore(Protocol):
    async def check(self) -> None: ...


class ServedModel(Protocol):
    """An engine or a provider."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...


class HttpService(Protocol):
    """The service as HTTP sees it. `keys` is None if the server needs none."""

    @property
    def responses(self) -> ResponsesService: ...
    @property
    def chat_completions(self) -> GenerationService: ...
    @property
    def saved_chats(self) -> SavedChatsService: ...
    @property
    def keys(self) -> Keys | None: ...
    @property
    def store(self) -> CheckedStore | None: ...
    @property
    def model(self) -> ServedModel | None:
        """None until the engine and its model are known."""
        ...

    @property
    def model_names(self) -> tuple[str, ...]: ...
    def describe_mcp_servers(self) -> list[Json]:
        """The operator's MCP servers, for clients."""
        ...

    def known_model(self, name: str) -> str:
        """The served model that this name means. Raises an InputError if there is none."""
        ...
