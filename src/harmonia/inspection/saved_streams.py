"""Saved streams of servers: SSE (`data: {…}`), or one JSON object per line.

Five APIs are known: Chat Completions and Completions (`choices`), Responses (`response.output_text.delta`), llama.cpp
(`content`) and Ollama (`response`, `message`); and recordings of `harmonia record`. Token ids are preferred to text,
because the model sampled them. Parts that a server has already parsed are missing from the text, so they are counted.

If a server parsed the Harmony itself, `assemble` joins the stream to the items or the message that it carried. For
Responses, these are the items of the final response, or, if the stream was cut off, the finished items and what had
arrived of the others. For Chat Completions and Ollama, it is one message with its reasoning and calls. The result is
not checked here; it is read like any other JSON of these APIs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, cast

import msgspec

Object = dict[str, Any]

# What may precede the first `data:` line: other fields, comments, the head of an HTTP response.
_FIELD: Final = re.compile(r"\s*(?:$|:|HTTP/|[A-Za-z-]+\s*:)")
_DATA: Final = re.compile(r"\s*data:[ ]?")
_DONE: Final = "[DONE]"
_CAPTURE: Final = "harmonia record"
_CAPTURE_LINES: Final = ("run", "chunk", "finish", "error", "cancelled")
# The fields for what servers have parsed, under all names in use.
_PARSED_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "tool_calls", "function_call")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")

# By type of a delta event: the type of its item, and the field that it extends.
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
_REASONING: Final = _PARSED_FIELDS[:3]


class Piece(msgspec.Struct, frozen=True):
    """The contents of one object: ids or text, and the names of the fields that the server had parsed."""

    api: str
    text: str = ""
    tokens: list[int] | None = None
    parsed: tuple[str, ...] = ()
    other_choices: int = 0
    other_runs: int = 0
    error: str | None = None


class Dump(msgspec.Struct, frozen=True):
    """The pieces of a saved stream, and how many of its lines could not be read."""

    pieces: list[Piece]
    unreadable: int

    @property
    def chunks(self) -> list[str] | list[list[int]]:
        """The chunks to feed to the parser: ids if there are any, otherwise text, without empty ones."""
        tokens = [piece.tokens for piece in self.pieces if piece.tokens]
        return tokens or [piece.text for piece in self.pieces if piece.text]

    @property
    def notes(self) -> list[str]:
        """Remarks about the stream, one sentence each."""
        parsed = Counter(name for piece in self.pieces for name in piece.parsed)
        if not parsed:
            return self.other_notes
        counts = ", ".join(f"{name} {times}x" for name, times in parsed.items())
        where = "the token ids are complete" if self.has_tokens else "the text lacks those parts"
        return [f"the server had already parsed some of the output ({counts}); {where}", *self.other_notes]

    @property
    def other_notes(self) -> list[str]:
        """The same without the remark about parsed fields."""
        notes: list[str] = []
        if self.has_tokens and (lost := sum(1 for each in self.pieces if each.text and not each.tokens)):
            notes.append(f"ignored the text of {count(lost, 'chunk')} without token ids")
        if others := sum(piece.other_choices for piece in self.pieces):
            notes.append(f"read the first choice only; ignored {count(others, 'piece')} of other choices")
        if runs := sum(piece.other_runs for piece in self.pieces):
            notes.append(f"read the first run only; ignored {count(runs, 'later run')}")
        notes += [f"the server reported an error: {piece.error}" for piece in self.pieces if piece.error]
        if self.unreadable:
            what = "that is not a JSON object" if self.unreadable == 1 else "that are not JSON objects"
            notes.append(f"ignored {count(self.unreadable, 'line')} {what}")
        return notes

    @property
    def api(self) -> str:
        return next((piece.api for piece in self.pieces if piece.api), "unknown")

    @property
    def is_known(self) -> bool:
        """Whether any of it looks like the output of a server."""
        return any(piece.api or piece.error for piece in self.pieces)

    @property
    def lacks_what_was_parsed(self) -> bool:
        """Whether the server parsed some of it, so that it is missing in its sampled form."""
        return not self.has_tokens and any(piece.parsed for piece in self.pieces)

    @property
    def has_tokens(self) -> bool:
        """Whether the stream has token ids."""
        return any(piece.tokens for piece in self.pieces)


def looks_like_a_dump(text: str) -> bool:
    """Whether a text is a saved stream: `data:` lines with JSON objects, or a server's objects, one per line."""
    if text.lstrip().startswith("{"):
        # A model may answer with JSON too, so the object has to look like a server's.
        first = _read_object(_LINE_BREAK.split(text.lstrip(), maxsplit=1)[0]) or _read_object(text)
        return first is not None and bool(_read(first, is_certain=False).api)
    if _FIELD.match(text[:1000].lstrip()) is None:
        return False
    for line in _LINE_BREAK.split(text):
        data = _DATA.match(line)
        if data and line[data.end() :].strip() != _DONE:
            return _read_object(line[data.end() :]) is not None
        if not _FIELD.match(line):
            return False
    return False


