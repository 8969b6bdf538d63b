"""For whoever runs the server: is it alive, is it ready, how is it doing.

`/health` says that the process answers, and that it is a Harmonia, so that another one does not take it for an engine.
`/ready` says whether it can do its work: the store can be written and the engine is known. `/metrics` is for
Prometheus.
"""

from __future__ import annotations

import time
from typing import Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import HarmonyError
from harmonia.serve.http.contract import HttpService
from harmonia.serve.http.exchange import EXCHANGE, JSON_HEADERS, Exchange
from harmonia.serve.http.logs import log_failure
from harmonia.serve.http.metrics import CONTENT_TYPE, Metrics
from harmonia.serve.http.running import Running
from harmonia.serve.http.security import HEALTH, READY

METRICS: Final = "/metrics"
# Everybody may ask, and the answer costs a write to the store.
_READY_FOR_S: Final = 1.0


def operation_routes(service: HttpService, running: Running, metrics: Metrics) -> list[Route]:
    return [
        Route(HEALTH, _Health(), methods=["GET"]),
        Route(READY, _Ready(service, running, metrics), methods=["GET"]),
        Route(METRICS, _Figures(metrics), methods=["GET"]),
    ]


class _Health:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _exchange_of(scope).answer(200, b'{"status":"ok","server":"harmonia"}')


class _Ready:
    def __init__(self, service: HttpService, running: Running, metrics: Metrics) -> None:
        self._service = service
        self._running = running
        self._metrics = metrics
        self._asked_at: float | None = None
        self._why_not: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _exchange_of(scope)
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= _READY_FOR_S:
            self._asked_at = now
            self._why_not = await self._look(exchange)
        why_not = "stopping" if self._running.is_stopping else self._why_not
        if why_not is None:
            await exchange.answer(200, b'{"status":"ready"}')
        else:
            body = b'{"status":"not ready","because":"%s"}' % why_not.encode()
            await exchange.answer(503, body, (*JSON_HEADERS, (b"retry-after", b"1")))

    async def _look(self, exchange: Exchange) -> str | None:
        if self._service.model is None:
            return "engine"
        if self._service.store is None:
            return None
        try:
            await self._service.store.check()
        except HarmonyError as error:
            self._metrics.count_failure(error)
            log_failure(exchange, error)
            return "store"
        return None


class _Figures:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._metrics.write()
        await _exchange_of(scope).answer(200, body, ((b"content-type", CONTENT_TYPE.encode()),))


def _exchange_of(scope: Scope) -> Exchange:
    return scope[EXCHANGE]
