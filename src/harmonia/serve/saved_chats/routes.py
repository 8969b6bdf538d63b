"""`/v1/chats`: saved chats over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import EXCHANGE, Exchange, read_value
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.saved_chats.service import ChatExport, SavedChats
from harmonia.serve.security.keys import Caller
from harmonia.serve.wire.validation import Query

LEFT_OUT_HEADER: Final = "harmonia-left-out"


class _Asked(NamedTuple):
    """A request: who asks, the ids of the path, the body if the method has one, and the query."""

    caller: Caller
    id: str
    turn: str
    body: Any
    query: Query


_Ask = Callable[[_Asked], Awaitable[bytes | ChatExport]]


def saved_chat_routes(chats: SavedChats, limits: Limits, running: RunningRequests) -> list[Route]:
    """The routes. `import` comes before the ids, because it is not one."""

    def route(method: str, path: str, ask: _Ask) -> Route:
        return Route(f"/v1/chats{path}", _Endpoint(ask, limits, running), methods=[method])

    return [
        route("GET", "", lambda asked: chats.list_(asked.caller, asked.query)),
        route("POST", "", lambda asked: chats.create(asked.caller, asked.body)),
        route("POST", "/import", lambda asked: chats.import_(asked.caller, asked.body)),
        route("GET", "/{id}", lambda asked: chats.retrieve(asked.caller, asked.id)),
        route("PATCH", "/{id}", lambda asked: chats.change(asked.caller, asked.id, asked.body)),
        route("DELETE", "/{id}", lambda asked: chats.delete(asked.caller, asked.id)),
        route("PUT", "/{id}/turns/{turn}", lambda ask: chats.put_turn(ask.caller, ask.id, ask.turn, ask.body)),
        route("DELETE", "/{id}/turns/{turn}", lambda asked: chats.delete_turn(asked.caller, asked.id, asked.turn)),
        route("GET", "/{id}/export", lambda asked: chats.export(asked.caller, asked.id, asked.query)),
    ]


class _Endpoint:
    """Answers with JSON, or with a file. It counts as work: a chat may be large, and a search is slow."""

    def __init__(self, ask: _Ask, limits: Limits, running: RunningRequests) -> None:
        self._ask = ask
        self._limits = limits
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller, ids = exchange.caller(), scope["path_params"]
        with self._running.slot(exchange):
            has_body = scope["method"] in ("POST", "PATCH", "PUT")
            body = await read_value(exchange, self._limits) if has_body else None
            answer = await self._ask(_Asked(caller, ids.get("id", ""), ids.get("turn", ""), body, exchange.query()))
            if isinstance(answer, bytes):
                await self._running.send(exchange, answer)
                return
            headers = [(b"content-type", answer.media_type.encode()), (b"content-disposition", answer.name.encode())]
            if answer.left_out:
                headers.append((LEFT_OUT_HEADER.encode(), b"%d" % answer.left_out))
            await self._running.send(exchange, answer.data, headers=headers)
