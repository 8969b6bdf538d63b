"""The server: uvicorn on our own sockets, with the limits that it lacks.

1. A request head that does not end is refused when it is too long, and its connection is closed when it takes too long;
   the same holds for bytes between and after the pieces of a body. httptools has no limit for them, and would take
   trailers for headers.
2. A closed connection whose client does not read is cut after `limits.send_s`. Otherwise its data would stay in memory
   for as long as the client likes.
3. A client that leaves while several of its requests wait leaves all of them.
4. Errors that uvicorn would answer itself have our error body.
5. A connection that sends nothing, or has no key, cannot take the place of one that has; see connections.py. The head
   of a request must arrive within `limits.head_s`.
6. On SIGINT or SIGTERM no new work is accepted, and running requests have `limits.drain_s` to end. Then they are asked
   to end and get the time for their terminal event. A second signal ends the waiting at once. The signals are not
   raised again: the caller of `serve` closes the service.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import msgspec
import uvicorn

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.app import HEAD_BYTES, Application, AppService
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.connections import Budgets, Connections
from harmonia.serve.http.ports import address_for_clients, bind
from harmonia.serve.http.request_state import ABORT, CONNECTION, body_of
from harmonia.serve.http.running_requests import GRACE_S
from harmonia.serve.http.telemetry import configure, log_event, log_loop_fault, withdraw
from harmonia.serve.security.keys import new_id
from harmonia.serve.wire.error_responses import api_error_of

KEEP_ALIVE_S: Final = 15
# How long a refused client may continue to send before the connection is cut.
_REFUSED_S: Final = 5.0
_TICKS_PER_LOOK: Final = 10  # uvicorn ticks ten times a second


class Listening(msgspec.Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL for a client on this machine."""
        return address_for_clients(self.host, self.port)


