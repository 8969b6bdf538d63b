"""The normalised form of messages, as in the Harmony samples; histories without `<|return|>`; collections of traces.

    {"role": "assistant", "channel": "final", "content": "Hello."}
    {"role": "assistant", "channel": "commentary", "to": "functions.x", "constraint": "json", "args": {"a": 1}}
    {"role": "tool", "name": "functions.x", "channel": "commentary", "content": {"b": 2}}
    {"error": "MissingSentinel", "case": "a stream that is not well-formed"}

Arguments and tool results are JSON values if they are JSON, and otherwise the text. Keys without a value are omitted.

A collection of traces is Markdown: the output of a model, and the expected messages.

    ```harmony name:simple-final
    <|start|>assistant<|channel|>final<|message|>Hello.<|return|>
    ```

    ```expected name:simple-final
    [{"role": "assistant", "channel": "final", "content": "Hello."}]
    ```

`<<<CHUNK>>>` separates chunks. A line break inside the spelling of a special token also separates chunks and is not
text, because no special token contains one. Everything else is verbatim; the line break before the closing fence is not
part of the text. Other blocks, and the text around them, are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position, StreamError
from harmonia.events import Event, MessageEnded
from harmonia.json_codec import read_json
from harmonia.messages import Conversation, Message, Role
from harmonia.parser import Parser
from harmonia.parser.headers import DeclaredTool, Tools
from harmonia.parts.message_parts import call_of
from harmonia.provenance import Sampled
from harmonia.vocabulary import CONSTRAIN, END, ID_BY_SPELLING, RETURN, SPELLING_BY_ID

Normalised = dict[str, Any]

_CONSTRAIN: Final = SPELLING_BY_ID[CONSTRAIN]
_RETURN: Final = SPELLING_BY_ID[RETURN]
_END: Final = SPELLING_BY_ID[END]


def normalise(messages: Iterable[Message]) -> list[Normalised]:
    """The normalised form of messages, or of a `Parsed`."""
    return [_normalise_message(message) for message in messages]


def normalise_trace(
    trace: Trace, role: Role | str | None = None, tools: Tools | Iterable[DeclaredTool] | None = None
) -> list[Normalised] | Normalised:
    """A trace, parsed strictly, chunk by chunk; the error object if the parser raises."""
    parser = Parser(role, "strict", tools)
    events: list[Event] = []
    try:
        for chunk in trace.chunks:
            events += parser.feed(chunk)
        events += parser.close()
    except StreamError as error:
        return {"error": error.code.value, "case": trace.name}
    return normalise(event.message for event in events if isinstance(event, MessageEnded))


History = TypeVar("History", str, bytes, list[int], list[Message], tuple[int, ...], tuple[Message, ...], Conversation)


def normalise_history(history: History) -> History:
    """The same with `<|end|>` instead of `<|return|>`, which only means that a model stopped there. A history is text
    with special tokens spelled out, token ids, or messages."""
    known = cast("str | bytes | list[int | Message] | tuple[int | Message, ...] | Conversation", history)
    match known:
        case str():
            result = known.replace(_RETURN, _END)
        case bytes():
            result = known.replace(_RETURN.encode(), _END.encode())
        case Conversation():
            result = Conversation(map(_end_message, known))
        case list():
            result = _end_items(known)
        case tuple():
            result = tuple(_end_items(known))
        case _:
            problem = f"a history must be text, token ids or messages, not {type(history).__name__}"
            raise InputError(ErrorCode.PARSE_INVALID_INPUT, problem)
    return cast("History", result)


def _normalise_message(message: Message) -> Normalised:
    out: Normalised = {"role": message.role.value}
    if message.name is not None:
        out["name"] = message.name
    if message.channel is not None:
        out["channel"] = message.channel
    is_result = message.role is Role.TOOL
    # The recipient of a tool result is always the assistant.
    if message.recipient is not None and not (is_result and message.recipient == Role.ASSISTANT):
        out["to"] = message.recipient
    if message.content_type is not None:
        out["constraint"] = message.content_type.removeprefix(_CONSTRAIN).strip()
    call = call_of(message)
    if call is not None:
        out["args"] = call.value if call.is_json else call.text
    else:
        out["content"] = message.to_dict()["content"]
    if is_result:
        with suppress(ValueError):
            out["content"] = read_json(message.text)
    return out


def _end_items(items: Sequence[int | Message]) -> list[int | Message]:
    return [_end_message(item) if isinstance(item, Message) else END if item == RETURN else item for item in items]


def _end_message(message: Message) -> Message:
    origin, sampled = message.origin, message.sampled
    if origin is None or origin.stop != "return":
        return message
    if sampled is not None and sampled.tokens[-1:] == (RETURN,):
        sampled = Sampled((*sampled.tokens[:-1], END), sampled.role_end, sampled.header_end)
    return message.with_origin(msgspec.structs.replace(origin, stop="end"), sampled)


_CHUNK_MARKER: Final = "<<<CHUNK>>>"

_FENCE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}+(?=[^`]*+$)|~{3,}+)(?P<info>.*)")
_INFO: Final = re.compile(r"\s*(?P<kind>harmony|expected)(?:\s+(?P<rest>\S.*))?\s*", re.IGNORECASE)
_NAME: Final = re.compile(r"name\s*:\s*(?P<name>\S+)\s*", re.IGNORECASE)
_BREAK: Final = rf"(?:\n|{_CHUNK_MARKER})"
_BREAKS: Final = re.compile(f"{_BREAK}+")
_BROKEN_SPELLING: Final = re.compile(rf"<{_BREAK}*\|(?:[a-z0-9_]|{_BREAK})+\|{_BREAK}*>")


class Trace(msgspec.Struct, frozen=True):
    """One case: its chunks, and the value of its `expected` block, or None. `line` is the line of the opening fence."""

    name: str
    chunks: tuple[str, ...]
    expected: Any
    line: int

    @property
    def text(self) -> str:
        return "".join(self.chunks)


class _Block(NamedTuple):
    """A named fenced block. `line` is the line of the opening fence; `starts` are the offsets of its lines."""

    kind: str
    name: str
    text: str
    line: int
    starts: list[int]


def read_traces(text: str) -> list[Trace]:
    """The traces of a Markdown text, in order. An InputError has the line of the fault."""
    traces: dict[str, _Block] = {}
    expectations: dict[str, _Block] = {}
    for block in _read_blocks(text):
        blocks = traces if block.kind == "harmony" else expectations
        if block.name in blocks:
            _refuse(f"a second {block.kind} block is named {block.name!r}", block.line, block.starts[0])
        blocks[block.name] = block
    for name, block in expectations.items():
        if name not in traces:
            _refuse(f"there is no harmony block for the expected block {name!r}", block.line, block.starts[0])
    return [
        Trace(name, tuple(filter(None, chunks)), _read_expectation(expectations.get(name)), block.line)
        for name, block in traces.items()
        for chunks in (_BROKEN_SPELLING.sub(_mark_breaks, block.text).split(_CHUNK_MARKER),)
    ]


def _read_blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    fence: re.Match[str] | None = None
    number, lines, starts = 0, list[str](), list[int]()
    start = 0
    for line_number, given in enumerate(text.split("\n"), 1):
        # Files may begin with a byte order mark and end their lines with a carriage return.
        line = given.removeprefix("\ufeff").removesuffix("\r") if line_number == 1 else given.removesuffix("\r")
        if fence is None:
            fence = _FENCE.fullmatch(line)
            number, lines, starts = line_number, [], [start]
        elif len(end := line.strip()) >= len(fence["fence"]) and set(end) == {fence["fence"][0]}:
            block = _block_of(fence["info"], number, lines, starts)
            if block is not None:
                blocks.append(block)
            fence = None
        else:
            # A block may be indented, as in a list; its lines lose as much of the fence's indentation as they share.
            shared = takewhile(lambda signs: signs[0] == signs[1], zip(line, fence["indent"], strict=False))
            lines.append(line[len(list(shared)) :])
            starts.append(start)
        start += len(given) + 1
    if fence is not None:
        _refuse("the block is not closed", number, starts[0])
    return blocks


def _block_of(words: str, number: int, lines: list[str], starts: list[int]) -> _Block | None:
    info = _INFO.fullmatch(words)
    if info is None or info["rest"] is None:  # another language, or an example without a name
        return None
    kind, name = info["kind"].lower(), _NAME.fullmatch(info["rest"])
    if name is None:
        _refuse(f"{kind!r} is followed by {info['rest'].strip()!r}, not by name:<case>", number, starts[0])
    return _Block(kind, name["name"], "\n".join(lines), number, starts)


def _mark_breaks(match: re.Match[str]) -> str:
    found = match.group()
    return _BREAKS.sub(_CHUNK_MARKER, found) if _BREAKS.sub("", found) in ID_BY_SPELLING else found


def _read_expectation(block: _Block | None) -> Any:
    if block is None:
        return None
    try:
        return read_json(block.text)
    except ValueError as error:
        line = 1 + block.text.count("\n", 0, getattr(error, "pos", 0))
        at = block.starts[min(line, len(block.starts) - 1)]
        _refuse(f"the expected block {block.name!r} is not valid JSON: {error}", block.line + line, at)


def _refuse(problem: str, line: int, character: int) -> NoReturn:
    raise InputError(ErrorCode.PARSE_INVALID_INPUT, f"line {line}: {problem}", Position(character=character))
