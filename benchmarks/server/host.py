"""The process of one server: `host(name)` serves at a free port, and does what lines of JSON on its standard input say.

    {"do": "follow", …}   what the streams that begin from now on do
    {"do": "release"}     nobody waits any more
    {"do": "usage"}       processor time and resident memory of the process
    {"do": "prompt"}      the last prompt that the engine got (ours)
    {"do": "render", …}   how long the prompts of these requests take to render (ours)
    {"do": "profile"}     begin to profile the thread that serves, or end it and tell

Each is answered with one line. The end of the input ends the server.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import marshal
import os
import pstats
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from io import StringIO
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import uvicorn

from benchmarks.server.engine import PreparedEngine, Script
from benchmarks.server.prepared import PreparedApp
from harmonia.renderer import Renderer
from harmonia.serve.config.settings import Limits, Settings
from harmonia.serve.http.ports import bind
from harmonia.serve.security.keys import Caller
from harmonia.serve.server import KEEP_ALIVE_S, loop_factory, serve
from harmonia.serve.service import Service

Json = dict[str, Any]

_MOST_STREAMS = 4000


class Host(ABC):
    """What both servers understand."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.scripts: list[Script] = []
        self._profile: cProfile.Profile | None = None

    @abstractmethod
    async def serve(self, folder: Path, on_listening: Callable[[int], None]) -> None: ...

    @abstractmethod
    def follow(self, request: Json, script: Callable[[Any], Script]) -> None: ...

    async def answer(self, request: Json) -> Json:
        match request["do"]:
            case "follow":
                self.follow(request, lambda pieces: self._script(request, pieces))
                return {}
            case "release":
                for script in self.scripts:
                    script.released.set()
                self.scripts.clear()
                return {}
            case "usage":
                gc.collect()
                return {"cpu_seconds": process_time(), "resident_bytes": resident_bytes()}
            case "profile":
                return {"profile": self._toggle_profile(request.get("order", "tottime"))}
            case other:
                raise ValueError(f"nothing is known of {other!r}")

    def _script(self, request: Json, pieces: Any) -> Script:
        script = Script(pieces, request.get("holds_behind"), request.get("pace_s", 0.0))
        self.scripts.append(script)
        return script

    def _toggle_profile(self, order: str) -> str:
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
            return ""
        self._profile.disable()
        out = StringIO()
        pstats.Stats(self._profile, stream=out).sort_stats(order).print_stats(70)
        self._profile = None
        return out.getvalue()


class Ours(Host):
    """The whole server, with its defaults, in front of an engine that has its tokens already."""

    def __init__(self) -> None:
        super().__init__()
        self._engine = PreparedEngine()
        self._service: Service | None = None

    async def serve(self, folder: Path, on_listening: Callable[[int], None]) -> None:
        settings = Settings(
            port=0,
            store=f"sqlite:///{folder / 'responses.sqlite3'}",
            seal_key_file=str(folder / "seal-keys.json"),
            limits=Limits(concurrent=_MOST_STREAMS),
        )
        async with AsyncExitStack() as stack:
            service = self._service = await stack.enter_async_context(Service.open(settings, self._engine))
            await serve(service, settings, on_listening=lambda where: on_listening(where.port), stop=self.stop)

    def follow(self, request: Json, script: Callable[[Any], Script]) -> None:
        self._engine.follow(script(request["tokens"]))

    async def answer(self, request: Json) -> Json:
        if request["do"] == "prompt":
            return {"prompt": self._engine.prompt}
        if request["do"] == "render":
            return await self._render(request["requests"])
        return await super().answer(request)

    async def _render(self, requests: list[Json]) -> Json:
        """The time of each; a renderer that has met the first, as that of the server has met those before."""
        assert self._service is not None
        renderer = Renderer()
        seconds: list[float] = []
        tokens: list[int] = []
        for value in requests:
            async with AsyncExitStack() as stack:
                conversation = (await self._service.responses.prepare(value, Caller(), stack)).conversation
            began = perf_counter()
            tokens = list(renderer.render(conversation).tokens)
            seconds.append(perf_counter() - began)
        return {"seconds": seconds[1:], "tokens": tokens}


class Prepared(Host):
    """uvicorn as it is, with the settings of ours."""

    def __init__(self) -> None:
        super().__init__()
        self._app = PreparedApp()

    async def serve(self, folder: Path, on_listening: Callable[[int], None]) -> None:
        sockets = bind("127.0.0.1", 0)
        server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                http="auto",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
            )
        )
        serving = asyncio.create_task(server.serve(sockets))
        on_listening(sockets[0].getsockname()[1])
        await self.stop.wait()
        server.should_exit = True
        await serving

    def follow(self, request: Json, script: Callable[[Any], Script]) -> None:
        headers, pieces = marshal.loads(Path(request["file"]).read_bytes())
        self._app.follow(headers, script(pieces))


HOSTS: dict[str, type[Host]] = {"ours": Ours, "prepared": Prepared}


def resident_bytes() -> int:
    """Of this process, now."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import psutil

    return psutil.Process().memory_info().rss


def main(name: str, folder: str, core: str) -> None:
    """Serve until the input ends. `core` is the one to run on, or nothing."""
    if core:
        os.sched_setaffinity(0, {int(core)})
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_host(name, Path(folder)))


async def _host(name: str, folder: Path) -> None:
    host = HOSTS[name]()
    loop = asyncio.get_running_loop()

    def obey() -> None:
        try:
            for line in sys.stdin:
                request = json.loads(line)
                _say(asyncio.run_coroutine_threadsafe(host.answer(request), loop).result())
        except BaseException:
            # Whoever asked would wait for ever; a process that is gone is noticed.
            traceback.print_exc()
            os._exit(1)
        loop.call_soon_threadsafe(host.stop.set)

    def on_listening(port: int) -> None:
        _say({"port": port})
        threading.Thread(target=obey, daemon=True).start()

    await host.serve(folder, on_listening)


def _say(answer: Json) -> None:
    print(json.dumps(answer), flush=True)
