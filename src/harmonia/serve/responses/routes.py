"""`/v1/responses` over HTTP, with and without `/v1`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
    create = GenerationEndpoint(service.create, settings, running, metrics, ("open-responses",), is_named=True)

    async def count_input(exchange: Exchange, _: str, caller: Caller) -> bytes:
        with running.slot(exchange):
            return await service.input_tokens(await read_value(exchange, settings.limits), caller)

    endpoints: dict[tuple[str, str], Callable[[Exchange, str, Caller], Awaitable[bytes]]] = {
        ("POST", "/input_tokens"): count_input,
        ("GET", "/{id}"): lambda exchange, id_, caller: service.retrieve(id_, caller, exchange.query()),
        ("DELETE", "/{id}"): lambda _, id_, caller: service.delete(id_, caller),
        ("POST", "/{id}/cancel"): lambda _, id_, caller: service.cancel(id_, caller),
        ("GET", "/{id}/input_items"): lambda exchange, id_, caller: service.input_items(id_, caller, exchange.query()),
    }
    routes: list[Route] = []
    for path in (prefix + "/responses" for prefix in PREFIXES):
        routes.append(Route(path, create, methods=["POST"]))
        routes += [Route(path + end, JsonEndpoint(running, ask), methods=[by]) for (by, end), ask in endpoints.items()]
    return routes
