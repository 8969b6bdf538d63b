"""The log, as text or JSON, and the metrics for Prometheus. A request is one line in the log, with the reason if the
engine or the store failed; a bug has a stack, too.

1. The log contains nothing that a person or a model wrote: no body, no header, no query, and of a path only its
   template. `log_content` adds the bodies of requests to the model and of their answers, as they were sent: hidden
   reasoning stays hidden.
2. An exception is logged with its type and its stack. Its message may quote anything, so it is left out (`log_content`
   adds it if reasoning is shown anyway); this also holds for the libraries that log through our handler.
3. A record is one line: text from outside is escaped.
4. Every label of a metric has few values: path templates, statuses and codes, never text of a client.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from harmonia.errors import EngineError, ErrorCode, HarmonyError, StoreError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.connections import Group
from harmonia.serve.http.request_state import Exchange
from harmonia.serve.wire.error_responses import api_error_of

LOGGER: Final = logging.getLogger("harmonia.serve")
# The loggers of our handler, and their levels. uvicorn's "info" is about its own start.
_LEVELS: Final = {"harmonia": logging.INFO, "uvicorn": logging.WARNING, "asyncio": logging.WARNING}
_FIELDS: Final = "harmonia_fields"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNMATCHED: Final = "(unmatched)"
# Errors whose messages are about an address, a file or a time, never about content. Operators need them.
_SAFE_MESSAGES: Final = frozenset({ErrorCode.ENGINE_UNREACHABLE, ErrorCode.ENGINE_NONE_FOUND, ErrorCode.ENGINE_STALLED})
# The same as nginx's: the client left before there was an answer.
_CLIENT_LEFT: Final = 499


class LineFormatter(logging.Formatter):
    """A record as one line of text or JSON; in text, the stack of an exception follows."""

    def __init__(self, *, is_json: bool, with_messages: bool) -> None:
        super().__init__()
        self._is_json = is_json
        self._with_messages = with_messages

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, _FIELDS, {})
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        error = record.exc_info[1] if record.exc_info else None
        if self._is_json:
            line: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
            line |= {name: value for name, value in fields.items() if value is not None}
            if record.name != LOGGER.name:
                line["logger"] = record.name
            if error is not None:
                line["error"] = _name_of(error)
                line["stack"] = stack_of(error, with_messages=self._with_messages)
            return json.dumps(line)
        words = [moment, record.levelname, _escaped(record.getMessage())]
        words += [f"{name}={_word(value)}" for name, value in fields.items() if value is not None]
        text = " ".join(words)
        if error is not None:
            text += "".join(f"\n    {line}" for line in stack_of(error, with_messages=self._with_messages))
        return text


def configure(settings: Settings, stream: TextIO | None = None) -> logging.Handler:
    """Send the records of the server and its libraries to one handler, on stderr. Returns it, for `withdraw`."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(LineFormatter(is_json=settings.log_format == "json", with_messages=logs_messages(settings)))
    for name, level in _LEVELS.items():
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    return handler


def withdraw(handler: logging.Handler) -> None:
    """Undo `configure`."""
    for name in _LEVELS:
        logger = logging.getLogger(name)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def logs_messages(settings: Settings) -> bool:
    """Whether the log may contain messages of exceptions. They may quote hidden reasoning, so `log_content` alone does
    not allow it."""
    return settings.log_content and settings.analysis == "shown"


def log_request(exchange: Exchange, *, with_messages: bool = False) -> None:
    """Log a finished request; as a warning if the engine, the store or a tool failed."""
    failure = exchange.failure if isinstance(exchange.failure, HarmonyError) else None
    method, route, status = _labels_of(exchange)
    fields = {
        "request_id": exchange.request_id,
        "method": method,
        "route": route,
        "status": status,
        "owner": exchange.owner,
        "duration_ms": round((time.perf_counter() - exchange.began_at) * 1000, 1),
        "events": exchange.events or None,
        "tokens": exchange.output_tokens,
        "code": exchange.error_code,
        "cut": True if exchange.is_cut else None,
    }
    if failure is not None and (with_messages or isinstance(failure, StoreError) or failure.code in _SAFE_MESSAGES):
        fields["because"] = failure.message
    # A prompt that is too long is an EngineError, but the client's fault.
    is_warning = failure is not None and api_error_of(failure).status >= 500
    LOGGER.log(logging.WARNING if is_warning else logging.INFO, "request", extra={_FIELDS: fields})


