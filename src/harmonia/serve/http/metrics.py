"""Figures for Prometheus, in a registry of our own. Every label has few values: templates, statuses and codes, never
what a client wrote."""

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
    """All figures of one app."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "harmonia_requests", "Requests that are over.", ("method", "route", "status"), registry=registry
        )
        self._in_flight = Gauge("harmonia_requests_in_flight", "Requests under way.", registry=registry)
        self._duration = Histogram(
            "harmonia_request_duration_seconds",
            "From the head of a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._first_event = Histogram(
            "harmonia_first_event_seconds",
            "From the head of a request to the first event of its stream.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "harmonia_output_tokens", "Tokens sampled for requests that are over.", ("route",), registry=registry
        )
        self._events = Counter(
            "harmonia_stream_events", "Events of streams that are over.", ("route",), registry=registry
        )
        self._cancellations = Counter(
            "harmonia_cancellations",
            "Generations that ended because the client left, did not read, the time was up, or the server stopped.",
            ("why",),
            registry=registry,
        )
        self._engine_errors = Counter("harmonia_engine_errors", "Faults of the engine.", ("code",), registry=registry)
        self._store_errors = Counter("harmonia_store_errors", "Faults of the store.", ("code",), registry=registry)
        self._closed = Counter(
            "harmonia_connections_closed",
            "Connections that were closed to make room for others, by what was known of their clients.",
            ("group",),
            registry=registry,
        )
        self._bugs = Counter("harmonia_bugs", "Faults of the server's own.", registry=registry)

    def begin(self) -> None:
        self._in_flight.inc()

    def end(self, exchange: Exchange) -> None:
        """A request is over."""
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
        """An error of the engine's or the store's, raised or told in events; others are the client's or in the log."""
        if isinstance(error, EngineError):
            self._engine_errors.labels(error.code.value).inc()
        elif isinstance(error, StoreError):
            self._store_errors.labels(error.code.value).inc()

    def count_closed(self, group: Group) -> None:
        self._closed.labels(group.value).inc()

    def count_bug(self) -> None:
        self._bugs.inc()

    def write(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