def read_dump(text: str) -> Dump:
    """Read a saved stream. Unreadable lines, such as a truncated last one, are counted and ignored."""
    objects, unreadable = read_objects(text)
    return Dump([_read(each) for each in objects], unreadable)


def read_objects(text: str) -> tuple[list[Object], int]:
    """The objects of a saved stream, and how many lines are not objects."""
    whole = _read_object(text)
    if whole is not None:  # a response that was not streamed
        return [whole], 0
    found: list[Object] = []
    unreadable = 0
    for event in _events(text):
        objects = [_read_object(line) for line in event]
        if None in objects and (joined := _read_object("\n".join(event))) is not None:
            objects = [joined]  # SSE allows one value to span several data lines
        unreadable += sum(1 for each in objects if each is None)
        found += [each for each in objects if each is not None]
    return found, unreadable


def _events(text: str) -> Iterator[list[str]]:
    """The data lines of each event; an empty line ends an event."""
    event: list[str] = []
    for line in _LINE_BREAK.split(text):
        data = _DATA.match(line)
        payload = line[data.end() :] if data else line
        if not line.strip():
            if event:
                yield event
            event = []
        elif payload.strip() != _DONE and (data or payload.lstrip().startswith("{")):
            event.append(payload)
    if event:
        yield event


def _read_object(text: str) -> Object | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(Object, value) if isinstance(value, dict) else None


def _read(chunk: Object, *, is_certain: bool = True) -> Piece:
    """Read one object. Unless it is certain that it comes from a stream, it has to look like a server's."""
    kind = chunk.get("type")
    if kind == "capture" if "version" in chunk else "run" in chunk and kind in _CAPTURE_LINES:
        return _read_capture(chunk)
    if isinstance(kind, str) and kind.startswith("response."):
        return _read_responses(kind, chunk)
    if isinstance(chunk.get("choices"), list):
        return _read_choices(cast("list[Any]", chunk["choices"]), chunk)
    message = _object(chunk.get("message"))
    if ("done" in chunk and ("response" in chunk or message)) or (is_certain and ("response" in chunk or message)):
        # Ollama: /api/generate has `response`, /api/chat has `message`.
        parsed = _parsed(chunk) + _parsed(message)
        return Piece("Ollama", _text(chunk.get("response")) + _text(message.get("content")), parsed=parsed)
    if isinstance(chunk.get("content"), str) and (is_certain or "stop" in chunk or "tokens" in chunk):
        return Piece("llama.cpp", _text(chunk["content"]), _ids(chunk.get("tokens")), _parsed(chunk))
    for name in ("tokens", "token_ids"):
        if (ids := _ids(chunk.get(name))) is not None:
            return Piece("token ids", tokens=ids)
    return Piece("", error=_error(chunk))


