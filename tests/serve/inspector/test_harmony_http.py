"""The Harmony endpoints and /v1/models on a real server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

import harmonia
from harmonia.run.engines import PROVIDER_TRAITS
from harmonia.run.engines.base import Traits
from harmonia.run.engines.demo import DemoEngine
from harmonia.serve.config.settings import Limits
from harmonia.serve.inspector import inspections as harmony_service
from harmonia.serve.inspector.routes import LARGE, MOST_LARGE, is_large
from harmonia.serve.wire.work_limits import MOST_BODY_BYTES
from tests.support.servers.http_servers import FakeService, Server, running
from tests.support.servers.served import served

TEXT = "<|channel|>final<|message|>Four.<|return|>"


class Named(FakeService):
    @property
    def model_names(self) -> tuple[str, ...]:
        return "openai/gpt-oss-20b", "gpt-oss"


class Engine:
    name = "vllm"
    traits = Traits(context_tokens=131_072, gives_logprobs=True)


class Provider:
    name = "responses"
    traits = PROVIDER_TRAITS


async def post(server: Server, verb: str, body: Any) -> Any:
    return await server.ask("POST", f"/v1/harmony/{verb}", body)


def test_each_endpoint_answers() -> None:
    async def talk() -> None:
        async with running() as server:
            rendered = await post(server, "render", {"messages": [{"role": "user", "content": "Hi"}]})
            assert rendered.status == 200
            assert rendered.headers["content-type"] == "application/json"
            assert "x-request-id" in rendered.headers
            assert rendered.json["tokens"] == harmonia.render([harmonia.Message.user("Hi")]).tokens
            parsed = await post(server, "parse", {"text": TEXT, "role": "assistant"})
            assert [message["content"] for message in parsed.json["messages"]] == ["Four."]
            inspected = await post(server, "inspect", {"text": TEXT, "role": "assistant"})
            assert inspected.json["channels"][0]["channel"] == "final"
            tokens = (await post(server, "tokenize", {"text": "Grüße"})).json["tokens"]
            assert (await post(server, "detokenize", {"tokens": tokens})).json["text"] == "Grüße"

    asyncio.run(talk())


def test_errors_have_the_one_shape_and_the_place() -> None:
    async def talk() -> None:
        async with running() as server:
            answer = await post(server, "parse", {"text": "x", "tools": [{}]})
            assert answer.status == 400
            assert answer.json["error"].keys() == {"message", "type", "param", "code"}
            assert (answer.json["error"]["param"], answer.code) == ("tools[0]", "parse.invalid_option")
            answer = await post(server, "render", b'{"messages": [], "messages": []}')
            assert (answer.status, answer.code) == (400, "invalid_json")
            assert (await server.ask("GET", "/v1/harmony/parse")).status == 405

    asyncio.run(talk())


def test_the_fault_of_a_strict_parse_is_no_400_and_no_500() -> None:
    async def talk() -> None:
        async with running() as server:
            body = {"text": TEXT + "<|end|>", "role": "assistant", "mode": "strict"}
            answer = await post(server, "parse", body)
            assert answer.status == 422
            assert answer.code == "stream.repeated_stop"
            assert answer.json["error"]["at"] == {"character": len(TEXT), "message": 1}
            assert answer.json["error"]["param"] == "text"
            assert answer.json.keys() == {"error"}
            with_events = await post(server, "parse", {**body, "output": "events"})
            assert with_events.status == 422
            assert with_events.json["events"][-1]["type"] != ""
            assert all("Four." not in line for line in server.log.getvalue().splitlines())

    asyncio.run(talk())


def test_a_large_body_is_refused() -> None:
    async def talk() -> None:
        async with running() as server:
            answer = await post(server, "tokenize", {"text": "x" * MOST_BODY_BYTES})
            assert (answer.status, answer.code) == (413, "request_too_large")
        async with running(limits=Limits(body_bytes=1000)) as server:
            assert (await post(server, "tokenize", {"text": "x" * 1000})).status == 413

    asyncio.run(talk())


def test_large_work_does_not_hold_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work waits for an answer that the same server gives meanwhile: on the loop's own thread it would for ever."""
    has_answered = threading.Event()
    threads: list[int] = []
    tokenize = harmony_service.tokenize

    def wait(value: Any) -> Any:
        threads.append(threading.get_ident())
        if len(value["text"]) > LARGE:
            assert has_answered.wait(60)
        return tokenize(value)

    monkeypatch.setattr(harmony_service, "tokenize", wait)

    async def talk() -> None:
        async with running() as server:
            large = asyncio.create_task(post(server, "tokenize", {"text": "a " * LARGE, "output": "count"}))
            small = await post(server, "tokenize", {"text": "a"})
            assert small.status == 200
            assert (await server.ask("GET", "/health")).status == 200
            has_answered.set()
            assert (await large).json["count"] == len(harmonia.encode("a " * LARGE))
        assert threading.get_ident() in threads
        assert len(set(threads)) == 2

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"text": "x"}, False),
        ({"text": "x" * LARGE}, True),
        ({"tokens": [1] * LARGE}, True),
        ({"tokens": [[1]] * (LARGE // 8)}, True),
        ({"messages": [{"role": "user", "content": "x" * 100}] * 1000}, True),
        ({"messages": [{"role": "user", "content": "x" * 100}] * 10}, False),
        ({f"key{number}" * 10: None for number in range(3000)}, True),
        ([[[[1]]]], False),
        (None, False),
    ],
)
def test_what_is_large(value: Any, expected: bool) -> None:
    assert is_large(value) is expected


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_models_are_listed_under_all_their_names() -> None:
    async def talk() -> None:
        service = Named()
        service.model = Engine()
        async with running(service) as server:
            listed = (await server.ask("GET", "/v1/models")).json
            assert listed["object"] == "list"
            assert [model["id"] for model in listed["data"]] == ["openai/gpt-oss-20b", "gpt-oss"]
            one = (await server.ask("GET", "/v1/models/openai/gpt-oss-20b")).json
            assert one == listed["data"][0]
            assert (one["object"], type(one["created"])) == ("model", int)
            assert one["harmonia"] == {
                "engine": "vllm",
                "speaks_tokens": True,
                "takes_tokens": True,
                "gives_tokens": True,
                "gives_logprobs": True,
                "context_tokens": 131_072,
            }

    asyncio.run(talk())


def test_a_provider_speaks_no_tokens() -> None:
    async def talk() -> None:
        service = Named()
        service.model = Provider()
        async with running(service) as server:
            one = (await server.ask("GET", "/v1/models/gpt-oss")).json
            assert one["harmonia"]["speaks_tokens"] is False

    asyncio.run(talk())


def test_a_model_is_found_under_every_name_that_a_request_may_have(tmp_path: Path) -> None:
    async def talk() -> None:
        async with (
            served(DemoEngine(), tmp_path, aliases=("gpt-5",)) as service,
            running(cast(Any, service)) as server,
        ):
            listed = (await server.ask("GET", "/v1/models")).json["data"]
            assert [model["id"] for model in listed] == ["demo", "gpt-5"]
            for name in ("demo", "gpt-oss-20b", "openai/gpt-oss-120b"):
                assert (await server.ask("GET", f"/v1/models/{name}")).json["id"] == "demo"
            assert (await server.ask("GET", "/v1/models/gpt-5")).json["id"] == "gpt-5"
            assert (await server.ask("GET", "/v1/models/gpt-4o")).status == 404

    asyncio.run(talk())


def test_large_requests_do_not_wait_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    begun: list[None] = []

    def work(value: Any) -> Any:
        begun.append(None)
        release.wait(30)
        return {}

    monkeypatch.setattr(harmony_service, "tokenize", work)

    async def talk() -> None:
        async with running() as server:
            body = {"text": "x" * (LARGE + 1)}
            asking = [asyncio.create_task(post(server, "tokenize", body)) for _ in range(MOST_LARGE + 1)]
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result().status for task in done] == [429]
            release.set()
            assert sorted([(await task).status for task in asking]) == [200] * MOST_LARGE + [429]

    try:
        asyncio.run(talk())
    finally:
        release.set()


def test_a_model_that_there_is_not_is_not_found() -> None:
    async def talk() -> None:
        service = Named()
        service.model = Engine()
        async with running(service) as server:
            answer = await server.ask("GET", "/v1/models/gpt-4")
            assert (answer.status, answer.code) == (404, "model_not_found")

    asyncio.run(talk())