async def serve(
    service: AppService,
    settings: Settings,
    *,
    on_listening: Callable[[Listening], None],
    stop: asyncio.Event | None = None,
    app: Application | None = None,
    log_stream: TextIO | None = None,
) -> None:
    """Serve until a signal arrives or `stop` is set. Raises an InputError if the address cannot be bound. The log goes
    to stderr. `app` and `log_stream` are for tests."""
    app = app or Application(service, settings)
    sockets = bind(settings.host, settings.port)
    handler = configure(settings, log_stream)
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(log_loop_fault)
    try:
        port: int = sockets[0].getsockname()[1]
        server = _Server(app, settings, lambda: on_listening(Listening(settings.host, port)), stop)
        await server.serve(sockets)
    finally:
        loop.set_exception_handler(before)
        withdraw(handler)
        for each in sockets:
            each.close()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest installed event loop, for `asyncio.Runner`."""
    return uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()


class _Server(uvicorn.Server):
    def __init__(
        self, app: Application, settings: Settings, on_listening: Callable[[], None], stop: asyncio.Event | None
    ) -> None:
        wanted = Budgets.of(settings.limits, None).total
        self._registry = Connections(
            Budgets.of(settings.limits, _raise_file_limit(wanted)),
            settings.limits.address_connections,
            app.metrics.count_closed,
        )
        super().__init__(
            uvicorn.Config(
                app,
                http=_protocol(settings, self._registry),
                ws="none",
                lifespan="on",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(GRACE_S) + 2,
                h11_max_incomplete_event_size=HEAD_BYTES,
            )
        )
        self._app = app
        self._settings = settings
        self._on_listening = on_listening
        self._stop = stop
        self._drains_until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        if counter % _TICKS_PER_LOOK == 0:
            # uvicorn's types depend on the installed libraries.
            for connection in cast("tuple[object, ...]", tuple(self.server_state.connections)):
                if isinstance(connection, _GuardedProtocol):
                    connection.check_time(now)
        if self._stop is not None and self._stop.is_set():
            self.should_exit = True
        return await super().on_tick(counter) and self._is_drained(now)

    def _is_drained(self, now: float) -> bool:
        """Whether all requests have ended, or had their time. Until then the server keeps listening, to send the
        running answers and to refuse new requests."""
        if self._drains_until is None:
            drain_s = self._settings.limits.drain_s
            self._drains_until = now + drain_s
            self._app.running.drain()
            if self._app.running.taken:
                log_event("stopping", running=self._app.running.taken, drain_s=drain_s)
        return self.force_exit or not self._app.running.taken or now >= self._drains_until

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn ends the lifespan after all connections are closed, and streams keep theirs open.
        self._app.running.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The second signal forces the exit.
        self.force_exit = self.should_exit
        self.should_exit = True


# ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────────

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object


class _GuardedProtocol(_Base):
    """Mixed into uvicorn's protocols. h11 has limits for heads and trailers, handles one request at a time, and never
    calls the `on_` methods. Not h11 alone: it takes 3.8 µs of processor time to send an event of 200 bytes, httptools
    1.8 µs (measured), of about 6 µs that a streamed token costs in all."""

    guarded_settings: Settings
    registry: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()  # when it began to wait for a request, or to close
        self._seen: object = None
        self._is_closing = False
        self._buffered = 0
        self._is_refused = False
        self._is_in_head = False
        self._is_in_body = False
        self._bare_bytes = 0  # since the beginning or the last piece of a body
        self._pieces = 0
        self._earlier: deque[Any] = deque()
        connection = self._connection = self.registry.open(transport, lambda: self._is_waiting)
        inner = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope[ABORT], scope[CONNECTION] = transport.abort, connection
            connection.begin_request()
            await inner(scope, receive, send)

        self.app = app
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            # To notice clients that vanish while they wait for an answer that is not streamed.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.registry.remove(self._connection)
        # uvicorn only notifies the last request; with pipelining an earlier one runs. The later ones are dropped.
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier.clear()
        getattr(self, "pipeline", self._earlier).clear()

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        was_inside, before = self._is_in_head or self._is_in_body, self._pieces
        super().data_received(data)
        if was_inside and self._pieces == before:
            self._bare_bytes += len(data)
            if self._bare_bytes > HEAD_BYTES:
                what = "the head of the request" if self._is_in_head else "the framing of the body"
                self._refuse(InputError(ErrorCode.SERVE_TOO_LARGE, f"{what} has more than {HEAD_BYTES} bytes"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._note_piece()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._note_piece()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._note_piece()
        super().on_message_complete()

    def _note_piece(self) -> None:
        self._pieces += 1
        self._bare_bytes = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._is_in_body = True
        self._note_piece()
        before: Any = self.cycle
        super().on_headers_complete()
        while self._earlier and self._earlier[0].response_complete:
            self._earlier.popleft()
        if before is not None and not before.response_complete:
            self._earlier.append(before)

    def _unsupported_upgrade_warning(self) -> None:
        """The app answers and logs the request."""

    def send_400_response(self, msg: str) -> None:
        self._refuse(InputError(ErrorCode.SERVE_INVALID_BODY, "the request is not valid HTTP/1.1"))

    def check_time(self, now: float) -> None:
        """Once a second: close or cut a connection that has been waiting or closing for too long."""
        limits = self.guarded_settings.limits
        is_closing = self._is_refused or self.transport.is_closing()
        buffered = self.transport.get_write_buffer_size()
        is_new = is_closing != self._is_closing or self.cycle is not self._seen
        # A client that reads, however slowly, is not cut.
        if is_new or buffered < self._buffered or not (is_closing or self._is_waiting):
            self._since = now
            self._is_closing, self._seen = is_closing, self.cycle
        elif is_closing and now - self._since > (_REFUSED_S if self._is_refused else limits.send_s):
            self.transport.abort()
        elif not is_closing and now - self._since > limits.head_s + (KEEP_ALIVE_S if self.cycle else 0):
            self.transport.close()
        self._buffered = buffered

    @property
    def _is_waiting(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete

    def _refuse(self, error: InputError) -> None:
        """Answer below ASGI, if there is no request yet, or its body is broken. The client may still be sending, and a
        connection that is closed with unread bytes is reset; so only our half is closed, and input is discarded for a
        while."""
        if not self._is_waiting:
            is_in_body = self.cycle.more_body and not self.cycle.response_started
            if not is_in_body or any(not cycle.response_complete for cycle in self._earlier):
                # Our answer would take the place of another one, or end up inside it.
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        refusal = api_error_of(error)
        body = body_of(refusal)
        head = (
            f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-content-type-options: nosniff\r\n"
            f"x-request-id: {new_id('req')}\r\nconnection: close\r\n\r\n"
        )
        self._is_refused = True
        self.transport.write(head.encode() + body)
        self.transport.write_eof()


def _protocol(settings: Settings, registry: Connections) -> Any:
    """uvicorn's fastest installed protocol, guarded."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base

    return type("GuardedProtocol", (_GuardedProtocol, base), {"guarded_settings": settings, "registry": registry})


def _raise_file_limit(wanted: int) -> int | None:
    """The number of files that this process may open, raised if possible if that is too few for so many connections.
    None: no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * wanted
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return None if soft == resource.RLIM_INFINITY else soft
