"""A call to show to a model: one of its own tools with arguments of the right form, made of the tool's schema.

    {"city": {"type": "string"}, "days": {"type": "integer"}}    ->    {"city": "the city", "days": 1}

Only what the schema requires is given, or the first parameter where it requires none. Nothing raises: what cannot be
said by a simple value is a text that names the parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from harmonia.json_codec import json_fault
from harmonia.messages import ToolDescription

_NAME: Final = "tool_name"
# An example shows a form. It does not have to show all of a large one.
_MAX_MEMBERS: Final = 6
_MAX_DEPTH: Final = 3


def example_call(tools: Sequence[ToolDescription]) -> tuple[str, str]:
    """The name of the first tool, and arguments for it as JSON text."""
    if not tools:
        return _NAME, "{}"
    schema = tools[0].parameters
    arguments = _members(cast("Mapping[str, Any]", schema), 0) if isinstance(schema, Mapping) else {}
    return tools[0].name, json.dumps(arguments, ensure_ascii=False)


def _members(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or depth > _MAX_DEPTH:
        return {}
    known = cast("Mapping[str, Any]", properties)
    needed = _listed(required)
    names = [name for name in known if name in needed] or list(known)[:1]
    return {name: _value(name, known[name], depth + 1) for name in names[:_MAX_MEMBERS]}


def _value(name: str, given: Any, depth: int) -> Any:
    schema: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    for keyword in ("const", "default"):
        if _is_simple(schema.get(keyword)):
            return schema[keyword]
    for keyword in ("enum", "examples"):
        if (values := _listed(schema.get(keyword))) and _is_simple(values[0]):
            return values[0]
    kinds = _listed(schema.get("type"))
    match kinds[0] if kinds else schema.get("type"):
        case "integer" | "number":
            least = schema.get("minimum")
            return least if isinstance(least, int) and least > 1 else 1
        case "boolean":
            return True
        case "array":
            return [_value(name, schema.get("items"), depth + 1)] if depth <= _MAX_DEPTH else []
        case "object":
            return _members(schema, depth)
        case _:
            return f"the {name.replace('_', ' ')}"


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_simple(value: Any) -> bool:
    return isinstance(value, str | int) and value != ""


def described_as_openai(tool: ToolDescription) -> str:
    """A tool as the JSON in which OpenAI's API takes it, and most chat templates show it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    known = {key: value for key, value in function.items() if value is not None}
    return json.dumps({"type": "function", "function": known}, ensure_ascii=False)


def json_arguments(arguments: str) -> str:
    """Arguments for a place where JSON must stand: what is no JSON becomes a string of it."""
    return arguments if json_fault(arguments) is None else json.dumps(arguments, ensure_ascii=False)


def result_guidance(*, is_error: bool) -> str:
    """What most families tell a model after a result."""
    if is_error:
        return "The call failed. Call again with other arguments, use another tool, or say what went wrong."
    return "Use this result: call another tool if one is needed, otherwise answer in words."
