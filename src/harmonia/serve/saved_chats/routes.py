"""`/v1/chats`: saved chats over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from harmonia.serve.config.settings import Limits
from harmonia.serve.http.request_state import EXCHANGE, Exchange, read_value
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.saved_chats.service import SavedChats
from harmonia.serve.security.keys import Caller

LEFT_OUT_HEADER: Final = "harmonia-left-out"

# What an endpoint does, with the ids of the path and the caller.
Ask = Callable[[Exchange, dict[str, str], Caller], Awaitable[bytes]]


def saved_chat_routes(service: SavedChats, limits: Limits, running: RunningRequests) -> list[Route]:
    """The routes. `import` comes before the ids, because it is not one."""

    async def body_of(exchange: Exchange) -> Any:
        return await read_value(exchange, limits)

    async def list_(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.list_(caller, exchange.query())

    async def create(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.create(await body_of(exchange), caller)

    async def import_(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.import_(await body_of(exchange), caller)

    async def retrieve(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.retrieve(ids["id"], caller)

    async def change(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.change(ids["id"], await body_of(exchange), caller)

    async def delete(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.delete(ids["id"], caller)

    async def put_turn(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.put_turn(ids["id"], ids["turn"], await body_of(exchange), caller)

    async def delete_turn(exchange: Exchange, ids: dict[str, str], caller: Caller) -> bytes:
        return await service.delete_turn(ids["id"], ids["turn"], caller)

    def route(method: str, path: str, ask: Ask) -> Route:
        return Route(f"/v1/chats{path}", _Question(running, ask), methods=[method], name=f"chats_{ask.__name__}")

    return [
        route("GET", "", list_),
        route("POST", "", create),
        route("POST", "/import", import_),
        route("GET", "/{id}", retrieve),
        route("PATCH", "/{id}", change),
        route("DELETE", "/{id}", delete),
        route("PUT", "/{id}/turns/{turn}", put_turn),
        route("DELETE", "/{id}/turns/{turn}", delete_turn),
        Route("/v1/chats/{id}/export", _Export(service, running), methods=["GET"], name="chats_export"),
    ]


class _Question:
    """A request that is answered with JSON. It counts as work: a chat may be large, and a search is slow."""

    def __init__(self, running: RunningRequests, ask: Ask) -> None:
        self._running = running
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        with self._running.slot(exchange):
            data = await self._ask(exchange, scope["path_params"], caller)
            await self._running.send(exchange, data)


class _Export:
    """A file. A header reports how many hidden messages it lacks."""

    def __init__(self, service: SavedChats, running: RunningRequests) -> None:
        self._service = service
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        caller = exchange.caller()
        with self._running.slot(exchange):
            file = await self._service.export(scope["path_params"]["id"], caller, exchange.query())
            headers = [
                (b"content-type", file.media_type.encode()),
                (b"content-disposition", file.disposition.encode()),
            ]
            if file.left_out:
                headers.append((LEFT_OUT_HEADER.encode(), b"%d" % file.left_out))
            await self._running.send(exchange, file.data, headers=headers)
