"""One request and its answer: the caller, the body, the outcome for log and metrics, and the headers of every answer.

A body must be declared as JSON, arrive within its limits of size and time, and be strictly JSON.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from harmonia.errors import ErrorCode, HarmonyError, InputError, Position
from harmonia.serve.config.settings import Limits
from harmonia.serve.security.keys import NOBODY, Caller, Dialect
from harmonia.serve.wire.error_responses import ApiError, api_error_of
from harmonia.serve.wire.validation import read_json

# Keys of an ASGI scope: the exchange; a function that cuts the connection; and the connection of connections.py.
EXCHANGE: Final = "harmonia.exchange"
ABORT: Final = "harmonia.abort"
CONNECTION: Final = "harmonia.connection"
DIALECT_HEADER: Final = "harmonia-dialect"
REQUEST_ID_HEADER: Final = "x-request-id"

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)

_CLIENTS_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_PARAMETERS: Final = 100
_HEAD_START_BYTES: Final = 64 * 1024
# A browser should neither show nor interpret JSON and event streams.
_SAFETY: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_DEFAULTS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)

RawHeaders = Iterable[tuple[bytes, bytes]]


class Arrival:
    """A body in transit, with a time limit that can be moved. Mutable."""

    def __init__(self, deadline: asyncio.Timeout) -> None:
        self.began_at = asyncio.get_running_loop().time()
        self.bytes = 0
        self.is_ended = False
        self._deadline = deadline

    def rate(self, now: float) -> float:
        """The bytes per second so far. A body that has just begun counts as fast."""
        return (self.bytes + _HEAD_START_BYTES) / (now - self.began_at + 0.001)

    def extend(self, until: float) -> None:
        if not self.is_ended:
            self._deadline.reschedule(until)

    def end(self) -> None:
        """Stop waiting for the rest."""
        self.is_ended = True
        self._deadline.reschedule(asyncio.get_running_loop().time())


class Exchange:
    """Mutable, one per request. `send` adds the headers of every answer; `send_piece` calls the server directly,
    because a wrapper would cost once per token."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, dialect: Dialect) -> None:
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.receive = receive
        self._send = send
        given = self.headers.get(REQUEST_ID_HEADER, "")
        self.request_id = given if _CLIENTS_REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(16)}"
        self.owner = NOBODY
        self.route: str | None = None
        self.status: int | None = None
        self.more_headers: list[tuple[bytes, bytes]] = []
        self.began_at = time.perf_counter()
        self.first_event_at: float | None = None
        self.events = 0
        self.output_tokens: int | None = None
        self.error_code: str | None = None
        self.failure: Exception | None = None  # already in the metrics; a HarmonyError is in the request's log line
        self.has_read = False  # the whole body
        self.arrival: Arrival | None = None  # while the body is being read
        self.is_cut = False  # the answer is incomplete because of the client or the time
        self._dialect: Dialect = dialect

    @property
    def method(self) -> str:
        return self.scope["method"]

    @property
    def has_started(self) -> bool:
        return self.status is not None

    def caller(self) -> Caller:
        """The caller, for a service. Raises an InputError for an unknown dialect."""
        dialect = self.headers.get(DIALECT_HEADER, self._dialect)
        if dialect not in ("openai", "open-responses"):
            message = f"the header {DIALECT_HEADER} must be openai or open-responses"
            raise InputError(ErrorCode.SERVE_INVALID_FIELD, message, Position(path=f"$.{DIALECT_HEADER}"))
        return Caller(self.owner, dialect, self.request_id)

    def query(self) -> Mapping[str, str | list[str]]:
        """The parameters after the `?`. A repeated one, or one whose name ends with `[]`, is a list, under its name
        without the brackets."""
        text = self.scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            message = f"the query has more than {_MOST_PARAMETERS} parameters"
            raise InputError(ErrorCode.SERVE_INVALID_FIELD, message) from None
        found: dict[str, str | list[str]] = {}
        for key, value in pairs:
            name = key.removesuffix("[]")
            before = found.get(name)
            if before is None:
                found[name] = value if name == key else [value]
            else:
                found[name] = [*before, value] if isinstance(before, list) else [before, value]
        return found

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._complete(message.get("headers", ()))
        await self._send(message)

    async def start(self, status: int, headers: RawHeaders) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def answer(
        self, status: int, body: bytes, headers: RawHeaders = JSON_HEADERS, *, is_last: bool = True
    ) -> None:
        """Send a small answer in one piece. `is_last`: the answer ends with it."""
        length = () if status == 204 else ((b"content-length", b"%d" % len(body)),)
        await self.start(status, (*headers, *length))
        await self.send_piece(body, is_last=is_last)

    def send_piece(self, data: bytes, *, is_last: bool = False) -> Awaitable[None]:
        """Send a piece of the body. Not a coroutine function: it is called once per token."""
        return self._send({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def refuse(self, error: Exception, headers: RawHeaders = (), *, is_last: bool = True) -> None:
        """Answer with an error. One that is not a HarmonyError is a bug."""
        self.error_code = (error.code if isinstance(error, HarmonyError) else ErrorCode.SERVE_BUG).value
        refusal = api_error_of(error)
        more = list(headers)
        if refusal.retry_after_s is not None:
            more.append((b"retry-after", b"%d" % refusal.retry_after_s))
        if refusal.is_models:
            more.append((b"x-should-retry", b"false"))  # OpenAI's clients would retry twice
        if refusal.status == 401:
            more.append((b"www-authenticate", b'Bearer realm="harmonia"'))
        await self.answer(refusal.status, body_of(refusal), (*JSON_HEADERS, *more), is_last=is_last)

    async def cut(self) -> None:
        """Cut the connection, if the server can; otherwise the answer stays without its end."""
        self.is_cut = True
        abort: Callable[[], None] | None = self.scope.get(ABORT)
        if abort is not None:
            abort()
            # An app that returns earlier, with its answer incomplete, would look like a bug to the server.
            await self.wait_for_disconnect()

    def _complete(self, headers: RawHeaders) -> list[tuple[bytes, bytes]]:
        complete = list(headers)
        given = {name for name, _ in complete}
        complete += [header for header in _DEFAULTS if header[0] not in given]
        complete += _SAFETY
        complete += self.more_headers
        complete.append((REQUEST_ID_HEADER.encode(), self.request_id.encode()))
        return complete


def body_of(error: ApiError) -> bytes:
    """`{"error": {…}}`. A text that cannot be encoded is repaired, because it would hide the error."""
    fields = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in error.to_dict().items()
    }
    return msgspec.json.encode({"error": fields})


# ── the body ────────────────────────────────────────────────────────────────────────────────────────────────────────

# A longer body is parsed in a thread, so that other streams do not wait.
_LONG_BYTES: Final = 512 * 1024
# A body may take this long, plus a second for each so many bytes, up to `limits.receive_s`.
_FIRST_S: Final = 10.0
_LEAST_BYTES_PER_S: Final = 1000
_LONGEST_LENGTH: Final = 18
_JSON: Final = "application/json"


class ClientGone(Exception):
    """The client has left."""


async def read_value(exchange: Exchange, limits: Limits) -> Any:
    """Read the JSON value in the body."""
    _check_headers(exchange, limits)
    data = await _read_bytes(exchange, limits)
    if len(data) > _LONG_BYTES:
        return await asyncio.to_thread(read_json, data, depth=limits.depth)
    return read_json(data, depth=limits.depth)


def _check_headers(exchange: Exchange, limits: Limits) -> None:
    kind, *parameters = exchange.headers.get("content-type", "").lower().split(";")
    if kind.strip() != _JSON:
        raise _invalid(f"the content-type must be {_JSON}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise _invalid("the charset must be utf-8")
    if exchange.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise _invalid("the body must not be compressed: content-encoding is not supported")
    length = exchange.headers.get("content-length", "")
    # int() fails on thousands of digits.
    if length.isdecimal() and (len(length) > _LONGEST_LENGTH or int(length) > limits.body_bytes):
        raise _too_large(limits)


async def _read_bytes(exchange: Exchange, limits: Limits) -> bytes:
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(min(limits.receive_s, _FIRST_S)) as deadline:
            arrival = exchange.arrival = Arrival(deadline)
            while True:
                message = await exchange.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece: bytes = message.get("body", b"")
                arrival.bytes += len(piece)
                if arrival.bytes > limits.body_bytes:
                    raise _too_large(limits)
                pieces.append(piece)
                if not message.get("more_body", False) and not arrival.is_ended:
                    exchange.has_read = True
                    return b"".join(pieces)
                in_time_s = _FIRST_S + arrival.bytes / _LEAST_BYTES_PER_S
                arrival.extend(arrival.began_at + min(limits.receive_s, in_time_s))
    except TimeoutError:
        raise InputError(
            ErrorCode.SERVE_TOO_SLOW,
            f"the body did not arrive within {limits.receive_s:g} seconds, arrived at less than {_LEAST_BYTES_PER_S} "
            "bytes per second, or was the slowest while other requests waited",
        ) from None
    finally:
        exchange.arrival = None


def _invalid(message: str) -> InputError:
    return InputError(ErrorCode.SERVE_INVALID_BODY, message)


def _too_large(limits: Limits) -> InputError:
    return InputError(ErrorCode.SERVE_TOO_LARGE, f"the body has more than {limits.body_bytes} bytes")
