"""`/openapi.json` and `/docs`: the description of the server for programs and for people.

Both are made at the first request, and in a thread, so that streams do not wait for them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from functools import cache
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.serve.config.settings import Settings
from harmonia.serve.openapi.document import build_openapi, error_codes
from harmonia.serve.openapi.page import STYLE, write_page

_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def document_routes(settings: Settings, model_names: tuple[str, ...]) -> list[Route]:
    @cache
    def document() -> bytes:
        return msgspec.json.encode(build_openapi(settings, model_names))

    @cache
    def page() -> bytes:
        return write_page(build_openapi(settings, model_names), base_url(settings), error_codes()).encode()

    # The page's one style is allowed by its hash, and nothing else.
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    async def send_document(_request: Request) -> Response:
        return Response(await asyncio.to_thread(document), media_type="application/json")

    async def send_page(_request: Request) -> Response:
        content = await asyncio.to_thread(page)
        return Response(content, media_type="text/html", headers={"content-security-policy": policy})

    return [
        Route("/openapi.json", send_document, methods=["GET"], name="openapi"),
        Route("/docs", send_page, methods=["GET"], name="docs"),
    ]


def base_url(settings: Settings) -> str:
    """The URL in the examples."""
    host = "localhost" if settings.host in _EVERYWHERE else settings.host
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{settings.port}" if settings.port else f"http://{host}"
