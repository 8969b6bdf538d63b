"""What the tests of the embedded engines share: run an engine to its end, and look at what it said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import jsonschema

from harmonia.errors import HarmonyError
from harmonia.grammar import CallableTool
from harmonia.messages import Message
from harmonia.parser import Parsed, parse
from harmonia.renderer import render
from harmonia.run.engines import Chunk, Engine, Finish, Request
from harmonia.run.engines.demo import DemoEngine

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1},
    },
    "required": ["city"],
}
TIME: dict[str, Any] = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}


def functions(**schemas: Any) -> tuple[CallableTool, ...]:
    return tuple(CallableTool(f"functions.{name}", schema) for name, schema in schemas.items())


TOOLS = functions(get_weather=WEATHER, get_time=TIME)


def prompt_of(*said: Message | str) -> list[int]:
    return render([Message.user(each) if isinstance(each, str) else each for each in said]).tokens


async def collect(engine: Engine, prompt: Sequence[int], request: Request) -> tuple[list[Chunk], Finish | HarmonyError]:
    """All chunks, and how it ended."""
    chunks: list[Chunk] = []
    try:
        async for item in engine.generate(prompt, request):
            if isinstance(item, Finish):
                return chunks, item
            chunks.append(item)
    except HarmonyError as error:
        return chunks, error
    raise AssertionError("the stream ended without a Finish")


def run(engine: Engine, prompt: Sequence[int], request: Request) -> tuple[list[Chunk], Finish | HarmonyError]:
    return asyncio.run(collect(engine, prompt, request))


def assert_valid(value: Any, schema: Any) -> None:
    """Whether or not the schema itself is one that nothing can be said against."""
    validator: Any = jsonschema.Draft202012Validator(schema)
    validator.validate(value)


def say(prompt: Sequence[int], request: Request | None = None) -> list[int]:
    """The tokens that a new demo engine gives."""
    chunks, end = run(DemoEngine(tokens_per_chunk=7), prompt, request or Request())
    assert isinstance(end, Finish), end
    return [token for chunk in chunks for token in chunk.tokens]


def read(tokens: Sequence[int], request: Request | None = None) -> Parsed:
    """Strictly; what strict parsing only mentions is in the diagnostics."""
    return parse(list(tokens), "assistant", "strict", [tool.name for tool in (request or Request()).tools])


def answer(*said: Message | str, request: Request | None = None) -> list[Message]:
    """The messages with which the demo engine answers."""
    parsed = read(say(prompt_of(*said), request), request)
    assert parsed.diagnostics == ()
    return list(parsed)
