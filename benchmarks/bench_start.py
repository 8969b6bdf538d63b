"""Start-up and memory: a fresh process imports, loads and renders one conversation."""

from __future__ import annotations

from random import Random

from benchmarks.cases import Json, Row, Start
from benchmarks.data import conversation


def short_prompt(random: Random) -> list[Json]:
    return conversation(random, messages=3, tool_count=1)


def _chinese(random: Random) -> list[Json]:
    return conversation(random, messages=3, tool_count=1, kinds=("chinese",))


def _twenty_tools(random: Random) -> list[Json]:
    return conversation(random, messages=3, tool_count=20, properties=5)


CASES = (
    Start("start", short_prompt),
    Start("start-engine", short_prompt, engine_loaded=True),
    Start("start-chinese", _chinese),
    Start("start-20-tools", _twenty_tools),
    Start("process", short_prompt, bare=True),
)

ROWS = (
    Row("start", "import + load until the first render", "start", "share", must=1.0, aim=0.6),
    Row("start-engine", "import + load until the real engine is loaded", "start-engine", "share"),
    Row("start-chinese", "import + load until the first render, in Chinese", "start-chinese", "share"),
    Row("start-20-tools", "import + load until the first render, 20 tools", "start-20-tools", "share"),
    Row("process", "the whole process, interpreter and exit included", "process", "share", "process_seconds"),
    Row("memory", "resident memory after the first render", "start", "share", "resident_bytes", must=1.5),
    Row("memory-engine", "resident memory with the real engine", "start-engine", "share", "resident_bytes"),
)
