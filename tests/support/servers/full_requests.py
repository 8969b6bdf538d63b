"""Requests that set every field there is, and the places in them where somebody could write.

`holes_of` finds the places: every text, and every key of an object whose keys are the client's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

# Objects whose keys a client chooses, by the key under which they stand.
OPEN_OBJECTS = frozenset(
    ("metadata", "client_metadata", "properties", "$defs", "definitions", "patternProperties", "env", "headers")
)

SCHEMA: Json = {
    "type": "object",
    "title": "Title",
    "description": "About it",
    "$comment": "Comment",
    "properties": {
        "city": {"type": "string", "description": "Where", "default": "Paris", "examples": ["Rome"], "title": "City"},
        "kind": {"enum": ["one", "two"], "description": "Which"},
        "exact": {"const": "this"},
        "day": {"type": "string", "format": "date", "pattern": "^[0-9]+$"},
        "deep": {"$ref": "#/$defs/Deep"},
        "many": {"type": "array", "items": {"type": "string", "title": "Item"}},
        "some": {"anyOf": [{"type": "string", "description": "Either"}, {"type": "null", "title": "None"}]},
    },
    "required": ["city"],
    "$defs": {"Deep": {"type": "object", "description": "Deep", "properties": {"inner": {"type": "string"}}}},
    "additionalProperties": {"type": "string", "description": "More"},
}
FUNCTION: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": SCHEMA,
    "strict": False,
    "output_schema": {"type": "object", "description": "What comes"},
    "allowed_callers": ["direct"],
}
CUSTOM: Json = {
    "type": "custom",
    "name": "write_code",
    "description": "Writes code.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /[a-z]+/"},
    "allowed_callers": ["direct"],
}
# Base64 of "typed text", so that a file is read.
FILE_DATA = "data:text/plain;base64,dHlwZWQgdGV4dA=="

PARTS: list[Json] = [
    {"type": "input_text", "text": "Hello", "annotations": [{"type": "note", "title": "Said"}]},
    {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
    {"type": "input_image", "file_id": "file_1"},
    {"type": "input_file", "filename": "notes.txt", "file_data": FILE_DATA},
    {"type": "input_file", "filename": "other.txt", "file_url": "https://example.com/other"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "input_video", "video_url": "https://example.com/film"},
]

FULL_RESPONSE: Json = {
    "model": "script",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": "Rules", "id": "msg_0"},
        {"type": "message", "role": "user", "content": PARTS, "id": "msg_1", "status": "completed", "created_by": "me"},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "More rules"}]},
        {"role": "user", "content": "Next"},
        {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Thought"}], "summary": []},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "Soon"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city": "Paris"}',
            "caller": {"type": "direct", "note": "Noted"},
        },
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "Sunny"}, {"type": "input_file", "filename": "a.txt"}],
            "name": "get_weather",
        },
        {"type": "function_call", "call_id": "call_2", "name": "inner", "namespace": "space", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": "Rain",
            "namespace": "space",
            "name": "inner",
        },
        {"type": "custom_tool_call", "call_id": "call_3", "name": "write_code", "input": "print(1)"},
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "1", "name": "write_code"},
        {
            "type": "shell_call",
            "call_id": "call_4",
            "action": {"commands": ["ls"], "timeout_ms": 1},
            "environment": {"type": "local"},
        },
        {
            "type": "shell_call_output",
            "call_id": "call_4",
            "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        {
            "type": "local_shell_call",
            "call_id": "call_5",
            "action": {"type": "exec", "command": ["ls"], "env": {"HOME": "here"}, "working_directory": "there"},
        },
        {"type": "local_shell_call_output", "id": "call_5", "output": "listed"},
        {
            "type": "apply_patch_call",
            "call_id": "call_6",
            "operation": {"type": "update_file", "path": "a.py", "diff": "+x"},
        },
        {"type": "apply_patch_call_output", "call_id": "call_6", "output": "done", "status": "failed"},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "search",
            "server_label": "docs",
            "arguments": '{"q": "x"}',
            "output": "Found",
        },
        {
            "type": "mcp_call",
            "id": "mcp_2",
            "name": "search",
            "server_label": "docs",
            "arguments": "{}",
            "error": "Failed",
        },
        {
            "type": "mcp_approval_request",
            "id": "mcpr_1",
            "name": "write",
            "server_label": "docs",
            "arguments": '{"q": "x"}',
        },
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": False,
            "reason": "Not now",
        },
        {
            "type": "mcp_approval_request",
            "id": "mcpr_2",
            "name": "write",
            "server_label": "docs",
            "arguments": '{"q": "y"}',
        },
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_2",
            "approve": True,
            "harmonia_arguments": '{"q": "z"}',
            "harmonia_output": "By hand",
        },
        {
            "type": "mcp_call",
            "id": "mcp_3",
            "name": "write",
            "server_label": "docs",
            "arguments": '{"q": "z"}',
            "output": "By hand",
            "approval_request_id": "mcpr_2",
            "harmonia_by_hand": True,
        },
        {
            "type": "mcp_list_tools",
            "server_label": "docs",
            "tools": [{"name": "search", "description": "Finds"}],
            "error": "None",
        },
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [{"type": "function", "name": "later", "description": "Later", "parameters": SCHEMA}],
        },
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "Said"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]},
    ],
    "tools": [
        FUNCTION,
        CUSTOM,
        {
            "type": "namespace",
            "name": "space",
            "description": "A space.",
            "tools": [{"type": "function", "name": "inner", "description": "Inner", "parameters": SCHEMA}],
        },
        {"type": "shell", "environment": {"type": "local"}, "allowed_callers": ["direct"]},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "web_search", "user_location": {"type": "approximate", "city": "Paris"}},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [
            {"type": "function", "name": "get_weather"},
            {"type": "function", "name": "inner", "namespace": "space"},
            {"type": "custom", "name": "write_code"},
        ],
    },
    "text": {
        "format": {"type": "json_schema", "name": "answer", "description": "The answer", "schema": SCHEMA},
        "verbosity": "low",
    },
    "reasoning": {"effort": "low", "summary": "auto", "context": "auto"},
    "harmonia_identity": "You are a lighthouse keeper.",
    "include": ["reasoning.encrypted_content"],
    "truncation": "disabled",
    "metadata": {"project": "Harmonia"},
    "client_metadata": {"app": "test"},
    "user": "me",
    "safety_identifier": "somebody",
    "prompt_cache_key": "cache",
    "prompt_cache_retention": "in_memory",
    "service_tier": "auto",
    "store": False,
}

INSTRUCTED_RESPONSE: Json = {
    "model": "script",
    "instructions": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"type": "message", "role": "system", "content": "Be brief."},
    ],
    "input": "Hello",
}

CHAT_FUNCTION: Json = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA, "strict": False},
}
FULL_CHAT: Json = {
    "model": "script",
    "messages": [
        {"role": "system", "content": "Rules", "name": "boss"},
        {"role": "developer", "content": [{"type": "text", "text": "More rules"}]},
        {
            "role": "user",
            "name": "alice",
            "content": [
                {"type": "text", "text": "Hello"},
                {"type": "image_url", "image_url": {"url": "https://example.com/cat.png", "detail": "auto"}},
                {"type": "file", "file": {"filename": "notes.txt", "file_data": FILE_DATA}},
                {"type": "file", "file": {"file_id": "file_1"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "video_url", "video_url": {"url": "https://example.com/film"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Soon",
            "reasoning_content": "Thought",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
                },
                {"id": "call_2", "type": "custom", "custom": {"name": "write_code", "input": "print(1)"}},
            ],
            "annotations": [{"type": "note", "title": "Said"}],
            "provider_specific_fields": {"reasoning": "Thought", "refusal": "Refused"},
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny", "name": "get_weather"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is"}], "reasoning": "Thought again"},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "refusal": "No"},
        {"role": "user", "content": "Please"},
    ],
    "tools": [
        CHAT_FUNCTION,
        {
            "type": "custom",
            "custom": {
                "name": "write_code",
                "description": "Writes code.",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /[a-z]+/"}},
            },
        },
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [
                {"type": "function", "function": {"name": "get_weather"}},
                {"type": "custom", "custom": {"name": "write_code"}},
            ],
        },
    },
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "description": "The answer", "schema": SCHEMA},
    },
    "stop": ["STOP HERE"],
    "metadata": {"project": "Harmonia"},
    "user": "me",
    "safety_identifier": "somebody",
    "prompt_cache_key": "cache",
    "prompt_cache_retention": "in_memory",
    "prompt_cache_options": {"mode": "auto"},
    "service_tier": "auto",
    "reasoning_effort": "low",
    "verbosity": "high",
    "modalities": ["text"],
}
OLDER_CHAT: Json = {
    "model": "script",
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "function_call": {"name": "get_weather", "arguments": "{}"}},
        {"role": "function", "name": "get_weather", "content": "Sunny"},
        {"role": "user", "content": "Go on"},
    ],
    "functions": [{"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}],
    "function_call": {"name": "get_weather"},
}
RENDERED_HARMONY: Json = {
    "messages": [
        {
            "role": "system",
            "content": [
                {
                    "type": "system_content",
                    "model_identity": "You are a model.",
                    "reasoning_effort": "low",
                    "conversation_start_date": "2025-01-01",
                    "knowledge_cutoff": "2024-06",
                }
            ],
        },
        {
            "role": "developer",
            "content": [
                {
                    "type": "developer_content",
                    "instructions": "Be brief.",
                    "tools": {
                        "functions": {
                            "name": "functions",
                            "description": "Functions",
                            "tools": [{"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}],
                        }
                    },
                }
            ],
        },
        {"role": "user", "name": "alice", "content": "Hello"},
        {
            "role": "assistant",
            "channel": "commentary",
            "recipient": "functions.get_weather",
            "content_type": "<|constrain|>json",
            "content": "{}",
        },
        {"role": "tool", "name": "functions.get_weather", "channel": "commentary", "content": "Sunny"},
        {"role": "assistant", "channel": "final", "content": "Sunny"},
    ],
}

RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
RENDER = "/v1/harmony/render"
TRACE = "/v1/harmony/trace"

# What the model goes on with, in one piece and in two.
CONTINUED_RESPONSE: Json = {
    "store": False,
    "harmonia_continue": True,
    "input": [
        {"type": "message", "role": "user", "content": "Hello"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Thought"}], "status": "incomplete"},
        {
            "type": "reasoning",
            "content": [{"type": "reasoning_text", "text": " of it"}],
            "harmonia_continues": True,
            "harmonia_channel": "notes",
            "harmonia_call": {"name": "functions.x", "arguments": "{}", "error": "no"},
        },
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "Sai"},
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "content": "d",
            "harmonia_continues": True,
            "status": "incomplete",
        },
    ],
}

# Where to send it, and what. The last four go by way of the Harmony endpoints.
FULL_REQUESTS: dict[str, tuple[str, Json]] = {
    "responses": (RESPONSES, FULL_RESPONSE),
    "instructed": (RESPONSES, INSTRUCTED_RESPONSE),
    "chat": (CHAT, FULL_CHAT),
    "older chat": (CHAT, OLDER_CHAT),
    "continued": (RESPONSES, CONTINUED_RESPONSE),
    "render harmony": (RENDER, RENDERED_HARMONY),
    "render chat": (RENDER, {"messages": FULL_CHAT["messages"], "tools": FULL_CHAT["tools"]}),
    "render responses": (RENDER, {"input": FULL_RESPONSE["input"], "tools": FULL_RESPONSE["tools"][:2]}),
    "trace": (
        TRACE,
        {
            "request": {"input": FULL_RESPONSE["input"][:2], "tools": FULL_RESPONSE["tools"][:2]},
            "output": FULL_RESPONSE["input"][2:],
            "sampled": [{"faults": ["stream.text_outside"], "first_item": 0, "items": 1}],
            "include": ["ids"],
        },
    ),
}


class Hole(NamedTuple):
    """A place where somebody could write. `is_key` says that it is a key, not a value."""

    path: tuple[str | int, ...]
    is_key: bool = False

    @property
    def written(self) -> str:
        return ".".join(map(str, self.path)) + (" (the key)" if self.is_key else "")


def holes_of(value: Any, path: tuple[str | int, ...] = (), *, is_open: bool = False) -> Iterator[Hole]:
    """All of them. `is_open` says that the keys of this object are the client's own."""
    if isinstance(value, str):
        yield Hole(path)
    elif isinstance(value, list):
        for at, each in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from holes_of(each, (*path, at))
    elif isinstance(value, dict):
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            name = str(key)  # pyright: ignore[reportUnknownArgumentType]
            if is_open:
                yield Hole((*path, name), is_key=True)
            yield from holes_of(each, (*path, name), is_open=name in OPEN_OBJECTS and not is_open)


def filled(body: Json, hole: Hole, text: str) -> Json:
    """The request with a text in that place. Only what is on the way to it is copied."""
    return _filled(body, hole.path, hole, text)


def _filled(value: Any, path: tuple[str | int, ...], hole: Hole, text: str) -> Any:
    if not path:
        return text
    step = path[0]
    if len(path) == 1 and hole.is_key:
        return {(text if key == step else key): each for key, each in value.items()}
    made = list(value) if isinstance(value, list) else dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    made[step] = _filled(made[step], path[1:], hole, text)  # type: ignore[index]
    return made  # pyright: ignore[reportUnknownVariableType]
