"""`/v1/chats` over real sockets: what the page does with it, what is refused, and who sees what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harmonia.serve.saved_chats import request as limits
from harmonia.serve.saved_chats import service as chats_service
from harmonia.serve.security.keys import new_api_key, new_id
from harmonia.serve.store.base import ChatLimits
from tests.support.engines.scripted import ScriptedEngine, final, think
from tests.support.servers.http_servers import Answer
from tests.support.servers.real_servers import RealServer, real_server
from tests.support.strategies.stored_chats import a_turn, answered, said
from tests.support.strategies.stored_responses import bytes_of_files

Json = dict[str, Any]
Work = Callable[[RealServer], Coroutine[Any, Any, None]]


def serving(folder: Path, work: Work, **settings: Any) -> None:
    async def main() -> None:
        async with real_server(ScriptedEngine(think("x") + final("Hello")), folder, **settings) as server:
            await work(server)

    asyncio.run(main())


async def new_chat(server: RealServer, *turns: Json, **body: Any) -> str:
    chat_id: str = (await server.ask("POST", "/v1/chats", body)).json["id"]
    for turn in turns:
        answer = await server.ask("PUT", f"/v1/chats/{chat_id}/turns/{turn['id']}", turn)
        assert answer.status == 200, answer.body
    return chat_id


def refusal(answer: Answer) -> tuple[int, str | None, str | None]:
    return answer.status, answer.code, answer.json["error"]["param"]


def test_a_chat_goes_through_its_life(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        made = (await server.ask("POST", "/v1/chats", {"settings": {"effort": "low"}})).json
        assert made == {
            "id": made["id"],
            "object": "chat",
            "title": "",
            "created_at": 1_800_000_000,
            "updated_at": 1_800_000_000,
            "leaf": None,
            "settings": {"effort": "low"},
        }
        path = f"/v1/chats/{made['id']}"
        first, second = a_turn("turn_1", None, said("Which tea?")), a_turn("turn_2", "turn_1", answered("Green."))
        third = a_turn("turn_3", "turn_1", answered("Black."), status="incomplete", details={"total_s": 1.5})
        for number, turn in enumerate((first, second, third), 1):
            head = (await server.ask("PUT", f"{path}/turns/{turn['id']}", turn)).json
            assert (head["title"], head["leaf"], head["turns"]) == ("Which tea?", turn["id"], number)
        third["status"] = "completed"
        assert (await server.ask("PUT", f"{path}/turns/turn_3", third)).status == 200
        whole = (await server.ask("GET", path)).json
        assert whole == {**made, "title": "Which tea?", "leaf": "turn_3", "turns": [first, second, third]}

        changed = await server.ask("PATCH", path, {"title": " My\ntea ", "leaf": "turn_2", "settings": {"a": [1]}})
        assert changed.json == {**made, "title": "My tea", "leaf": "turn_2", "settings": {"a": [1]}}
        assert (await server.ask("PATCH", path, {})).json == changed.json
        assert (await server.ask("PATCH", path, {"title": "", "leaf": None})).json["title"] == "Which tea?"

        left = (await server.ask("DELETE", f"{path}/turns/turn_2")).json
        assert (left["leaf"], left["turns"]) == (None, 2)
        assert (await server.ask("DELETE", f"{path}/turns/turn_2")).status == 404
        assert (await server.ask("DELETE", path)).json == {"id": made["id"], "object": "chat", "deleted": True}
        for method in ("GET", "DELETE"):
            assert refusal(await server.ask(method, path)) == (404, "not_found", None)

    serving(tmp_path, work)


def test_items_are_kept_to_the_letter(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        item: Json = {
            "type": "message",
            "role": "assistant",
            "content": [],
            "encrypted_content": "hs1.x",
            "odd": [None],
        }
        item |= {"number": 10**30, "text": "<|end|> \u2028 \U0001f600 é", "deep": {"a": {"b": [1.5, True]}}}
        turn = a_turn("turn_1", None, item, role="assistant", details={"big": 2**70})
        chat_id = await new_chat(server, turn)
        whole = await server.ask("GET", f"/v1/chats/{chat_id}")
        assert json.loads(whole.body)["turns"] == [turn]

    serving(tmp_path, work)


def test_the_list_goes_from_page_to_page(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        ids = [await new_chat(server, title=f"Chat {number}") for number in range(5)]
        seen: list[str] = []
        path = "/v1/chats?limit=2"
        while True:
            page = (await server.ask("GET", path)).json
            seen += [chat["id"] for chat in page["data"]]
            assert page["has_more"] == ("next" in page)
            if not page["has_more"]:
                break
            assert page["next"] == seen[-1]
            path = f"/v1/chats?limit=2&after={seen[-1]}"
        assert seen == ids[::-1]
        assert set(page["data"][0]) == {"id", "object", "title", "created_at", "updated_at", "leaf", "turns"}
        assert refusal(await server.ask("GET", "/v1/chats?after=chat_none")) == (404, "not_found", None)
        for wrong in ("0", "101", "x", "-1", "1e3", "²"):
            answer = await server.ask("GET", f"/v1/chats?limit={quote(wrong)}")
            assert refusal(answer) == (400, "invalid_value", "limit")
        assert refusal(await server.ask("GET", "/v1/chats?order=asc")) == (400, "unknown_parameter", "order")
        assert refusal(await server.ask("GET", "/v1/chats?query=a&query=b")) == (400, "invalid_value", "query")

    serving(tmp_path, work)


def test_words_are_found_with_their_turn(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        tea = await new_chat(
            server, a_turn("turn_1", None, said("Which drink?")), a_turn("turn_2", "turn_1", answered("Green TEA."))
        )
        await new_chat(server, a_turn("turn_1", None, said("Something else")))
        titled = await new_chat(server, title="All about tea")
        found = (await server.ask("GET", "/v1/chats?query=tea")).json
        assert [(chat["id"], chat["excerpt"]["turn"]) for chat in found["data"]] == [(titled, None), (tea, "turn_2")]
        assert found["data"][1]["excerpt"]["text"] == "Green TEA."
        found = (await server.ask("GET", "/v1/chats?query=tea%20GREEN&limit=1")).json
        assert [chat["id"] for chat in found["data"]] == [tea]
        assert (await server.ask("GET", "/v1/chats?query=coffee")).json == {
            "object": "list",
            "data": [],
            "has_more": False,
        }
        assert len((await server.ask("GET", "/v1/chats?query=%20")).json["data"]) == 3

    serving(tmp_path, work)


def test_a_search_reads_no_more_than_it_may_and_says_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats_service, "MOST_SEARCHED_BYTES", 5000)

    async def work(server: RealServer) -> None:
        wanted = await new_chat(server, a_turn("turn_1", None, said("needle")), title="x")
        for number in range(5):
            await new_chat(server, a_turn("turn_1", None, said("y" * 2000)), title=f"{number}")
        pages: list[Json] = []
        after = ""
        while True:
            pages.append((await server.ask("GET", f"/v1/chats?query=needle{after}")).json)
            if not pages[-1]["has_more"]:
                break
            after = f"&after={pages[-1]['next']}"
        assert len(pages) == 2
        assert [chat["id"] for page in pages for chat in page["data"]] == [wanted]

    serving(tmp_path, work)


WRONG: list[tuple[Any, Any]] = [
    ({**a_turn("turn_1"), "id": "turn_2"}, (400, "invalid_value", "id")),
    ({**a_turn("turn_1"), "id": "x"}, (400, "invalid_value", "id")),
    ({**a_turn("turn_1"), "parent": "turn_1\n"}, (400, "invalid_value", "parent")),
    ({**a_turn("turn_1"), "parent": "turn_1"}, (400, "invalid_value", "parent")),
    ({**a_turn("turn_1"), "parent": "turn_none"}, (400, "invalid_value", "parent")),
    ({**a_turn("turn_1"), "role": "system"}, (400, "invalid_value", "role")),
    ({**a_turn("turn_1"), "status": "odd"}, (400, "invalid_value", "status")),
    ({**a_turn("turn_1"), "created_at": -1}, (400, "invalid_value", "created_at")),
    ({**a_turn("turn_1"), "created_at": "now"}, (400, "invalid_value", "created_at")),
    ({**a_turn("turn_1"), "items": [{}]}, (400, "invalid_value", "items[0].type")),
    ({**a_turn("turn_1"), "items": [1]}, (400, "invalid_value", "items[0]")),
    ({**a_turn("turn_1"), "items": [said("x")] * 1001}, (400, "invalid_value", "items")),
    ({**a_turn("turn_1"), "colour": 1}, (400, "unknown_parameter", "colour")),
    ({**a_turn("turn_1"), "details": {"x": "y" * 262_144}}, (413, "request_too_large", "details")),
    (a_turn("turn_1", None, said("x" * limits.MOST_TURN_BYTES)), (413, "request_too_large", None)),
    ([], (400, "invalid_value", None)),
]


@pytest.mark.parametrize(("turn", "expected"), WRONG)
def test_a_wrong_turn_is_refused_where_it_is_wrong(tmp_path: Path, turn: Any, expected: Any) -> None:
    async def work(server: RealServer) -> None:
        chat_id = await new_chat(server)
        assert refusal(await server.ask("PUT", f"/v1/chats/{chat_id}/turns/turn_1", turn)) == expected
        assert (await server.ask("GET", f"/v1/chats/{chat_id}")).json["turns"] == []

    serving(tmp_path, work)


def test_a_chat_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats_service, "_LIMITS", ChatLimits(2, 2000))
    monkeypatch.setattr(chats_service.limits, "MOST_CHATS", 2)

    async def work(server: RealServer) -> None:
        chat_id = await new_chat(server, a_turn("turn_1"), a_turn("turn_2"))
        path = f"/v1/chats/{chat_id}"
        assert (await server.ask("PUT", f"{path}/turns/turn_3", a_turn("turn_3"))).status == 413
        long = a_turn("turn_2", None, said("x" * 2000))
        assert (await server.ask("PUT", f"{path}/turns/turn_2", long)).status == 413
        await new_chat(server)
        assert (await server.ask("POST", "/v1/chats", {})).status == 413
        text = '{"messages":[{"role":"user","content":"Hi"}]}'
        assert (await server.ask("POST", "/v1/chats/import", {"text": text})).status == 413
        wrong: list[tuple[Any, str]] = [
            ({"title": "x" * 201}, "title"),
            ({"title": 1}, "title"),
            ({"leaf": "turn_9"}, "leaf"),
            ({"leaf": "../x"}, "leaf"),
            ({"settings": []}, "settings"),
        ]
        for body, param in wrong:
            assert refusal(await server.ask("PATCH", path, body)) == (400, "invalid_value", param)
        large = {"settings": {"instructions": "x" * limits.MOST_SETTINGS_BYTES}}
        assert refusal(await server.ask("PATCH", path, large)) == (413, "request_too_large", "settings")

    serving(tmp_path, work)


@pytest.mark.parametrize("name", ["chat_none", "%2e%2e", "x" * 3000, "%ff", "chat_%00", "%ed%a0%80"])
def test_an_id_that_is_none_is_not_found(tmp_path: Path, name: str) -> None:
    async def work(server: RealServer) -> None:
        for method, tail, body in PATHS:
            answer = await server.ask(method, f"/v1/chats/{name}{tail}", body)
            assert answer.status == 404, (method, tail, answer.body)

    serving(tmp_path, work)


# What can be asked of a chat by its id.
PATHS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PATCH", "", {"title": "x"}),
    ("PATCH", "", {"title": ""}),
    ("PUT", "/turns/turn_1", a_turn("turn_1")),
    ("PUT", "/turns/turn_2", a_turn("turn_2", "turn_1")),
    ("GET", "/export", None),
    ("GET", "/export?format=markdown", None),
    ("GET", "/export?format=harmony", None),
    ("GET", "/export?format=tokens&leaf=turn_1", None),
    ("DELETE", "/turns/turn_1", None),
    ("DELETE", "", None),
]


def test_a_chat_is_there_for_its_owner_only(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "keys"
        keys = {name: {"authorization": f"Bearer {new_api_key(file, name)}"} for name in ("alice", "bob")}
        async with real_server(ScriptedEngine(final("Hello")), tmp_path, key_file=file) as server:
            made = await server.ask("POST", "/v1/chats", {"title": "hers"}, **keys["alice"])
            id_, none = made.json["id"], new_id("chat")
            turn = a_turn("turn_1", None, said("needle"))
            assert (await server.ask("PUT", f"/v1/chats/{id_}/turns/turn_1", turn, **keys["alice"])).status == 200
            for method, tail, body in PATHS:
                others = await server.ask(method, f"/v1/chats/{id_}{tail}", body, **keys["bob"])
                nothing = await server.ask(method, f"/v1/chats/{none}{tail}", body, **keys["bob"])
                # What is another's answers exactly as what is nobody's.
                assert others.status == nothing.status == 404
                assert others.body.replace(id_.encode(), b"?") == nothing.body.replace(none.encode(), b"?")
            for query in ("", "?query=needle"):
                assert (await server.ask("GET", f"/v1/chats{query}", **keys["bob"])).json["data"] == []
            others = await server.ask("GET", f"/v1/chats?after={id_}", **keys["bob"])
            nothing = await server.ask("GET", f"/v1/chats?after={none}", **keys["bob"])
            assert others.status == nothing.status == 404
            assert others.body.replace(id_.encode(), b"?") == nothing.body.replace(none.encode(), b"?")
            for method, tail, body in PATHS:
                assert (await server.ask(method, f"/v1/chats/{id_}{tail}", body, **keys["alice"])).status == 200
            assert (await server.ask("GET", "/v1/chats")).status == 401

    asyncio.run(main())


def test_nothing_of_a_deleted_chat_is_in_the_files_or_the_log(tmp_path: Path) -> None:
    mark = "A-SENTENCE-NOBODY-ELSE-WROTE"

    async def work(server: RealServer) -> None:
        chat_id = await new_chat(server, a_turn("turn_1", None, said(mark)), settings={"instructions": mark})
        for query in (f"?query={mark}", ""):
            assert (await server.ask("GET", f"/v1/chats{query}")).status == 200
        for name in ("json", "markdown", "harmony", "tokens"):
            assert (await server.ask("GET", f"/v1/chats/{chat_id}/export?format={name}")).status == 200
        assert (await server.ask("PUT", f"/v1/chats/{chat_id}/turns/turn_2", {"x": mark})).status == 400
        assert (await server.ask("DELETE", f"/v1/chats/{chat_id}")).status == 200
        assert mark.encode() not in bytes_of_files(tmp_path / "responses.sqlite3")
        assert chat_id.encode() not in bytes_of_files(tmp_path / "responses.sqlite3")
        assert mark not in server.log.getvalue()

    serving(tmp_path, work)


def test_many_turns_written_at_once_are_all_there(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        chat_id = await new_chat(server, a_turn("turn_0"))
        names = [f"turn_{number}" for number in range(1, 30)]
        answers = await asyncio.gather(
            *(server.ask("PUT", f"/v1/chats/{chat_id}/turns/{name}", a_turn(name, "turn_0")) for name in names)
        )
        assert {answer.status for answer in answers} == {200}
        whole = (await server.ask("GET", f"/v1/chats/{chat_id}")).json
        assert {turn["id"] for turn in whole["turns"]} == {"turn_0", *names}

    serving(tmp_path, work)


def test_too_many_searches_are_refused_and_not_queued_for_ever(tmp_path: Path) -> None:
    async def work(server: RealServer) -> None:
        await new_chat(server, a_turn("turn_0"))
        turnstile: Any = server.service.saved_chats._search_turn  # pyright: ignore[reportPrivateUsage] -- to hold it
        async with turnstile.pass_():
            waiting = [asyncio.create_task(server.ask("GET", "/v1/chats?query=x")) for _ in range(15)]
            while turnstile._inside < 16:
                await asyncio.sleep(0.001)
            refused = await server.ask("GET", "/v1/chats?query=x")
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            assert (await server.ask("GET", "/v1/chats")).status == 200
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}

    serving(tmp_path, work)
