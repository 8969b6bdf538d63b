"""The OpenAPI document of the server, made from the operations, the structs and the settings.

Pure: the same settings give the same document. It names no engine, file or address of the operator's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, StoreError
from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.openapi import answers
from harmonia.serve.openapi.bodies import STRING, components_of, one_of, ref, request_schemas
from harmonia.serve.openapi.operations import OPERATIONS, Operation
from harmonia.serve.wire.error_responses import api_error_of

_ABOUT: Final = """\
An OpenAI-compatible server for gpt-oss that does all of Harmony itself, in front of any engine.

Every error has the shape `{"error": {"message", "type", "param", "code"}}`. Every response has the header \
`x-request-id`, which the log has too; a request may bring its own id in that header."""

_STATUSES: Final = {
    400: "The request is invalid. `param` says where.",
    401: "The API key is missing or unknown.",
    403: "The host, the origin or the operation is not allowed.",
    404: "Not found.",
    408: "The body arrived too slowly.",
    413: "The request exceeds a limit.",
    429: "The server is busy. Try again.",
    500: "The server, the model or a tool failed. It is not the request's fault.",
    502: "The engine failed.",
    503: "The engine or the store is unavailable. Try again.",
    504: "The engine stopped responding.",
}
_RETRY: Final = {"retry-after": "RetryAfter"}
_HEADERS: Final = {401: {"www-authenticate": "Challenge"}, 429: _RETRY, 503: _RETRY}
_PATH_PARAMETERS: Final = {
    "id": "The id of the response or chat.",
    "turn": "The id of the turn: `turn_` and letters or digits.",
    "model": "A name of the model. It may contain slashes.",
}
_CLASSES: Final[dict[str, type[HarmonyError]]] = {"serve": InputError, "engine": EngineError, "store": StoreError}
# Faults of a configuration, which no client meets.
_NOT_OVER_HTTP: Final = (
    *(ErrorCode.SERVE_INVALID_OPTION, ErrorCode.SERVE_MISSING_EXTRA, ErrorCode.ENGINE_INVALID_OPTION),
    *(ErrorCode.ENGINE_MISSING_EXTRA, ErrorCode.ENGINE_CAPTURE_MISMATCH),
)
_KEY: Final = "apiKey"


def build_openapi(settings: Settings, model_names: Sequence[str] = ()) -> Json:
    """The document. `model_names` are the models, if they are known."""
    paths: dict[str, Json] = {}
    kinds: list[Any] = [answers.Error]
    for (tag, _), operations in OPERATIONS.items():
        for each in operations:
            paths.setdefault(each.path, {})[each.route.split()[0].lower()] = _operation(each, tag)
            kinds += [kind for kind in (each.answer, each.other_answer and each.other_answer[1]) if kind is not None]
    schemas = {**components_of(kinds, defaults=False), **request_schemas(model_names)}
    error = {"application/json": {"schema": ref("Error")}}
    limits = settings.limits
    about_limits = (
        f"Limits: a body of {limits.body_bytes:,} bytes and {limits.depth} levels, {limits.items:,} items, "
        f"{limits.tools:,} tools with schemas of {limits.schema_bytes:,} bytes each, {limits.choices} choices."
    )
    needs_key = settings.api_key_file is not None
    about_key = "An API key from `harmonia keys`." if needs_key else "This server needs no key and ignores one."
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Harmonia",
            "version": version("harmonia"),
            "summary": "Responses and Chat Completions for gpt-oss.",
            "description": f"{_ABOUT}\n\n{about_limits}",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": about} for name, about in OPERATIONS],
        "security": [{_KEY: []}] if needs_key else [{}, {_KEY: []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {
                f"Error{status}": _answer(about, error, **_HEADERS.get(status, {}))
                for status, about in _STATUSES.items()
            },
            "headers": {
                "RequestId": {"description": "The id of the request, also in the log.", "schema": STRING},
                "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
                "Challenge": {"description": "How to authenticate.", "schema": STRING},
            },
            "parameters": {
                "Dialect": {
                    "name": "harmonia-dialect",
                    "in": "header",
                    "required": False,
                    "schema": {**one_of("openai", "open-responses"), "default": settings.dialect},
                    "description": "How Responses are written: OpenAI's way, or that of Open Responses.",
                }
            },
            "securitySchemes": {_KEY: {"type": "http", "scheme": "bearer", "description": about_key}},
        },
    }


def error_codes() -> list[tuple[int, str, str, str]]:
    """All errors: status, type, the code that clients see, and our code, which docs/reference/errors.md explains."""
    rows: list[tuple[int, str, str, str]] = []
    for code in ErrorCode:
        kind = _CLASSES.get(code.value.partition(".")[0])
        if kind is not None and code not in _NOT_OVER_HTTP:
            error = api_error_of(kind(code, ""))
            rows.append((error.status, error.type, error.code, code.value))
    return sorted(rows)


def _operation(operation: Operation, tag: str) -> Json:
    summary, _, about = operation.text.partition(". ")
    described: Json = {"operationId": operation.route.split()[2], "tags": [tag], "summary": summary.removesuffix(".")}
    if about:
        described["description"] = about
    names: list[str] = re.findall(r"{(\w+)}", operation.path)
    parameters = [_parameter(name, "path", STRING, _PATH_PARAMETERS[name]) for name in names]
    parameters += [_parameter(name, "query", schema, about) for name, schema, about in operation.query]
    if operation.has_dialect:
        parameters.append({"$ref": "#/components/parameters/Dialect"})
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"schema": ref(operation.body), "example": operation.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    described["responses"] = _responses(operation)
    if operation.is_open:
        described["security"] = []
    return described


def _parameter(name: str, place: str, schema: Json, about: str) -> Json:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": about}


def _responses(operation: Operation) -> Json:
    schema = STRING if operation.media_type != "application/json" else {"type": "object"}
    content: Json = {operation.media_type: {"schema": ref(operation.answer.__name__) if operation.answer else schema}}
    if operation.streams:
        content["text/event-stream"] = {"schema": STRING}
    responses: dict[int, Json] = {200: _answer(operation.answer_about, content)}
    for status in operation.statuses:
        responses[status] = {"$ref": f"#/components/responses/Error{status}"}
    if operation.other_answer is not None:
        status, kind, about = operation.other_answer
        responses[status] = _answer(about, {"application/json": {"schema": ref(kind.__name__)}})
    return {str(status): responses[status] for status in sorted(responses)}


def _answer(about: str, content: Json, **headers: str) -> Json:
    named = {"x-request-id": "RequestId", **headers}
    references = {name: {"$ref": f"#/components/headers/{component}"} for name, component in named.items()}
    return {"description": about, "headers": references, "content": content}
