"""One question to a provider and its answer, with every way in which it may go wrong.

1. Whatever came before a fault was given before it is raised, and is ended: no message stays open.
2. A fault behind the end of the answer is none.
3. The connection is closed before Finish is given, and whenever the caller leaves.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from harmonia.errors import EngineError, ErrorCode
from harmonia.events import Event
from harmonia.messages import Json
from harmonia.run.engines.base import Finish
from harmonia.run.engines.http import Fields, Server, ServerError, excerpt, words_of
from harmonia.run.engines.response_reader import is_about_context
from harmonia.run.providers.answer import Answer

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
