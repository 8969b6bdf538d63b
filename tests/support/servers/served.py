"""A service in front of a scripted engine, for tests of what clients get."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harmonia.run.sampling import Model
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller
from harmonia.serve.security.sealed_content import Seals
from harmonia.serve.service import Service
from harmonia.serve.store.store_urls import open_store
from harmonia.serve.wire.event_stream import StreamEvent

Json = dict[str, Any]

WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
NOW = 1_800_000_000.0


@asynccontextmanager
async def served(
    engine: Model, folder: Path, *, tools: Sequence[ServerTool] = (), **settings: Any
) -> AsyncGenerator[Service]:
    """A service with a store and keys in this folder."""
    store = await open_store(f"sqlite:///{folder / 'responses.sqlite3'}")
    try:
        seals = Seals(folder / "seal-keys.json", clock=lambda: NOW)
        yield Service(Settings(**settings), engine, store, seals, tools=tools, clock=lambda: NOW)
    finally:
        await store.close()


def swap(service: Service, *, model: Model | None = None, store: Any = None) -> None:
    """Make the service anew with another model or store."""
    Service.__init__(
        service,
        service.settings,
        model or service.model,
        store or service.store,
        service.seals,
        tools=service.tools,
        clock=service.clock,
    )


async def create(service: Service, caller: Caller | None = None, **body: Any) -> Json:
    """The response to a request, whole."""
    started = await service.responses.create(body, caller or Caller())
    return json.loads(await started.result())


async def stream(service: Service, caller: Caller | None = None, **body: Any) -> list[Json]:
    """The events of a request, as JSON."""
    started = await service.responses.create({"stream": True, **body}, caller or Caller())
    return [decode(event) async for event in started.events()]


def decode(event: StreamEvent) -> Json:
    value: Json = json.loads(event.data)
    assert value["type"] == event.type
    return value


def fold(events: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The output that the events of a stream add up to, checked event by event as a suspicious client would."""
    items: dict[int, Json] = {}
    texts: dict[tuple[str, str], str] = {}
    done: set[int] = set()
    for at, event in enumerate(events):
        kind = event["type"]
        assert event["sequence_number"] == at
        if kind == "response.output_item.added":
            index = event["output_index"]
            assert index == len(items)
            assert event["item"]["status"] == "in_progress"
            items[index] = dict(event["item"])
            continue
        if "output_index" not in event:
            continue
        index = event["output_index"]
        assert index in items, f"{kind} before its item"
        assert index not in done, f"{kind} behind its item"
        item_id = items[index]["id"]
        if kind == "response.output_item.done":
            assert event["item"]["id"] == item_id
            assert event["item"]["type"] == items[index]["type"]
            items[index] = dict(event["item"])
            done.add(index)
            continue
        assert event["item_id"] == item_id
        name, _, which = kind.rpartition(".")
        if which == "delta":
            texts[item_id, name] = texts.get((item_id, name), "") + event["delta"]
        elif which == "done" and name != "response.content_part":
            whole = event.get("text", event.get("arguments", event.get("input")))
            assert texts.get((item_id, name), "") == whole
    assert done == set(items)
    return [items[index] for index in sorted(items)]


def text_of(response: Mapping[str, Any]) -> str:
    """What the user reads."""
    parts = (part for item in response["output"] if item["type"] == "message" for part in item["content"])
    return "".join(part["text"] for part in parts)
