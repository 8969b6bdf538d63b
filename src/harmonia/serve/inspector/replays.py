"""A stream, token by token, for the Harmony endpoints: the parser's state behind each, and what it said."""

from __future__ import annotations

import msgspec

from harmonia.inspection import replay as replay_input
from harmonia.messages import Json
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector.bodies import ReplayRequest
from harmonia.serve.inspector.inspections import read_input
from harmonia.serve.inspector.work_limits import object_of
from harmonia.serve.wire.validation import read_struct


def replay(value: object, limits: Limits) -> Json:
    """A stretch of what the parser does with an input."""
    request = read_struct(object_of(value), ReplayRequest)
    taken = read_input(request, limits)
    replayed = replay_input(
        taken.input, request.start, request.count, taken.role, taken.tools, stop_swallowed=taken.stop_swallowed
    )
    answer = msgspec.structs.asdict(replayed)
    answer["steps"] = [msgspec.structs.asdict(step) for step in replayed.steps]
    return answer
