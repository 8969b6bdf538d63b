"""`/v1/chat/completions` over HTTP, with and without `/v1`."""

from __future__ import annotations

from starlette.routing import Route

from harmonia.serve.config.settings import Settings
from harmonia.serve.http.admission import Admission
from harmonia.serve.http.endpoints import PREFIXES, GenerationEndpoint
from harmonia.serve.http.metrics import Metrics
from harmonia.serve.http.protocols import GenerationService


def chat_completion_routes(
    service: GenerationService, settings: Settings, admission: Admission, metrics: Metrics
) -> list[Route]:
    create = GenerationEndpoint(service, settings, admission, metrics, ("openai", "open-responses"), is_named=False)
    return [Route(prefix + "/chat/completions", create, methods=["POST"]) for prefix in PREFIXES]
