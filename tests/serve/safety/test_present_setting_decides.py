"""What was stored while reasoning was shown is not told once the operator hides it, on any route of the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.servers.http_servers import Answer
from tests.support.servers.in_process import application, ask
from tests.support.servers.served import WEATHER

Json = dict[str, Any]

SECRET = "ᚠᚢᚦᚨᚱᚲ"
CALL = calls("get_weather", '{"city": "Rome"}')
# A thought, and text that is held back because of its channel; a call that is not made.
THOUGHT = think(f"{SECRET} one") + f"<|channel|>weird<|message|>{SECRET} two<|end|><|start|>assistant" + CALL
NOT_MADE = think("x") + calls("get_time", json.dumps({"zone": SECRET}, ensure_ascii=False))
TURN = "turn_1"


def is_told(answered: Answer) -> bool:
    # Also as JSON writes it in ASCII, or twice.
    text = answered.body.decode()
    spellings = [SECRET, json.dumps(SECRET)[1:-1], json.dumps(json.dumps(SECRET))[2:-2]]
    return any(each in text for each in spellings)


class Stored:
    """What is there to be asked for: a response, one that continues it, and a chat."""

    def __init__(self, first: Json, second: Json, chat_id: str) -> None:
        self.first = first
        self.second = second
        self.chat_id = chat_id

    @property
    def references(self) -> list[Json]:
        return [{"type": "item_reference", "id": item["id"]} for item in self.first["output"]]

    @property
    def sealed(self) -> list[Json]:
        bare = ("type", "id", "status", "summary", "encrypted_content", "call_id", "name", "arguments")
        return [{name: value for name, value in item.items() if name in bare} for item in self.first["output"]]

    def requests(self, method: str, path: str) -> Iterator[tuple[str, Any]]:
        """How this route is asked for what is stored: targets and bodies."""
        result = {"type": "function_call_output", "call_id": self.first["output"][-1]["call_id"], "output": "21"}
        hi = {"role": "user", "content": "Hi"}
        bodies: list[Json] = [
            {"previous_response_id": self.first["id"], "input": [result]},
            {"previous_response_id": self.second["id"], "input": "And?"},
            {"input": [hi, *self.references, result]},
            {"input": [hi, *self.sealed, result], "include": ["harmonia.encrypted_content"]},
            {"input": [hi, self.references[0]], "harmonia_continue": True},
        ]
        route = (method, path.removeprefix("/v1"))
        match route:
            case ("POST", "/responses"):
                for body in bodies:
                    yield path, {**body, "tools": [WEATHER]}
                    yield path, {**body, "tools": [WEATHER], "stream": True}
            case ("POST", "/responses/input_tokens"):
                for body in bodies:
                    yield path, {**body, "tools": [WEATHER]}
            case ("POST", "/harmony/trace"):
                for body in bodies:
                    yield path, {"request": {**body, "tools": [WEATHER]}, "output": []}
                yield path, {"request": {"input": [hi], "tools": [WEATHER]}, "output": self.sealed}
            case (_, "/responses/{id}" | "/responses/{id}/cancel"):
                for response in (self.first, self.second):
                    yield path.replace("{id}", response["id"]), None if method != "POST" else {}
                    if method == "GET":
                        yield f"{path.replace('{id}', response['id'])}?stream=true", None
            case (_, "/responses/{id}/input_items"):
                for response in (self.first, self.second):
                    for order in ("asc", "desc"):
                        yield f"{path.replace('{id}', response['id'])}?order={order}&limit=100", None
            case ("GET", "/chats"):
                yield path, None
                yield f"{path}?query=one", None
            case ("PATCH", "/chats/{id}"):
                yield path.replace("{id}", self.chat_id), {"title": ""}
            case ("PUT", "/chats/{id}/turns/{turn}"):
                turn = {"id": "turn_2", "parent": TURN, "role": "user", "items": [{"type": "message", **hi}]}
                target = path.replace("{id}", self.chat_id).replace("{turn}", "turn_2")
                yield target, {**turn, "status": "completed", "created_at": 1}
            case (_, "/chats/{id}/export"):
                for form in ("json", "markdown", "harmony", "tokens"):
                    yield f"{path.replace('{id}', self.chat_id)}?format={form}", None
            case (_, "/chats/{id}" | "/chats/{id}/turns/{turn}"):
                yield path.replace("{id}", self.chat_id).replace("{turn}", TURN), None
            case _:
                assert route in WITHOUT_STORED, f"{method} {path} is new: how is it asked for what is stored?"
                yield path, None if method == "GET" else {}


# These answer from the request alone, or about the server.
WITHOUT_STORED = {
    *(("POST", f"/harmony/{name}") for name in ("render", "parse", "inspect", "diff", "replay", "tokenize")),
    ("POST", "/harmony/detokenize"),
    ("POST", "/chat/completions"),
    ("POST", "/chats"),
    ("POST", "/chats/import"),
    ("GET", "/models"),
    ("GET", "/models/{model:path}"),
    ("GET", "/harmony/server"),
    *(("GET", path) for path in ("/health", "/ready", "/metrics", "/openapi.json", "/docs", "/", "/page/{file}")),
}


async def store_all(folder: Path, *said: str) -> Stored:
    async with application(ScriptedEngine(*said, final("x")), folder, analysis="shown") as (app, _):
        body: Json = {"input": "Hi", "tools": [WEATHER], "include": ["harmonia.encrypted_content"]}
        answered = await ask(app, "POST", "/v1/responses", body)
        assert answered.status == 200 and is_told(answered)
        first = answered.json
        # The reasoning is in the input of the second.
        second = (await ask(app, "POST", "/v1/responses", {**body, "input": first["output"][:-1]})).json
        assert is_told(await ask(app, "GET", f"/v1/responses/{second['id']}/input_items"))
        chat_id = (await ask(app, "POST", "/v1/chats", {})).json["id"]
        turn: Json = {"id": TURN, "parent": None, "role": "assistant", "items": first["output"], "created_at": 1}
        answered = await ask(app, "PUT", f"/v1/chats/{chat_id}/turns/{TURN}", {**turn, "status": "completed"})
        assert answered.status == 200, answered.body
        assert is_told(await ask(app, "GET", f"/v1/chats/{chat_id}"))
        return Stored(first, second, chat_id)


@pytest.mark.parametrize("said", [(THOUGHT,), (NOT_MADE, CALL)])
def test_no_route_tells_reasoning_that_was_shown_before(tmp_path: Path, said: tuple[str, ...]) -> None:
    async def run() -> None:
        stored = await store_all(tmp_path, *said)
        async with application(ScriptedEngine(final("x")), tmp_path, analysis="hidden") as (app, _):
            made: list[str] = []
            asked = 0
            routes = [
                (method, route.path) for route in app.routes for method in route.methods or () if method != "HEAD"
            ]
            # What deletes comes last.
            for method, path in sorted(routes, key=lambda each: each[0] == "DELETE"):
                for target, body in stored.requests(method, path):
                    answered = await ask(app, method, target, body)
                    assert not is_told(answered), (method, target, body)
                    assert answered.status < 500, (method, target, answered.body)
                    asked += 1
                    sent: Json = body or {}
                    if path.endswith("/responses") and answered.status == 200 and not sent.get("stream"):
                        made.append(answered.json["id"])
            assert made and asked > 40
            for response_id in made:
                for target in (f"/v1/responses/{response_id}", f"/v1/responses/{response_id}/input_items"):
                    assert not is_told(await ask(app, "GET", target))

    asyncio.run(run())


def test_what_is_stored_stays_as_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        stored = await store_all(tmp_path, THOUGHT)
        target = f"/v1/responses/{stored.first['id']}"
        for analysis, is_shown in (("hidden", False), ("shown", True)):
            async with application(ScriptedEngine(final("x")), tmp_path, analysis=analysis) as (app, _):
                answered = await ask(app, "GET", target)
                assert is_told(answered) is is_shown
                kinds = [item["type"] for item in answered.json["output"]]
                assert kinds == [item["type"] for item in stored.first["output"]]
                seals = [item.get("encrypted_content") for item in answered.json["output"]]
                assert seals == [item.get("encrypted_content") for item in stored.first["output"]]

    asyncio.run(run())
