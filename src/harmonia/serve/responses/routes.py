"""`/v1/responses` over HTTP, with and without `/v1`."""

from __future__ import annotations

from starlette.routing import Route

from harmonia.serve.config.settings import Settings
from harmonia.serve.http.endpoints import PREFIXES, GenerationEndpoint, JsonEndpoint
from harmonia.serve.http.request_state import Exchange, read_value
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.telemetry import Metrics
from harmonia.serve.responses.service import Responses
from harmonia.serve.security.keys import Caller


def response_routes(service: Responses, settings: Settings, running: RunningRequests, metrics: Metrics) -> list[Route]:
    """The routes. `input_tokens` comes before the ids, because it is not one."""
    create = GenerationEndpoint(service, settings, running, metrics, ("open-responses",), is_named=True)

    async def count_input(exchange: Exchange, _: str, caller: Caller) -> bytes:
        with running.slot(exchange):
            return await service.input_tokens(await read_value(exchange, settings.limits), caller)

    async def retrieve(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.retrieve(response_id, caller, exchange.query())

    async def delete(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.delete(response_id, caller)

    async def cancel(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.cancel(response_id, caller)

    async def input_items(exchange: Exchange, response_id: str, caller: Caller) -> bytes:
        return await service.input_items(response_id, caller, exchange.query())

    routes: list[Route] = []
    for prefix in PREFIXES:
        one = prefix + "/responses/{id}"
        routes += [
            Route(prefix + "/responses", create, methods=["POST"]),
            Route(prefix + "/responses/input_tokens", JsonEndpoint(running, count_input), methods=["POST"]),
            Route(one, JsonEndpoint(running, retrieve), methods=["GET"]),
            Route(one, JsonEndpoint(running, delete), methods=["DELETE"]),
            Route(one + "/cancel", JsonEndpoint(running, cancel), methods=["POST"]),
            Route(one + "/input_items", JsonEndpoint(running, input_items), methods=["GET"]),
        ]
    return routes
