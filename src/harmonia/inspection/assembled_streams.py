"""Streams whose server had read the Harmony itself, put together again: the items or the message that they carry.

Responses: the items of the response that the stream ended with; where it did not end, those that were finished, and
what had come of the others. Chat Completions and Ollama: one message, with its reasoning and its calls. Nothing is
checked here; what is made is read like any other JSON of these APIs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, cast

from harmonia.inspection.saved_streams import Object

# What a delta adds to, by the type of its event: the item that it is part of, and the field.
_DELTAS: Final = {
    "response.output_text.delta": ("message", "output_text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "reasoning_text"),
    "response.reasoning.delta": ("reasoning", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_text"),
    "response.function_call_arguments.delta": ("function_call", "arguments"),
    "response.mcp_call_arguments.delta": ("mcp_call", "arguments"),
    "response.mcp_call.arguments.delta": ("mcp_call", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "input"),
    "response.code_interpreter_call_code.delta": ("code_interpreter_call", "code"),
}
_CALL_DELTA: Final = "response.output_tool_call.delta"
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_REASONING: Final = ("reasoning_content", "reasoning", "thinking")


class Assembled(NamedTuple):
    """What a stream carried: a body of the API, and how many items or messages are in it."""

    format: Literal["chat", "responses"]
    value: Object
    number: int


def assemble(objects: Iterable[Object]) -> Assembled | None:
    """The answer that these objects stream; None where there is nothing of one."""
    listed = list(objects)
    if any(str(each.get("type", "")).startswith("response.") for each in listed):
        items = _assemble_responses(listed)
        return Assembled("responses", {"output": items}, len(items)) if items else None
    message = _assemble_message(listed)
    return Assembled("chat", {"messages": [message]}, 1) if message else None


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _assemble_responses(events: list[Object]) -> list[Object]:
    items: dict[Any, Object] = {}
    deltas: dict[Any, dict[str, list[str]]] = {}
    place_of: dict[str, Any] = {}  # by the id of an item: some servers count differently when they are done with it
    for event in events:
        kind = event.get("type")
        if kind in _ENDS:
            output = _object(event.get("response")).get("output")
            if isinstance(output, list) and output:
                return [_object(item) for item in cast("list[Any]", output)]
        at = _number(event)
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = _object(event.get("item"))
            id_ = item.get("id")
            if isinstance(id_, str):
                at = place_of.setdefault(id_, at)
            items[at] = item
            if kind == "response.output_item.done":
                deltas.pop(at, None)
        elif (found := _delta(event)) is not None:
            item, field, text = found
            key: Any = place_of.get(str(event.get("item_id")), at)
            if kind == _CALL_DELTA:
                key = f"call {event.get('call_id')}"
            if key in items and items[key].get("type") != item["type"]:
                key = f"{key} {item['type']}"  # without numbers, all are at the same place
            items.setdefault(key, item)
            deltas.setdefault(key, {}).setdefault(field, []).append(text)
    for at, fields in deltas.items():
        items[at] = _with_deltas(items[at], {field: "".join(pieces) for field, pieces in fields.items()})
    return [item for item in items.values() if item]


def _number(event: Object) -> int:
    at = event.get("output_index", 0)
    return at if type(at) is int else 0


def _delta(event: Object) -> tuple[Object, str, str] | None:
    """The item that a delta is part of, as far as it says, the field, and the text."""
    kind, delta = event.get("type"), event.get("delta")
    if kind == "response.stream.delta":  # as the guide to Harmony has it
        said = _object(delta)
        if said.get("channel") == "analysis" and isinstance(said.get("text"), str):
            return {"type": "reasoning"}, "reasoning_text", said["text"]
        text = said.get("text", delta)
        return ({"type": "message"}, "output_text", text) if isinstance(text, str) else None
    if not isinstance(delta, str) or not isinstance(kind, str):
        return None
    if kind == _CALL_DELTA:
        return {"type": "function_call", "call_id": event.get("call_id"), "name": event.get("name")}, "arguments", delta
    if kind not in _DELTAS:
        return None
    item_type, field = _DELTAS[kind]
    return {"type": item_type}, field, delta


def _with_deltas(item: Object, said: dict[str, str]) -> Object:
    """An item that was never finished, with what had come of it."""
    match item.get("type"):
        case "message":
            content = [_part(name, said[name]) for name in ("output_text", "refusal") if said.get(name)]
            return {"role": "assistant", **item, "content": content}
        case "reasoning":
            made = dict(item)
            if "reasoning_text" in said:
                made["content"] = [{"type": "reasoning_text", "text": said["reasoning_text"]}]
            if "summary_text" in said:
                made["summary"] = [{"type": "summary_text", "text": said["summary_text"]}]
            return made
        case _:
            return {**item, **said}


def _part(kind: str, text: str) -> Object:
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


# ── Chat Completions and Ollama ─────────────────────────────────────────────────────────────────────────────────────


def _assemble_message(chunks: list[Object]) -> Object | None:
    content: list[str] = []
    reasoning: list[str] = []
    calls = _Calls()
    for chunk in chunks:
        said = _said(chunk)
        content += _texts(said, ("content",)) or _texts_of_parts(said.get("content"), "text")
        if isinstance(chunk.get("response"), str):  # Ollama's /api/generate
            content.append(chunk["response"])
        reasoning += (
            _texts(said, _REASONING)
            or _texts(chunk, _REASONING)
            or _texts_of_parts(said.get("reasoning_details"), "reasoning.text")
            or _texts_of_parts(said.get("content"), "thinking")
        )
        for call in _calls_in(said):
            calls.take(call)
    message: Object = {"role": "assistant"}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if any(content):
        message["content"] = "".join(content)
    if calls.made:
        message["tool_calls"] = calls.finish()
    return message if len(message) > 1 else None


class _Calls:
    """Calls in pieces. A piece without a number goes on with the last call, unless it has an id of its own."""

    def __init__(self) -> None:
        self.made: list[Object] = []
        self._arguments: list[list[str]] = []
        self._at: dict[str | None, int] = {}  # by number, the call that is being written

    def take(self, piece: Object) -> None:
        number, id_, function = piece.get("index"), piece.get("id"), _object(piece.get("function"))
        number = None if number is None else str(number)  # JSON has values that are no keys
        at = self._at.get(number) if number is not None else (len(self.made) - 1 if self.made else None)
        # Some servers give all calls the same number, and some repeat the id of a call in each piece of it.
        if at is None or (id_ and self.made[at].get("id", id_) != id_):
            at = len(self.made)
            self.made.append({"type": "function", "function": {"name": ""}})
            self._arguments.append([])
        self._at[number] = at
        call = self.made[at]
        if id_:
            call["id"] = id_
        name, given = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != call["function"]["name"]:
            call["function"]["name"] += name
        if isinstance(given, str):
            self._arguments[at].append(given)
        elif given is not None:
            call["function"]["arguments"] = given

    def finish(self) -> list[Object]:
        for call, pieces in zip(self.made, self._arguments, strict=True):
            if pieces:
                call["function"]["arguments"] = "".join(pieces)
        return self.made


def _said(chunk: Object) -> Object:
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return _object(chunk.get("message"))
    listed = [_object(choice) for choice in cast("list[Any]", choices)]
    first = next((choice for choice in listed if choice.get("index", 0) == 0), _object(None))
    return _object(first.get("delta")) or _object(first.get("message"))


def _texts(said: Object, names: tuple[str, ...]) -> list[str]:
    """The text of the first of these fields that has any: servers send the same under two names."""
    for name in names:
        value = said.get(name)
        if isinstance(value, str) and value:
            return [value]
    return []


def _texts_of_parts(value: object, kind: str) -> list[str]:
    """The texts of the parts of a kind; thinking has parts of its own."""
    parts = [_object(part) for part in cast("list[Any]", value)] if isinstance(value, list) else []
    texts: list[str] = []
    for part in parts:
        if part.get("type") == kind:
            texts += _texts(part, ("text",)) or _texts_of_parts(part.get("thinking"), "text")
    return texts


def _calls_in(said: Object) -> list[Object]:
    listed = said.get("tool_calls")
    calls = [_object(call) for call in cast("list[Any]", listed)] if isinstance(listed, list) else []
    function = _object(said.get("function_call"))
    return [*calls, {"index": "function_call", "function": function}] if function else calls


def _object(value: object) -> Object:
    return cast(Object, value) if isinstance(value, dict) else {}
