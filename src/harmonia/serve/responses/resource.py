"""The Response object: the request's settings echoed back, plus status and usage.

It has all fields that either dialect requires. The dialects differ in how a format and tools are echoed, and in what an
empty field may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harmonia.messages import Json
from harmonia.run.engines.base import Usage
from harmonia.serve.responses.request import CreateResponse, TextFormat
from harmonia.serve.security.identity import Dialect
from harmonia.serve.wire.token_usage import DEFAULT_TEMPERATURE, DEFAULT_TOP_P

# Secrets of a client, which are not echoed.
_SECRET: Final = ("authorization", "headers")
_STANDARD_CHOICES: Final = ("function", "allowed_tools")


def new_resource(
    request: CreateResponse,
    *,
    id: str,
    created_at: int,
    model: str,
    tools: Sequence[Json],
    dialect: Dialect,
    warnings: Sequence[str] = (),
) -> Json:
    """The resource of a response that has just started."""
    reasoning = request.reasoning
    resource: Json = {
        "id": id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "metadata": request.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "presence_penalty": request.presence_penalty or 0.0,
        "frequency_penalty": request.frequency_penalty or 0.0,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {
            "effort": None if reasoning is None else reasoning.effort,
            "summary": None if reasoning is None else reasoning.summary,
            # The one that is used, whatever was requested: the format drops the reasoning of turns that have ended.
            **({} if reasoning is None or reasoning.context is None else {"context": "current_turn"}),
        },
        "safety_identifier": request.safety_identifier,
        "service_tier": "default",
        "store": request.stores,
        "temperature": DEFAULT_TEMPERATURE if request.temperature is None else request.temperature,
        "text": _text(request, dialect),
        "tool_choice": _choice(request.tool_choice, dialect),
        "tools": [said for tool in tools if (said := _tool(tool, dialect)) is not None],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": DEFAULT_TOP_P if request.top_p is None else request.top_p,
        "truncation": request.truncation or "disabled",
        "usage": None,
    }
    if request.user is not None:
        resource["user"] = request.user
    if reasoning is not None and reasoning.context == "all_turns":
        warnings = [
            *warnings,
            "reasoning.context: current_turn is used, because the format drops the reasoning of earlier turns",
        ]
    if warnings:
        resource["warnings"] = list(warnings)
    return resource


def usage_of(usage: Usage, reasoning_tokens: int, channels: Mapping[str, int] | None = None) -> Json:
    """The usage as the API has it, and by channel if that is given: not inside the details, where some clients accept
    numbers only."""
    written: Json = {
        "input_tokens": usage.prompt_tokens,
        # Engines do not report what they write to their cache, and it is not charged.
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": min(reasoning_tokens, usage.completion_tokens)},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if channels is not None:
        # An engine that hides a stop token may not count it either; the sum is never more than the total.
        left = usage.completion_tokens
        counted: dict[str, int] = {}
        for name, count in channels.items():
            counted[name] = min(count, left)
            left -= counted[name]
        written["harmonia_channels"] = counted
    return written


def _text(request: CreateResponse, dialect: Dialect) -> Json:
    given = request.text
    said: Json = {"format": _format((None if given is None else given.format) or TextFormat(), dialect)}
    if given is not None and given.verbosity is not None:
        said["verbosity"] = given.verbosity
    return said


def _format(given: TextFormat, dialect: Dialect) -> Json:
    if given.type != "json_schema":
        return {"type": given.type}
    if dialect == "open-responses":
        # Its specification has no field for the schema in a response.
        return {
            "type": "json_schema",
            "name": given.name,
            "description": given.description,
            "schema": None,
            "strict": bool(given.strict),
        }
    said: Json = {"type": "json_schema", "name": given.name, "schema": given.schema, "strict": bool(given.strict)}
    if given.description is not None:
        said["description"] = given.description
    return said


def _choice(given: str | Json | None, dialect: Dialect) -> str | Json:
    if given is None:
        return "auto"
    if dialect == "open-responses" and isinstance(given, dict):
        if given.get("type") not in _STANDARD_CHOICES:
            return "required"
        if given["type"] == "allowed_tools":
            return {"type": "allowed_tools", "mode": given.get("mode", "auto"), "tools": given.get("tools", [])}
    return given


def _tool(tool: Json, dialect: Dialect) -> Json | None:
    if tool.get("type", "function") == "function":
        return {
            "type": "function",
            "name": tool.get("name"),
            "description": tool.get("description"),
            "parameters": tool.get("parameters"),
            "strict": tool.get("strict"),
        }
    if dialect == "open-responses":
        return None  # it knows only functions
    return {name: value for name, value in tool.items() if name not in _SECRET}
