"""The dialect open-responses, against the specification's own document: every response and every event of the
situations of its public suite, with the engine that needs no model."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines import Finish
from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.security.keys import Caller
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.paths import ROOT
from tests.support.servers.served import WEATHER, create, fold, served, stream

OPEN = Caller(dialect="open-responses")
DOCUMENT = ROOT / "tests" / "data" / "open-responses.openapi.json"
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"


@cache
def document() -> dict[str, Any]:
    return json.loads(DOCUMENT.read_text())


@cache
def validator(name: str) -> Any:
    contents = {**document(), "$schema": "https://json-schema.org/draft/2020-12/schema"}
    registry: Any = cast("Any", Registry)()
    registry = registry.with_resource("urn:open-responses", Resource.from_contents(contents))
    return Draft202012Validator({"$ref": f"urn:open-responses#/components/schemas/{name}"}, registry=registry)


def errors_of(name: str, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(value)]


@cache
def event_schemas() -> dict[str, str]:
    """The schema of each type of event."""
    found: dict[str, str] = {}
    for name, schema in document()["components"]["schemas"].items():
        if name.endswith("StreamingEvent"):
            for kind in schema["properties"]["type"]["enum"]:
                found[kind] = name
    return found


def check_response(response: dict[str, Any]) -> None:
    assert errors_of("ResponseResource", response) == []


def check_events(events: list[dict[str, Any]]) -> None:
    for event in events:
        assert errors_of(event_schemas()[event["type"]], event) == [], event["type"]
    assert fold(events) == events[-1]["response"]["output"]
    check_response(events[-1]["response"])


NAME = "get_weather"
FORM = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}
SITUATIONS: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [{"type": "message", "role": "user", "content": "Say hello in exactly 3 words."}]},
    "assistant-phase": {
        "input": [
            {"type": "message", "role": "assistant", "phase": "commentary", "content": "I look it up."},
            {"type": "message", "role": "assistant", "phase": "final_answer", "content": "It is red."},
            {"type": "message", "role": "user", "content": "And now?"},
        ]
    },
    "system-prompt": {
        "input": [
            {"type": "message", "role": "system", "content": "You are a pirate."},
            {"type": "message", "role": "user", "content": "Say hello."},
        ]
    },
    "tool-calling": {
        "input": [{"type": "message", "role": "user", "content": "What's the weather like in San Francisco?"}],
        "tools": [WEATHER],
    },
    "image-input": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What do you see?"},
                    {"type": "input_image", "image_url": PIXEL},
                ],
            }
        ]
    },
    "multi-turn": {
        "input": [
            {"type": "message", "role": "user", "content": "My name is Alice."},
            {"type": "message", "role": "assistant", "content": "Hello Alice!"},
            {"type": "message", "role": "user", "content": "What is my name?"},
        ]
    },
    "everything": {
        "input": "Hi",
        "instructions": "Be kind.",
        "reasoning": {"effort": "low"},
        "text": {"format": FORM, "verbosity": "low"},
        "tools": [WEATHER],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": NAME}]},
        "max_output_tokens": 200,
        "max_tool_calls": 3,
        "temperature": 0.2,
        "top_p": 0.5,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "include": ["reasoning.encrypted_content"],
        "store": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_of_the_suite(tmp_path: Path, situation: str, analysis: str) -> None:
    async def run() -> None:
        async with served(DemoEngine(), tmp_path, analysis=analysis) as service:
            body = {"model": "demo", **SITUATIONS[situation]}
            response = await create(service, OPEN, **body)
            check_response(response)
            assert response["status"] == "completed"
            assert response["output"]
            if situation == "tool-calling":
                assert "function_call" in {item["type"] for item in response["output"]}
            check_events(await stream(service, OPEN, **body))

    asyncio.run(run())


@pytest.mark.parametrize(
    "script",
    [
        ["<|channel|>final<|message|>Half of", Finish("length")],
        ["<|channel|>final<|message|>Half of", EngineError(ErrorCode.ENGINE_DIED, "x")],
        [think("a") + "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + calls("get_weather", "{}")],
        ["<|channel|>analysis<|message|>only this<|return|>"],
        ["<|channel|>commentary to=functions.patch<|message|>text<|call|>"],
        [calls("get_weather", '{"ci'), Finish("length")],
        ["stray <|channel|>odd<|message|>x<|end|><|start|>assistant" + final("y")],
    ],
)
@pytest.mark.parametrize("analysis", ["hidden", "shown"])
def test_every_end_is_valid(tmp_path: Path, script: list[Any], analysis: str) -> None:
    async def run() -> None:
        async with served(ScriptedEngine(script), tmp_path, analysis=analysis) as service:
            events = await stream(service, OPEN, input="Hi", tools=[WEATHER])
            check_events(events)

    asyncio.run(run())


def test_what_the_specification_does_not_know_is_marked_as_ours(tmp_path: Path) -> None:
    async def run() -> None:
        engine = ScriptedEngine("<|channel|>commentary to=functions.patch<|message|>text<|call|>", final("Done."))
        async with served(engine, tmp_path) as service:
            tools = [{"type": "custom", "name": "patch"}]
            first = await create(service, OPEN, input="Hi", tools=tools)
            call = first["output"][0]
            assert call["type"] == "harmonia:custom_tool_call"
            output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
            second = await create(service, OPEN, previous_response_id=first["id"], input=[output], tools=tools)
            assert second["status"] == "completed"
            third = await create(service, OPEN, input=[{"role": "user", "content": "Hi"}, call, output], tools=tools)
            assert third["status"] == "completed"

    asyncio.run(run())
