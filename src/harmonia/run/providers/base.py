"""What a provider is: a service that takes messages and reads Harmony itself.

    (MessageStarted HeaderCompleted (TextDelta | ArgumentsDelta)* MessageEnded)*  Finish

1. The events are those of the parser, so the consumer of a turn cannot tell a provider from an engine. They have no
   spans: `start_token` and `end_token` are None, characters are counted within the answer.
2. A call that the provider reports as one is certain: it read the tokens, and nothing is guessed here. Its message has
   the origin "items".
3. Whatever a provider sends that a conversation cannot hold is reported in `Finish.notes`.
4. Whatever came before a fault was given before it is raised, and is ended: no message stays open. A fault after the
   end of the answer is ignored.
5. The connection is closed before Finish is given, and as soon as the caller leaves.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Literal, Protocol

from harmonia.errors import EngineError
from harmonia.events import Event
from harmonia.messages import Conversation, Json
from harmonia.run.engines.base import PROVIDER_TRAITS, Finish, FinishReason, Request, Traits, Usage
from harmonia.run.engines.http import Fields, Patience, Server, ServerError, api_address, excerpt
from harmonia.run.engines.response_reader import reported_error, status_error
from harmonia.run.providers.answer import Answer
from harmonia.run.providers.bodies import Body, ToolNames


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


class Reader(ABC):
    """Reads a stream, or an answer that came in one piece, by `feed`; then `close` and `finish`."""

    def __init__(self, names: ToolNames) -> None:
        self.names = names
        self.answer = Answer()
        self.lines_read = 0
        self.reason: FinishReason = "unknown"
        self.usage: Usage | None = None
        self.reasoning_tokens = 0
        self.error: Fields | None = None  # what the provider reports as an error
        self.is_ended = False  # whether the provider has reported how the answer ended
        self.is_last = False  # whether nothing can follow what was read

    @abstractmethod
    def feed(self, event: Fields, /) -> list[Event]:
        """The events that follow from one event of the provider, or from an answer in one piece."""

    def close(self, *, is_broken: bool = False) -> list[Event]:
        """The events that end the answer; with `is_broken`, whatever is incomplete ends without a stop."""
        self.answer.finish(is_whole=self.reason == "stop" and not is_broken)
        return self.answer.take()

    def finish(self) -> Finish:
        if self.reasoning_tokens:
            self.answer.note(f"{self.reasoning_tokens} tokens of the completion were reasoning")
        if self.answer.is_empty:
            self.answer.note("the provider sent nothing to show and nothing to call")
        return Finish(self.reason, self.usage, tuple(self.answer.notes))


class HttpProvider(ABC):
    """A provider at `base_url`, such as `https://host/v1`.

    `extra` goes into every body as it is, for what a provider takes beyond its API. `developer_role` is for servers
    that refuse the role `developer` and call it `system`. No connection is held between answers, and several tasks may
    ask at once.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    traits = PROVIDER_TRAITS

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
        developer_role: Literal["developer", "system"] = "developer",
    ) -> None:
        self._developer_role = developer_role
        self.server = Server(api_address(base_url), api_key=api_key, headers=headers, patience=patience)
        self.model = model
        self._extra = dict(extra or {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.model} at {self.server.url}>"

    async def respond(self, conversation: Conversation, request: Request) -> AsyncGenerator[Event | Finish, None]:
        """The provider's answer, as it comes."""
        body = self._make_body(conversation, request)
        answer = exchange(self.server, self.path, body.value, self._make_reader(body.names), body.notes)
        async with aclosing(answer):
            async for event in answer:
                yield event

    async def close(self) -> None:
        await self.server.close()

    @abstractmethod
    def _make_body(self, conversation: Conversation, request: Request) -> Body: ...

    @abstractmethod
    def _make_reader(self, names: ToolNames) -> Reader: ...


async def exchange(
    server: Server, path: str, body: Json, reader: Reader, notes: Sequence[str] = ()
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
                    reader.lines_read += 1
                    is_done = line == b"[DONE]"
                    if not is_done:
                        for event in reader.feed(decode_line(server, line)):
                            yield event
                        if reader.error is not None:
                            content = json.dumps(reader.error).encode()
                            raise reported_error(server, content, has_begun=reader.answer.received_chars > 0)
                    if is_done or reader.is_last:
                        break
                if is_done or reader.is_last:
                    break
    except ServerError as error:
        raise status_error(error) from None
    except EngineError as error:
        fault = None if reader.is_ended and reader.error is None else error
    if fault is None and not reader.is_ended and not is_done:
        fault = server.died("ended its answer without reporting that it was finished")
    for event in reader.close(is_broken=fault is not None):
        yield event
    if fault is not None:
        raise fault
    yield reader.finish()


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
