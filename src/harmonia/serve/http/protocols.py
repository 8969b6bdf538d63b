"""What HTTP needs of the services behind it. They are checked by their shape, so that tests may bring their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

from harmonia.messages import Json
from harmonia.serve.inspector.request import SampledEntry
from harmonia.serve.inspector.turn_trace import RenderedTurn
from harmonia.serve.security.identity import Caller
from harmonia.serve.wire.event_stream import StreamEvent
from harmonia.serve.wire.queries import Query


class Started(Protocol):
    """A generation that runs. One of `events` and `result` is used, once."""

    @property
    def wants_stream(self) -> bool: ...

    @property
    def output_tokens(self) -> int | None:
        """How many tokens were sampled so far, where that is known; for the log and the metrics."""
        ...

    @property
    def failure(self) -> Exception | None:
        """Why the generation failed after it had started, which the events have told already; for the same two. What is
        no HarmonyError is a bug."""
        ...

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Ends with exactly one terminal event and raises nothing. Closing it, or cancelling the task that waits for
        the next event, cancels the generation."""
        ...

    async def result(self) -> bytes:
        """The JSON of the whole answer. Cancelling the task that waits cancels the generation."""
        ...

    def cancel(self) -> None:
        """End the generation soon, as if the client had asked for it: the events go on to their terminal event, and
        `result` returns what there is. Called when the server stops or the request's time is up; twice is once."""
        ...


class Generating(Protocol):
    async def create(self, value: Any, caller: Caller) -> Started: ...


class ResponsesService(Generating, Protocol):
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
    """An engine, which has `traits`, or a provider, which has none."""

    @property
    def name(self) -> str: ...


class HttpService(Protocol):
    """The service as HTTP sees it. `keys` is None where everybody may come in."""

    @property
    def responses(self) -> ResponsesService: ...
    @property
    def chat_completions(self) -> Generating: ...
    @property
    def saved_chats(self) -> SavedChatsService: ...
    @property
    def keys(self) -> Keys | None: ...
    @property
    def store(self) -> CheckedStore | None: ...
    @property
    def model(self) -> ServedModel | None:
        """None until it is known which model is served by which engine."""
        ...

    @property
    def model_names(self) -> tuple[str, ...]: ...
    async def render_turn(
        self, caller: Caller, request: Json, output: Sequence[Json], sampled: Sequence[SampledEntry] = ()
    ) -> RenderedTurn:
        """The prompt of a request and what was answered, as tokens; see serve/inspector/turn_trace.py."""
        ...

    def describe_mcp_servers(self) -> list[Json]:
        """The MCP servers of the operator, for clients."""
        ...

    def known_model(self, name: str) -> str:
        """The served model that a request means by this name. Raises an InputError where there is none."""
        ...
