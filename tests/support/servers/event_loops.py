"""The loops and readers of HTTP that a server may run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Run = Callable[[Coroutine[Any, Any, None]], None]


def run_on(factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Run:
    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(coroutine)

    return run
