"""Errors as clients see them: one shape, and one table from our codes to HTTP statuses.

    {"error": {"message": …, "type": …, "param": …, "code": …}}

1. `code` is OpenAI's if OpenAI has one for the error, so that clients recognise it; otherwise it is ours.
2. A fault of the model, a tool or the engine is never a 400.
3. A message never contains text of a model, only text of the caller and settings of the operator.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from harmonia.errors import (
    EngineError,
    ErrorCode,
    HarmonyError,
    InputError,
    Position,
    StoreError,
    StreamError,
    ToolError,
)
from harmonia.messages import Json
from harmonia.run.events import Unmet
from harmonia.run.tools import ToolSet

_REQUEST: Final = "invalid_request_error"
_SERVER: Final = "server_error"
_MODEL: Final = "model_error"


class ApiError(msgspec.Struct, frozen=True):
    """An error as a client sees it. `retry_after_s` goes into a header."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def is_models(self) -> bool:
        """Whether it was the model's fault: a retry would cost as much again, and most likely fail again."""
        return self.type == _MODEL

    def to_dict(self) -> Json:
        """The value of `error`."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}


# Status, type and code of the errors that differ from their class.
_TABLE: Final[dict[ErrorCode, tuple[int, str, str]]] = {
    ErrorCode.SERVE_INVALID_BODY: (400, _REQUEST, "invalid_json"),
    ErrorCode.SERVE_INVALID_FIELD: (400, _REQUEST, "invalid_value"),
    ErrorCode.SERVE_UNKNOWN_FIELD: (400, _REQUEST, "unknown_parameter"),
    ErrorCode.SERVE_UNSUPPORTED: (400, _REQUEST, "unsupported_value"),
    ErrorCode.SERVE_TOO_LARGE: (413, _REQUEST, "request_too_large"),
    ErrorCode.SERVE_UNKNOWN_MODEL: (404, "not_found_error", "model_not_found"),
    ErrorCode.SERVE_NOT_FOUND: (404, "not_found_error", "not_found"),
    ErrorCode.SERVE_PREVIOUS_NOT_FOUND: (404, "not_found_error", "previous_response_not_found"),
    ErrorCode.SERVE_IN_PROGRESS: (409, "conflict_error", "response_in_progress"),
    ErrorCode.SERVE_BAD_SEAL: (400, _REQUEST, "invalid_encrypted_content"),
    # Not 409: clients retry that status.
    ErrorCode.SERVE_APPROVAL_USED: (400, _REQUEST, "approval_used"),
    ErrorCode.SERVE_NO_KEY: (401, "authentication_error", "invalid_api_key"),
    ErrorCode.SERVE_FORBIDDEN: (403, "permission_error", "forbidden"),
    ErrorCode.SERVE_WRONG_METHOD: (405, _REQUEST, "method_not_allowed"),
    ErrorCode.SERVE_TOO_SLOW: (408, _REQUEST, "request_timeout"),
    ErrorCode.SERVE_BUSY: (429, "too_many_requests", "rate_limit_exceeded"),
    ErrorCode.SERVE_STOPPING: (503, _SERVER, "server_stopping"),
    # Clients that try a WebSocket first fall back at once on this status.
    ErrorCode.SERVE_NO_WEBSOCKET: (426, _REQUEST, "websocket_not_supported"),
    ErrorCode.SERVE_DEMAND_NOT_MET: (500, _MODEL, "tool_choice_not_met"),
    ErrorCode.SERVE_FORM_NOT_MET: (500, _MODEL, "form_not_met"),
    ErrorCode.SERVE_BUG: (500, _SERVER, "server_error"),
    # The prompt is too long, which is the caller's fault.
    ErrorCode.ENGINE_OUT_OF_CONTEXT: (400, _REQUEST, "context_length_exceeded"),
    ErrorCode.HISTORY_OVER_BUDGET: (400, _REQUEST, "context_length_exceeded"),
    ErrorCode.INTERCHANGE_UNKNOWN_CALL: (400, _REQUEST, "unknown_call_id"),
    ErrorCode.HISTORY_UNKNOWN_CALL: (400, _REQUEST, "unknown_call_id"),
    ErrorCode.ENGINE_UNREACHABLE: (503, _SERVER, "engine_unreachable"),
    ErrorCode.ENGINE_NONE_FOUND: (503, _SERVER, "engine_unreachable"),
    ErrorCode.ENGINE_REFUSED: (502, _SERVER, "engine_refused"),
    ErrorCode.ENGINE_STALLED: (504, _SERVER, "engine_stalled"),
    ErrorCode.ENGINE_DIED: (502, _SERVER, "engine_died"),
    ErrorCode.ENGINE_BAD_ANSWER: (502, _SERVER, "engine_bad_answer"),
    ErrorCode.SERVE_MCP_UNREACHABLE: (424, _REQUEST, "mcp_server_unreachable"),
    # An MCP server that disconnected.
    ErrorCode.TOOL_SERVER_UNREACHABLE: (424, _REQUEST, "mcp_server_unreachable"),
    ErrorCode.STORE_UNAVAILABLE: (503, _SERVER, "store_unavailable"),
}
# Status, type and message by class. Messages of engines and tools may quote the model, or an address of the operator;
# the log has the originals.
_CLASSES: Final[tuple[tuple[type[HarmonyError], int, str, str | None], ...]] = (
    (InputError, 400, _REQUEST, None),
    (StreamError, 500, _MODEL, "the model's answer is malformed"),
    (ToolError, 500, _SERVER, "a tool of this server failed"),
    (EngineError, 502, _SERVER, "the engine of this server failed"),
    (StoreError, 503, _SERVER, "the store of this server failed"),
)
_IN_OTHER_WORDS: Final[dict[ErrorCode, str]] = {
    ErrorCode.TOOL_NOT_CERTAIN: "the tool call was malformed or truncated and was not executed",
    ErrorCode.ENGINE_UNREACHABLE: "the engine of this server cannot be reached; try again later",
    ErrorCode.ENGINE_NONE_FOUND: "this server has no engine",
    ErrorCode.ENGINE_REFUSED: "the engine of this server refused the request",
    ErrorCode.ENGINE_OUT_OF_CONTEXT: "the prompt is longer than the context of the model; send less",
    ErrorCode.ENGINE_STALLED: "the engine of this server stopped responding",
    ErrorCode.ENGINE_DIED: "the engine of this server ended its answer too early",
    ErrorCode.ENGINE_BAD_ANSWER: "the engine of this server sent a malformed answer",
}
# The server writes these messages itself, about the client's own demands; see below.
_OWN_WORDS: Final = (ErrorCode.SERVE_DEMAND_NOT_MET, ErrorCode.SERVE_FORM_NOT_MET)
# In the words of the engines: ours, llama.cpp, vLLM.
_PROMPT_SIZE: Final = re.compile(
    r"prompt has (\d{1,9}) tokens|request \((\d{1,9}) tokens\)"
    r"|(\d{1,9}) input tokens|\((\d{1,9}) in the (?:messages|prompt)"
)
_CONTEXT_SIZE: Final = re.compile(r"context(?: length is| length of| size \(| size of| of| has) ?(\d{1,9})")


def api_error_of(error: BaseException) -> ApiError:
    """The error as a client sees it. An exception that is not a HarmonyError is a bug, and its details are hidden."""
    if not isinstance(error, HarmonyError):
        message = "internal server error; the server's log has details under this request's id"
        return ApiError(500, _SERVER, "server_error", message)
    rows = (row for row in _CLASSES if isinstance(error, row[0]))
    _, status, kind, message = next(rows, (HarmonyError, 500, _SERVER, None))
    status, kind, code = _TABLE.get(error.code, (status, kind, error.code.value))
    is_own = error.code in _OWN_WORDS
    message = (not is_own and (_IN_OTHER_WORDS.get(error.code) or message)) or error.message
    if error.code is ErrorCode.ENGINE_OUT_OF_CONTEXT:
        message += _sizes_in(error.message)
    # In OpenAI's notation: `input[2].content`. Other errors have a place in an engine's or a model's output.
    param = (error.at.path or "").removeprefix("$").removeprefix(".") if status < 500 or is_own else None
    return ApiError(status, kind, code, message, param or None, 1 if status in (429, 503) else None)


def _sizes_in(words: str) -> str:
    """The length of the prompt and of the context, if the engine reported them. Only numbers are copied."""
    prompt, context = _PROMPT_SIZE.search(words), _CONTEXT_SIZE.search(words)
    sizes = [f"the prompt has {next(filter(None, prompt.groups()))} tokens"] if prompt else []
    sizes += [f"the context has {context[1]}"] if context else []
    return f" ({', '.join(sizes)})" if sizes else ""


# ── demands that the model did not meet ─────────────────────────────────────────────────────────────────────────────


def no_call() -> StreamError:
    """The error for an answer without the call that the request demands."""
    message = "tool_choice requires a call, but the model made none; send the request again, or use auto"
    return StreamError(ErrorCode.SERVE_DEMAND_NOT_MET, message, Position(path="$.tool_choice"))


def not_met(unmet: Unmet, tools: ToolSet, format_path: str) -> StreamError:
    """The error for an answer or a call that does not have the format that the request demands. It contains no text of
    a model: a place is given only as far as the client's own schema names it."""
    if unmet.kind == "call":
        return no_call()
    path: str | None = format_path
    message = f"the answer does not match {format_path.removeprefix('$.')}"
    if unmet.kind == "arguments":
        tool = tools.find(unmet.about or "")
        if tool is not None and tool.path is None and tool.server is None:
            tool = None  # the client does not know it
        path = None if tool is None else tool.path
        called = "a call" if tool is None else f"the call to {tool.own_name}"
        message = f"{called} does not match the format of the tool"
    place = unmet.place and f"{unmet.place} is invalid"
    message = ": ".join(filter(None, (message, place, unmet.reason)))
    return StreamError(ErrorCode.SERVE_FORM_NOT_MET, message, Position(path=path))


def in_clients_words(text: str, tools: ToolSet) -> str:
    """Replace the model's names of tools in a sentence by the client's."""
    names = ((tools.recipient_of(tool), tool.own_name) for tool in tools)
    known = {whole: own for whole, own in names if whole != own and whole in text}
    if not known:
        return text
    wholes = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.-])(?:{wholes})(?![\w-])(?!\.\w)", lambda found: known[found[0]], text)
