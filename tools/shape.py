"""Measure the shape of the house, and fail where it grows: `make shape`.

    python tools/shape.py [--modules] [--types]

Lines and modules are those of `src`. The rest is measured on one streamed request with a tool to `POST /v1/responses`,
answered by the demo engine, after the same request has warmed everything up:

- the modules of Harmonia in which at least one function runs, from the request to the last event;
- the types of Harmonia that a message passes through on its way to the engine, and those of a tool: values and
  collections that are passed to or returned by a function and hold the text of the message, or the description of the
  tool, however deep. Services and other machinery do not count, nor do bytes, strings, lists and dictionaries. What
  declares tools in a prompt (a developer message and its content) counts for messages only.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.servers.in_process import application, ask, events_of  # noqa: E402

from harmonia.run.engines.demo import DemoEngine  # noqa: E402

# What `make shape` allows. Lower a limit when the figure falls; raise one only with a reason in the commit.
LIMITS: Final = {
    "lines of src": 59_500,
    "modules of src": 276,
    "lines of the largest module": 730,
    "modules that run in a streamed tool call": 50,
    "types that a message passes through": 5,
    "types that a tool passes through": 5,
}
_SAID: Final = "the-text-of-the-message"
_DESCRIBED: Final = "the-description-of-the-tool"
_BODY: Final = {
    "model": "demo",
    "stream": True,
    "input": [{"role": "user", "content": [{"type": "input_text", "text": f"use look_up for Paris {_SAID}"}]}],
    "tools": [
        {
            "type": "function",
            "name": "look_up",
            "description": _DESCRIBED,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }
    ],
}
_OF_MESSAGES: Final = ("harmonia.messages.message.Message", "harmonia.messages.message.DeveloperContent")
_CONTAINERS: Final = (list, tuple, set, frozenset)
_DEEPEST: Final = 6


class Seen:
    """What a request ran and passed through."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.holders: dict[str, set[str]] = {_SAID: set(), _DESCRIBED: set()}
        self.is_on_its_way_in = True

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event not in ("call", "return") or not module.startswith("harmonia"):
            return
        self.modules.add(module)
        if frame.f_code.co_qualname == "DemoEngine.generate":
            self.is_on_its_way_in = False
        if self.is_on_its_way_in:
            code = frame.f_code
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
            for value in given if event == "call" else [argument]:
                self._visit(value, _DEEPEST)

    def _visit(self, value: object, depth: int) -> None:
        """Note the types of ours among the values, and those that they hold."""
        if depth == 0:
            return
        if _is_ours(value) and _is_value(value):
            fields = list(_fields_of(value))
            for text, holders in self.holders.items():
                if any(_holds(field, text, _DEEPEST) for field in fields):
                    holders.add(f"{type(value).__module__}.{type(value).__qualname__}")
            for field in fields:
                self._visit(field, depth - 1)
        elif isinstance(value, _CONTAINERS):
            for each in cast("list[object]", value):
                self._visit(each, depth - 1)
        elif isinstance(value, dict):
            for each in cast("dict[object, object]", value).values():
                self._visit(each, depth - 1)


def _is_ours(value: object) -> bool:
    return not isinstance(value, type) and type(value).__module__.startswith("harmonia")


def _is_value(value: object) -> bool:
    """Whether it is data or a collection. A service is machinery: a request does not pass through what it has."""
    return hasattr(value, "__struct_fields__") or dataclasses.is_dataclass(value) or hasattr(type(value), "__len__")


def _fields_of(value: object) -> Iterator[object]:
    yield from getattr(value, "__dict__", {}).values()
    names: list[str] = list(getattr(value, "__struct_fields__", ()))
    for kind in () if names else type(value).__mro__:
        slots: Any = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        yield getattr(value, name, None)
    if isinstance(value, tuple):
        yield from cast("tuple[object, ...]", value)


def _holds(value: object, text: str, depth: int) -> bool:
    if isinstance(value, str):
        return text in value
    if depth == 0:
        return False
    if _is_ours(value):
        return _is_value(value) and any(_holds(field, text, depth - 1) for field in _fields_of(value))
    if isinstance(value, _CONTAINERS):
        return any(_holds(each, text, depth - 1) for each in cast("list[object]", value))
    if isinstance(value, dict):
        return any(_holds(each, text, depth - 1) for each in cast("dict[object, object]", value).values())
    return False


@contextmanager
def profiled(seen: Seen) -> Iterator[None]:
    threading.setprofile_all_threads(seen.look) if sys.version_info >= (3, 12) else threading.setprofile(seen.look)
    sys.setprofile(seen.look)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile_all_threads(None) if sys.version_info >= (3, 12) else threading.setprofile(None)


async def follow_a_request() -> Seen:
    """The third of three equal requests: the first two warm up what is loaded or remembered."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        async with application(DemoEngine(), Path(folder)) as (app, _):
            for _ in range(2):
                await ask(app, "POST", "/v1/responses", _BODY)
            with profiled(seen):
                answer = await ask(app, "POST", "/v1/responses", _BODY)
    done = [event for event in events_of(answer) if event["type"] == "response.function_call_arguments.done"]
    assert answer.status == 200 and len(done) == 1, "the request did not end in a tool call"
    return seen


def measure() -> tuple[dict[str, int], Seen]:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py")}
    seen = asyncio.run(follow_a_request())
    figures = (
        sum(sizes.values()),
        len(sizes),
        max(sizes.values()),
        len(seen.modules),
        len(seen.holders[_SAID]),
        len(seen.holders[_DESCRIBED].difference(_OF_MESSAGES)),
    )
    return dict(zip(LIMITS, figures, strict=True)), seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", action="store_true", help="list the modules that run")
    parser.add_argument("--types", action="store_true", help="list the types that a message or a tool passes through")
    options = parser.parse_args()
    figures, seen = measure()
    for name, figure in figures.items():
        print(f"{figure:>8,}  {name} (at most {LIMITS[name]:,})")
    if options.modules:
        print(*sorted(seen.modules), sep="\n")
    if options.types:
        for text, holders in seen.holders.items():
            print(f"{text}:", *sorted(holders), sep="\n  ")
    grown = [name for name, figure in figures.items() if figure > LIMITS[name]]
    for name in grown:
        print(f"grew: {name}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
