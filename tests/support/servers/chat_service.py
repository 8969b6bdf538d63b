"""Chat completions of an engine, without a server; and what clients make of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from harmonia.messages import Json
from harmonia.renderer import Renderer
from harmonia.run.sampling import Model
from harmonia.serve.chat_completions.service import ChatCompletions
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.served_model import ServedModel
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller

# 2025-11-05, a quarter past noon.
NOW = 1762344900.0
CALLER = Caller()
HI: list[Any] = [{"role": "user", "content": "Hi"}]
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def completions_of(
    model: Model,
    settings: Settings | None = None,
    tools: Sequence[ServerTool] = (),
    renderer: Renderer | None = None,
) -> ChatCompletions:
    settings = msgspec.structs.replace(settings or Settings(), model="gpt-oss")
    return ChatCompletions(settings, ServedModel(model, settings, renderer), tools, lambda: NOW)


def body(messages: list[Any] | None = None, **fields: Any) -> Json:
    return {"model": "gpt-oss", "messages": HI if messages is None else messages, **fields}


async def answer(service: ChatCompletions, value: Json) -> Json:
    started = await service.create(value, CALLER)
    assert not started.wants_stream
    return cast("Json", json.loads(await started.result()))


async def chunks(service: ChatCompletions, value: Json) -> list[Json]:
    started = await service.create({**value, "stream": True}, CALLER)
    assert started.wants_stream
    return [json.loads(event.data) async for event in started.events()]


def ask(service: ChatCompletions, value: Json) -> Json:
    return asyncio.run(answer(service, value))


def stream(service: ChatCompletions, value: Json) -> list[Json]:
    return asyncio.run(chunks(service, value))


async def events_of(service: ChatCompletions, value: Json) -> AsyncGenerator[Json, None]:
    started = await service.create({**value, "stream": True}, CALLER)
    async with aclosing(started.events()) as events:
        async for event in events:
            yield json.loads(event.data)


def fold(stream: list[Json]) -> Json:
    """What a client makes of chunks: the completion that it would have got at once, without its ids."""
    choices: dict[int, Json] = {}
    usage = None
    for chunk in stream:
        assert "error" not in chunk
        usage = chunk.get("usage") or usage
        for delta in chunk["choices"]:
            _add(choices.setdefault(delta["index"], {"index": delta["index"], "parts": []}), delta)
    return {"choices": [_folded(choices[index]) for index in sorted(choices)], "usage": usage}


def _add(choice: Json, delta: Json) -> None:
    choice["parts"].append(delta["delta"])
    if delta["logprobs"] is not None:
        choice.setdefault("logprobs", []).extend(delta["logprobs"]["content"])
    for name in ("finish_reason", "hidden_because", "unfinished_call", "warnings"):
        if delta.get(name) is not None:
            assert name not in choice
            choice[name] = delta[name]


def _folded(choice: Json) -> Json:
    parts: list[Json] = choice.pop("parts")
    calls: dict[int, Json] = {}
    for part in parts:
        for call in part.get("tool_calls", []):
            kind = call.get("type") or calls[call["index"]]["type"]
            if "id" in call:
                calls[call["index"]] = {"type": kind, kind: dict(call[kind])}
            else:
                for name, text in call[kind].items():
                    calls[call["index"]][kind][name] += text
    calls.pop(choice.pop("unfinished_call", -1), None)
    message: Json = {
        "role": next(part["role"] for part in parts if "role" in part),
        "content": "".join(part.get("content") or "" for part in parts) or (None if calls else ""),
        "refusal": None,
    }
    reasoning = "".join(part.get("reasoning") or "" for part in parts)
    assert reasoning == "".join(part.get("reasoning_content") or "" for part in parts)
    if reasoning:
        message["reasoning"] = message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    older = [part["function_call"] for part in parts if "function_call" in part]
    if older:
        arguments = "".join(each["arguments"] for each in older)
        message["function_call"] = {"name": older[0]["name"], "arguments": arguments}
        message["content"] = message["content"] or None
    logprobs = choice.pop("logprobs", None)
    return {**choice, "message": message, "logprobs": logprobs and {"content": logprobs, "refusal": None}}


def without_ids(completion: Json) -> Json:
    """A completion as `fold` gives it."""
    choices = json.loads(json.dumps(completion["choices"]))
    for choice in choices:
        for call in choice["message"].get("tool_calls", []):
            assert call.pop("id").startswith("call_")
        if choice["logprobs"] is not None and not choice["logprobs"]["content"]:
            choice["logprobs"] = None
    return {"choices": choices, "usage": completion["usage"]}
