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
_TABLE: Final[dict[ErrorCode, tuple[int, str, str | None]]] = {
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
_CLASSES: Final[tuple[tuple[type[HarmonyError], int, str], ...]] = (
    (InputError, 400, _REQUEST),
    (StreamError, 500, _MODEL),
    (ToolError, 500, _SERVER),
    (EngineError, 502, _SERVER),
    (StoreError, 503, _SERVER),
)
# Messages of engines and tools may quote the model, or an address of the operator. The log has the originals.
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
# The server writes these messages itself, about the client's own demands.
_OWN_WORDS: Final = (ErrorCode.SERVE_DEMAND_NOT_MET, ErrorCode.SERVE_FORM_NOT_MET)
_OTHER_WORDS_BY_CLASS: Final[tuple[tuple[type[HarmonyError], str], ...]] = (
    (StreamError, "the model's answer is malformed"),
    (ToolError, "a tool of this server failed"),
    (EngineError, "the engine of this server failed"),
    (StoreError, "the store of this server failed"),
)


# In the words of the engines: ours, llama.cpp, vLLM.
_PROMPT_SIZE: Final = re.compile(
    r"prompt has (\d{1,9}) tokens|request \((\d{1,9}) tokens\)"
    r"|(\d{1,9}) input tokens|\((\d{1,9}) in the (?:messages|prompt)"
)
_CONTEXT_SIZE: Final = re.compile(r"context(?: length is| length of| size \(| size of| of| has) ?(\d{1,9})")


def api_error_of(error: BaseException) -> ApiError:
    """The error as a client sees it. An exception that is not a HarmonyError is a bug, and its details are hidden."""
    if not isinstance(error, HarmonyError):
        return ApiError(
            500, _SERVER, "server_error", "internal server error; the server's log has details under this request's id"
        )
    status, kind, code = _TABLE.get(error.code) or _of_class(error)
    return ApiError(
        status,
        kind,
        code or error.code.value,
        _message_of(error),
        # Other errors have a place in an engine's or a model's output.
        _param_of(error.at) if status < 500 or error.code in _OWN_WORDS else None,
        1 if status in (429, 503) else None,
    )


def _of_class(error: HarmonyError) -> tuple[int, str, str | None]:
    return next(
        ((status, kind, None) for cls, status, kind in _CLASSES if isinstance(error, cls)), (500, _SERVER, None)
    )


def _message_of(error: HarmonyError) -> str:
    if error.code in _OWN_WORDS:
        return error.message
    found = _IN_OTHER_WORDS.get(error.code)
    if error.code is ErrorCode.ENGINE_OUT_OF_CONTEXT:
        return f"{found}{_sizes_in(error.message)}"
    if found is None:
        found = next((words for cls, words in _OTHER_WORDS_BY_CLASS if isinstance(error, cls)), error.message)
    return found


def _sizes_in(words: str) -> str:
    """The length of the prompt and of the context, if the engine reported them. Only numbers are copied."""
    prompt, context = _PROMPT_SIZE.search(words), _CONTEXT_SIZE.search(words)
    told = [f"the prompt has {next(filter(None, prompt.groups()))} tokens"] if prompt else []
    told += [f"the context has {context[1]}"] if context else []
    return f" ({', '.join(told)})" if told else ""


def _param_of(at: Position) -> str | None:
    """The place in the body in OpenAI's notation: `input[2].content`."""
    if at.path is not None:
        return at.path.removeprefix("$").removeprefix(".") or None
    return None
