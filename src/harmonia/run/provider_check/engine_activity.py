"""Whether an engine is at work, for those that report it: llama.cpp in `/slots`, others in `/metrics`."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import Any, Final

from harmonia.errors import EngineError
from harmonia.run.provider_check.session import Session
from harmonia.run.providers.wire import objects_of

_RUNNING: Final = re.compile(
    rb"(?:(?:vllm|sglang):num_(?:requests_running|running_reqs)\S*|harmonia_requests_in_flight) ([\d.e+]+)$"
)
_LOOKS: Final = 40
_BETWEEN_S: Final = 0.05


async def wait_until_idle(session: Session) -> bool | None:
    """True as soon as it does nothing, False where it goes on for seconds, None where nobody can see it."""
    for _ in range(_LOOKS):
        running = await _count_running(session)
        if not running:
            return None if running is None else True
        await asyncio.sleep(_BETWEEN_S)
    return False


async def _count_running(session: Session) -> float | None:
    try:
        if session.identity.kind == "llama.cpp":
            slots = objects_of(await session.root.fetch("/slots", list[Any]))
            return sum(bool(slot.get("is_processing")) for slot in slots) if slots else None
        if session.identity.kind in ("vllm", "sglang", "harmonia"):
            async with aclosing(session.root.lines("/metrics", None, "ndjson")) as reads:
                lines = [line async for read in reads for line in read]
            counts = [float(match[1]) for line in lines if (match := _RUNNING.match(line))]
            own = session.identity.kind == "harmonia"  # it counts the request for its metrics, too
            return sum(counts) - own if counts else None
    except EngineError:
        pass
    return None