def _read_capture(chunk: Object) -> Piece:
    """Read a line written by `harmonia record`; see harmonia/run/engines/recording.py."""
    if chunk.get("run", 0) != 0:
        return Piece(_CAPTURE, other_runs=1 if chunk["type"] == "run" else 0)
    error = _text(chunk.get("message"))[:200] if chunk["type"] == "error" else None
    return Piece(_CAPTURE, _text(chunk.get("text")), _ids(chunk.get("tokens")), error=error)


def _read_responses(kind: str, chunk: Object) -> Piece:
    delta = _text(chunk.get("delta"))
    if kind == "response.output_text.delta":
        return Piece("Responses", delta, _ids(chunk.get("token_ids")))
    # Deltas of reasoning, of a call's arguments, of a refusal: the server has already separated them.
    parsed = (kind.removeprefix("response.").removesuffix(".delta"),) if delta else ()
    return Piece("Responses", parsed=parsed, error=_error(chunk))


def _read_choices(choices: list[Any], chunk: Object) -> Piece:
    first, others = _first_choice(choices)
    said = _said_in(first)
    text = _text(said.get("content")) + _text(first.get("text"))
    is_text_completion = chunk.get("object") == "text_completion" or ("text" in first and not said)
    api = "Completions" if is_text_completion else "Chat Completions"
    return Piece(api, text, _ids(first.get("token_ids")), _parsed(said), others, error=_error(chunk))


def _first_choice(choices: list[Any]) -> tuple[Object, int]:
    """The first choice, and the number of others."""
    firsts = [choice for choice in map(_object, choices) if choice.get("index", 0) == 0]
    return firsts[0] if firsts else {}, len(choices) - len(firsts)


def _said_in(choice: Object) -> Object:
    # A stream has `delta`, a whole answer `message`, the older Completions API neither.
    return _object(choice.get("delta")) or _object(choice.get("message"))


