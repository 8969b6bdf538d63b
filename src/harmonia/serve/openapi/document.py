"""The OpenAPI document of the whole server, made of the operations, the structs that read bodies, and the settings.

Pure: the same settings give the same document. It names no engine, no file and no address of the operator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, Final, cast

from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError, StoreError
from harmonia.messages import Json
from harmonia.serve.config.settings import Settings
from harmonia.serve.openapi.answers import ANSWERS
from harmonia.serve.openapi.bodies import request_schemas
from harmonia.serve.openapi.chats import CHAT_ANSWERS, CHAT_OPERATIONS, chat_schemas
from harmonia.serve.openapi.operations import OPERATIONS, Operation
from harmonia.serve.openapi.shapes import STRING, one_of, ref
from harmonia.serve.wire.error_responses import api_error_of

_ABOUT: Final = """\
An OpenAI-compatible server for gpt-oss, which does all of Harmony itself in front of any engine.

Every error has one shape, `{"error": {"message", "type", "param", "code"}}`, and every answer the header \
`x-request-id`, under which the log has more. A request may bring an id of its own in that header."""

_TAGS: Final = {
    "Responses": "OpenAI's Responses API, and Open Responses.",
    "Chat Completions": "OpenAI's Chat Completions API.",
    "Chats": "The conversations of people, as the page keeps them.",
    "Models": "What is served.",
    "Harmony": "The format itself: nothing here asks the model, and nothing is stored.",
    "Operation": "For whoever runs the server.",
}
_STATUSES: Final = {
    400: "The request is wrong. `param` says where.",
    401: "An API key is needed, or the one that came is not known.",
    403: "That is not allowed.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    413: "There is too much of something.",
    429: "There is too much to do. Try again.",
    500: "The server, the model or a tool failed. It is not the request's fault.",
    502: "The engine failed.",
    503: "The engine or the store cannot be reached. Try again.",
    504: "The engine stopped answering.",
}
_CLASSES: Final[dict[str, type[HarmonyError]]] = {"serve": InputError, "engine": EngineError, "store": StoreError}
# Faults of a set-up, which nobody meets over HTTP.
_NOT_OVER_HTTP: Final = frozenset(
    (
        ErrorCode.SERVE_INVALID_OPTION,
        ErrorCode.SERVE_MISSING_EXTRA,
        ErrorCode.ENGINE_INVALID_OPTION,
        ErrorCode.ENGINE_MISSING_EXTRA,
        ErrorCode.ENGINE_CAPTURE_MISMATCH,
    )
)
_KEY: Final = "apiKey"
_SCHEMAS: Final = "#/components/schemas/"


def build_openapi(settings: Settings, model_names: Sequence[str] = ()) -> Json:
    """The document. `model_names` are the models that there are, if they are known."""
    paths: dict[str, Json] = {}
    for operation in (*OPERATIONS, *CHAT_OPERATIONS):
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    needs_key = settings.api_key_file is not None
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Harmonia",
            "version": version("harmonia"),
            "summary": "Responses and Chat Completions for gpt-oss.",
            "description": f"{_ABOUT}\n\n{_limits(settings)}",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": said} for name, said in _TAGS.items()],
        "security": [{_KEY: []}] if needs_key else [{}, {_KEY: []}],
        "paths": paths,
        "components": {
            "schemas": _used({**request_schemas(model_names), **chat_schemas(), **ANSWERS, **CHAT_ANSWERS}, paths),
            "responses": {_status_name(status): _error(status, said) for status, said in _STATUSES.items()},
            "headers": {
                "RequestId": {"description": "The id of the request, which the log has too.", "schema": STRING},
                "RetryAfter": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
                "Challenge": {"description": "How to authenticate.", "schema": STRING},
            },
            "parameters": {
                "Dialect": {
                    "name": "harmonia-dialect",
                    "in": "header",
                    "required": False,
                    "schema": {**one_of("openai", "open-responses"), "default": settings.dialect},
                    "description": "How Responses are written: as OpenAI has it, or as Open Responses has it.",
                }
            },
            "securitySchemes": {
                _KEY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key, made by `harmonia keys`."
                    if needs_key
                    else "This server asks for no key, and ignores one that is sent.",
                }
            },
        },
    }
    return document


def error_codes() -> list[tuple[int, str, str, str]]:
    """What may go wrong: the status, the type, the code that clients see, and our own, which has a paragraph in
    docs/reference/errors.md."""
    rows: list[tuple[int, str, str, str]] = []
    for code in ErrorCode:
        kind = _CLASSES.get(code.value.partition(".")[0])
        if kind is not None and code not in _NOT_OVER_HTTP:
            problem = api_error_of(kind(code, ""))
            rows.append((problem.status, problem.type, problem.code, code.value))
    return sorted(rows)


def _limits(settings: Settings) -> str:
    limits = settings.limits
    return (
        f"Limits: a body of {limits.body_bytes:,} bytes and {limits.depth} levels, {limits.items:,} items, "
        f"{limits.tools:,} tools with schemas of {limits.schema_bytes:,} bytes each, {limits.choices} choices."
    )


def _operation(operation: Operation) -> Json:
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.said:
        described["description"] = operation.said
    parameters = list(operation.parameters)
    if operation.has_dialect:
        parameters.append({"$ref": "#/components/parameters/Dialect"})
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content: Json = {"schema": ref(operation.body)}
        if operation.example is not None:
            content["example"] = operation.example
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    described["responses"] = _responses(operation)
    if operation.is_open:
        described["security"] = []
    return described


def _responses(operation: Operation) -> Json:
    schema = STRING if operation.media_type != "application/json" else {"type": "object"}
    content: Json = {operation.media_type: {"schema": ref(operation.answer) if operation.answer else schema}}
    if operation.streams:
        content["text/event-stream"] = {"schema": STRING}
    responses: dict[int, Json] = {200: _answer(operation.answer_said, content)}
    for status in operation.statuses:
        responses[status] = {"$ref": f"#/components/responses/{_status_name(status)}"}
    for status, name, said in operation.further:
        responses[status] = _answer(said, {"application/json": {"schema": ref(name)}})
    return {str(status): responses[status] for status in sorted(responses)}


def _answer(said: str, content: Json, **headers: str) -> Json:
    return {"description": said, "headers": _headers(**headers), "content": content}


def _error(status: int, said: str) -> Json:
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["retry-after"] = "RetryAfter"
    if status == 401:
        headers["www-authenticate"] = "Challenge"
    return _answer(said, {"application/json": {"schema": ref("Error")}}, **headers)


def _headers(**further: str) -> Json:
    return {
        name: {"$ref": f"#/components/headers/{component}"}
        for name, component in {"x-request-id": "RequestId", **further}.items()
    }


def _status_name(status: int) -> str:
    return f"Error{status}"


def _used(schemas: dict[str, Json], *roots: Any) -> dict[str, Json]:
    """Those that something refers to."""
    wanted = {"Error"}
    todo: list[Any] = list(roots)
    while todo:
        for name in _references(todo.pop()):
            if name not in wanted:
                wanted.add(name)
                todo.append(schemas[name])
    return {name: schemas[name] for name in sorted(wanted)}


def _references(value: Any) -> Iterator[str]:
    todo: list[Any] = [value]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            entries = cast(Json, found)
            target = entries.get("$ref")
            if isinstance(target, str) and target.startswith(_SCHEMAS):
                yield target.removeprefix(_SCHEMAS)
            todo += entries.values()
        elif isinstance(found, list):
            todo += cast("list[Any]", found)
