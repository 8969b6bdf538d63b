"""What a client is told when something went wrong: one shape, and one table from our codes to statuses.

    {"error": {"message": …, "type": …, "param": …, "code": …}}

1. `code` is OpenAI's where OpenAI has one for it, so that clients which look for it find it; otherwise it is ours.
2. A fault of the model's, a tool's or the engine's is never the client's 400.
3. Nothing that a model said is in a message. Only what the caller wrote, and what an operator set, may be.
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
    """An error as a client sees it. `retry_after_s` is said in a header."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def is_models(self) -> bool:
        """Whether it was the model's fault. The same request costs as much again, and most likely comes to the same."""
        return self.type == _MODEL

    def to_dict(self) -> Json:
        """What stands under `error`."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}


# The status, the type and the code of those that are not simply their class's.
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
    # Not a 409: clients try those again by themselves.
    ErrorCode.SERVE_APPROVAL_USED: (400, _REQUEST, "approval_used"),
    ErrorCode.SERVE_NO_KEY: (401, "authentication_error", "invalid_api_key"),
    ErrorCode.SERVE_FORBIDDEN: (403, "permission_error", "forbidden"),
    ErrorCode.SERVE_WRONG_METHOD: (405, _REQUEST, "method_not_allowed"),
    ErrorCode.SERVE_TOO_SLOW: (408, _REQUEST, "request_timeout"),
    ErrorCode.SERVE_BUSY: (429, "too_many_requests", "rate_limit_exceeded"),
    ErrorCode.SERVE_STOPPING: (503, _SERVER, "server_stopping"),
    # Clients that try one first fall back at once when they get this status.
    ErrorCode.SERVE_NO_WEBSOCKET: (426, _REQUEST, "websocket_not_supported"),
    ErrorCode.SERVE_DEMAND_NOT_MET: (500, _MODEL, "tool_choice_not_met"),
    ErrorCode.SERVE_FORM_NOT_MET: (500, _MODEL, "form_not_met"),
    ErrorCode.SERVE_BUG: (500, _SERVER, "server_error"),
    # The prompt did not fit, and that is the caller's to change.
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
    # An MCP server that broke off.
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
# What engines and tools say may quote the model, or an address of the operator's. The log has their own words.
_IN_OTHER_WORDS: Final[dict[ErrorCode, str]] = {
    ErrorCode.TOOL_NOT_CERTAIN: "the model began a call that is damaged or cut off, so it is none",
    ErrorCode.ENGINE_UNREACHABLE: "the engine behind this server cannot be reached",
    ErrorCode.ENGINE_NONE_FOUND: "there is no engine behind this server",
    ErrorCode.ENGINE_REFUSED: "the engine behind this server refused the request",
    ErrorCode.ENGINE_OUT_OF_CONTEXT: "the prompt does not fit into the context of the model; send less",
    ErrorCode.ENGINE_STALLED: "the engine behind this server stopped answering",
    ErrorCode.ENGINE_DIED: "the engine behind this server broke off",
    ErrorCode.ENGINE_BAD_ANSWER: "the engine behind this server gave an answer that cannot be read",
}
# These are said by the server itself, about the client's own demands, and so are their places.
_OWN_WORDS: Final = (ErrorCode.SERVE_DEMAND_NOT_MET, ErrorCode.SERVE_FORM_NOT_MET)
_OTHER_WORDS_BY_CLASS: Final[tuple[tuple[type[HarmonyError], str], ...]] = (
    (StreamError, "the model's answer is not well-formed"),
    (ToolError, "a tool of this server failed"),
    (EngineError, "the engine behind this server failed"),
    (StoreError, "the store of this server failed"),
)


# As the engines say it: ours, llama.cpp, vLLM.
_PROMPT_SIZE: Final = re.compile(
    r"prompt has (\d{1,9}) tokens|request \((\d{1,9}) tokens\)"
    r"|(\d{1,9}) input tokens|\((\d{1,9}) in the (?:messages|prompt)"
)
_CONTEXT_SIZE: Final = re.compile(r"context(?: length is| length of| size \(| size of| of| has) ?(\d{1,9})")


def api_error_of(error: BaseException) -> ApiError:
    """What a client is told of an error. One that is not ours is a bug, of which only that is said."""
    if not isinstance(error, HarmonyError):
        return ApiError(
            500, _SERVER, "server_error", "the server has a fault; its log has more under this request's id"
        )
    status, kind, code = _TABLE.get(error.code) or _of_class(error)
    return ApiError(
        status,
        kind,
        code or error.code.value,
        _message_of(error),
        # The place of another fault is in an engine's answer or in what a model said.
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
    """How long the prompt is and how long it may be, where the engine said so. Nothing but numbers is taken over."""
    prompt, context = _PROMPT_SIZE.search(words), _CONTEXT_SIZE.search(words)
    told = [f"the prompt has {next(filter(None, prompt.groups()))} tokens"] if prompt else []
    told += [f"the context has {context[1]}"] if context else []
    return f" ({', '.join(told)})" if told else ""


def _param_of(at: Position) -> str | None:
    """The place in the body as OpenAI writes it: `input[2].content`."""
    if at.path is not None:
        return at.path.removeprefix("$").removeprefix(".") or None
    return None
