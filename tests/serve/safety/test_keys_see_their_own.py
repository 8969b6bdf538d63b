"""Each API key sees its own data and nobody else's, over real sockets; ids say nothing; pages and names are checked."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from harmonia.serve.security.keys import new_api_key, new_id
from tests.support.engines.scripted import ScriptedEngine, final, think
from tests.support.servers.http_servers import Answer
from tests.support.servers.real_servers import RealServer, real_server

Json = dict[str, Any]
Work = Callable[[RealServer, str, str], Coroutine[Any, Any, None]]

ANSWER = think("x") + final("Hello")
HI: Json = {"input": "Hi"}


def _as(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _with_two_keys(folder: Path, work: Work) -> None:
    async def main() -> None:
        file = folder / "keys"
        alice, bob = new_api_key(file, "alice"), new_api_key(file, "bob")
        async with real_server(ScriptedEngine(ANSWER), folder, key_file=file) as server:
            await work(server, alice, bob)

    asyncio.run(main())


def _same_but_for_the_id(one: Answer, other: Answer, id_: str, none: str) -> bool:
    return one.status == other.status and one.body.replace(id_.encode(), b"?") == other.body.replace(
        none.encode(), b"?"
    )


def test_a_response_is_there_for_its_owner_only(tmp_path: Path) -> None:
    async def work(server: RealServer, alice: str, bob: str) -> None:
        made = await server.ask("POST", "/v1/responses", HI, **_as(alice))
        id_, none = made.json["id"], new_id("resp")
        for method, tail in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
            others = await server.ask(method, f"/v1/responses/{id_}{tail}", **_as(bob))
            nothing = await server.ask(method, f"/v1/responses/{none}{tail}", **_as(bob))
            # What is another's answers exactly as what is nobody's.
            assert others.status == 404
            assert _same_but_for_the_id(others, nothing, id_, none)
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            others = await server.ask("POST", path, {**HI, "previous_response_id": id_}, **_as(bob))
            nothing = await server.ask("POST", path, {**HI, "previous_response_id": none}, **_as(bob))
            assert others.status == 404
            assert _same_but_for_the_id(others, nothing, id_, none)
        for method, tail in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
            assert (await server.ask(method, f"/v1/responses/{id_}{tail}", **_as(alice))).status == 200

    _with_two_keys(tmp_path, work)


def test_an_item_is_there_for_its_owner_only(tmp_path: Path) -> None:
    async def work(server: RealServer, alice: str, bob: str) -> None:
        made = await server.ask("POST", "/v1/responses", HI, **_as(alice))
        for item in made.json["output"]:
            body = {"input": [{"type": "item_reference", "id": item["id"]}, {"role": "user", "content": "Hi"}]}
            assert (await server.ask("POST", "/v1/responses", body, **_as(bob))).status == 404
            assert (await server.ask("POST", "/v1/responses", body, **_as(alice))).status == 200

    _with_two_keys(tmp_path, work)


def test_a_seal_opens_for_its_owner_only(tmp_path: Path) -> None:
    async def work(server: RealServer, alice: str, bob: str) -> None:
        include = ["reasoning.encrypted_content", "harmonia.encrypted_content"]
        made = await server.ask("POST", "/v1/responses", {**HI, "store": False, "include": include}, **_as(alice))
        sealed = [item for item in made.json["output"] if item.get("encrypted_content")]
        assert sealed
        for item in sealed:
            body = {"input": [{"role": "user", "content": "Hi"}, item, {"role": "user", "content": "On"}]}
            others = await server.ask("POST", "/v1/responses", body, **_as(bob))
            assert (others.status, others.code) == (400, "invalid_encrypted_content")
            assert (await server.ask("POST", "/v1/responses", body, **_as(alice))).status == 200

    _with_two_keys(tmp_path, work)


def test_a_running_response_is_ended_by_its_owner_only(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "keys"
        alice, bob = new_api_key(file, "alice"), new_api_key(file, "bob")
        engine = ScriptedEngine(["<|channel|>final<|message|>Hello", asyncio.Event()])
        async with real_server(engine, tmp_path, key_file=file) as server:
            client = await server.connect()
            await client.send("POST", "/v1/responses", {**HI, "stream": True}, **_as(alice))
            assert (await client.read_head())[0] == 200
            chunks = client.chunks()
            id_ = json.loads((await anext(chunks)).split(b"data: ", 1)[1])["response"]["id"]
            for method, tail in (("POST", "/cancel"), ("DELETE", "")):
                assert (await server.ask(method, f"/v1/responses/{id_}{tail}", **_as(bob))).status == 404
            assert engine.running == 1
            assert (await server.ask("POST", f"/v1/responses/{id_}/cancel", **_as(alice))).status == 200
            assert engine.running == 0
            client.close()

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/docs", "/v1/responses/x", "/nothing"])
def test_nothing_is_said_to_somebody_without_a_key(tmp_path: Path, path: str) -> None:
    async def work(server: RealServer, alice: str, bob: str) -> None:
        wrong = [f"{alice[:-1]}x", alice.upper(), f"{alice}x", alice[:-1], "x", f"{alice} {bob}", "sk-harmonia-"]
        for headers in ({}, *map(_as, wrong), {"authorization": f"Basic {alice}"}, {"authorization": "Bearer"}):
            answer = await server.ask("GET", path, **headers)
            assert (answer.status, answer.code) == (401, "invalid_api_key")
            assert alice.encode() not in answer.body
        assert alice not in server.log.getvalue() and bob not in server.log.getvalue()

    _with_two_keys(tmp_path, work)


def test_keys_are_in_no_answer_and_no_log(tmp_path: Path) -> None:
    async def work(server: RealServer, alice: str, bob: str) -> None:
        await server.ask("POST", "/v1/responses", HI, **_as(alice))
        await server.ask("POST", "/v1/responses", b"{", **_as(bob))
        await server.ask("GET", f"/v1/responses/{alice}", **_as(alice))
        await server.ask("GET", "/metrics", **_as(alice))
        heard = bytes(server.heard).replace(f"/{alice}".encode(), b"")
        for key in (alice, bob):
            assert key not in server.log.getvalue()
        assert bob.encode() not in heard

    _with_two_keys(tmp_path, work)


def test_without_keys_credentials_are_not_looked_at(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_server(ScriptedEngine(ANSWER), tmp_path) as server:
            made = await server.ask("POST", "/v1/responses", HI, authorization="Bearer sk-anything")
            assert made.status == 200
            for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic eDp5"}, {"x_api_key": "x"}):
                assert (await server.ask("GET", f"/v1/responses/{made.json['id']}", **headers)).status == 200

    asyncio.run(main())


# ── ids ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ids_cannot_be_guessed(tmp_path: Path) -> None:
    """192 random bits each: neither a clock nor a counter nor anything that two of them share."""

    async def main() -> None:
        async with real_server(ScriptedEngine(ANSWER), tmp_path) as server:
            ids: list[str] = []
            for _ in range(40):
                made = (await server.ask("POST", "/v1/responses", HI)).json
                listed = (await server.ask("GET", f"/v1/responses/{made['id']}/input_items")).json
                ids += [made["id"], *(item["id"] for item in made["output"]), *(item["id"] for item in listed["data"])]
                chat = await server.ask(
                    "POST", "/v1/chat/completions", {"model": "script", "messages": [{"role": "user", "content": "Hi"}]}
                )
                ids.append(chat.json["id"])
            assert len(set(ids)) == len(ids) == 200
            digits = [re.split("[_-]", id_)[-1] for id_ in ids]
            assert all(re.fullmatch("[0-9a-f]{48}", each) for each in digits)
            # At each of the 48 places each of the 16 digits comes about as often as by chance: within nine deviations.
            expected, deviation = len(ids) / 16, math.sqrt(len(ids) * 15 / 256)
            for place in range(48):
                for digit in "0123456789abcdef":
                    assert abs(sum(each[place] == digit for each in digits) - expected) < 9 * deviation

    asyncio.run(main())


# ── names and pages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0x7f.1", "a@localhost"]
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/responses", "/metrics", "/ready"])
def test_a_request_for_another_name_is_refused(tmp_path: Path, host: str, path: str) -> None:
    """DNS rebinding: a page whose name points here sends its own name."""

    async def main() -> None:
        async with real_server(ScriptedEngine(ANSWER), tmp_path) as server:
            body = HI if path == "/v1/responses" else None
            method = "GET" if body is None else "POST"
            assert (await server.ask(method, path, body, host=host)).status == 403
            for known in ("localhost", f"127.0.0.1:{server.port}", "[::1]", "LOCALHOST:1"):
                assert (await server.ask(method, path, body, host=known)).status == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil.example"]
)
def test_a_web_page_of_another_origin_is_refused_and_gets_no_cors_headers(tmp_path: Path, origin: str) -> None:
    async def main() -> None:
        engine = ScriptedEngine(ANSWER)
        async with real_server(engine, tmp_path) as server:
            for method, body in (("POST", HI), ("OPTIONS", None)):
                headers = {"origin": origin, "access_control_request_method": "POST" if body is None else ""}
                answer = await server.ask(method, "/v1/responses", body, **headers)
                assert answer.status == 403
                assert not any(name.startswith("access-control-") for name in answer.headers)
            # A form needs no preflight. It cannot send JSON as such.
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
                assert (await server.ask("POST", "/v1/responses", HI, content_type=kind)).status == 400
            assert not engine.prompts

    asyncio.run(main())


def test_a_page_that_the_operator_named_may_come(tmp_path: Path) -> None:
    async def main() -> None:
        page = "https://app.example"
        async with real_server(ScriptedEngine(ANSWER), tmp_path, origins=(page,)) as server:
            answer = await server.ask("POST", "/v1/responses", HI, origin=page)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, page)
            assert (await server.ask("POST", "/v1/responses", HI, origin="https://app.example.evil")).status == 403

    asyncio.run(main())
