"""Metrics for Prometheus, in our own registry. Every label has few values: path templates, statuses and codes, never
text of a client."""

from __future__ import annotations

import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from harmonia.errors import EngineError, HarmonyError, StoreError
from harmonia.serve.http.connections import Group
from harmonia.serve.http.logs import method_of, route_of, status_of
from harmonia.serve.http.request_state import Exchange

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """All metrics of one app."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "harmonia_requests", "Finished requests.", ("method", "route", "status"), registry=registry
        )
        self._in_flight = Gauge("harmonia_requests_in_flight", "Requests in progress.", registry=registry)
        self._duration = Histogram(
            "harmonia_request_duration_seconds",
            "Time from the head of a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._first_event = Histogram(
            "harmonia_first_event_seconds",
            "Time from the head of a request to the first event of its stream.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "harmonia_output_tokens", "Tokens sampled for finished requests.", ("route",), registry=registry
        )
        self._events = Counter("harmonia_stream_events", "Events of finished streams.", ("route",), registry=registry)
        self._cancellations = Counter(
            "harmonia_cancellations",
            "Generations cut because the client left or did not read, the time was up, or the server stopped.",
            ("why",),
            registry=registry,
        )
        self._engine_errors = Counter("harmonia_engine_errors", "Errors of the engine.", ("code",), registry=registry)
        self._store_errors = Counter("harmonia_store_errors", "Errors of the store.", ("code",), registry=registry)
        self._closed = Counter(
            "harmonia_connections_closed",
            "Connections closed to make room for others, by what was known about their clients.",
            ("group",),
            registry=registry,
        )
        self._bugs = Counter("harmonia_bugs", "Unexpected exceptions in the server.", registry=registry)

    def begin(self) -> None:
        self._in_flight.inc()

    def end(self, exchange: Exchange) -> None:
        """Count a finished request."""
        route = route_of(exchange)
        self._in_flight.dec()
        self._requests.labels(method_of(exchange), route, str(status_of(exchange))).inc()
        self._duration.labels(route).observe(time.perf_counter() - exchange.began_at)
        if exchange.first_event_at is not None:
            self._first_event.labels(route).observe(exchange.first_event_at - exchange.began_at)
        if exchange.events:
            self._events.labels(route).inc(exchange.events)
        if exchange.output_tokens:
            self._tokens.labels(route).inc(exchange.output_tokens)

    def count_cut(self, why: str) -> None:
        self._cancellations.labels(why).inc()

    def count_failure(self, error: HarmonyError) -> None:
        """Count an error of the engine or the store; others are the client's, or bugs."""
        if isinstance(error, EngineError):
            self._engine_errors.labels(error.code.value).inc()
        elif isinstance(error, StoreError):
            self._store_errors.labels(error.code.value).inc()

    def count_closed(self, group: Group) -> None:
        self._closed.labels(group.value).inc()

    def count_bug(self) -> None:
        self._bugs.inc()

    def write(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
