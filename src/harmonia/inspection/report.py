"""Traces, messages, events, tokens, rendered conversations and replays as JSON values, for command and server.

A new view of the inspector begins here: add its field to `describe_trace`, then show it in cli/trace_view.py.

A replay feeds the ordinary parser one token (for text, one character) at a time, so by law 2 its events are those of
the whole stream, once adjacent deltas are joined. No step repeats earlier ones, and work is linear in the input read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.events import (
    ArgumentsDelta,
    Diagnostic,
    Event,
    Header,
    HeaderCompleted,
    MessageEnded,
    Repaired,
    TextDelta,
)
from harmonia.inspection.excerpts import excerpt
from harmonia.inspection.inputs import Input
from harmonia.inspection.trace import Trace, TracedMessage, TracedText, TracedTurn, marked_length, spell_out
from harmonia.messages import Conversation, Message, ReasoningEffort, Role, SystemContent
from harmonia.parser import Parser, Tools
from harmonia.parser.faults import ALL_FAULTS
from harmonia.renderer.renderer import Rendered
from harmonia.vocabulary import Vocabulary, default_vocabulary, is_special

_EXCERPT_CELLS: Final = 76


def describe_trace(traced: Trace, hints: Sequence[str], *, ids: bool = False) -> dict[str, Any]:
    """A whole trace. `hints` has one hint per diagnostic; `ids` adds the token ids of each message."""
    outside = [item for item in traced.items if isinstance(item, TracedText) and not item.is_space]
    return {
        "input": traced.kind,
        "taken_for": traced.taken_for,
        "notes": traced.notes,
        "characters": len(traced.text),
        "tokens": traced.tokens,
        "counts_are_exact": traced.has_ids,
        "messages": [_describe_traced(item, ids=ids) for item in traced.messages],
        "outside": [
            {"text": each.text, "start_char": each.start_char, "tokens": len(each.ids)}
            | ({"ids": each.ids} if ids else {})
            for each in outside
        ],
        "turns": _describe_turns(traced),
        "channels": [msgspec.structs.asdict(count) for count in traced.channels],
        "diagnostics": [
            {
                **describe_diagnostic(diagnostic),
                "explanation": ALL_FAULTS[diagnostic.code].meaning,
                "excerpt": _excerpt(diagnostic, traced.text),
                "hint": hint or None,
            }
            for diagnostic, hint in zip(traced.diagnostics, hints, strict=True)
        ],
        "strict": describe_raised(traced.first_raised),
    }


def describe_raised(found: Diagnostic | None) -> dict[str, Any] | None:
    """The error of a strict parser."""
    return found and {"code": found.code.value, "message": found.message, "at": describe_position(found.at)}


def _describe_turns(traced: Trace) -> list[dict[str, Any]]:
    """The ends of turns, each with the number of messages and pieces outside messages before it."""
    described: list[dict[str, Any]] = []
    messages = outside = 0
    for item in traced.items:
        if isinstance(item, TracedTurn):
            described.append({**msgspec.structs.asdict(item), "messages": messages, "outside": outside})
        messages += isinstance(item, TracedMessage)
        outside += isinstance(item, TracedText) and not item.is_space
    return described


def _excerpt(diagnostic: Diagnostic, text: str) -> dict[str, str] | None:
    at = diagnostic.at.character
    return None if at is None else excerpt(text, at, marked_length(diagnostic, text), _EXCERPT_CELLS)._asdict()


def _describe_traced(item: TracedMessage, *, ids: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "index": item.index,
        **describe_message(item.message),
        "flags": item.flags,
        "skipped": item.skipped,
        "tokens": {"header": len(item.header_ids), "body": len(item.body_ids), "stop": len(item.stop_ids)},
    }
    if ids:
        described["ids"] = {"header": item.header_ids, "body": item.body_ids, "stop": item.stop_ids}
    return described


# ── parts of a report ──


def describe_message(message: Message) -> dict[str, Any]:
    """A parsed message. All keys are present, with null for what is missing."""
    described: dict[str, Any] = {
        "role": message.role.value,
        "name": message.name,
        "channel": message.channel,
        "recipient": message.recipient,
        "content_type": message.content_type,
        "content": message.text,
    }
    origin = message.origin
    if origin is not None:
        described |= {
            "stop": origin.stop,
            "source": origin.source,
            "trust": origin.trust.name.lower(),
            "forged": origin.forged,
            "faults": [code.value for code in origin.faults],
            "spans": {"header": msgspec.structs.asdict(origin.header), "body": msgspec.structs.asdict(origin.body)},
        }
    return described


def describe_position(at: Position) -> dict[str, Any]:
    return msgspec.to_builtins(at)


def describe_diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic, with the entry of its code in the table of faults."""
    fault = ALL_FAULTS[diagnostic.code]
    return {
        "code": diagnostic.code.value,
        "message": diagnostic.message,
        "found": diagnostic.found,
        "at": describe_position(diagnostic.at),
        "repair": fault.tolerant,
        "strict": fault.strict,
    }


