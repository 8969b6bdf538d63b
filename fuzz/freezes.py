"""How long /health waits while the server works on each of the inputs that once froze it.

    python fuzz/freezes.py [--give-up SECONDS] [NAME …]

Prints a line for each input: the answer, how long it took, and the worst delay of /health meanwhile (by the clock, and
by what the process computed, which does not depend on what else the machine does). The engine is a script that takes
GBNF, so that grammars are written as for llama.cpp. Each input has a process of its own, because what freezes a process
cannot be stopped from within; one that takes longer than SECONDS is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from freezing_inputs import FREEZING  # noqa: E402


async def measure(name: str) -> str:
    import msgspec
    from health_watch import HealthWatch
    from tests.support.engines.scripted import ScriptedEngine, final
    from tests.support.servers.in_process import application, ask

    from harmonia.grammar import Demand, grammar_for
    from harmonia.messages import ResponseFormat
    from harmonia.run.tools.arguments import schema_fault
    from harmonia.vocabulary import default_vocabulary

    engine = ScriptedEngine(*[final("{}")] * 4)
    engine.traits = msgspec.structs.replace(engine.traits, takes_grammar="gbnf")
    path, body = FREEZING[name]
    with tempfile.TemporaryDirectory() as folder:
        async with application(engine, Path(folder)) as (app, _):
            # What a server loads when it starts, or with the first request, is not what is measured.
            default_vocabulary().encode("a word " * 10_000)
            schema = {"type": "object"}
            grammar_for(Demand(response_format=ResponseFormat(name="form", schema=schema)), "gbnf")
            schema_fault(schema)
            await ask(app, "POST", "/v1/responses", {"input": "Hello", "store": False})
            await ask(app, "POST", "/v1/chats/import", {"text": "Hello"})
            async with HealthWatch(app) as watch:
                began = time.monotonic()
                answer = await ask(app, "POST", path, body)
                took = time.monotonic() - began
            health = f"/health {watch.worst_s * 1000:6.0f} ms, {watch.worst_cpu_s * 1000:6.0f} ms of CPU"
            return f"{name:40} {answer.status}  {took:7.2f} s  {len(answer.body):>10,} B  {health}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--give-up", type=float, default=120.0)
    options.add_argument("--one", help=argparse.SUPPRESS)
    options.add_argument("names", nargs="*", metavar="NAME")
    given = options.parse_args()
    if given.one:
        print(asyncio.run(measure(given.one)), flush=True)
        return
    for name in given.names or FREEZING:
        try:
            subprocess.run([sys.executable, __file__, "--one", name], timeout=given.give_up, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name:40} ended after {given.give_up:.0f} s without an answer", flush=True)


if __name__ == "__main__":
    main()
