"""The endpoints that the APIs share: one that generates, one that answers at once.

Each is an ASGI app of its own, so that nothing stands between a stream and the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, HarmonyError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.admission import Running
from harmonia.serve.http.body import read_value
from harmonia.serve.http.logs import log_bug, log_content
from harmonia.serve.http.metrics import Metrics
from harmonia.serve.http.protocols import Generating, Started
from harmonia.serve.http.request_state import EXCHANGE, Exchange
from harmonia.serve.http.sse import Watch, out_of_time, send_fault, send_stream, send_whole, stopping
from harmonia.serve.security.identity import Caller
from harmonia.serve.wire.event_stream import StreamEvent

# With and without the version: Open Responses puts its paths directly under the base.
PREFIXES: Final = ("/v1", "")


class Generation:
    """POST that makes the model answer, as a stream or whole."""

    def __init__(
        self,
        service: Generating,
        settings: Settings,
        running: Running,
        metrics: Metrics,
        has_done: Callable[[Caller], bool],
        *,
        is_named: bool,
    ) -> None:
        self._service = service
        self._limits = settings.limits
        self._logs_content = settings.log_content
        self._running = running
        self._metrics = metrics
        self._has_done = has_done
        self._is_named = is_named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        with self._running.place(exchange):
            value = await read_value(exchange, self._limits)
            if self._logs_content:
                log_content(exchange, "asked", value)
            with self._running.watched(exchange) as watch:
                await self._generate(exchange, caller, value, watch)

    async def _generate(self, exchange: Exchange, caller: Caller, value: Any, watch: Watch) -> None:
        started: Started | None = None
        try:
            async with watch:
                started = await self._service.create(value, caller)
                watch.attach(started, tells_end=self._is_named and started.wants_stream)
                if started.wants_stream:
                    events = started.events() if not self._logs_content else _logged(exchange, started.events())
                    await send_stream(exchange, watch, events, has_done=self._has_done(caller))
                else:
                    data = await started.result()
                    if self._logs_content:
                        log_content(exchange, "answered", data)
                    await send_whole(exchange, watch, data)
        except Exception as error:
            if not exchange.has_started:
                raise
            # Nothing may be raised behind the start. The stream still ends as streams do.
            log_bug(exchange, error)
            self._metrics.count_bug()
            exchange.error_code = ErrorCode.SERVE_BUG.value
            await self._break_off(exchange, watch, started, error)
        finally:
            self._note(exchange, started)
        if watch.cut is not None:
            self._metrics.count_cut(watch.cut)
            await self._leave(exchange, watch, started)

    async def _leave(self, exchange: Exchange, watch: Watch, started: Started | None) -> None:
        """What is left to do for a client whose answer was cut."""
        match watch.cut:
            case "slow":
                exchange.error_code = ErrorCode.SERVE_TOO_SLOW.value
                await exchange.cut()
            case "late" if not exchange.has_started:
                raise out_of_time()
            case "late":
                exchange.error_code = ErrorCode.ENGINE_STALLED.value
                await self._break_off(exchange, watch, started, out_of_time())
            case "stopped" if not exchange.has_started:
                raise stopping()
            case "stopped":
                exchange.error_code = ErrorCode.SERVE_STOPPING.value
                await self._break_off(exchange, watch, started, stopping())
            case _:
                pass

    async def _break_off(self, exchange: Exchange, watch: Watch, started: Started | None, error: BaseException) -> None:
        if started is None or not started.wants_stream or watch.is_stuck:
            await exchange.cut()
        else:
            await send_fault(exchange, error, is_named=self._is_named)

    def _note(self, exchange: Exchange, started: Started | None) -> None:
        if started is None:
            return
        exchange.output_tokens = started.output_tokens
        failure = started.failure
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


Asking = Callable[[Exchange, str, Caller], Awaitable[bytes]]


class Question:
    """A request that is answered with JSON at once. `ask` gets the id from the path, or an empty one."""

    def __init__(self, running: Running, ask: Asking) -> None:
        self._running = running
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        data = await self._ask(exchange, scope["path_params"].get("id", ""), caller)
        await self._running.send(exchange, data)
