"""The normalised form of messages, as in the Harmony samples, and histories without `<|return|>`.

    {"role": "assistant", "channel": "final", "content": "Hello."}
    {"role": "assistant", "channel": "commentary", "to": "functions.x", "constraint": "json", "args": {"a": 1}}
    {"role": "tool", "name": "functions.x", "channel": "commentary", "content": {"b": 2}}
    {"error": "MissingSentinel", "case": "a stream that is not well-formed"}

Arguments and tool results are JSON values if they are JSON, and otherwise the text. Keys without a value are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, StreamError
from harmonia.events import Event, MessageEnded
from harmonia.json_codec import read_json
from harmonia.messages import Conversation, Message, Role
from harmonia.parser import Parser
from harmonia.parser.headers import DeclaredTool, Tools
from harmonia.parts.message_parts import call_of
from harmonia.parts.traces import Trace
from harmonia.provenance import Sampled
from harmonia.vocabulary import CONSTRAIN, END, RETURN, SPELLING_BY_ID

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
        return normalised_error(error, trace.name)
    return normalise(event.message for event in events if isinstance(event, MessageEnded))


def normalised_error(error: StreamError, case: str) -> Normalised:
    """The error object of a malformed stream; `case` is its name."""
    return {"error": error.code.value, "case": case}


History = TypeVar("History", str, bytes, list[int], list[Message], tuple[int, ...], tuple[Message, ...], Conversation)


def normalise_history(history: History) -> History:
    """The same with `<|end|>` instead of `<|return|>`, which only means that a model stopped there.

    A history is text with special tokens spelled out, token ids, or messages.
    """
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
            raise InputError(
                ErrorCode.PARSE_INVALID_INPUT,
                f"a history must be text, token ids or messages, not {type(history).__name__}",
            )
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
    elif is_result:
        out["content"] = _value_or_text(message.text)
    else:
        out["content"] = message.to_dict()["content"]
    return out


def _value_or_text(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text


def _end_items(items: Sequence[int | Message]) -> list[int | Message]:
    return [_end_message(item) if isinstance(item, Message) else END if item == RETURN else item for item in items]


def _end_message(message: Message) -> Message:
    origin, sampled = message.origin, message.sampled
    if origin is None or origin.stop != "return":
        return message
    if sampled is not None and sampled.tokens[-1:] == (RETURN,):
        sampled = Sampled((*sampled.tokens[:-1], END), sampled.role_end, sampled.header_end)
    return Message.parsed(
        message.author,
        message.text,
        message.channel,
        message.recipient,
        message.content_type,
        msgspec.structs.replace(origin, stop="end"),
        sampled,
    )
