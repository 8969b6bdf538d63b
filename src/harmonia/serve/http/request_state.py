"""One request and its answer: who asks, what became of it, and the headers that every answer has."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.serve.security.identity import NOBODY, Caller, Dialect
from harmonia.serve.wire.error_responses import ApiError

# Where an exchange is found in a scope. The others are the server's: the means to cut a connection, and the connection
# as connections.py knows it.
EXCHANGE: Final = "harmonia.exchange"
ABORT: Final = "harmonia.abort"
CONNECTION: Final = "harmonia.connection"
DIALECT_HEADER: Final = "harmonia-dialect"
REQUEST_ID_HEADER: Final = "x-request-id"

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)

_CLIENTS_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_PARAMETERS: Final = 100
_HEAD_START_BYTES: Final = 64 * 1024
# Of JSON and event streams no browser has anything to show, and nobody to tell.
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
    """A body that is on its way, within a time limit that can be moved. Mutable."""

    def __init__(self, deadline: asyncio.Timeout) -> None:
        self.began_at = asyncio.get_running_loop().time()
        self.bytes = 0
        self.is_ended = False
        self._deadline = deadline

    def rate(self, now: float) -> float:
        """How quickly it arrives, in bytes per second. One that has just begun counts as quick."""
        return (self.bytes + _HEAD_START_BYTES) / (now - self.began_at + 0.001)

    def extend(self, until: float) -> None:
        if not self.is_ended:
            self._deadline.reschedule(until)

    def end(self) -> None:
        """Do not wait for the rest."""
        self.is_ended = True
        self._deadline.reschedule(asyncio.get_running_loop().time())


class Exchange:
    """Mutable, one per request. `send` adds the headers that all answers have; `send_unchanged` is the server's own,
    for the pieces of a stream, where each wrapper would cost once per token."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, dialect: Dialect) -> None:
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.receive = receive
        self.send_unchanged = send
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
        self.failure: Exception | None = None  # that is in the metrics already; of ours, the line in the log tells it
        self.has_read = False  # the whole body
        self.arrival: Arrival | None = None  # while the body is being read
        self.is_cut = False  # the connection, or what was to come, because of the client or the time
        self._dialect: Dialect = dialect

    @property
    def method(self) -> str:
        return self.scope["method"]

    @property
    def has_started(self) -> bool:
        return self.status is not None

    def caller(self) -> Caller:
        """Who asks, for a service. Raises an InputError for a dialect that there is none of."""
        return Caller(self.owner, self._asked_dialect(), self.request_id)

    def query(self) -> Mapping[str, str | list[str]]:
        """The parameters behind the `?`. One that is there more than once, or whose name ends with `[]`, is a list,
        under its name without the brackets."""
        try:
            pairs = parse_qsl(
                self.scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS
            )
        except ValueError:
            raise InputError(
                ErrorCode.SERVE_INVALID_FIELD, f"the query has more than {_MOST_PARAMETERS} parameters"
            ) from None
        found: dict[str, str | list[str]] = {}
        for name, value in pairs:
            is_list = name.endswith("[]")
            name = name.removesuffix("[]")
            before = found.get(name)
            if before is None:
                found[name] = [value] if is_list else value
            else:
                found[name] = [*before, value] if isinstance(before, list) else [before, value]
        return found

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._complete(message.get("headers", ()))
        await self.send_unchanged(message)

    async def start(self, status: int, headers: RawHeaders) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def answer(self, status: int, body: bytes, headers: RawHeaders = JSON_HEADERS) -> None:
        """The whole answer at once, for small ones."""
        length = () if status == 204 else ((b"content-length", b"%d" % len(body)),)
        await self.start(status, (*headers, *length))
        await self.send_unchanged({"type": "http.response.body", "body": body})

    async def refuse(self, problem: ApiError, headers: RawHeaders = (), *, code: ErrorCode | None = None) -> None:
        """Answer with the one error shape."""
        self.error_code = code.value if code is not None else problem.code
        await self.answer(problem.status, body_of(problem), (*JSON_HEADERS, *headers_of(problem), *headers))

    async def cut(self) -> None:
        """Cut the connection, where the server gave the means to; otherwise an answer without its end does it."""
        self.is_cut = True
        abort: Callable[[], None] | None = self.scope.get(ABORT)
        if abort is not None:
            abort()
            # The server is told when it has happened; an answer that ends before would look like a fault of ours.
            while (await self.receive())["type"] != "http.disconnect":
                pass

    def _asked_dialect(self) -> Dialect:
        match self.headers.get(DIALECT_HEADER):
            case None:
                return self._dialect
            case "openai" | "open-responses" as asked:
                return asked
            case _:
                raise InputError(
                    ErrorCode.SERVE_INVALID_FIELD,
                    f"the header {DIALECT_HEADER} is openai or open-responses",
                    Position(path=f"$.{DIALECT_HEADER}"),
                )

    def _complete(self, headers: RawHeaders) -> list[tuple[bytes, bytes]]:
        complete = list(headers)
        given = {name for name, _ in complete}
        complete += [header for header in _DEFAULTS if header[0] not in given]
        complete += _SAFETY
        complete += self.more_headers
        complete.append((REQUEST_ID_HEADER.encode(), self.request_id.encode()))
        return complete


def body_of(problem: ApiError) -> bytes:
    """`{"error": {…}}`."""
    return msgspec.json.encode({"error": _writable(problem.to_dict())})


def headers_of(problem: ApiError) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after_s))
    if problem.is_models:
        headers.append((b"x-should-retry", b"false"))  # OpenAI's clients would ask twice more by themselves
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="harmonia"'))
    return headers


def _writable(fields: dict[str, Any]) -> dict[str, Any]:
    # An error that cannot be written would hide the one it is about.
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in fields.items()
    }
