"""Every error Harmonia raises: one tree, one table of codes, one kind of position.

    HarmonyError(code, message, at)
    ├─ InputError     the caller's fault: messages, schema, arguments, files
    ├─ StreamError    the model's fault
    ├─ ToolError      the tool's fault
    ├─ EngineError    the sampler's fault
    └─ StoreError     the store's fault

The type says whose fault it was, `code` what went wrong, `at` where. Programs decide by these three; the
message is for people and may change. Each code has a paragraph in docs/reference/errors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class ErrorCode(StrEnum):
    """What went wrong. The part before the dot is the room in which it was found."""

    VOCABULARY_MISSING = "vocabulary.missing"
    VOCABULARY_WRONG_FILE = "vocabulary.wrong_file"
    VOCABULARY_UNKNOWN_TOKEN = "vocabulary.unknown_token"
    VOCABULARY_LONE_SURROGATE = "vocabulary.lone_surrogate"
    VOCABULARY_INVALID_UTF8 = "vocabulary.invalid_utf8"
    VOCABULARY_UNKNOWN_SPECIAL = "vocabulary.unknown_special"
    VOCABULARY_MISSING_ENGINE = "vocabulary.missing_engine"
    VOCABULARY_INVALID_OPTION = "vocabulary.invalid_option"

    MESSAGES_INVALID_JSON = "messages.invalid_json"
    MESSAGES_INVALID_VALUE = "messages.invalid_value"

    SCHEMA_INVALID = "schema.invalid"
    SCHEMA_REMOTE_REFERENCE = "schema.remote_reference"
    SCHEMA_UNKNOWN_REFERENCE = "schema.unknown_reference"
    SCHEMA_TOO_DEEP = "schema.too_deep"
    SCHEMA_TOO_LARGE = "schema.too_large"

    RENDER_UNSAFE_HEADER = "render.unsafe_header"
    RENDER_UNNAMED_TOOL = "render.unnamed_tool"
    RENDER_MISPLACED_CONTENT = "render.misplaced_content"
    RENDER_AMBIGUOUS_TEXT = "render.ambiguous_text"
    RENDER_INVALID_OPTION = "render.invalid_option"

    PARSE_INVALID_OPTION = "parse.invalid_option"
    PARSE_INVALID_CHUNK = "parse.invalid_chunk"
    PARSE_CLOSED = "parse.closed"
    PARSE_INVALID_INPUT = "parse.invalid_input"
    PARSE_MISSING_EXTRA = "parse.missing_extra"

    ALIAS_TOO_LATE = "alias.too_late"

    HISTORY_INVALID_OPTION = "history.invalid_option"
    HISTORY_UNKNOWN_CALL = "history.unknown_call"
    HISTORY_ANSWERED_CALL = "history.answered_call"
    HISTORY_OVER_BUDGET = "history.over_budget"

    INTERCHANGE_INVALID_VALUE = "interchange.invalid_value"
    INTERCHANGE_UNKNOWN_FORMAT = "interchange.unknown_format"
    INTERCHANGE_UNKNOWN_CALL = "interchange.unknown_call"

    FORMATS_INVALID_PROFILE = "formats.invalid_profile"
    FORMATS_INVALID_OPTION = "formats.invalid_option"

    GRAMMAR_INVALID_OPTION = "grammar.invalid_option"
    GRAMMAR_INVALID_TEXT_FORM = "grammar.invalid_text_form"
    GRAMMAR_TOO_LARGE = "grammar.too_large"
    GRAMMAR_MISSING_EXTRA = "grammar.missing_extra"

    TOOL_INVALID_DEFINITION = "tool.invalid_definition"
    TOOL_REPEATED_NAME = "tool.repeated_name"
    TOOL_UNKNOWN = "tool.unknown"
    TOOL_NOT_ALLOWED = "tool.not_allowed"
    TOOL_INVALID_ARGUMENTS = "tool.invalid_arguments"
    TOOL_FAILED = "tool.failed"
    TOOL_TIMED_OUT = "tool.timed_out"
    TOOL_REFUSED = "tool.refused"
    TOOL_NOT_CERTAIN = "tool.not_certain"
    TOOL_CHANGED = "tool.changed"
    TOOL_SERVER_UNREACHABLE = "tool.server_unreachable"
    TOOL_MISSING_EXTRA = "tool.missing_extra"

    ENGINE_INVALID_OPTION = "engine.invalid_option"
    ENGINE_MISSING_EXTRA = "engine.missing_extra"
    ENGINE_NONE_FOUND = "engine.none_found"
    ENGINE_UNREACHABLE = "engine.unreachable"
    ENGINE_REFUSED = "engine.refused"
    ENGINE_OUT_OF_CONTEXT = "engine.out_of_context"
    ENGINE_STALLED = "engine.stalled"
    ENGINE_DIED = "engine.died"
    ENGINE_BAD_ANSWER = "engine.bad_answer"
    ENGINE_CAPTURE_MISMATCH = "engine.capture_mismatch"

    RUN_INVALID_OPTION = "run.invalid_option"

    SERVE_INVALID_OPTION = "serve.invalid_option"
    SERVE_MISSING_EXTRA = "serve.missing_extra"
    SERVE_INVALID_BODY = "serve.invalid_body"
    SERVE_INVALID_FIELD = "serve.invalid_field"
    SERVE_UNKNOWN_FIELD = "serve.unknown_field"
    SERVE_UNSUPPORTED = "serve.unsupported"
    SERVE_TOO_LARGE = "serve.too_large"
    SERVE_UNKNOWN_MODEL = "serve.unknown_model"
    SERVE_NOT_FOUND = "serve.not_found"
    SERVE_PREVIOUS_NOT_FOUND = "serve.previous_not_found"
    SERVE_IN_PROGRESS = "serve.in_progress"
    SERVE_BAD_SEAL = "serve.bad_seal"
    SERVE_APPROVAL_USED = "serve.approval_used"
    SERVE_NO_KEY = "serve.no_key"
    SERVE_FORBIDDEN = "serve.forbidden"
    SERVE_MCP_UNREACHABLE = "serve.mcp_unreachable"
    SERVE_WRONG_METHOD = "serve.wrong_method"
    SERVE_TOO_SLOW = "serve.too_slow"
    SERVE_BUSY = "serve.busy"
    SERVE_STOPPING = "serve.stopping"
    SERVE_NO_WEBSOCKET = "serve.no_websocket"
    SERVE_DEMAND_NOT_MET = "serve.demand_not_met"
    SERVE_FORM_NOT_MET = "serve.form_not_met"
    SERVE_BUG = "serve.bug"

    STORE_UNAVAILABLE = "store.unavailable"
    STORE_DAMAGED = "store.damaged"
    STORE_NEWER = "store.newer"

    # Faults of models that do not speak Harmony; harmonia/parser/faults.json explains them.
    FAMILY_UNCLOSED = "family.unclosed"
    FAMILY_STRAY_MARK = "family.stray_mark"
    FAMILY_UNREADABLE_CALL = "family.unreadable_call"
    FAMILY_BROKEN_CALL = "family.broken_call"
    FAMILY_FOREIGN_CALL = "family.foreign_call"
    FAMILY_UNKNOWN_TOOL = "family.unknown_tool"
    FAMILY_CALL_IN_THOUGHT = "family.call_in_thought"
    FAMILY_TOO_LONG = "family.too_long"

    # The model's faults. harmonia/parser/faults.json explains each of them and how the parser recovers.
    MISSING_SENTINEL = "MissingSentinel"  # the public name of a missing terminator

    STREAM_TEXT_OUTSIDE = "stream.text_outside"
    STREAM_MISSING_START = "stream.missing_start"
    STREAM_REPEATED_STOP = "stream.repeated_stop"
    STREAM_NO_MARKUP = "stream.no_markup"
    STREAM_STRIPPED = "stream.stripped"
    STREAM_RESERVED_TOKEN = "stream.reserved_token"
    STREAM_UNKNOWN_TOKEN = "stream.unknown_token"
    STREAM_INVALID_UTF8 = "stream.invalid_utf8"

    HEADER_REPEATED_START = "header.repeated_start"
    HEADER_EMPTY_ROLE = "header.empty_role"
    HEADER_REPEATED_ROLE = "header.repeated_role"
    HEADER_UNKNOWN_ROLE = "header.unknown_role"
    HEADER_FORGED_ROLE = "header.forged_role"
    HEADER_CHANNEL_AS_ROLE = "header.channel_as_role"
    HEADER_MISSING_CHANNEL = "header.missing_channel"
    HEADER_EMPTY_CHANNEL = "header.empty_channel"
    HEADER_REPEATED_CHANNEL = "header.repeated_channel"
    HEADER_UNKNOWN_CHANNEL = "header.unknown_channel"
    HEADER_GLUED_CHANNEL = "header.glued_channel"
    HEADER_EMPTY_RECIPIENT = "header.empty_recipient"
    HEADER_MISSING_RECIPIENT = "header.missing_recipient"
    HEADER_REPEATED_RECIPIENT = "header.repeated_recipient"
    HEADER_BARE_RECIPIENT = "header.bare_recipient"
    HEADER_SPACED_RECIPIENT = "header.spaced_recipient"
    HEADER_GLUED_RECIPIENT = "header.glued_recipient"
    HEADER_EMPTY_CONTENT_TYPE = "header.empty_content_type"
    HEADER_REPEATED_CONTENT_TYPE = "header.repeated_content_type"
    HEADER_UNEXPECTED_TEXT = "header.unexpected_text"
    HEADER_RESERVED_TOKEN = "header.reserved_token"
    HEADER_MISSING_MESSAGE = "header.missing_message"
    HEADER_STOP_INSIDE = "header.stop_inside"
    HEADER_UNFINISHED = "header.unfinished"
    HEADER_TOO_LONG = "header.too_long"

    BODY_REPEATED_MESSAGE = "body.repeated_message"
    BODY_RESERVED_TOKEN = "body.reserved_token"
    BODY_CALL_WITHOUT_RECIPIENT = "body.call_without_recipient"
    BODY_ARGUMENTS_NOT_JSON = "body.arguments_not_json"
    BODY_SPELLED_TOKEN = "body.spelled_token"
    BODY_TOO_LONG = "body.too_long"


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the error is. Every field is optional; those that are known are set.

    `token` and `character` are offsets into the given tokens or text, `message` is an index into the conversation,
    and `path` is a JSON path such as `$.messages[2].content`.
    """

    token: int | None = None
    character: int | None = None
    message: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        known = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return ", ".join(f"{name} {value}" for name, value in known if value is not None)


NOWHERE = Position()


class HarmonyError(Exception):
    """The root of the tree: everything that Harmonia raises on purpose."""

    def __init__(self, code: ErrorCode, message: str, at: Position = NOWHERE) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.at = at

    def __reduce__(self) -> tuple[type[HarmonyError], tuple[ErrorCode, str, Position]]:
        # Pickling an error for another process keeps its position.
        return type(self), (self.code, self.message, self.at)

    def __str__(self) -> str:
        place = f" (at {self.at})" if self.at != NOWHERE else ""
        return f"{self.message}{place} [{self.code}]"


class InputError(HarmonyError):
    """The caller's fault: a message, a schema, an argument or a file."""


class StreamError(HarmonyError):
    """The model's fault: what it sampled is not well-formed Harmony. `events` are those that the same call of a strict
    parser had found before the fault."""

    events: Sequence[object] = ()


class ToolError(HarmonyError):
    """The tool's fault."""


class EngineError(HarmonyError):
    """The sampler's fault: unreachable, refused, or died half-way."""


class StoreError(HarmonyError):
    """The store's fault."""
