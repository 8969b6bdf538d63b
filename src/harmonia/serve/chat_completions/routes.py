"""`/v1/chat/completions` over HTTP, with and without `/v1`."""

from __future__ import annotations

from starlette.routing import Route

from harmonia.serve.chat_completions.service import ChatCompletions
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.endpoints import PREFIXES, GenerationEndpoint
from harmonia.serve.http.running_requests import RunningRequests
from harmonia.serve.http.telemetry import Metrics


def chat_completion_routes(
    service: ChatCompletions, settings: Settings, running: RunningRequests, metrics: Metrics
) -> list[Route]:
    create = GenerationEndpoint(service, settings, running, metrics, ("openai", "open-responses"), is_named=False)
    return [Route(prefix + "/chat/completions", create, methods=["POST"]) for prefix in PREFIXES]
