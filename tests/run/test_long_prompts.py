"""A long prompt is rendered beside everything else, not in its way."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from harmonia.renderer import Rendered, Renderer
from harmonia.run.events import RunEnded
from harmonia.run.loop import run
from tests.support.engines.scripted import ScriptedEngine, final

LONG = "word " * 40_000


class HeldRenderer(Renderer):
    """Renders when it is let go; says which thread it was asked in."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()
        self.was_asked = threading.Event()
        self.threads: list[int] = []

    def render(self, *arguments: Any, **options: Any) -> Rendered:
        self.threads.append(threading.get_ident())
        self.was_asked.set()
        self.may_go.wait(60)
        return super().render(*arguments, **options)


def test_others_go_on_while_a_long_prompt_is_rendered() -> None:
    async def main() -> None:
        renderer = HeldRenderer()
        running = run(ScriptedEngine(final("Done.")), LONG, renderer=renderer)
        result = asyncio.create_task(running.result())
        # The loop still turns while the renderer is held; else this would wait for ever.
        while not renderer.was_asked.is_set():
            await asyncio.sleep(0)
        renderer.may_go.set()
        assert (await result).reason == "answered"
        assert threading.get_ident() not in renderer.threads[:1]

    asyncio.run(main())


def test_a_run_is_stopped_while_its_prompt_is_rendered() -> None:
    async def main() -> None:
        renderer = HeldRenderer()
        running = run(ScriptedEngine(final("Done.")), LONG, renderer=renderer)
        result = asyncio.create_task(running.result())
        while not renderer.was_asked.is_set():
            await asyncio.sleep(0)
        running.stop()
        ended = await result
        renderer.may_go.set()
        assert isinstance(ended, RunEnded)
        assert ended.reason == "stopped"

    asyncio.run(main())


def test_a_short_prompt_is_rendered_at_once() -> None:
    async def main() -> None:
        renderer = HeldRenderer()
        renderer.may_go.set()
        await run(ScriptedEngine(final("Done.")), "Hi", renderer=renderer).result()
        assert set(renderer.threads) == {threading.get_ident()}

    asyncio.run(main())
