"""What a server streamed, as somebody saved it: SSE (`data: {…}`) or one JSON object a line.

Five dialects are known: Chat Completions and Completions (`choices`), Responses (`response.output_text.delta`),
llama.cpp (`content`) and Ollama (`response`, `message`); and what `harmonia record` wrote. Token ids are taken where
the chunks have them, because they are what the model sampled; otherwise the text. What a server parsed already is gone
from the text, so it is counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

Object = dict[str, Any]

# What may stand before the first `data:` line: other fields, comments, the head of an HTTP response.
_FIELD: Final = re.compile(r"\s*(?:$|:|HTTP/|[A-Za-z-]+\s*:)")
_DATA: Final = re.compile(r"\s*data:[ ]?")
_DONE: Final = "[DONE]"
# The fields in which servers put what they parsed, under any of the names that are in use.
_CAPTURE: Final = "Harmonia's own recording"
_CAPTURE_LINES: Final = ("run", "chunk", "finish", "error", "cancelled")
_PARSED_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "tool_calls", "function_call")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class Piece(msgspec.Struct, frozen=True):
    """What one object of a dump gave: ids or text, and the names of what the server had parsed."""

    dialect: str
    text: str = ""
    tokens: list[int] | None = None
    parsed: tuple[str, ...] = ()
    other_choices: int = 0
    other_runs: int = 0
    error: str | None = None


class Dump(msgspec.Struct, frozen=True):
    """The pieces of a dump, and how many lines of it could not be read."""

    pieces: list[Piece]
    unreadable: int

    @property
    def chunks(self) -> list[str] | list[list[int]]:
        """What the parser is fed: ids if there are any, otherwise text; empty ones are left out."""
        tokens = [piece.tokens for piece in self.pieces if piece.tokens]
        return tokens or [piece.text for piece in self.pieces if piece.text]

    @property
    def notes(self) -> list[str]:
        """What a reader should know about the dump, a sentence each."""
        notes: list[str] = []
        parsed = Counter(name for piece in self.pieces for name in piece.parsed)
        if parsed:
            counts = ", ".join(f"{name} {times}x" for name, times in parsed.items())
            where = "the token ids have it all" if self.has_tokens else "that part is not in the text"
            notes.append(f"the server had parsed some of it already ({counts}); {where}")
        return notes + self.other_notes

    @property
    def other_notes(self) -> list[str]:
        """The same without what the server had parsed."""
        notes: list[str] = []
        if self.has_tokens and (lost := sum(1 for each in self.pieces if each.text and not each.tokens)):
            notes.append(f"left out the text of {count(lost, 'chunk')} without token ids")
        if others := sum(piece.other_choices for piece in self.pieces):
            notes.append(f"took the first choice only, and left out {count(others, 'piece')} of others")
        if runs := sum(piece.other_runs for piece in self.pieces):
            notes.append(f"took the first run only, and left out {count(runs, 'run')} behind it")
        notes += [f"the server reported an error: {piece.error}" for piece in self.pieces if piece.error]
        if self.unreadable:
            what = "that is no JSON object" if self.unreadable == 1 else "that are no JSON objects"
            notes.append(f"left out {count(self.unreadable, 'line')} {what}")
        return notes

    @property
    def dialect(self) -> str:
        return next((piece.dialect for piece in self.pieces if piece.dialect), "unknown")

    @property
    def is_known(self) -> bool:
        """Whether there is anything in it that looks like a server's."""
        return any(piece.dialect or piece.error for piece in self.pieces)

    @property
    def lacks_what_was_parsed(self) -> bool:
        """Whether the server parsed some of it, and that part is nowhere as the model sampled it."""
        return not self.has_tokens and any(piece.parsed for piece in self.pieces)

    @property
    def has_tokens(self) -> bool:
        """Whether there are token ids, which are what the model sampled."""
        return any(piece.tokens for piece in self.pieces)


def looks_like_a_dump(text: str) -> bool:
    """Whether a text is a dump: `data:` lines with JSON objects, or a server's objects, one a line."""
    if text.lstrip().startswith("{"):
        # A model may answer with JSON, too, so the object has to look like a server's.
        first = _read_object(_LINE_BREAK.split(text.lstrip(), maxsplit=1)[0]) or _read_object(text)
        return first is not None and bool(_read(first, is_certain=False).dialect)
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
    """The objects of a dump. What cannot be read, such as a last line that was cut off, is counted and left out."""
    objects, unreadable = read_objects(text)
    return Dump([_read(each) for each in objects], unreadable)


def read_objects(text: str) -> tuple[list[Object], int]:
    """The objects themselves, and how many lines are none."""
    whole = _read_object(text)
    if whole is not None:  # a response that was not streamed
        return [whole], 0
    found: list[Object] = []
    unreadable = 0
    for event in _events(text):
        objects = [_read_object(line) for line in event]
        if None in objects and (joined := _read_object("\n".join(event))) is not None:
            objects = [joined]  # SSE allows one value to go over several data lines
        unreadable += sum(1 for each in objects if each is None)
        found += [each for each in objects if each is not None]
    return found, unreadable


def _events(text: str) -> Iterator[list[str]]:
    """The data lines that belong together: an empty line ends an event."""
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
    """One object. Where it is not certain that it is part of a dump, it has to look like one of a server's."""
    kind = chunk.get("type")
    if _is_of_a_capture(kind, chunk):
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


def _is_of_a_capture(kind: object, chunk: Object) -> bool:
    return kind == "capture" if "version" in chunk else "run" in chunk and kind in _CAPTURE_LINES


def _read_capture(chunk: Object) -> Piece:
    """A line of what `harmonia record` wrote; see harmonia/run/engines/recording.py."""
    if chunk.get("run", 0) != 0:
        return Piece(_CAPTURE, other_runs=1 if chunk["type"] == "run" else 0)
    error = _text(chunk.get("message"))[:200] if chunk["type"] == "error" else None
    return Piece(_CAPTURE, _text(chunk.get("text")), _ids(chunk.get("tokens")), error=error)


def _read_responses(kind: str, chunk: Object) -> Piece:
    delta = _text(chunk.get("delta"))
    if kind == "response.output_text.delta":
        return Piece("Responses", delta, _ids(chunk.get("token_ids")))
    # Deltas of reasoning, of a call's arguments, of a refusal: the server told them apart already.
    parsed = (kind.removeprefix("response.").removesuffix(".delta"),) if delta else ()
    return Piece("Responses", parsed=parsed, error=_error(chunk))


def _read_choices(choices: list[Any], chunk: Object) -> Piece:
    listed = [_object(choice) for choice in choices]
    firsts = [choice for choice in listed if choice.get("index", 0) == 0]
    first, others = firsts[0] if firsts else _object(None), len(listed) - len(firsts)
    # A stream has `delta`, an answer in one piece `message`, the older Completions API `text`.
    said = _object(first.get("delta")) or _object(first.get("message"))
    text = _text(said.get("content")) + _text(first.get("text"))
    is_older = chunk.get("object") == "text_completion" or ("text" in first and not said)
    dialect = "Completions" if is_older else "Chat Completions"
    return Piece(dialect, text, _ids(first.get("token_ids")), _parsed(said), others, error=_error(chunk))


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
    if not error:
        return None
    return str(_object(error).get("message") or error)[:200]


def count(number: int, noun: str) -> str:
    """A number with its noun, such as `1 chunk` and `2 chunks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
