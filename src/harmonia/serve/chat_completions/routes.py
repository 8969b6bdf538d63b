"""`/v1/chat/completions` over HTTP, with and without `/v1`."""

from __future__ import annotations

from starlette.routing import Route

from harmonia.serve.config.settings import Settings
from harmonia.serve.http.admission import Running
from harmonia.serve.http.endpoints import PREFIXES, Generation
from harmonia.serve.http.metrics import Metrics
from harmonia.serve.http.protocols import Generating


def chat_completion_routes(service: Generating, settings: Settings, running: Running, metrics: Metrics) -> list[Route]:
    create = Generation(service, settings, running, metrics, lambda _: True, is_named=False)
    return [Route(prefix + "/chat/completions", create, methods=["POST"]) for prefix in PREFIXES]
