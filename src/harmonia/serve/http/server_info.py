"""What this server serves: `/v1/models` in OpenAI's shape, and `/v1/harmony/server` for clients of this server.

`/v1/models` lists the model's own name and its aliases; `/v1/models/{model}` finds every name that a request may use:
other spellings of these, and for the demo engine those of the two gpt-oss models. `/v1/harmony/server` reports nothing
else of the operator's configuration: no URL, no command, no path.
"""

from __future__ import annotations

import time
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.run.engines.base import PROVIDER_TRAITS, Traits
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.protocols import HttpService


def server_info_routes(service: HttpService, settings: Settings) -> list[Route]:
    release = version("harmonia")
    # When the model was made is unknown; the server has had it since now.
    created = int(time.time())

    async def list_models(_request: Request) -> Response:
        names = () if service.model is None else service.model_names
        return _json({"object": "list", "data": [_describe(name, service, created) for name in names]})

    async def retrieve_model(request: Request) -> Response:
        if service.model is None:
            raise InputError(ErrorCode.SERVE_UNKNOWN_MODEL, "there is no model yet", Position(path="$.model"))
        return _json(_describe(service.known_model(request.path_params["model"]), service, created))

    async def describe_server(_request: Request) -> Response:
        model, traits = service.model, _traits_of(service)
        return _json(
            {
                "object": "harmonia.server",
                "version": release,
                "models": [] if model is None else list(service.model_names),
                "engine": None if model is None else model.name,
                "context_tokens": traits.context_tokens,
                "speaks_tokens": traits.speaks_tokens,
                "analysis": settings.analysis,
                "guessed": settings.guessed,
                "calls": settings.calls,
                "mcp_servers": service.describe_mcp_servers(),
            }
        )

    return [
        Route("/v1/models", list_models, methods=["GET"], name="list_models"),
        # A model's name may contain slashes: openai/gpt-oss-20b.
        Route("/v1/models/{model:path}", retrieve_model, methods=["GET"], name="retrieve_model"),
        Route("/v1/harmony/server", describe_server, methods=["GET"], name="harmony_server"),
    ]


def _describe(name: str, service: HttpService, created: int) -> Json:
    described: Json = {"id": name, "object": "model", "created": created, "owned_by": "harmonia"}
    if service.model is not None:
        traits = _traits_of(service)
        described["harmonia"] = {
            "engine": service.model.name,
            "speaks_tokens": traits.speaks_tokens,
            "takes_tokens": traits.takes_tokens,
            "gives_tokens": traits.gives_tokens,
            "gives_logprobs": traits.gives_logprobs,
            "context_tokens": traits.context_tokens,
        }
    return described


def _traits_of(service: HttpService) -> Traits:
    return PROVIDER_TRAITS if service.model is None else service.model.traits


def _json(value: Json) -> Response:
    return Response(encode_bytes(value), media_type="application/json")
