"""A stream, token by token, for the Harmony endpoints: the parser's state behind each, and what it said."""

from __future__ import annotations

import msgspec

from harmonia.messages import Json
from harmonia.parts.inspection import replay as replay_input
from harmonia.serve.api.fields import read_struct
from harmonia.serve.api.harmony import ReplayRequest
from harmonia.serve.harmony_bodies import object_of
from harmonia.serve.inspections import read_input
from harmonia.serve.settings import Limits


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
