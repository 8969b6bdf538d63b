"""A trace as a JSON value: what `harmonia inspect --json` prints, and what the server's inspection answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from harmonia.events import Diagnostic
from harmonia.inspection.descriptions import describe_diagnostic, describe_message, describe_position
from harmonia.inspection.excerpts import excerpt
from harmonia.inspection.trace import Trace, TracedMessage, TracedText, TracedTurn, marked_length
from harmonia.parser.faults import ALL_FAULTS

_EXCERPT_CELLS: Final = 76


def describe_trace(traced: Trace, hints: Sequence[str], *, ids: bool = False) -> dict[str, Any]:
    """All of it. `hints` are those of the diagnostics, one each; `ids` adds the token ids of
    each message."""
    outside = [item for item in traced.items if isinstance(item, TracedText) and not item.is_space]
    return {
        "input": traced.kind,
        "taken_for": traced.taken_for,
        "notes": traced.notes,
        "characters": len(traced.text),
        "tokens": traced.tokens,
        "counts_are_exact": traced.has_ids,
        "messages": [_describe_message(item, ids=ids) for item in traced.messages],
        "outside": [_describe_outside(item, ids=ids) for item in outside],
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


def describe_raised(diagnostic: Diagnostic | None) -> dict[str, Any] | None:
    """What a strict parser would say."""
    if diagnostic is None:
        return None
    at = describe_position(diagnostic.at)
    return {"code": diagnostic.code.value, "message": diagnostic.message, "at": at}


def _describe_turns(traced: Trace) -> list[dict[str, Any]]:
    """The ends of turns, each with how many messages and pieces outside of messages stand before it."""
    described: list[dict[str, Any]] = []
    messages = outside = 0
    for item in traced.items:
        match item:
            case TracedTurn():
                described.append({**msgspec.structs.asdict(item), "messages": messages, "outside": outside})
            case TracedText():
                outside += not item.is_space
            case TracedMessage():
                messages += 1
    return described


def _excerpt(diagnostic: Diagnostic, text: str) -> dict[str, str] | None:
    at = diagnostic.at.character
    return None if at is None else excerpt(text, at, marked_length(diagnostic, text), _EXCERPT_CELLS)._asdict()


def _describe_outside(item: TracedText, *, ids: bool) -> dict[str, Any]:
    described = {"text": item.text, "start_char": item.start_char, "tokens": len(item.ids)}
    return {**described, "ids": item.ids} if ids else described


def _describe_message(item: TracedMessage, *, ids: bool) -> dict[str, Any]:
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
