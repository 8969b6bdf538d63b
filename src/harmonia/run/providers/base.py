"""What a provider is: a service that takes messages and reads Harmony itself.

    (MessageStarted HeaderCompleted (TextDelta | ArgumentsDelta)* MessageEnded)*  Finish

1. The events are those of the parser, so the consumer of a turn cannot tell a provider from an engine. They have no
   spans: `start_token` and `end_token` are None, characters are counted within the answer.
2. A call that the provider reports as one is certain: it read the tokens, and nothing is guessed here. Its message has
   the origin "items".
3. Whatever a provider sends that a conversation cannot hold is reported in `Finish.notes`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

from harmonia.errors import EngineError, ErrorCode
from harmonia.events import Event
from harmonia.messages import Conversation, Json
from harmonia.run.engines.base import PROVIDER_TRAITS, Finish, Request, Traits
from harmonia.run.engines.http import Fields, Patience, Server, ServerError, api_address, excerpt, words_of
from harmonia.run.engines.response_reader import is_about_context
from harmonia.run.providers.answer import Answer
from harmonia.run.providers.bodies import Body, ToolNames

_DONE = b"[DONE]"


class Reader(Protocol):
    """What understands an API. `error` is set where the provider reports one."""

    error: Fields | None

    @property
    def answer(self) -> Answer: ...

    @property
    def is_ended(self) -> bool:
        """Whether the provider has said how the answer ended."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether nothing can follow what was read."""
        ...

    def feed(self, event: Fields, /) -> list[Event]: ...
    def close(self, *, is_broken: bool = False) -> list[Event]: ...
    def finish(self) -> Finish: ...


async def exchange(
    server: Server, path: str, body: Json, reader: Reader, notes: Sequence[str]
) -> AsyncGenerator[Event | Finish, None]:
    """Ask, and read the answer, whether it is a stream or one piece."""
    for note in notes:
        reader.answer.note(note)
    fault: EngineError | None = None
    is_done = False
    try:
        async with aclosing(server.lines(path, body, "either")) as reads:
            async for lines in reads:
                for line in lines:
                    is_done = line == _DONE
                    if not is_done:
                        for event in reader.feed(decode_line(server, line)):
                            yield event
                        if reader.error is not None:
                            raise reported_error(server, reader)
                    if is_done or reader.is_last:
                        break
                if is_done or reader.is_last:
                    break
    except ServerError as error:
        raise _understood(error) from None
    except EngineError as error:
        fault = None if reader.is_ended and reader.error is None else error
    if fault is None and not reader.is_ended and not is_done:
        fault = server.died("ended its answer without reporting that it was finished")
    for event in reader.close(is_broken=fault is not None):
        yield event
    if fault is not None:
        raise fault
    yield reader.finish()


def reported_error(server: Server, reader: Reader) -> EngineError:
    """The error that a provider wrote into its answer."""
    content = json.dumps(reader.error).encode()
    words = server.hide(words_of(content))
    if is_about_context(content.decode()):
        return EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, f"{server.url}: {words}")
    if reader.answer.received_chars:
        return server.died(f"gave up: {words}")
    return EngineError(ErrorCode.ENGINE_REFUSED, f"{server.url}: {words}")


def _understood(error: ServerError) -> EngineError:
    if error.status in (400, 413, 422, 500) and is_about_context(error.words):
        return EngineError(ErrorCode.ENGINE_OUT_OF_CONTEXT, error.message)
    return error


def decode_line(server: Server, line: bytes) -> Fields:
    """A line of an answer as an object."""
    try:
        # Not msgspec: it refuses half of a surrogate pair, of which some servers send one half in each chunk.
        value: Any = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise server.bad_answer(f"{error} in {excerpt(line)}") from None
    if not isinstance(value, dict):
        raise server.bad_answer(f"expected an object as the answer, but it sent {excerpt(line)}")
    return value  # pyright: ignore[reportUnknownVariableType] -- JSON


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
