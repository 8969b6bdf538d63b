"""Real MCP servers as processes, for the tests of the client."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from harmonia.run.tools.mcp import StdioServer, Timeouts
from tests.support.paths import ROOT
from tests.support.watchdog import WATCHDOG_S

T = TypeVar("T")

FOLDER = ROOT / "tests" / "run" / "tools" / "mcp"
SDK = str(FOLDER / "sdk_server.py")
LEGACY = str(FOLDER / "legacy_server.py")

LONG = Timeouts(WATCHDOG_S, WATCHDOG_S, WATCHDOG_S)


def sdk_server(name: str = "sdk", **more: Any) -> StdioServer:
    more.setdefault("timeouts", LONG)
    return StdioServer(name, sys.executable, (SDK, "stdio"), **more)


def legacy_server(mode: str = "stdio", name: str = "old", **more: Any) -> StdioServer:
    more.setdefault("timeouts", LONG)
    return StdioServer(name, sys.executable, (LEGACY, mode), **more)


@contextmanager
def http_server(script: str, *more: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """A server in a process of its own, and the address that it answers at."""
    command = [sys.executable, script, "http", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()
            process.wait()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children() -> set[int]:
    """The processes that this one started and that are not gone, dead but unburied ones among them."""
    own = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for task in own.iterdir() for pid in (task / "children").read_text().split()}


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a test to its end, and sees that it leaves no task behind."""

    async def watched() -> T:
        async with asyncio.timeout(WATCHDOG_S):
            result = await main()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return asyncio.run(watched())


async def until(happened: Callable[[], bool]) -> None:
    """Waits for something that another process does and nobody reports."""
    while not happened():
        await asyncio.sleep(0.01)