def log_bug(exchange: Exchange, error: BaseException) -> None:
    """Log an unexpected exception with its stack."""
    fields = {"request_id": exchange.request_id, "route": exchange.route or _UNMATCHED}
    LOGGER.error("bug", exc_info=error, extra={_FIELDS: fields})


def log_event(event: str, **fields: Any) -> None:
    LOGGER.info(event, extra={_FIELDS: fields})


def log_content(exchange: Exchange, event: str, content: Any) -> None:
    """Log a request or an answer, as a value or JSON. Only with `log_content`."""
    text = content.decode() if isinstance(content, bytes) else json.dumps(content)
    log_event(event, request_id=exchange.request_id, content=text)


def log_loop_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `loop.set_exception_handler`: asyncio's own handler logs the repr of exceptions."""
    LOGGER.error(str(context.get("message", "fault")).splitlines()[0], exc_info=context.get("exception"))


def _labels_of(exchange: Exchange) -> tuple[str, str, int]:
    """Method, path template and status. A method that is not known is `other`: a client may send any word."""
    method = exchange.method if exchange.method in _METHODS else "other"
    return method, exchange.route or _UNMATCHED, _CLIENT_LEFT if exchange.status is None else exchange.status


def _name_of(error: BaseException) -> str:
    """The type of an exception, with the code of a HarmonyError."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}[{error.code.value}]" if isinstance(error, HarmonyError) else kind


def stack_of(error: BaseException, *, with_messages: bool = False) -> list[str]:
    """The stack of an exception, causes first, without locals, and by default without messages."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    lines: list[str] = []
    for each in reversed(chain):
        for frame in traceback.extract_tb(each.__traceback__):
            lines.append(f"{frame.filename}:{frame.lineno} in {frame.name}")
        lines.append(_escaped(f"{_name_of(each)}: {each}") if with_messages else _name_of(each))
    return lines


def _word(value: object) -> str:
    text = str(value)
    return text if text.isascii() and text.isprintable() and " " not in text and text else json.dumps(text)


def _escaped(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """All metrics of one app."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"harmonia_{name}", what, labels, registry=registry)

        def seconds(name: str, until: str) -> Histogram:
            what = f"Time from the head of a request to the {until}."
            return Histogram(f"harmonia_{name}_seconds", what, ("route",), buckets=_SECONDS, registry=registry)

        self._requests = counter("requests", "Finished requests.", "method", "route", "status")
        self._in_flight = Gauge("harmonia_requests_in_flight", "Requests in progress.", registry=registry)
        self._duration = seconds("request_duration", "end of its answer")
        self._first_event = seconds("first_event", "first event of its stream")
        self._tokens = counter("output_tokens", "Tokens sampled for finished requests.", "route")
        self._events = counter("stream_events", "Events of finished streams.", "route")
        self._cancellations = counter(
            "cancellations",
            "Generations cut because the client left or did not read, the time was up, or the server stopped.",
            "why",
        )
        self._engine_errors = counter("engine_errors", "Errors of the engine.", "code")
        self._store_errors = counter("store_errors", "Errors of the store.", "code")
        why = "Connections closed to make room for others, by what was known about their clients."
        self._closed = counter("connections_closed", why, "group")
        self._bugs = counter("bugs", "Unexpected exceptions in the server.")

    def begin(self) -> None:
        self._in_flight.inc()

    def end(self, exchange: Exchange) -> None:
        """Count a finished request."""
        method, route, status = _labels_of(exchange)
        self._in_flight.dec()
        self._requests.labels(method, route, str(status)).inc()
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
