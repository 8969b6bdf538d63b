"""Requests that once held the server up, each small beside what it made the server do. (path, body) by name."""

from __future__ import annotations

from typing import Any

_DECLARED = {f"property_{at}": {"type": "string"} for at in range(230)}
_REFERENCES = {
    "anyOf": [{"$ref": "#/$defs/a"}] * 300,
    "$defs": {"a": {"type": "object", "properties": _DECLARED, "additionalProperties": False}},
}
_NAME = "a" * 28 + "!"
_PATTERN = {"type": "object", "patternProperties": {"(a+)+$": {}}, "properties": {_NAME: {"type": "string"}}}
_MANY_PATTERNS = {
    "type": "object",
    "properties": {f"p{at}": {"type": "string"} for at in range(600)},
    "patternProperties": {f"^q{at}": {} for at in range(600)},
}
_COMBINED = [{"type": "object", "properties": {f"k{at}": {"type": "string"}}} for at in range(1500)]


def _items(count: int) -> Any:
    return {"type": "array", "prefixItems": [{"type": "string", "maxLength": at} for at in range(count)]}


def _format(schema: Any) -> tuple[str, Any]:
    form = {"type": "json_schema", "name": "form", "schema": schema, "strict": True}
    return "/v1/responses", {"input": "Hello", "store": False, "text": {"format": form}}


def _chat_format(schema: Any) -> tuple[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, "strict": True}}
    return "/v1/chat/completions", {
        "model": "script",
        "messages": [{"role": "user", "content": "Hello"}],
        "response_format": form,
    }


def _tools(schema: Any, count: int = 1) -> tuple[str, Any]:
    listed = [{"type": "function", "name": f"f{at}", "parameters": schema, "strict": True} for at in range(count)]
    return "/v1/responses", {"input": "Hello", "store": False, "tools": listed, "tool_choice": "required"}


FREEZING: dict[str, tuple[str, Any]] = {
    "spaces to import": ("/v1/chats/import", {"text": " " * 4000 + "Hello"}),
    "900,000 spaces to import": ("/v1/chats/import", {"text": " " * 900_000 + "Hello"}),
    "text.format with references": _format(_REFERENCES),
    "response_format with references": _chat_format(_REFERENCES),
    "strict tool with references": _tools(_REFERENCES),
    "prefixItems": _format({"type": "object", "properties": {"a": _items(1500)}}),
    "prefixItems in 8 strict tools": _tools({"type": "object", "properties": {"a": _items(800)}}, 8),
    "unevaluatedProperties": _format({"type": "object", "unevaluatedProperties": False, "allOf": _COMBINED}),
    "many patternProperties": _format(_MANY_PATTERNS),
    "a pattern that backtracks, in a format": _format(_PATTERN),
    "a pattern that backtracks, in a tool": _tools(_PATTERN),
    "stripped text": ("/v1/harmony/parse", {"text": "assistantfinalHi " * 60_000, "as": "stripped"}),
    "references to render": (
        "/v1/harmony/render",
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": _REFERENCES}}],
        },
    ),
}
