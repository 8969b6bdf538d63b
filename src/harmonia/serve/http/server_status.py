"""What this server is, and whether it works.

/health             The process responds, and is a Harmonia server, so that another one does not take it for an engine.
/ready              The store is writable and the engine responds. Anyone may ask, so results are cached for a while,
                    and no check runs twice at once.
/metrics            For Prometheus.
/v1/models          The model's own name and its aliases, in OpenAI's shape. `/v1/models/{model}` finds every name that
                    a request may use: other spellings of these, and for the demo engine those of the gpt-oss models.
/v1/harmony/server  For clients of this server. Reports nothing else of the configuration: no URL, command or path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Final, Literal, Protocol, get_args

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import EngineError, ErrorCode, HarmonyError
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.run.engines.http import Server, ServerError
from harmonia.run.providers.base import HttpProvider
from harmonia.run.sampling import Model
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.authorization import HEALTH, READY
from harmonia.serve.http.request_state import EXCHANGE, Exchange
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.telemetry import Metrics
from harmonia.serve.store.base import Store

METRICS: Final = "/metrics"

Reason = Literal["the engine cannot be reached", "the store cannot be written", "the server is stopping"]
_ENGINE_AWAY, _STORE_FAILED, _STOPPING = get_args(Reason)

_STORE_FOR_S: Final = 1.0
_ENGINE_FOR_S: Final = 5.0
# A provider is often far away and may charge for requests.
_PROVIDER_FOR_S: Final = 30.0
_PATIENCE_S: Final = 3.0
# Sent by a proxy whose engine is gone, and by an engine that is still loading its model.
_AWAY: Final = frozenset({502, 503, 504})


class ServerState(Protocol):
    """The service as these endpoints see it."""

    @property
    def store(self) -> Store: ...
    @property
    def model(self) -> Model: ...
    @property
    def model_names(self) -> tuple[str, ...]: ...
    def known_model(self, name: str) -> str:
        """The served model that this name means. Raises an InputError if there is none."""
        ...

    def describe_mcp_servers(self) -> list[Json]:
        """The operator's MCP servers, for clients."""
        ...


def server_status_routes(
    service: ServerState, settings: Settings, running: RunningRequests, metrics: Metrics
) -> list[Route]:
    release = version("harmonia")
    # When the model was made is unknown; the server has had it since now.
    created = int(time.time())
    store = _CachedCheck(lambda: service.store.check(), metrics)
    engine = _CachedCheck(lambda: check_engine(service.model), metrics)

    def describe(name: str) -> Json:
        traits = service.model.traits
        shown = ("speaks_tokens", "takes_tokens", "gives_tokens", "gives_logprobs", "context_tokens")
        about = {"engine": service.model.name, **{each: getattr(traits, each) for each in shown}}
        return {"id": name, "object": "model", "created": created, "owned_by": "harmonia", "harmonia": about}

    async def health(_request: Request) -> Response:
        return _json({"status": "ok", "server": "harmonia"})

    async def ready(request: Request) -> Response:
        exchange: Exchange = request.scope[EXCHANGE]
        why_not = await find_reason(exchange)
        if isinstance(exchange.failure, HarmonyError):
            exchange.error_code = exchange.failure.code.value
        if why_not is None:
            return _json({"status": "ready"})
        return _json({"status": "not ready", "because": why_not}, 503, {"retry-after": "1"})

    async def find_reason(exchange: Exchange) -> Reason | None:
        if running.is_stopping:
            return _STOPPING
        exchange.failure = await store.ask(_STORE_FOR_S)
        if exchange.failure is not None:
            return _STORE_FAILED
        exchange.failure = await engine.ask(_PROVIDER_FOR_S if service.model.traits.takes_messages else _ENGINE_FOR_S)
        return None if exchange.failure is None else _ENGINE_AWAY

    async def write_metrics(_request: Request) -> Response:
        return Response(metrics.write(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def list_models(_request: Request) -> Response:
        return _json({"object": "list", "data": [describe(name) for name in service.model_names]})

    async def retrieve_model(request: Request) -> Response:
        return _json(describe(service.known_model(request.path_params["model"])))

    async def describe_server(_request: Request) -> Response:
        traits = service.model.traits
        return _json(
            {
                "object": "harmonia.server",
                "version": release,
                "models": list(service.model_names),
                "engine": service.model.name,
                "context_tokens": traits.context_tokens,
                "speaks_tokens": traits.speaks_tokens,
                "analysis": settings.analysis,
                "guessed": settings.guessed,
                "calls": settings.calls,
                "mcp_servers": service.describe_mcp_servers(),
            }
        )

    return [
        Route(HEALTH, health, methods=["GET"]),
        Route(READY, ready, methods=["GET"]),
        Route(METRICS, write_metrics, methods=["GET"]),
        Route("/v1/models", list_models, methods=["GET"], name="list_models"),
        # A model's name may contain slashes: openai/gpt-oss-20b.
        Route("/v1/models/{model:path}", retrieve_model, methods=["GET"], name="retrieve_model"),
        Route("/v1/harmony/server", describe_server, methods=["GET"], name="harmony_server"),
    ]


class _CachedCheck:
    """A cached check: None, or the error. Requests during a check wait for its result."""

    def __init__(self, check: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
        self._check = check
        self._metrics = metrics
        self._result: asyncio.Task[HarmonyError | None] | None = None
        self._checked_at = 0.0

    async def ask(self, for_s: float) -> HarmonyError | None:
        result = self._result
        if result is None or (result.done() and time.monotonic() - self._checked_at >= for_s):
            # Its own task, because the first client may leave while others wait.
            result = self._result = asyncio.create_task(self._run())
        return await asyncio.shield(result)

    async def _run(self) -> HarmonyError | None:
        try:
            await self._check()
        except HarmonyError as error:
            self._metrics.count_failure(error)
            return error
        finally:
            self._checked_at = time.monotonic()
        return None


async def check_engine(model: object) -> None:
    """Raise an EngineError if the engine cannot be reached. An engine in this process lives as long as it, and is not
    asked. One that is a server gets a small request; any answer but "not now" will do, because it may list its models
    only to clients with a key."""
    server: object = getattr(model, "server", None)
    if not isinstance(server, Server):
        return
    # Providers have the version in their address.
    path = "/models" if isinstance(model, HttpProvider) else "/v1/models"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await server.fetch(path, msgspec.Raw)
    except TimeoutError:
        raise EngineError(ErrorCode.ENGINE_STALLED, f"{server.url} did not answer within {_PATIENCE_S:g} s") from None
    except ServerError as error:
        if error.status in _AWAY:
            raise
    except EngineError as error:
        if error.code is not ErrorCode.ENGINE_BAD_ANSWER:
            raise


def _json(value: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_bytes(value), status, headers, "application/json")
