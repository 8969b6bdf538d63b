"""Two prompts side by side, for the Harmony endpoints: how much of the first can be used again, and what changed."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from harmonia.history import align, compare
from harmonia.inspection import Trace, TracedMessage, TracedText
from harmonia.messages import Json, Message
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.bodies import DiffRequest, InspectInput
from harmonia.serve.inspector.inspections import describe, read_input
from harmonia.serve.inspector.work_limits import object_of
from harmonia.serve.wire.validation import read_struct


def diff(value: object, limits: Limits) -> Json:
    """What changed from one prompt to another."""
    request = read_struct(object_of(value), DiffRequest)
    before, after = _read(request.before, limits, "$.before"), _read(request.after, limits, "$.after")
    change = compare(before.tokens, after.tokens)
    rows = align(before.messages, after.messages)
    return {
        "before": before.described,
        "after": after.described,
        "shared_prefix": change.shared_prefix,
        "before_token": change.before_token,
        "after_token": change.after_token,
        "before_message": before.message_at(change.shared_prefix),
        "after_message": after.message_at(change.shared_prefix),
        "dropped_tokens": change.dropped_tokens,
        "added_tokens": change.added_tokens,
        "is_extension": change.is_extension,
        "rows": [msgspec.structs.asdict(row) for row in rows],
    }


class _Side(NamedTuple):
    """One of the two prompts: its tokens, those of a text as it encodes, and where its messages begin in them."""

    described: Json
    traced: Trace
    tokens: list[int]
    starts: list[int]

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.traced.messages]

    def message_at(self, token: int) -> int | None:
        """The message that has this token; None outside of messages and behind the last."""
        messages = self.traced.messages
        found = bisect_right(self.starts, token) - 1
        if found < 0 or token >= self.starts[found] + messages[found].tokens:
            return None
        return found


def _read(given: InspectInput, limits: Limits, path: str) -> _Side:
    taken = read_input(given, limits, path)
    traced = taken.trace()
    tokens: list[int] = []
    starts: list[int] = []
    for item in traced.items:
        match item:
            case TracedMessage():
                starts.append(len(tokens))
                tokens += item.header_ids
                tokens += item.body_ids
                tokens += item.stop_ids
            case TracedText():
                tokens += item.ids
            case _:
                pass
    return _Side(describe(taken, traced, ()), traced, tokens, starts)
