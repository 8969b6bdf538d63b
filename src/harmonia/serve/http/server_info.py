"""`/v1/harmony/server`: what a client must know of the server before it asks anything: who answers, what of it may be
seen, and which tools run here. Of the operator's configuration nothing else is told: no address, no command, no path.
"""

from __future__ import annotations

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.messages import Json
from harmonia.run.engines.base import Traits
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.protocols import HttpService
from harmonia.serve.wire.work_limits import encode_answer


def server_info_routes(service: HttpService, settings: Settings) -> list[Route]:
    release = version("harmonia")

    async def describe_server(_request: Request) -> Response:
        model = service.model
        # A provider reads Harmony itself and has no traits: nobody here knows its context.
        traits: Traits | None = getattr(model, "traits", None)
        info: Json = {
            "object": "harmonia.server",
            "version": release,
            "models": [] if model is None else list(service.model_names),
            "engine": None if model is None else model.name,
            "context_tokens": None if traits is None else traits.context_tokens,
            "speaks_tokens": traits is not None and traits.takes_tokens and traits.gives_tokens,
            "analysis": settings.analysis,
            "guessed": settings.guessed,
            "calls": settings.calls,
            "mcp_servers": service.describe_mcp_servers(),
        }
        return Response(encode_answer(info), media_type="application/json")

    return [Route("/v1/harmony/server", describe_server, methods=["GET"], name="harmony_server")]
