"""Ask for /health all the time, beside whatever else is asked, and remember the longest that it took."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.support.servers.in_process import ask

EVERY_S = 0.02


class HealthWatch:
    """`async with HealthWatch(app) as watch: …; watch.worst_s` is the longest from when an answer was due.

    `worst_cpu_s` is the longest by what this process computed meanwhile: other processes on a busy machine make
    `worst_s` longer, but not this one.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self.worst_s = 0.0
        self.worst_cpu_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> HealthWatch:
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(EVERY_S)  # what was due meanwhile is asked for
        if self._task is not None:
            if self._task.done():
                self._task.result()  # raises what ended it
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            due, cpu = time.monotonic() + EVERY_S, time.process_time() + EVERY_S
            await asyncio.sleep(EVERY_S)
            answer = await ask(self._app, "GET", "/health")
            if answer.status != 200:
                raise RuntimeError(f"/health answers {answer.status}")
            waited = time.monotonic() - due
            self.worst_s = max(self.worst_s, waited)
            # Threads that compute without the interpreter's lock count several times, hence the smaller of the two.
            self.worst_cpu_s = max(self.worst_cpu_s, min(waited, time.process_time() - cpu))
