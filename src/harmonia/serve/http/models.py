"""`/v1/models`: the names under which the model is served, in OpenAI's shape, and what its engine can do.

Listed are the model's own name and its aliases. Found are all names that a request may have: other spellings of these,
and for the demo engine those of the two gpt-oss, which it plays.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.run.engines.base import Traits
from harmonia.serve.http.protocols import HttpService

_OF_PROVIDERS: Final = Traits(takes_tokens=False, gives_tokens=False)


def model_routes(service: HttpService) -> list[Route]:
    # Nobody here knows when the model was made; the server has had it since now.
    created = int(time.time())

    async def list_models(_request: Request) -> Response:
        names = () if service.model is None else service.model_names
        return _json({"object": "list", "data": [_describe(name, service, created) for name in names]})

    async def retrieve_model(request: Request) -> Response:
        if service.model is None:
            raise InputError(ErrorCode.SERVE_UNKNOWN_MODEL, "there is no model yet", Position(path="$.model"))
        return _json(_describe(service.known_model(request.path_params["model"]), service, created))

    return [
        Route("/v1/models", list_models, methods=["GET"], name="list_models"),
        # Names of models may have slashes: openai/gpt-oss-20b.
        Route("/v1/models/{model:path}", retrieve_model, methods=["GET"], name="retrieve_model"),
    ]


def _describe(name: str, service: HttpService, created: int) -> Json:
    described: Json = {"id": name, "object": "model", "created": created, "owned_by": "harmonia"}
    model = service.model
    if model is not None:
        # A provider reads Harmony itself: no tokens go to it, and nobody here knows its context.
        traits: Traits = getattr(model, "traits", _OF_PROVIDERS)
        described["harmonia"] = {
            "engine": model.name,
            "speaks_tokens": traits.takes_tokens and traits.gives_tokens,
            "takes_tokens": traits.takes_tokens,
            "gives_tokens": traits.gives_tokens,
            "gives_logprobs": traits.gives_logprobs,
            "context_tokens": traits.context_tokens,
        }
    return described


def _json(value: Json) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