def _object(value: object) -> Object:
    return cast(Object, value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _ids(value: object) -> list[int] | None:
    if not isinstance(value, list):
        return None
    listed = cast("list[Any]", value)
    return listed if all(type(each) is int for each in listed) else None


def _parsed(said: Object) -> tuple[str, ...]:
    return tuple(name for name in _PARSED_FIELDS if said.get(name))


def _error(chunk: Object) -> str | None:
    error = chunk.get("error")
    return str(_object(error).get("message") or error)[:200] if error else None


def count(number: int, noun: str) -> str:
    """A number with its noun, such as `1 chunk` and `2 chunks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# ── streams that the server had parsed ──


def assemble(objects: Iterable[Object]) -> tuple[Literal["chat", "responses"], Object, int] | None:
    """The answer that these objects carry: its format, its body, and how many items or messages it has."""
    listed = list(objects)
    if any(str(each.get("type", "")).startswith("response.") for each in listed):
        items = _assemble_responses(listed)
        return ("responses", {"output": items}, len(items)) if items else None
    message = _assemble_message(listed)
    return ("chat", {"messages": [message]}, 1) if message else None


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _assemble_responses(events: list[Object]) -> list[Object]:
    items: dict[Any, Object] = {}
    deltas: dict[Any, dict[str, list[str]]] = {}
    place_of: dict[str, Any] = {}  # by item id: some servers change an item's index when it is finished
    for event in events:
        kind = event.get("type")
        if kind in _ENDS:
            output = _object(event.get("response")).get("output")
            if isinstance(output, list) and output:
                return [_object(item) for item in cast("list[Any]", output)]
        at = index if type(index := event.get("output_index")) is int else 0
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
                key = f"{key} {item['type']}"  # without an index, all items would share one place
            items.setdefault(key, item)
            deltas.setdefault(key, {}).setdefault(field, []).append(text)
    for at, fields in deltas.items():
        items[at] = _with_deltas(items[at], {field: "".join(pieces) for field, pieces in fields.items()})
    return [item for item in items.values() if item]


def _delta(event: Object) -> tuple[Object, str, str] | None:
    """The item of a delta as far as it is known, the field, and the text."""
    kind, delta = event.get("type"), event.get("delta")
    if kind == "response.stream.delta":  # as in OpenAI's guide to Harmony
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
    """An unfinished item with the deltas that had arrived."""
    parts = {kind: [{"type": kind, "refusal" if kind == "refusal" else "text": said[kind]}] for kind in said}
    match item.get("type"):
        case "message":
            content = [*parts.get("output_text", ()), *parts.get("refusal", ())]
            return {"role": "assistant", **item, "content": content}
        case "reasoning":
            fields = {"reasoning_text": "content", "summary_text": "summary"}
            return {**item, **{field: parts[kind] for kind, field in fields.items() if kind in parts}}
        case _:
            return {**item, **said}


# ── Chat Completions and Ollama ─────────────────────────────────────────────────────────────────────────────────────


def _assemble_message(chunks: list[Object]) -> Object | None:
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[Object] = []
    for chunk in chunks:
        choices = chunk.get("choices")
        said = _said_in(_first_choice(cast("list[Any]", choices))[0] if isinstance(choices, list) else chunk)
        content += _texts(said, ("content",)) or _texts_of_parts(said.get("content"), "text")
        if isinstance(chunk.get("response"), str):  # Ollama's /api/generate
            content.append(chunk["response"])
        reasoning += (
            _texts(said, _REASONING)
            or _texts(chunk, _REASONING)
            or _texts_of_parts(said.get("reasoning_details"), "reasoning.text")
            or _texts_of_parts(said.get("content"), "thinking")
        )
        calls += map(_object, cast("list[Any]", listed) if isinstance(listed := said.get("tool_calls"), list) else [])
        if function := _object(said.get("function_call")):
            calls.append({"index": "function_call", "function": function})
    message: Object = {"role": "assistant"}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if any(content):
        message["content"] = "".join(content)
    if calls:
        message["tool_calls"] = _join_calls(calls)
    return message if len(message) > 1 else None


def _join_calls(pieces: Iterable[Object]) -> list[Object]:
    """Joins pieces of calls. A piece without an index continues the last call, unless it has an id of its own."""
    made: list[Object] = []
    arguments: list[list[str]] = []
    place: dict[str | None, int] = {}  # by number, the call that is being written
    for piece in pieces:
        number, id_, function = piece.get("index"), piece.get("id"), _object(piece.get("function"))
        number = None if number is None else str(number)  # not every JSON value can be a dict key
        at = place.get(number) if number is not None else (len(made) - 1 if made else None)
        # Some servers give all calls the same index, and some repeat a call's id in each of its pieces.
        if at is None or (id_ and made[at].get("id", id_) != id_):
            at = len(made)
            made.append({"type": "function", "function": {"name": ""}})
            arguments.append([])
        place[number] = at
        call = made[at]
        if id_:
            call["id"] = id_
        name, given = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != call["function"]["name"]:
            call["function"]["name"] += name
        if isinstance(given, str):
            arguments[at].append(given)
        elif given is not None:
            call["function"]["arguments"] = given
    for call, given in zip(made, arguments, strict=True):
        if given:
            call["function"]["arguments"] = "".join(given)
    return made


def _texts(said: Object, names: tuple[str, ...]) -> list[str]:
    """The text of the first of these fields that has one: some servers send the same text under two names."""
    return [text for name in names if (text := _text(said.get(name)))][:1]


def _texts_of_parts(value: object, kind: str) -> list[str]:
    """The texts of all parts of this type; thinking has nested parts."""
    texts: list[str] = []
    for part in map(_object, cast("list[Any]", value) if isinstance(value, list) else []):
        if part.get("type") == kind:
            texts += _texts(part, ("text",)) or _texts_of_parts(part.get("thinking"), "text")
    return texts
