"""`/v1/harmony/…` over HTTP: render, parse, inspect, diff, replay, tokenize, and trace, which shows a turn as the model
had it.

Slow requests run in a thread of a small pool, so that streams keep flowing; when the pool is busy, such a request
waits, and when too many wait, it is refused. Small ones run at once, because a thread would cost more than they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date as Date
from functools import partial
from typing import Any, Final, cast

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.inspection import describe_event, describe_position
from harmonia.messages import Json
from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import EXCHANGE, Exchange, read_value
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.inspector import inspections
from harmonia.serve.inspector.request import Includable, TraceRequest
from harmonia.serve.inspector.turn_trace import RenderedTurn, RenderTurn
from harmonia.serve.wire.validation import read_struct
from harmonia.serve.wire.work_limits import MOST_BODY_BYTES, check_number, encode_answer, object_of

# Above this a request goes to a thread: about as much as takes a few milliseconds.
LARGE: Final = 64 * 1024
_WORKERS: Final = 2
# Large requests that are worked on or wait: they must not take all the places of those that generate.
MOST_LARGE: Final = 16
# Above so many tokens an inspection goes to a thread.
LARGE_TOKENS: Final = 2048
_MALFORMED: Final = 422
# What a value counts beside its characters.
_VALUE_WEIGHT: Final = 8


# The work of a request, and whether it is worth a thread.
_Job = tuple[Callable[[], Json], bool]
Prepare = Callable[[Exchange, Any], Awaitable[_Job]]


def harmony_routes(render_turn: RenderTurn, limits: Limits, running: RunningRequests) -> list[Route]:
    smaller = msgspec.structs.replace(limits, body_bytes=min(limits.body_bytes, MOST_BODY_BYTES))
    work: dict[str, Callable[[Any], Json]] = {
        "render": lambda value: inspections.render(value, smaller, Date.today()),
        "parse": lambda value: inspections.parse(value, smaller),
        "inspect": lambda value: inspections.inspect(value, smaller),
        "diff": lambda value: inspections.diff(value, smaller),
        "replay": lambda value: inspections.replay(value, smaller),
        "tokenize": inspections.tokenize,
        "detokenize": inspections.detokenize,
    }

    def prepare(do: Callable[[Any], Json]) -> Prepare:
        async def prepared(exchange: Exchange, value: Any) -> _Job:
            return partial(do, value), is_large(value)

        return prepared

    async def prepare_trace(exchange: Exchange, value: Any) -> _Job:
        wanted = read_struct(object_of(value), TraceRequest)
        turn = await render_turn(exchange.caller(), wanted.request, wanted.output, wanted.sampled)
        return partial(_inspect_turn, turn, wanted.include), len(turn.tokens) > LARGE_TOKENS

    threads = WorkerThreads()
    endpoints = {name: _Endpoint(prepare(do), smaller, running, threads) for name, do in work.items()}
    endpoints["trace"] = _Endpoint(prepare_trace, limits, running, threads)
    return [Route(f"/v1/harmony/{name}", each, methods=["POST"]) for name, each in endpoints.items()]


def _inspect_turn(turn: RenderedTurn, include: list[Includable]) -> Json:
    """A turn of a saved chat: the prompt that the model got, and what it sampled after it, inspected."""
    check_number(len(turn.tokens), "$")
    answer = inspections.inspect_tokens(turn.tokens, include, "a turn of a chat", turn.notes)
    answer["prompt_tokens"] = turn.prompt_tokens
    answer["left_out"] = {"messages": turn.left_out, "tokens": turn.left_out_tokens} if turn.left_out else None
    answer["faults"] = list(turn.faults)
    return answer


class WorkerThreads:
    """A small pool of threads, started when needed and ended with the routes, and how many requests wait for one."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="harmonia-harmony")
        self._inside = 0

    async def run(self, work: Callable[..., tuple[int, bytes]], *values: Any) -> tuple[int, bytes]:
        if self._inside >= MOST_LARGE:
            raise InputError(
                ErrorCode.SERVE_BUSY,
                f"{MOST_LARGE} large requests are running or waiting, which is the limit; send the request again later",
            )
        self._inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *values)
        finally:
            self._inside -= 1


class _Endpoint:
    """One endpoint. `prepare` makes the work of a body."""

    def __init__(self, prepare: Prepare, limits: Limits, running: RunningRequests, threads: WorkerThreads) -> None:
        self._prepare = prepare
        self._limits = limits
        self._running = running
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        with self._running.slot(exchange):
            value = await read_value(exchange, self._limits)
            work, is_slow = await self._prepare(exchange, value)
            status, data = await self._threads.run(_answer, work, value) if is_slow else _answer(work, value)
            await self._running.send(exchange, data, status)


def _answer(work: Callable[[], Json], value: Any) -> tuple[int, bytes]:
    try:
        return 200, encode_answer(work())
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
        elif isinstance(found, list | dict):
            held = cast("list[Any] | Json", found)
            if len(held) * _VALUE_WEIGHT > LARGE:
                return True
            weight += sum(map(len, held)) if isinstance(held, dict) else 0
            todo += held.values() if isinstance(held, dict) else held
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
