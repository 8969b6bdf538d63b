"""`/openapi.json`, the document for programs, and `/docs`, the same for people.

The page is HTML without scripts, fonts, images or anything from elsewhere. Each operation has its description, its
parameters, an example for curl, and its answers; each schema is its JSON, with links. Every text is escaped. Both are
made at the first request, and in a thread, so that streams do not wait for them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.http.ports import address_for_clients
from harmonia.serve.openapi.document import build_openapi, error_codes

STYLE: Final = """
:root { color-scheme: light dark; } body { font: 1rem/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1rem auto; }
h2 { margin-top: 3rem; } pre { background: #8882; padding: .75rem; overflow-x: auto; } nav ul { columns: 22rem; }
.method { text-transform: uppercase; font-weight: 700; } a:focus-visible { outline: 2px solid; }
"""

_EXAMPLE_IDS: Final = {"/v1/chats/{id}": "/v1/chats/chat_123", "{id}": "resp_123", "{turn}": "turn_1"}
_REFERENCE: Final = re.compile(r"&quot;#/components/schemas/(\w+)&quot;")


def write_page(document: Json, base_url: str, error_codes: Sequence[tuple[int, str, str, str]] = ()) -> str:
    """The page. `base_url` is where the examples send their requests."""
    return "\n".join(_lines(document, base_url, error_codes)) + "\n"


def _lines(document: Json, base_url: str, error_codes: Sequence[tuple[int, str, str, str]]) -> Iterator[str]:
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    operations = [
        (path, method, each) for path, methods in document["paths"].items() for method, each in methods.items()
    ]
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<header><h1>{title}</h1>\n{_prose(document['info']['description'])}"
    yield '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p></header>\n<nav aria-label="Endpoints"><ul>'
    for path, method, each in operations:
        target = escape(each["operationId"])
        yield f'<li><a href="#{target}"><code>{method.upper()} {escape(path)}</code></a></li>'
    yield '<li><a href="#errors">Errors</a></li><li><a href="#schemas">Schemas</a></li></ul></nav>\n<main>'
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>\n{_prose(tag['description'])}"
        for path, method, each in operations:
            if tag["name"] in each["tags"]:
                yield f'<h3 id="{escape(each["operationId"])}">{escape(each["summary"])}</h3>'
                yield f'<p><code><span class="method">{method}</span> {escape(path)}</code></p>'
                yield _prose(each.get("description", ""))
                yield f"<pre>{escape(_curl(document, base_url, path, method, each))}</pre>"
                yield f"<details><summary>Parameters, body and answers</summary>{_json(each)}</details>"
    yield '<h2 id="errors">Errors</h2>'
    yield _prose('All have one shape: `{"error": {"message", "type", "param", "code"}}`. Programs should use `code`.')
    rows = (f"{status} {kind}: {code} ({ours})" for status, kind, code, ours in error_codes)
    yield "<pre>" + escape("\n".join(rows)) + '</pre>\n<h2 id="schemas">Schemas</h2>'
    for name, schema in document["components"]["schemas"].items():
        yield f'<h3 id="schema-{escape(name)}"><code>{escape(name)}</code></h3>{_json(schema)}'
    yield "</main>\n</body>\n</html>"


def _curl(document: Json, base_url: str, path: str, method: str, operation: Json) -> str:
    for template, example in _EXAMPLE_IDS.items():
        path = path.replace(template, example)
    lines = [f"curl -X {method.upper()} {base_url}{path.replace('{model}', 'gpt-oss-20b')}"]
    if {} not in document["security"] and operation.get("security") != []:
        lines.append("-H 'Authorization: Bearer YOUR_KEY'")
    if "requestBody" in operation:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        text = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
        lines += ["-H 'Content-Type: application/json'", f"-d '{text}'"]
    return " \\\n  ".join(lines)


def _json(value: Any) -> str:
    text = escape(json.dumps(value, indent=1, ensure_ascii=False))
    return "<pre>" + _REFERENCE.sub(r'<a href="#schema-\1">\1</a>', text) + "</pre>"


def _prose(text: str) -> str:
    """Paragraphs in which backticks mark code."""
    pieces = (escape(piece) for piece in text.split("`"))
    marked = "".join(f"<code>{each}</code>" if number % 2 else each for number, each in enumerate(pieces))
    return "\n".join(f"<p>{each}</p>" for each in marked.split("\n\n") if each)


def document_routes(settings: Settings, model_names: tuple[str, ...]) -> list[Route]:
    @cache
    def document() -> bytes:
        return msgspec.json.encode(build_openapi(settings, model_names))

    @cache
    def page() -> bytes:
        url = address_for_clients(settings.host, settings.port)
        return write_page(build_openapi(settings, model_names), url, error_codes()).encode()

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
