"""The page: `/` for browsers, and its files under `/page/`. `make page` builds them from `ui/`; a wheel contains them.

1. All files are read when the server starts; a request's path is looked up among them and never joined to a folder.
2. The page needs no key, because it contains no data. Its requests to the API do.
3. Its policy lets it load files of this server only, run only its own scripts, and turn text into HTML only through its
   sanitizer (Trusted Types).
4. Programs that request `/` get JSON.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.errors import ErrorCode, InputError
from harmonia.serve.config.settings import Settings

HOW_TO_BUILD: Final = "install Node.js 20 or newer and run `make page`"
_INDEX: Final = "index.html"
_FOLDER: Final = Path(__file__).parents[1] / "page"  # where the build puts it: serve/page
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify"
)
# File names contain a hash of the content.
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_START: Final = {"server": "harmonia", "docs": "/docs", "openapi": "/openapi.json", "api": "/v1"}


def page_routes(settings: Settings) -> list[Route]:
    files = load_page(settings)
    index = files.get(_INDEX)
    start = msgspec.json.encode({**_START, "page": "/" if index is not None else None})
    why = "switched off (--no-page)" if not settings.page else f"not built: {HOW_TO_BUILD}"
    absent = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Harmonia</title>'
        f"<h1>Harmonia</h1><p>The server works; its page is {escape(why)}.</p>"
        '<p>The API is described at <a href="/docs">/docs</a>.</p></html>'
    )

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
            raise InputError(ErrorCode.SERVE_NOT_FOUND, "the page has no such file; reload the page")
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


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class PageFile(msgspec.Struct, frozen=True, dict=True):
    """A file of the page, ready to send."""

    content: bytes
    media_type: str
    tag: str

    @cached_property
    def gzipped(self) -> bytes | None:
        """None if that saves little. Compressed at the first request, not when the server starts."""
        compressed = gzip.compress(self.content, 9, mtime=0)
        return compressed if len(compressed) < len(self.content) * 0.9 else None


def load_page(settings: Settings) -> dict[str, PageFile]:
    """The files by path; empty if the page is switched off or not built."""
    if not settings.page or not is_built(settings):
        return {}
    folder = _folder(settings)
    files: dict[str, PageFile] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            files[path.relative_to(folder).as_posix()] = PageFile(content, _TYPES[path.suffix], tag)
    return files


def is_built(settings: Settings) -> bool:
    return (_folder(settings) / _INDEX).is_file()


def _folder(settings: Settings) -> Path:
    return _FOLDER if settings.page_folder is None else Path(settings.page_folder)
