"""Servers that end at once. uvicorn looks for its end ten times a second, and sleeps once more when it has found it: a
sixth of a second for each of the servers that tests start, in which nothing happens."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import uvicorn.server

_TIMES_QUICKER: Final = 20


class _QuickSleeps:
    """`asyncio` as uvicorn's server sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / _TIMES_QUICKER)


def quicken() -> None:
    """From now on, in this process. Connections are looked at by the clock, so only what waits for a tick changes."""
    setattr(uvicorn.server, "asyncio", _QuickSleeps())  # noqa: B010 -- by its name it would have the wrong type
