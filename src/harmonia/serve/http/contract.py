"""What HTTP needs of the services behind it. They are checked by their shape, so that tests may bring their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from harmonia.serve.api.stream import StreamEvent
from harmonia.serve.identity import Caller

Query = Mapping[str, str | list[str]]


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
    def chat(self) -> Generating: ...
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
    def known_model(self, name: str) -> str:
        """The served model that a request means by this name. Raises an InputError where there is none."""
        ...
