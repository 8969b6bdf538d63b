"""The two kinds of endpoint that the APIs share: one generates, as server-sent events or whole; one answers at once.

Each is an ASGI app, so that there is no wrapper between a stream and the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, HarmonyError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.request_state import EXCHANGE, Exchange, read_value
from harmonia.serve.http.running_requests import Generation, RunningRequests, StreamGuard, out_of_time, stopping
from harmonia.serve.http.telemetry import Metrics, log_bug, log_content
from harmonia.serve.security.keys import Caller, Dialect
from harmonia.serve.wire.error_responses import api_error_of
from harmonia.serve.wire.event_stream import StreamEvent

_KEEP_ALIVE: Final = b": keep-alive\n\n"
_DONE: Final = b"data: [DONE]\n\n"
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the events
)
# `event: TYPE\ndata: ` by type; there are some fifty.
_heads: Final[dict[str | None, bytes]] = {None: b"data: "}


@dataclass(frozen=True, slots=True)
class SseSink:
    """`has_done` ends the stream with `[DONE]`; `is_named`: the events have names, as those of Responses do."""

    _exchange: Exchange
    _has_done: bool
    _is_named: bool

    def start(self) -> Awaitable[None]:
        return self._exchange.start(200, _HEADERS)

    def send(self, event: StreamEvent) -> Awaitable[None]:
        return self._exchange.send_piece(frame_of(event))

    def keep_alive(self) -> Awaitable[None]:
        return self._exchange.send_piece(_KEEP_ALIVE)

    async def finish(self) -> None:
        if self._has_done:
            await self._exchange.send_piece(_DONE)
        await self._exchange.send_piece(b"", is_last=True)

    def fail(self, error: BaseException) -> Awaitable[None]:
        """An event in the form of both dialects of Responses, or in that of Chat Completions."""
        fields = api_error_of(error).to_dict()
        if self._is_named:
            data = {"sequence_number": self._exchange.events, **fields, "type": "error", "error": fields}
            event = StreamEvent(msgspec.json.encode(data), "error")
        else:
            event = StreamEvent(msgspec.json.encode({"error": fields}))
        return self._exchange.send_piece(frame_of(event), is_last=True)


def frame_of(event: StreamEvent) -> bytes:
    """An event on the wire."""
    head = _heads.get(event.type)
    if head is None:
        head = _heads[event.type] = f"event: {event.type}\ndata: ".encode()
    return head + event.data + b"\n\n"


# With and without the version: Open Responses has its paths directly under the base URL.
PREFIXES: Final = ("/v1", "")


class GenerationEndpoint:
    """A POST that samples an answer, streamed or complete. `done_dialects`: those whose streams end with
    `[DONE]`; `is_named`: whether the events have names."""

    def __init__(
        self,
        create: Callable[[Any, Caller], Awaitable[Generation]],
        settings: Settings,
        running: RunningRequests,
        metrics: Metrics,
        done_dialects: Collection[Dialect],
        *,
        is_named: bool,
    ) -> None:
        self._create = create
        self._limits = settings.limits
        self._logs_content = settings.log_content
        self._running = running
        self._metrics = metrics
        self._done_dialects = done_dialects
        self._is_named = is_named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        with self._running.slot(exchange):
            value = await read_value(exchange, self._limits)
            if self._logs_content:
                log_content(exchange, "asked", value)
            await self._generate(exchange, caller, value)

    async def _generate(self, exchange: Exchange, caller: Caller, value: Any) -> None:
        generation: Generation | None = None
        guard = self._running.guard(exchange)
        try:
            async with guard:
                generation = await self._create(value, caller)
                guard.attach(generation, reports_end=self._is_named and generation.wants_stream)
                if generation.wants_stream:
                    events = generation.events() if not self._logs_content else _logged(exchange, generation.events())
                    await guard.send_stream(self._sink(exchange, caller), events)
                else:
                    data = await generation.result()
                    if self._logs_content:
                        log_content(exchange, "answered", data)
                    await guard.send_whole(data)
        except Exception as error:
            if not exchange.has_started:
                raise
            # Nothing may be raised once the answer has started. The stream still ends with an event.
            log_bug(exchange, error)
            self._metrics.count_bug()
            exchange.error_code = ErrorCode.SERVE_BUG.value
            await self._break_off(exchange, guard, generation, error)
        finally:
            self._note(exchange, generation)
        if guard.cut is not None:
            self._metrics.count_cut(guard.cut)
            await self._leave(exchange, guard, generation)

    async def _leave(self, exchange: Exchange, guard: StreamGuard, generation: Generation | None) -> None:
        """Finish a request whose answer was cut."""
        if guard.cut == "slow":
            exchange.error_code = ErrorCode.SERVE_TOO_SLOW.value
            await exchange.cut()
        elif guard.cut in ("late", "stopped"):
            error = out_of_time() if guard.cut == "late" else stopping()
            if not exchange.has_started:
                raise error
            exchange.error_code = error.code.value
            await self._break_off(exchange, guard, generation, error)

    async def _break_off(
        self, exchange: Exchange, guard: StreamGuard, generation: Generation | None, error: BaseException
    ) -> None:
        if generation is None or not generation.wants_stream or guard.is_stuck:
            await exchange.cut()
        else:
            await self._sink(exchange, exchange.caller()).fail(error)

    def _sink(self, exchange: Exchange, caller: Caller) -> SseSink:
        return SseSink(exchange, caller.dialect in self._done_dialects, self._is_named)

    def _note(self, exchange: Exchange, generation: Generation | None) -> None:
        if generation is None:
            return
        exchange.output_tokens = generation.output_tokens
        failure = generation.failure
        if failure is None or failure is exchange.failure:
            return
        exchange.failure = failure
        if isinstance(failure, HarmonyError):
            exchange.error_code = failure.code.value
            self._metrics.count_failure(failure)
        else:
            exchange.error_code = ErrorCode.SERVE_BUG.value
            self._metrics.count_bug()
            log_bug(exchange, failure)


async def _logged(exchange: Exchange, events: AsyncGenerator[StreamEvent, None]) -> AsyncGenerator[StreamEvent, None]:
    async with aclosing(events):
        async for event in events:
            log_content(exchange, "answered", event.data)
            yield event


class JsonEndpoint:
    """A request that is answered with JSON at once. `ask` gets the id in the path, or an empty one."""

    def __init__(self, running: RunningRequests, ask: Callable[[Exchange, str, Caller], Awaitable[bytes]]) -> None:
        self._running = running
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        data = await self._ask(exchange, scope["path_params"].get("id", ""), exchange.caller())
        await self._running.send(exchange, data)