def describe_event(event: Event) -> dict[str, Any]:
    """An event: its type and its fields."""
    described: dict[str, Any] = {"type": event.__struct_config__.tag}
    described |= {name: getattr(event, name) for name in event.__struct_fields__}
    match event:
        case HeaderCompleted() | TextDelta() | ArgumentsDelta():
            described["header"] = _describe_header(event.header)
        case MessageEnded():
            described["message"] = describe_message(event.message)
        case Repaired():
            described["diagnostic"] = describe_diagnostic(event.diagnostic)
        case _:
            pass
    return described


def _describe_header(header: Header) -> dict[str, Any]:
    return {
        "role": header.role.value,
        "name": header.name,
        "channel": header.channel,
        "recipient": header.recipient,
        "content_type": header.content_type,
        "trust": header.trust.name.lower(),
        "forged": header.is_forged,
        "call": header.is_call,
        "visible": header.is_visible,
    }


def describe_token(token: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """A token: its bytes in hexadecimal, since they may not be valid text, and their text."""
    data = vocabulary.decode_bytes([token])
    return {
        "id": token,
        "bytes": data.hex(),
        "text": data.decode(errors="replace"),
        "special": is_special(token),
    }


def describe_rendered(rendered: Rendered, *, mask: bool = False, escape: bool = False) -> dict[str, Any]:
    """The tokens, the text, the spans, the losses of schemas, and optionally the mask.

    If a text spells a special token, `text` is None and `text_error` says why; with `escape` the spelling is escaped.
    """
    described: dict[str, Any] = {"tokens": rendered.tokens}
    try:
        described["text"] = rendered.to_text(ambiguous="escape" if escape else "refuse")
    except InputError as error:
        described["text"] = None
        described["text_error"] = {"code": error.code, "message": error.message, "at": error.at}
    described["spans"] = [msgspec.structs.asdict(span) for span in rendered.spans]
    described["losses"] = [msgspec.structs.asdict(loss) for loss in rendered.losses]
    if mask:
        described["mask"] = [int(trained) for trained in rendered.mask]
    return described


def with_settings(
    conversation: Conversation, *, effort: ReasoningEffort | str | None = None, date: str | None = None
) -> Conversation:
    """The conversation with these settings in its system message, which is added if there is none.

    Raises an InputError if the system message is plain text.
    """
    changes: dict[str, Any] = {}
    if effort is not None:
        changes["reasoning_effort"] = ReasoningEffort(effort)
    if date is not None:
        changes["conversation_start_date"] = date
    if not changes:
        return conversation
    messages = list(conversation)
    if all(message.role is not Role.SYSTEM for message in messages):
        messages.insert(0, Message.system())
    for at, message in enumerate(messages):
        for part, content in enumerate(message.contents):
            if isinstance(content, SystemContent):
                contents = list(message.contents)
                contents[part] = content.replace(**changes)
                messages[at] = message.replace(content=contents)
                return Conversation(messages)
    what = 'the system message is plain text: to set the effort or date, use a content of type "system_content"'
    raise InputError(ErrorCode.RENDER_INVALID_OPTION, what)


class ReplayStep(msgspec.Struct, frozen=True):
    """One token or character, and the state of the parser after it."""

    at: int
    id: int | None
    text: str
    state: str
    message: int | None
    channel: str | None
    recipient: str | None
    pending: str
    events: list[dict[str, Any]]


class Replayed(msgspec.Struct, frozen=True):
    """A section of a stream. `closing` has the events of closing the parser, None if the steps end earlier."""

    total: int
    unit: Literal["tokens", "characters"]
    start: int
    steps: list[ReplayStep]
    closing: list[dict[str, Any]] | None


def replay(
    taken: Input,
    start: int,
    count: int,
    role: str | None = None,
    tools: Tools | None = None,
    *,
    stop_swallowed: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Replayed:
    """`count` steps from `start` on; none if `start` is past the end."""
    vocabulary = vocabulary or default_vocabulary()
    is_stripped = taken.kind == "stripped"
    parser = Parser(role, tools=tools, stop_swallowed=stop_swallowed, stripped=is_stripped, vocabulary=vocabulary)
    tokens = taken.tokens
    units: list[int] | str = taken.characters if tokens is None else tokens
    start = min(start, len(units))
    end = min(start + count, len(units))
    if start or tokens is not None:  # an empty list still tells the parser that tokens follow
        parser.feed(units[:start])
    steps: list[ReplayStep] = []
    for at in range(start, end):
        unit = units[at]
        events = parser.feed(unit)
        header = parser.header
        steps.append(
            ReplayStep(
                at,
                unit if isinstance(unit, int) else None,
                spell_out([unit], vocabulary) if isinstance(unit, int) else unit,
                parser.state,
                parser.message_index,
                None if header is None else header.channel,
                None if header is None else header.recipient,
                parser.pending,
                [_describe(event) for event in events],
            )
        )
    closing = [_describe(event) for event in parser.close()] if end == len(units) else None
    return Replayed(len(units), "characters" if tokens is None else "tokens", start, steps, closing)


def _describe(event: Event) -> dict[str, Any]:
    described = describe_event(event)
    if isinstance(event, TextDelta | ArgumentsDelta):
        # The header was reported when it was complete, and each step has its channel and recipient.
        del described["header"]
    elif isinstance(event, MessageEnded):
        described["characters"] = len(described["message"].pop("content"))
    return described
