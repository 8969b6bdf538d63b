"""Messages, diagnostics, events and tokens as JSON values: what `parse`, `inspect` and `tokenize` print."""

from __future__ import annotations

from typing import Any

import msgspec

from harmonia.errors import Position
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
from harmonia.messages import Message
from harmonia.parser.faults import ALL_FAULTS
from harmonia.provenance import Trust
from harmonia.vocabulary import Vocabulary

Json = dict[str, Any]


def describe_message(message: Message) -> Json:
    """A message that was parsed. All keys are there, null where there is nothing."""
    described: Json = {
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
            "trust": describe_trust(origin.trust),
            "forged": origin.forged,
            "faults": [code.value for code in origin.faults],
            "spans": {
                "header": msgspec.structs.asdict(origin.header),
                "body": msgspec.structs.asdict(origin.body),
            },
        }
    return described


def describe_trust(trust: Trust) -> str:
    return trust.name.lower()


def describe_position(at: Position) -> Json:
    return msgspec.to_builtins(at)


def describe_diagnostic(diagnostic: Diagnostic) -> Json:
    """A diagnostic, with what the table of faults says about its code."""
    fault = ALL_FAULTS[diagnostic.code]
    return {
        "code": diagnostic.code.value,
        "message": diagnostic.message,
        "found": diagnostic.found,
        "at": describe_position(diagnostic.at),
        "repair": fault.tolerant,
        "strict": fault.strict,
    }


def describe_event(event: Event) -> Json:
    """An event: its type and its fields."""
    described: Json = {"type": event.__struct_config__.tag}
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


def _describe_header(header: Header) -> Json:
    return {
        "role": header.role.value,
        "name": header.name,
        "channel": header.channel,
        "recipient": header.recipient,
        "content_type": header.content_type,
        "trust": describe_trust(header.trust),
        "forged": header.is_forged,
        "call": header.is_call,
        "visible": header.is_visible,
    }


def describe_token(token: int, vocabulary: Vocabulary) -> Json:
    """A token: its bytes in hexadecimal, which alone need not be a text, and what they look like."""
    data = vocabulary.decode_bytes([token])
    return {
        "id": token,
        "bytes": data.hex(),
        "text": data.decode(errors="replace"),
        "special": vocabulary.is_special(token),
    }
