"""The page: `/` for browsers, and the files it is made of under `/page/`.

1. All files are read when the server starts; a path of a request is looked up among them and never joined to a folder.
2. The page needs no key: it has nothing of anybody's in it. What it asks the API for does.
3. Its policy lets it load files of this server and nothing else, run none but its own scripts, and make HTML of text
   only by way of its sanitizer (Trusted Types).
4. Programs that ask for `/` get JSON.
"""

from __future__ import annotations

from html import escape
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.page_files import HOW_TO_BUILD, INDEX, PageFile, load_page

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
# Names have a hash of the content in them, so that a name never means something else.
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_START: Final = {"server": "harmonia", "docs": "/docs", "openapi": "/openapi.json", "api": "/v1"}


def page_routes(settings: Settings) -> list[Route]:
    files = load_page(settings)
    index = files.get(INDEX)
    start = msgspec.json.encode({**_START, "page": "/" if index is not None else None})
    absent = _absent("switched off (--no-page)" if not settings.page else f"not built: {HOW_TO_BUILD}")

    async def send_start(request: Request) -> Response:
        headers = {"vary": "accept"}
        if "text/html" not in request.headers.get("accept", ""):
            return Response(start, media_type="application/json", headers=headers)
        if index is None:
            return Response(absent, media_type="text/html", headers=headers)
        return _answer(index, request, _ASK_AGAIN, "accept, accept-encoding")

    async def send_file(request: Request) -> Response:
        found = files.get(f"page/{request.path_params['file']}")
        if found is None:
            raise InputError(ErrorCode.SERVE_NOT_FOUND, "there is no such file; reload the page")
        return _answer(found, request, _FOREVER, "accept-encoding")

    return [
        Route("/", send_start, methods=["GET"], name="server"),
        Route("/page/{file}", send_file, methods=["GET"], name="page_file"),
    ]


def _answer(file: PageFile, request: Request, caching: str, vary: str) -> Response:
    headers = {**_HEADERS, "cache-control": caching, "etag": file.tag, "vary": vary}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", "") and file.gzipped is not None:
        return Response(file.gzipped, media_type=file.media_type, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, media_type=file.media_type, headers=headers)


def _absent(why: str) -> bytes:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Harmonia</title>'
        f"<h1>Harmonia</h1><p>The server works; its page is {escape(why)}.</p>"
        '<p>The API is described at <a href="/docs">/docs</a>.</p></html>'
    ).encode()
