"""The server as an ASGI application.

    request -> Exchange -> AccessPolicy (host, origin, key) -> route -> endpoint -> service
                  |                |                             |         |           |
                  +----------------+-------- HarmonyError -------+---------+-----------+--> one error shape

1. Every answer has the headers of request_state.py, one line in the log and one count in the metrics.
2. An exception that is not a HarmonyError is a bug: 500, a stack in the log, and no details in the answer.
3. Nothing is raised to the ASGI server except its own cancellation.

Routing is not Starlette's Router, because access is checked after the route is known, which log and metrics name even
for refused requests, and because a wrong path or method gets our error body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.serve.chat_completions.service import ChatCompletions, chat_completion_routes
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.authorization import AccessPolicy, is_preflight
from harmonia.serve.http.connections import Connection
from harmonia.serve.http.page import page_routes
from harmonia.serve.http.request_state import CONNECTION, EXCHANGE, ClientGone, Exchange
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.server_status import METRICS, ServerState, server_status_routes
from harmonia.serve.http.telemetry import Metrics, log_bug, log_request, logs_messages
from harmonia.serve.inspector.routes import harmony_routes
from harmonia.serve.inspector.turn_trace import RenderTurn
from harmonia.serve.openapi.docs_page import document_routes
from harmonia.serve.responses.routes import response_routes
from harmonia.serve.responses.service import Responses
from harmonia.serve.saved_chats.routes import saved_chat_routes
from harmonia.serve.saved_chats.service import SavedChats
from harmonia.serve.security.keys import ApiKeys

# The same as h11's.
HEAD_BYTES: Final = 64 * 1024
_MOST_HEADERS: Final = 200
_CLOSE: Final = (b"connection", b"close")
_UPGRADE: Final = (b"upgrade", b"HTTP/1.1")  # required by the status
_MOST_SHOWN: Final = 100
_SERVED: Final = "POST /v1/responses, POST /v1/chat/completions and GET /v1/models; GET /docs lists all paths"
# Paths of OpenAI's API that match one of our templates, and what to do instead.
_NOT_YET: Final = {"/responses/compact": 'send truncation "auto" or a shorter input'}
# How long, and how much, a client that sends too much may continue to send before the connection is closed: a client
# that is still sending does not read the error.
_LINGER_S: Final = 5.0
_LINGER_BYTES: Final = 64 * 1024 * 1024


class AppService(ServerState, Protocol):
    """What the application needs of a service. `keys` is None if the server needs none."""

    @property
    def responses(self) -> Responses: ...
    @property
    def chat_completions(self) -> ChatCompletions: ...
    @property
    def saved_chats(self) -> SavedChats: ...
    @property
    def render_turn(self) -> RenderTurn: ...
    @property
    def keys(self) -> ApiKeys | None: ...


class Application:
    """The application of an open service. Running requests are stopped when the lifespan ends, or earlier by a server
    that waits for its connections."""

    def __init__(self, service: AppService, settings: Settings) -> None:
        self.metrics = Metrics()
        self._settings = settings
        self.running = RunningRequests(settings.limits)
        self._access = AccessPolicy(settings, service.keys)
        self.routes: Sequence[Route] = (
            *response_routes(service.responses, settings, self.running, self.metrics),
            *chat_completion_routes(service.chat_completions, settings, self.running, self.metrics),
            *saved_chat_routes(service.saved_chats, settings.limits, self.running),
            *harmony_routes(service.render_turn, settings.limits, self.running),
            *server_status_routes(service, settings, self.running, self.metrics),
            *document_routes(settings, service.model_names),
            *page_routes(settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            case kind:
                raise NotImplementedError(kind)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.running.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._settings.dialect)
        scope[EXCHANGE] = exchange
        self.metrics.begin()
        try:
            await self._answer(exchange)
        except ClientGone:
            exchange.is_cut = True
        except HarmonyError as error:
            await self._refuse(exchange, error)
        except Exception as error:
            if error is not exchange.failure:
                log_bug(exchange, error)
                self.metrics.count_bug()
            if not exchange.has_started:
                await exchange.refuse(error, (_CLOSE,))
            else:
                # An incomplete answer must not look complete.
                await exchange.cut()
        finally:
            self.metrics.end(exchange)
            log_request(exchange, with_messages=logs_messages(self._settings))

    async def _answer(self, exchange: Exchange) -> None:
        scope = exchange.scope
        _check_head(scope)
        # `/v1/responses/` means `/v1/responses`.
        scope["path"] = scope["path"].rstrip("/") or "/"
        found: Route | None = None
        child: Scope = {}
        methods: set[str] = set()
        for route in self.routes:
            match, matched = route.matches(scope)
            # Of two matching paths, such as `input_tokens` and `{id}`, the first counts.
            if match is Match.NONE or route.path != (exchange.route or route.path):
                continue
            # For the log and the metrics, even if the request is refused.
            exchange.route = route.path
            if match is Match.FULL:
                found, child = route, matched
                break
            methods |= route.methods or set()
        self._admit(exchange)
        if exchange.headers.get("upgrade", "").lower() == "websocket":
            message = "WebSockets are not supported; streams are server-sent events"
            # After the request the client speaks another protocol, so nothing more is read.
            await exchange.refuse(InputError(ErrorCode.SERVE_NO_WEBSOCKET, message), (_UPGRADE, _CLOSE))
        elif found is not None:
            scope.update(child)
            await found.handle(scope, exchange.receive, exchange.send)
        elif not methods or scope["path"].removeprefix("/v1") in _NOT_YET:
            why = _NOT_YET.get(scope["path"].removeprefix("/v1"))
            so = f"is not supported yet: {why}" if why else f"does not exist; this server has {_SERVED}"
            raise InputError(ErrorCode.SERVE_NOT_FOUND, f"{_shown(exchange)} {so}")
        else:
            await self._answer_method(exchange, methods)

    def _admit(self, exchange: Exchange) -> None:
        connection: Connection | None = exchange.scope.get(CONNECTION)
        is_admitted = False
        try:
            is_admitted = self._access.check(exchange)
        finally:
            if connection is not None and not is_admitted:
                connection.deny()
        if connection is not None and is_admitted:
            connection.admit(is_operation=exchange.route == METRICS)

    async def _answer_method(self, exchange: Exchange, methods: set[str]) -> None:
        allowed = ", ".join(sorted(methods | {"OPTIONS"})).encode()
        if exchange.method == "OPTIONS":
            asked = self._access.preflight_headers(exchange, allowed) if is_preflight(exchange) else []
            await exchange.answer(204, b"", ((b"allow", allowed), *asked))
        else:
            message = f"{_shown(exchange)} is not supported; allowed are {allowed.decode()}"
            await exchange.refuse(InputError(ErrorCode.SERVE_WRONG_METHOD, message), ((b"allow", allowed),))

    async def _refuse(self, exchange: Exchange, error: HarmonyError) -> None:
        if error is not exchange.failure and not isinstance(error, InputError):
            self.metrics.count_failure(error)
            exchange.failure = error
        if exchange.has_started:
            log_bug(exchange, error)
            await exchange.cut()
        elif error.code is ErrorCode.SERVE_TOO_LARGE and not exchange.has_read:
            await _refuse_and_linger(exchange, error)
        else:
            # A body that was too slow may still be arriving.
            close = (_CLOSE,) if error.code is ErrorCode.SERVE_TOO_SLOW else ()
            await exchange.refuse(error, close)


def _shown(exchange: Exchange) -> str:
    return f"{exchange.method[:_MOST_SHOWN]} {exchange.scope['path'][:_MOST_SHOWN]}"


def _check_head(scope: Scope) -> None:
    # httptools does not limit the head of a request; server.py handles one that does not end.
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    size = len(scope["path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in headers)
    if size > HEAD_BYTES or len(headers) > _MOST_HEADERS:
        message = f"the head of the request has more than {HEAD_BYTES} bytes or {_MOST_HEADERS} headers"
        raise InputError(ErrorCode.SERVE_TOO_LARGE, message)


async def _refuse_and_linger(exchange: Exchange, error: HarmonyError) -> None:
    """Answer a client that is still sending, and read on for a while: a connection that is closed with unread bytes is
    reset, and the client would not see the answer."""
    await exchange.refuse(error, (_CLOSE,), is_last=False)
    left = _LINGER_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while left > 0:
                message = await exchange.receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
                left -= len(message.get("body", b""))
    await exchange.send_piece(b"", is_last=True)
