"""`/v1/harmony/…`: rendering, parsing, inspecting, comparing, replaying and tokenizing over HTTP.

What takes long is done in a thread of a small pool, so that streams beside it go on; when the pool is busy, such a
request waits, and when too many wait, it is refused. Small ones are done at once, because a thread would cost more than
they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date as Date
from typing import Any, Final, cast

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.inspection import describe_event, describe_position
from harmonia.messages import Json
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.admission import Running
from harmonia.serve.http.body import read_value
from harmonia.serve.http.request_state import EXCHANGE, Exchange
from harmonia.serve.inspector import diffs, inspections, replays
from harmonia.serve.inspector import rendering as harmony_service
from harmonia.serve.inspector.work_limits import MOST_BODY_BYTES, encode_answer

# Above this a request goes to a thread: about as much as takes a few milliseconds.
LARGE: Final = 64 * 1024
_WORKERS: Final = 2
# Large requests that are worked on or wait: they must not take all the places of those that generate.
MOST_LARGE: Final = 16
_MALFORMED: Final = 422
# What a value counts beside its characters.
_VALUE_WEIGHT: Final = 8


def harmony_routes(limits: Limits, running: Running, workshop: Workshop | None = None) -> list[Route]:
    limits = msgspec.structs.replace(limits, body_bytes=min(limits.body_bytes, MOST_BODY_BYTES))
    work: dict[str, Callable[[Any], Json]] = {
        "render": lambda value: harmony_service.render(value, limits, Date.today()),
        "parse": lambda value: inspections.parse(value, limits),
        "inspect": lambda value: inspections.inspect(value, limits),
        "diff": lambda value: diffs.diff(value, limits),
        "replay": lambda value: replays.replay(value, limits),
        "tokenize": harmony_service.tokenize,
        "detokenize": harmony_service.detokenize,
    }
    workshop = workshop or Workshop()
    return [
        Route(f"/v1/harmony/{name}", _Work(do, limits, running, workshop), methods=["POST"], name=f"harmony_{name}")
        for name, do in work.items()
    ]


class Workshop:
    """The threads, which start when they are needed and end when the routes are gone, and who waits for one."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="harmonia-harmony")
        self._inside = 0

    async def do(self, work: Callable[[Any], tuple[int, bytes]], value: Any) -> tuple[int, bytes]:
        if self._inside >= MOST_LARGE:
            raise InputError(
                ErrorCode.SERVE_BUSY, f"{MOST_LARGE} large requests are under way, which is the most at once"
            )
        self._inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, value)
        finally:
            self._inside -= 1


class _Work:
    """One endpoint."""

    def __init__(self, do: Callable[[Any], Json], limits: Limits, running: Running, workshop: Workshop) -> None:
        self._do = do
        self._limits = limits
        self._running = running
        self._workshop = workshop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        with self._running.place(exchange):
            value = await read_value(exchange, self._limits)
            status, data = await self._workshop.do(self._answer, value) if is_large(value) else self._answer(value)
            await self._running.send(exchange, data, status)

    def _answer(self, value: Any) -> tuple[int, bytes]:
        try:
            return 200, encode_answer(self._do(value))
        except StreamError as error:
            return _MALFORMED, encode_answer(_describe_fault(error, value))


def is_large(value: Any) -> bool:
    """Whether a value is worth a thread. Looks at no more of it than it takes to know."""
    weight = 0
    todo: list[Any] = [value]
    while todo and weight <= LARGE:
        found = todo.pop()
        weight += _VALUE_WEIGHT
        if isinstance(found, str):
            weight += len(found)
        elif isinstance(found, list):
            listed = cast("list[Any]", found)
            if len(listed) * _VALUE_WEIGHT > LARGE:
                return True
            todo += listed
        elif isinstance(found, dict):
            entries = cast("dict[str, Any]", found)
            if len(entries) * _VALUE_WEIGHT > LARGE:
                return True
            weight += sum(map(len, entries))
            todo += entries.values()
    return weight > LARGE


def _describe_fault(error: StreamError, value: Json) -> Json:
    """The fault that a strict parse stopped at: the one error shape, and where it is. What was found before it is not
    lost, where events were asked for. All of it is about the caller's own input."""
    described: Json = {
        "error": {
            "message": error.message,
            "type": "malformed_harmony",
            "param": "tokens" if value.get("tokens") is not None else "text",
            "code": error.code.value,
            "at": describe_position(error.at),
        }
    }
    if value.get("output") == "events":
        described["events"] = [describe_event(cast(Any, event)) for event in error.events]
    return described
