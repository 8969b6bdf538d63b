"""An approval works once: across requests, branches, restarts and requests that arrive together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmonia import decode
from harmonia.errors import EngineError, ErrorCode, HarmonyError, InputError
from harmonia.run.tools import Tool
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.security.keys import Caller
from harmonia.serve.service import Service
from harmonia.serve.store.base import Decision
from harmonia.serve.store.sqlite import SqliteStore
from harmonia.serve.wire.error_responses import api_error_of
from tests.support.engines.scripted import ScriptedEngine, calls, final
from tests.support.servers.served import create, served
from tests.support.strategies.stored_responses import with_store

Json = dict[str, Any]

HI: Json = {"type": "message", "role": "user", "content": "Hi"}
CALL = calls("disk___free", "{}")


def disk(ran: list[Any]) -> list[ServerTool]:
    async def invoke(arguments: Any) -> str:
        ran.append(arguments)
        await asyncio.sleep(0)
        return "4 kB free"

    return [ServerTool("disk", "free", Tool("disk___free", "Free space.", None, invoke), "ask")]


def decision(request: Json, approve: bool = True, **fields: Any) -> Json:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve, **fields}


def body_of(first: Json, decided: Json, *, is_stored: bool) -> Json:
    if is_stored:
        return {"previous_response_id": first["id"], "input": [decided]}
    return {"input": [HI, *first["output"], decided], "store": False}


async def refusal(service: Service, body: Json) -> InputError:
    with pytest.raises(InputError) as caught:
        await create(service, **body)
    return caught.value


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("stored", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("before", [{}, {"approve": False}, {"harmonia_output": "by hand"}])
def test_what_was_decided_is_not_approved_again(
    tmp_path: Path, before: Json, stored: tuple[bool, bool], restarts: bool
) -> None:
    async def run() -> None:
        ran: list[Any] = []
        engine = ScriptedEngine(CALL, final("x"))
        async with served(engine, tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI])
            request = first["output"][-1]
            decided = {**decision(request), **before}
            await create(service, **body_of(first, decided, is_stored=stored[0]))
            expected = 0 if before else 1
            assert len(ran) == expected
            again = body_of(first, decision(request), is_stored=stored[1])
            error = await refusal(service, again)
        if restarts:
            async with served(engine, tmp_path, tools=disk(ran)) as service:
                error = await refusal(service, again)
        assert error.code is ErrorCode.SERVE_APPROVAL_USED
        assert (error.at.path or "").endswith("].approval_request_id")
        problem = api_error_of(error)
        assert (problem.status, problem.code) == (400, "approval_used")
        assert len(ran) == expected

    asyncio.run(run())


@pytest.mark.parametrize("fields", [{"approve": False}, {"harmonia_output": "by hand"}])
def test_what_runs_nothing_may_be_decided_again(tmp_path: Path, fields: Json) -> None:
    """A client that keeps the history sends its refusals in every request."""

    async def run() -> None:
        ran: list[Any] = []
        async with served(ScriptedEngine(CALL, final("x")), tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            decided = {**decision(first["output"][-1]), **fields}
            for _ in range(2):
                await create(service, **body_of(first, decided, is_stored=False))
        assert ran == []

    asyncio.run(run())


def test_the_whole_history_of_an_approved_call_may_be_sent_again(tmp_path: Path) -> None:
    async def run() -> None:
        ran: list[Any] = []
        async with served(ScriptedEngine(CALL, final("x")), tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            history = [HI, *first["output"], decision(first["output"][-1])]
            second = await create(service, input=history, store=False)
            for _ in range(2):
                await create(service, input=[*history, *second["output"], HI], store=False)
        assert len(ran) == 1

    asyncio.run(run())


@pytest.mark.parametrize("has_decision", [True, False])
@pytest.mark.parametrize("fields", [{}, {"harmonia_arguments": '{"path":"/home"}'}, {"harmonia_output": "by hand"}])
def test_an_answer_is_asked_for_again_with_the_call_that_was_made(
    tmp_path: Path, fields: Json, has_decision: bool
) -> None:
    """What a client sends that regenerates the answer: the call in the place of the approval, or behind it."""

    async def run() -> None:
        ran: list[Any] = []
        engine = ScriptedEngine(CALL, final("x"), final("y"))
        async with served(engine, tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            history = [HI, *first["output"], {**decision(first["output"][-1]), **fields}]
            sealed = ["harmonia.encrypted_content"]
            second = await create(service, input=history, store=False, include=sealed)
            made = second["output"][0]
            assert (made["type"], made["approval_request_id"]) == ("mcp_call", first["output"][-1]["id"])
        async with served(engine, tmp_path, tools=disk(ran)) as service:
            again = [*(history if has_decision else history[:-1]), made]
            third = await create(service, input=again, store=False)
            assert [item["type"] for item in third["output"]] == ["message"]
            assert engine.prompts[-1] == engine.prompts[-2]
        assert len(ran) == (0 if "harmonia_output" in fields else 1)

    asyncio.run(run())


def test_an_approval_whose_result_is_lost_is_answered_by_a_call_that_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        ran: list[Any] = []
        engine = ScriptedEngine(CALL, final("x"), final("y"))
        async with served(engine, tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            request = first["output"][-1]
            history = [HI, *first["output"], decision(request)]
            await create(service, input=history, store=False)
            lost: Json = {"type": "mcp_call", "approval_request_id": request["id"], "error": "The result is not known."}
            lost |= {name: request[name] for name in ("name", "server_label", "arguments")}
            await create(service, input=[*history, lost], store=False)
            assert "The result is not known." in decode(engine.prompts[-1])
        assert len(ran) == 1

    asyncio.run(run())


@pytest.mark.parametrize("is_stored", [True, False])
def test_of_approvals_that_arrive_together_one_runs(tmp_path: Path, is_stored: bool) -> None:
    async def run() -> None:
        ran: list[Any] = []
        engine = ScriptedEngine(CALL, final("x"))
        async with (
            served(engine, tmp_path, tools=disk(ran)) as service,
            served(engine, tmp_path, tools=disk(ran)) as other,
        ):
            first = await create(service, input=[HI])
            body = body_of(first, decision(first["output"][-1]), is_stored=is_stored)
            got = await asyncio.gather(*(create(each, **body) for each in (service, other) * 4), return_exceptions=True)
        errors = [each for each in got if isinstance(each, HarmonyError)]
        assert [each.code for each in errors] == [ErrorCode.SERVE_APPROVAL_USED] * 7
        assert len(ran) == 1

    asyncio.run(run())


def test_an_approval_is_used_when_the_engine_fails_and_the_call_that_ran_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        ran: list[Any] = []
        broken = EngineError(ErrorCode.ENGINE_DIED, "it broke")
        engine = ScriptedEngine(CALL, [broken], final("Done."))
        async with served(engine, tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            history = [HI, *first["output"], decision(first["output"][-1])]
            failed = await create(service, input=history, store=False)
            assert (failed["status"], failed["output"][0]["output"]) == ("failed", "4 kB free")
            error = await refusal(service, {"input": history, "store": False})
            assert error.code is ErrorCode.SERVE_APPROVAL_USED
            last = await create(service, input=[*history, *failed["output"]], store=False)
            assert last["status"] == "completed"
        assert len(ran) == 1

    asyncio.run(run())


def test_a_request_that_is_wrong_uses_no_approval(tmp_path: Path) -> None:
    async def run() -> None:
        ran: list[Any] = []
        async with served(ScriptedEngine(CALL, final("x")), tmp_path, tools=disk(ran)) as service:
            first = await create(service, input=[HI], store=False)
            body = body_of(first, decision(first["output"][-1]), is_stored=False)
            assert (await refusal(service, {**body, "temperature": 9})).code is ErrorCode.SERVE_INVALID_FIELD
            await service.responses.input_tokens(body, Caller())
            await create(service, **body)
        assert len(ran) == 1

    asyncio.run(run())


STEPS = st.tuples(st.sampled_from(["approve", "refuse", "by hand", "restart"]), st.booleans())


@given(st.lists(st.lists(STEPS, min_size=1, max_size=3), max_size=4))
def test_no_order_of_decisions_runs_a_call_twice(rounds: Sequence[Sequence[tuple[str, bool]]]) -> None:
    """The decisions of a round arrive together."""

    async def run(folder: Path) -> None:
        ran: list[Any] = []
        engine = ScriptedEngine(CALL, final("x"))
        async with served(engine, folder, tools=disk(ran)) as service:
            first = await create(service, input=[HI])
        request = first["output"][-1]
        fields: dict[str, Json] = {"approve": {}, "refuse": {"approve": False}, "by hand": {"harmonia_output": "x"}}
        is_decided = False
        for steps in rounds:
            async with served(engine, folder, tools=disk(ran)) as service:
                bodies = [
                    (name, body_of(first, {**decision(request), **fields[name]}, is_stored=is_stored))
                    for name, is_stored in steps
                    if name != "restart"
                ]
                before = len(ran)
                got = await asyncio.gather(*(create(service, **body) for _, body in bodies), return_exceptions=True)
                for (name, _), each in zip(bodies, got, strict=True):
                    if isinstance(each, BaseException):
                        assert name == "approve"
                        assert isinstance(each, InputError) and each.code is ErrorCode.SERVE_APPROVAL_USED
                assert not is_decided or len(ran) == before
                if bodies and all(name == "approve" for name, _ in bodies) and not is_decided:
                    assert len(ran) == 1
                is_decided = is_decided or bool(bodies)
        assert len(ran) <= 1

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_decisions_are_recorded_all_or_none_for_each_owner_until_they_expire(tmp_path: Path) -> None:
    def to_run(id_: str, expires_at: int = 1_000_000) -> Decision:
        return Decision(id_, expires_at, runs=True)

    async def use(store: SqliteStore) -> None:
        assert await store.decide("ann", [to_run("a")], 0) is None
        assert await store.decide("bob", [to_run("a")], 0) is None
        assert await store.decide("ann", [to_run("b"), to_run("a")], 0) == "a"
        assert await store.decide("ann", [to_run("b")], 0) is None
        assert await store.decide("ann", [Decision("c", 1_000_000, runs=False)], 0) is None
        assert await store.decide("ann", [Decision("c", 1_000_000, runs=False)], 0) is None
        assert await store.decide("ann", [to_run("c")], 0) == "c"
        # Its seal does not open any more, so nothing asks for it again, and the record is forgotten.
        assert await store.decide("ann", [to_run("d", 9_000_000)], 8_000_000) is None
        assert await store.decide("ann", [to_run("a", 9_000_000)], 8_000_000) is None

    with_store(tmp_path / "store.db", use)
