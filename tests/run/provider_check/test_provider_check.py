"""`check` against a real provider: all is well with a good one, and each fault is found where it is, not elsewhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harmonia.errors import ErrorCode, InputError
from harmonia.run.provider_check import NAMES, Report, Verdict, check
from tests.support.engines.harmony_provider import MODEL, HarmonyProvider
from tests.support.engines.scripted import ScriptedEngine, final
from tests.support.paths import ROOT
from tests.support.servers.real_servers import real_server
from tests.support.servers.wire_servers import SHORT, Asked, Handler, Wire, serving, unused_port

APIS = ("chat", "responses")


def examine(*faults: str, only: Sequence[str] = (), **options: Any) -> Report:
    async def run() -> Report:
        async with serving(HarmonyProvider(faults).handle) as served:
            return await check(served.url, only=only, patience=SHORT, **options)

    return asyncio.run(run())


def not_ok(report: Report) -> dict[str, Verdict]:
    return {outcome.name: outcome.verdict for outcome in report.outcomes if outcome.verdict != "ok"}


def test_a_good_provider_passes_every_check() -> None:
    report = examine()
    assert [outcome.name for outcome in report.outcomes] == list(NAMES)
    assert not_ok(report) == {}
    assert report.is_good and report.is_reachable
    assert (report.engine, report.model) == ("vllm 0.32.0", MODEL)
    assert all(outcome.seen and outcome.why for outcome in report.outcomes)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("refuses_ids", {"tokens.in": "warn"}),
        ("reads_ids_as_text", {"tokens.in": "fail"}),
        ("gives_text_only", {"tokens.out": "warn"}),
        ("strips_special", {"tokens.out": "warn", "tokens.special": "fail", "tokens.stop": "warn"}),
        ("swallows_stop", {"tokens.stop": "warn"}),
        ("hides_length", {"tokens.length": "fail"}),
        ("lists_no_models", {"models": "warn"}),
        ("has_no_completions", {name: "skip" for name in NAMES if name.startswith("tokens.")}),
    ],
)
def test_a_fault_with_tokens_is_found_where_it_is(fault: str, found: dict[str, Verdict]) -> None:
    report = examine(fault, only=["tokens"])
    assert not_ok(report) == found
    assert report.is_good == ("fail" not in found.values())


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("hides_length", {"length": "fail"}),
        ("says_no_usage", {"usage": "warn", "developer": "unknown", "typed": "unknown"}),
        ("drops_developer", {"developer": "fail"}),
        ("refuses_developer", {"developer": "warn"}),
        ("reads_typed_tokens", {"typed": "fail"}),
        ("leaks_reasoning", {"reasoning": "fail", "result": "fail", "second_turn": "fail", "schema": "fail"}),
        ("calls_as_text", {"reasoning": "fail", "call": "fail", "call_streamed": "fail", "names": "unknown"}),
        ("drops_calls", {"call": "fail", "call_streamed": "fail", "names": "unknown"}),
        ("breaks_arguments", {"call": "fail", "call_streamed": "fail"}),
        ("refuses_tools", {"call": "warn", "call_streamed": "warn", "names": "warn", "result": "fail"}),
        ("mangles_names", {"names": "fail"}),
        ("refuses_names", {"names": "warn"}),
        ("refuses_results", {"result": "fail"}),
        ("refuses_reasoning", {"result": "fail", "second_turn": "fail"}),
        ("ignores_stream", {"stream": "warn", "cancel": "skip"}),
        ("streams_one_piece", {"stream": "warn"}),
        ("loses_the_end_of_streams", {"same": "fail", "unicode": "unknown"}),
        ("tears_characters", {"unicode": "fail"}),
        ("ignores_schema", {"schema": "fail"}),
        ("refuses_schema", {"schema": "warn"}),
        ("runs_on", {"cancel": "fail"}),
    ],
)
def test_a_fault_with_messages_is_found_where_it_is(api: str, fault: str, found: dict[str, Verdict]) -> None:
    report = examine(fault, only=[api])
    assert not_ok(report) == {f"{api}.{name}": verdict for name, verdict in found.items()}
    assert report.is_good == ("fail" not in found.values())


@pytest.mark.parametrize("api", APIS)
def test_a_model_that_does_not_call_though_it_must_is_no_fault_of_the_server(api: str, tmp_path: Path) -> None:
    async def run() -> Report:
        async with real_server(ScriptedEngine(final("No, I will not.")), tmp_path) as server:
            return await check(f"http://127.0.0.1:{server.port}", only=[f"{api}.names"], patience=SHORT)

    found = asyncio.run(run())[f"{api}.names"]
    assert found.verdict == "unknown" and "the model made none" in found.seen


def test_an_answer_without_a_reason_is_found() -> None:
    # A response has no reason: its last event is its status.
    assert not_ok(examine("says_no_reason", only=["chat"])) == {"chat.stop": "warn", "chat.length": "warn"}


@pytest.mark.parametrize("api", APIS)
def test_an_api_that_is_not_there_is_skipped(api: str) -> None:
    report = examine(f"has_no_{api}", only=[api])
    assert set(not_ok(report).values()) == {"skip"}
    assert report.is_good


@pytest.mark.parametrize("api", APIS)
def test_a_field_that_is_refused_by_name_is_left_out_and_reported(api: str) -> None:
    report = examine("refuses_reasoning_effort", only=[api])
    assert not_ok(report) == {f"{api}.answers": "warn"}
    assert "reasoning" in report[f"{api}.answers"].seen


def test_an_endpoint_that_is_not_there_is_asked_once() -> None:
    """A proxy may count each such request as a fault, and then turn everybody away for a while."""
    asked: list[str] = []
    provider = HarmonyProvider(["has_no_completions"])

    async def handle(question: Asked, wire: Wire) -> None:
        asked.append(question.path)
        await provider.handle(question, wire)

    async def run() -> Report:
        async with serving(handle) as served:
            return await check(served.url, patience=SHORT)

    report = asyncio.run(run())
    assert asked.count("/v1/completions") == 1
    assert {name: verdict for name, verdict in not_ok(report).items() if verdict != "skip"} == {}


@pytest.mark.parametrize(
    ("path", "only"),
    [
        ("/v1/completions", "tokens"),
        *((f"/v1/{p}", a) for p, a in (("chat/completions", "chat"), ("responses", "responses"))),
    ],
)
@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_provider_that_is_busy_has_no_fault(path: str, only: str, answered: int) -> None:
    """It answers the first requests, and then says that there were too many."""
    asked: list[str] = []
    provider = HarmonyProvider()

    async def handle(question: Asked, wire: Wire) -> None:
        asked.append(question.path)
        if question.path == path and asked.count(path) > answered:
            await wire.answer(429, {"error": {"message": "no deployments available, try again in 5 seconds"}})
        else:
            await provider.handle(question, wire)

    async def run() -> Report:
        async with serving(handle) as served:
            return await check(served.url, patience=SHORT, only=[only])

    assert asyncio.run(run()).is_good


@pytest.mark.parametrize("api", APIS)
def test_a_harmonia_server_shows_that_it_stops(api: str, tmp_path: Path) -> None:
    async def run() -> Report:
        async with real_server(ScriptedEngine(*[final("Hello there, how are you?")] * 9), tmp_path) as server:
            return await check(f"http://127.0.0.1:{server.port}", only=[f"{api}.cancel"], patience=SHORT)

    assert asyncio.run(run())[f"{api}.cancel"].verdict == "ok"


@pytest.mark.parametrize("api", APIS)
def test_where_nothing_is_answered_one_check_fails_and_the_others_are_skipped(api: str) -> None:
    found = not_ok(examine("refuses_everything", only=[api]))
    assert found.pop(f"{api}.answers") == "fail"
    assert set(found.values()) == {"skip"}


def test_the_asked_for_checks_are_made_and_no_others() -> None:
    names = [outcome.name for outcome in examine(only=["chat.call", "tokens.in"]).outcomes]
    assert names == ["reachable", "engine", "apis", "models", "tokens.in", "chat.call"]
    assert [outcome.name for outcome in examine(only=["engine"]).outcomes] == ["reachable", "engine", "models"]


def test_a_model_that_is_not_listed_is_asked_all_the_same() -> None:
    report = examine(only=["chat.answers"], model="mine")
    assert not_ok(report) == {"models": "warn"}
    assert report.model == "mine"


def test_every_check_is_described() -> None:
    page = (ROOT / "docs" / "guides" / "provider-check.md").read_text()
    described = set(re.findall(r"`([\w.]+)`", page.partition("## The checks")[2]))
    assert {name.removeprefix("chat.").removeprefix("responses.") for name in NAMES} <= described


def test_nobody_there_is_one_outcome() -> None:
    report = asyncio.run(check(f"http://127.0.0.1:{unused_port()}", patience=SHORT))
    assert [(outcome.name, outcome.verdict) for outcome in report.outcomes] == [("reachable", "fail")]
    assert not report.is_reachable


@pytest.mark.parametrize("options", [{"kind": "toaster"}, {"only": ["chat.cal"]}, {"only": ["toast"]}])
def test_a_kind_or_a_check_that_is_none_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        asyncio.run(check("http://127.0.0.1:1", **options))
    assert refused.value.code is ErrorCode.ENGINE_INVALID_OPTION


@pytest.mark.parametrize(
    ("path", "answer", "kind"),
    [
        ("/props", {"default_generation_settings": {}, "build_info": "b1"}, "llama.cpp b1"),
        ("/api/version", {"version": "0.12"}, "ollama 0.12"),
        ("/api/v0/models", {"data": [{"id": "m", "state": "loaded"}]}, "lmstudio"),
        ("/api/v0/models", {"data": [{"id": "m"}]}, "openai"),
        ("/v1/models", {"data": [{"id": "m"}]}, "openai"),
        ("/version", {"version": "0.32"}, "vllm 0.32"),
        ("/v1/models", {"data": [{"id": "m", "owned_by": "sglang"}]}, "sglang"),
        ("/nowhere", {}, "openai"),
    ],
)
def test_an_engine_is_known_by_what_only_it_has(path: str, answer: Any, kind: str) -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        await (wire.answer(200, answer) if asked.path == path else wire.answer(404, b"{}"))

    async def run() -> Report:
        async with serving(handle) as served:
            return await check(served.url, patience=SHORT, only=["engine"])

    report = asyncio.run(run())
    assert report.engine == kind
    assert report["engine"].verdict == ("unknown" if kind == "openai" else "ok")


def test_a_server_that_dies_in_every_answer_fails_and_the_check_goes_on() -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        if asked.method == "GET":
            await wire.answer(404, {})
            return
        await wire.begin()
        await wire.event({"choices": [{"delta": {"content": "He"}, "text": "He"}]})
        await wire.write(b"garbage")

    async def run() -> Report:
        async with serving(handle) as served:
            return await check(served.url, patience=SHORT)

    report = asyncio.run(run())
    assert [outcome.name for outcome in report.outcomes] == list(NAMES)
    assert report["chat.answers"].verdict == "fail"
    assert report["tokens.in"].verdict == "fail"


# ── servers that cannot be used ─────────────────────────────────────────────────────────────────────────────────────


def examine_server(handle: Handler, *, only: Sequence[str] = (), **options: Any) -> tuple[Report, list[Asked]]:
    asked_for: list[Asked] = []

    async def note(asked: Asked, wire: Wire) -> None:
        asked_for.append(asked)
        await handle(asked, wire)

    async def run() -> Report:
        async with serving(note) as served:
            return await check(served.url, only=only, patience=SHORT, **options)

    return asyncio.run(run()), asked_for


def answer_always(status: int, body: Any, *, models: int | None = None) -> Handler:
    async def handle(asked: Asked, wire: Wire) -> None:
        if asked.path.endswith("/models") and models is not None:
            await wire.answer(models, {"data": [{"id": MODEL}]})
        else:
            await wire.answer(status, body)

    return handle


@pytest.mark.parametrize("only", [[], ["chat"], ["tokens.in"], ["apis"]])
@pytest.mark.parametrize(
    "handle",
    [
        answer_always(404, b"nothing here"),
        answer_always(404, {"detail": "Not Found"}, models=200),
        answer_always(405, {}),
        answer_always(200, b"\x00\xff<html>garbage"),
        answer_always(200, b"<html>\n<body>a page for people\n</html>\n"),
        answer_always(200, {"status": "fine"}),
        answer_always(200, {"data": [{"id": MODEL}]}),
    ],
)
def test_a_server_with_none_of_the_apis_fails_and_is_no_known_engine(handle: Handler, only: Sequence[str]) -> None:
    report, _ = examine_server(handle, only=only)
    assert report["apis"].verdict == "fail" and not report.is_good and report.is_reachable
    assert report["engine"].verdict == "unknown"
    rest = [outcome for outcome in report.outcomes if outcome.name not in ("reachable", "engine", "apis", "models")]
    assert {outcome.verdict for outcome in rest} <= {"skip"}


def test_a_model_that_is_not_there_is_told_apart_from_an_api_that_is_not_there() -> None:
    async def handle(asked: Asked, wire: Wire) -> None:
        is_chat = asked.path.endswith("/chat/completions")
        await wire.answer(404, {"error": {"message": f"the model {'nope' if is_chat else ''} is not found"}})

    report, _ = examine_server(handle, model="nope")
    assert report["apis"].verdict == "fail" and "does not have the model 'nope'" in report["apis"].seen
    # The name in another word is no name.
    report, _ = examine_server(handle, model="del")
    assert "has none of" in report["apis"].seen


@pytest.mark.parametrize("api", APIS)
def test_an_api_that_was_not_asked_for_is_enough_to_be_a_provider(api: str) -> None:
    other = {"chat": "responses", "responses": "chat"}[api]
    report = examine("has_no_completions", f"has_no_{api}", only=[api])
    assert report["apis"].verdict == "ok" and f"/v1/{other}" in report["apis"].seen


@pytest.mark.parametrize("key", [None, "wrong"])
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("models", [None, 200])
def test_a_server_that_wants_a_key_says_so_once_and_is_not_asked_again(
    status: int, models: int | None, key: str | None
) -> None:
    report, asked = examine_server(answer_always(status, {"error": "who are you?"}, models=models), api_key=key)
    assert [outcome.name for outcome in report.outcomes] == list(NAMES)
    # As a number of its own: an address may have these digits in its port.
    said = re.compile(rf"\b{status}\b")
    assert [outcome.name for outcome in report.outcomes if said.search(outcome.seen)] == ["apis"]
    assert report["apis"].verdict == "fail"
    assert ("HARMONIA_API_KEY" in report["apis"].seen) == (key is None)
    assert {outcome.verdict for outcome in report.outcomes[4:]} == {"skip"}
    assert len([each for each in asked if each.method == "POST"]) == 3


def test_a_list_of_models_that_is_closed_does_not_close_the_rest() -> None:
    provider = HarmonyProvider()

    async def handle(asked: Asked, wire: Wire) -> None:
        await (wire.answer(403, {}) if asked.path == "/v1/models" else provider.handle(asked, wire))

    report, _ = examine_server(handle, only=["chat.answers"])
    assert not_ok(report) == {"models": "warn"}


def test_one_api_that_is_closed_fails_once() -> None:
    provider = HarmonyProvider()

    async def handle(asked: Asked, wire: Wire) -> None:
        is_closed = asked.path in ("/v1/completions", "/v1/responses")
        await (wire.answer(401, {}) if is_closed else provider.handle(asked, wire))

    report, _ = examine_server(handle)
    found = not_ok(report)
    assert [name for name, verdict in found.items() if verdict == "fail"] == ["tokens.in", "responses.answers"]
    assert {verdict for name, verdict in found.items() if name not in ("tokens.in", "responses.answers")} == {"skip"}


@pytest.mark.parametrize("address", ["{host}:{port}", "{host}:{port}/v1", "localhost:{port}/v1/chat/completions"])
def test_an_address_needs_no_scheme(address: str) -> None:
    async def run() -> Report:
        async with serving(HarmonyProvider().handle) as served:
            written = address.format(host="127.0.0.1", port=served.url.rpartition(":")[2])
            return await check(written, only=["chat.answers"], patience=SHORT)

    assert not_ok(asyncio.run(run())) == {}
