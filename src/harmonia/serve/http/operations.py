"""Endpoints for operators: `/health`, `/ready` and `/metrics`.

`/health` says that the process responds, and that it is a Harmonia server, so that another one does not take it for an
engine. `/ready` says whether it can work: the store is writable, and the engine is known and responds. `/metrics` is
for Prometheus.

Anyone may ask, so results are cached for a while, and no check runs twice at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import HarmonyError
from harmonia.serve.http.authorization import HEALTH, READY
from harmonia.serve.http.protocols import HttpService, ServedModel
from harmonia.serve.http.request_state import EXCHANGE, JSON_HEADERS, Exchange
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.telemetry import CONTENT_TYPE, Metrics
from harmonia.serve.models.readiness import ENGINE_AWAY, NO_ENGINE, STOPPING, STORE_FAILED, check_engine

METRICS: Final = "/metrics"
_STORE_FOR_S: Final = 1.0
_ENGINE_FOR_S: Final = 5.0
# A provider is often far away and may charge for requests.
_PROVIDER_FOR_S: Final = 30.0


def operation_routes(service: HttpService, running: RunningRequests, metrics: Metrics) -> list[Route]:
    return [
        Route(HEALTH, _Health(), methods=["GET"]),
        Route(READY, _Ready(service, running, metrics), methods=["GET"]),
        Route(METRICS, _MetricsEndpoint(metrics), methods=["GET"]),
    ]


class _Health:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _exchange_of(scope).answer(200, b'{"status":"ok","server":"harmonia"}')


class _CachedCheck:
    """A cached check: None, or the error. Requests during a check wait for its result."""

    def __init__(self, check: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
        self._check = check
        self._metrics = metrics
        self._result: asyncio.Task[HarmonyError | None] | None = None
        self._checked_at = 0.0

    async def ask(self, for_s: float) -> HarmonyError | None:
        result = self._result
        if result is None or (result.done() and time.monotonic() - self._checked_at >= for_s):
            # Its own task, because the first client may leave while others wait.
            result = self._result = asyncio.create_task(self._run())
        return await asyncio.shield(result)

    async def _run(self) -> HarmonyError | None:
        try:
            await self._check()
        except HarmonyError as error:
            self._metrics.count_failure(error)
            return error
        finally:
            self._checked_at = time.monotonic()
        return None


class _Ready:
    def __init__(self, service: HttpService, running: RunningRequests, metrics: Metrics) -> None:
        self._service = service
        self._running = running
        self._store = _CachedCheck(self._check_store, metrics)
        self._engine = _CachedCheck(self._check_engine, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _exchange_of(scope)
        why_not = await self._why_not(exchange)
        if isinstance(exchange.failure, HarmonyError):
            exchange.error_code = exchange.failure.code.value
        if why_not is None:
            await exchange.answer(200, b'{"status":"ready"}')
        else:
            body = b'{"status":"not ready","because":"%s"}' % why_not.encode()
            await exchange.answer(503, body, (*JSON_HEADERS, (b"retry-after", b"1")))

    async def _why_not(self, exchange: Exchange) -> str | None:
        model = self._service.model
        if self._running.is_stopping:
            return STOPPING
        if model is None:
            return NO_ENGINE
        exchange.failure = await self._store.ask(_STORE_FOR_S)
        if exchange.failure is not None:
            return STORE_FAILED
        exchange.failure = await self._engine.ask(_PROVIDER_FOR_S if model.traits.takes_messages else _ENGINE_FOR_S)
        return None if exchange.failure is None else ENGINE_AWAY

    async def _check_store(self) -> None:
        if self._service.store is not None:
            await self._service.store.check()

    async def _check_engine(self) -> None:
        model: ServedModel | None = self._service.model
        if model is not None:
            await check_engine(model)


class _MetricsEndpoint:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._metrics.write()
        await _exchange_of(scope).answer(200, body, ((b"content-type", CONTENT_TYPE.encode()),))


def _exchange_of(scope: Scope) -> Exchange:
    return scope[EXCHANGE]
