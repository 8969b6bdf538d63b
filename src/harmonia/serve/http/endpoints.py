"""What the paths of the two APIs do: read, ask the service, send. Each endpoint is an ASGI app of its own, so that
nothing stands between a stream and the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.http.bodies import read_value
from harmonia.serve.http.contract import Generating, HttpService, Started
from harmonia.serve.http.exchange import EXCHANGE, Exchange
from harmonia.serve.http.logs import log_bug, log_failure
from harmonia.serve.http.metrics import Metrics
from harmonia.serve.http.streaming import Watch, out_of_time, send_fault, send_stream, send_whole
from harmonia.serve.identity import Caller
from harmonia.serve.settings import Limits

# With and without the version: Open Responses puts its paths right behind the base.
PREFIXES: Final = ("/v1", "")


class Running:
    """The generations under way: how many there may be, and how all of them are told to end."""

    def __init__(self, limits: Limits, keep_alive_s: float) -> None:
        self.is_stopping = False
        self._limits = limits
        self._keep_alive_s = keep_alive_s
        self._watches: set[Watch] = set()
        self._taken = 0

    def take(self) -> None:
        """A place for one generation. It is taken before the body is read, so that bodies are bounded with it."""
        if self.is_stopping:
            raise InputError(ErrorCode.SERVE_BUSY, "the server is about to stop")
        if self._taken >= self._limits.concurrent:
            raise InputError(
                ErrorCode.SERVE_BUSY, f"{self._limits.concurrent} requests are under way, which is the most at once"
            )
        self._taken += 1

    def give_back(self) -> None:
        self._taken -= 1

    def watch(self, exchange: Exchange) -> Watch:
        """A watch that `stop` reaches until `forget`."""
        watch = Watch(exchange, self._limits, self._keep_alive_s)
        self._watches.add(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def stop(self) -> None:
        """Take no more, and let each that runs come to its terminal event."""
        self.is_stopping = True
        for watch in tuple(self._watches):
            watch.end_soon()


class Generation:
    """POST that makes the model answer, as a stream or whole."""

    def __init__(
        self,
        service: Callable[[], Generating],
        limits: Limits,
        running: Running,
        metrics: Metrics,
        has_done: Callable[[Caller], bool],
        *,
        is_named: bool,
    ) -> None:
        self._service = service
        self._limits = limits
        self._running = running
        self._metrics = metrics
        self._has_done = has_done
        self._is_named = is_named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        self._running.take()
        try:
            value = await read_value(exchange, self._limits)
            await self._generate(exchange, caller, value)
        finally:
            self._running.give_back()

    async def _generate(self, exchange: Exchange, caller: Caller, value: Any) -> None:
        watch = self._running.watch(exchange)
        started: Started | None = None
        try:
            async with watch:
                started = await self._service().create(value, caller)
                watch.attach(started)
                if started.wants_stream:
                    await send_stream(exchange, watch, started, has_done=self._has_done(caller))
                else:
                    await send_whole(exchange, watch, await started.result())
        except Exception as error:
            if not exchange.has_started:
                raise
            # Nothing may be raised behind the start. The stream still ends as streams do.
            log_bug(exchange, error)
            self._metrics.count_bug()
            exchange.error_code = ErrorCode.SERVE_BUG.value
            await self._break_off(exchange, watch, started, error)
        finally:
            self._running.forget(watch)
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
        if failure is not None:
            exchange.error_code = failure.code.value
            exchange.failure = failure
            self._metrics.count_failure(failure)
            log_failure(exchange, failure)


Asking = Callable[[Exchange, str, Caller], Awaitable[bytes]]


class Question:
    """A request that is answered with JSON at once. `ask` gets the id from the path, or an empty one."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        await exchange.answer(200, await self._ask(exchange, scope["path_params"].get("id", ""), caller))


def api_routes(service: HttpService, limits: Limits, running: Running, metrics: Metrics) -> list[Route]:
    """The routes of Responses and Chat Completions, with and without `/v1`."""
    responses = Generation(
        lambda: service.responses,
        limits,
        running,
        metrics,
        lambda caller: caller.dialect == "open-responses",
        is_named=True,
    )
    chat = Generation(lambda: service.chat, limits, running, metrics, lambda _: True, is_named=False)

    async def count_input(exchange: Exchange, _: str, caller: Caller) -> bytes:
        return await service.responses.input_tokens(await read_value(exchange, limits), caller)

    async def retrieve(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.responses.retrieve(response_id, caller, exchange.query())

    async def delete(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.responses.delete(response_id, caller)

    async def cancel(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.responses.cancel(response_id, caller)

    async def input_items(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.responses.input_items(response_id, caller, exchange.query())

    routes: list[Route] = []
    for prefix in PREFIXES:
        one = prefix + "/responses/{id}"
        routes += [
            Route(prefix + "/responses", responses, methods=["POST"]),
            Route(prefix + "/chat/completions", chat, methods=["POST"]),
            Route(prefix + "/responses/input_tokens", Question(count_input), methods=["POST"]),
            Route(one, Question(retrieve), methods=["GET"]),
            Route(one, Question(delete), methods=["DELETE"]),
            Route(one + "/cancel", Question(cancel), methods=["POST"]),
            Route(one + "/input_items", Question(input_items), methods=["GET"]),
        ]
    return routes
