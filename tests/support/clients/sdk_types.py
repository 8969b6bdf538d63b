"""What the server sends, against the types of OpenAI's own SDK: every required field, every type, every literal value.

The SDK itself reads leniently, so that a field of the wrong type is found by whoever uses it. Here the same types are
applied strictly. What the types do not know is ours, and may stand only where `OURS` says: beside what is OpenAI's, and
never in an object that clients read as a map, such as the details of a usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast, get_args

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

# By the SDK's types: the fields that we add to them.
_OF_ITEMS: Final = {"status", "encrypted_content", "harmonia_continues"}
OURS: Final[Mapping[str, set[str]]] = {
    # Fields of the API that this version of the SDK leaves out, and two of ours.
    "Response": {"presence_penalty", "frequency_penalty", "store", "warnings", "harmonia_reason", "harmonia_sampled"},
    "ResponseUsage": {"harmonia_channels"},
    "ResponseOutputMessage": _OF_ITEMS,
    "ResponseReasoningItem": {*_OF_ITEMS, "harmonia_channel", "harmonia_call"},
    "ResponseFunctionToolCall": _OF_ITEMS,
    "ResponseCustomToolCall": _OF_ITEMS,
    "ResponseFunctionShellToolCall": _OF_ITEMS,
    "LocalShellCall": _OF_ITEMS,
    "ResponseApplyPatchToolCall": _OF_ITEMS,
    "McpCall": {*_OF_ITEMS, "harmonia_by_hand"},
    "McpApprovalRequest": _OF_ITEMS,
    "McpListTools": _OF_ITEMS,
    # Of the API, and of other versions of the SDK.
    "ResponseFunctionCallArgumentsDoneEvent": {"name"},
    "ChatCompletion": {"metadata"},
    "Choice": {"hidden_because", "unfinished_call", "warnings"},
    "ChatCompletionMessage": {"reasoning", "reasoning_content"},
    "ChoiceDelta": {"reasoning", "reasoning_content"},
    # This version of the SDK has no calls to custom tools in chunks; the API has.
    "ChoiceDeltaToolCall": {"custom"},
}


def _by_type(union: Any) -> dict[str, Any]:
    """The members of a union by the value of their `type`, so that an error is about the one that is meant."""
    members = get_args(get_args(union)[0])
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


_EVENTS: Final = _by_type(ResponseStreamEvent)


def check_response(value: Any) -> None:
    """A whole response."""
    _check(Response, value)


def check_events(values: Sequence[Any]) -> None:
    """The events of a stream."""
    for value in values:
        _check(_EVENTS[value["type"]], value)


def check_completion(value: Any) -> None:
    """A whole chat completion."""
    _check(ChatCompletion, value)


def check_chunks(values: Sequence[Any]) -> None:
    """The chunks of a stream; an error is none."""
    for value in values:
        if "error" not in value:
            _check(ChatCompletionChunk, _without_custom(value))


def _without_custom(chunk: Any) -> Any:
    """The chunk without the type of calls to custom tools: the API has it, and this version of the SDK has not."""
    chunk = json.loads(json.dumps(chunk))
    for choice in chunk["choices"]:
        for call in choice["delta"].get("tool_calls", ()):
            if call.get("type") == "custom":
                del call["type"]
    return chunk


def _check(kind: Any, value: Any) -> None:
    read = _adapter(kind).validate_python(value, strict=True)
    for type_, name in _unknown(read):
        assert name in OURS.get(type_, ()), f"{type_}.{name} is not OpenAI's"


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _unknown(value: object) -> Iterator[tuple[str, str]]:
    """The fields that the SDK does not know, each with the type that it stands in."""
    if isinstance(value, BaseModel):
        extra = value.model_extra or {}
        yield from ((type(value).__name__, name) for name in extra)
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in cast("Sequence[object]", value):
            yield from _unknown(each)
