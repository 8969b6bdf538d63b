"""Which engine a server chooses. The engines are small real servers that answer as the real ones do when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from harmonia.errors import EngineError, ErrorCode, HarmonyError
from harmonia.run.engines.registry import QUICK, usual_ports
from harmonia.serve.config.settings import Settings
from harmonia.serve.models.selection import Chosen, choose_model, is_harmonia
from tests.support.servers.wire_servers import Asked, Served, Wire, serving, unused_port

# The machine may be busy.
CALM = msgspec.structs.replace(QUICK, connect_s=20, first_s=20, idle_s=20)
KEY = "sk-1234567890123456"

Pages = dict[str, object]


def listed(*ids: str, owner: str) -> Pages:
    return {
        "/v1/models": {"object": "list", "data": [{"id": id_, "object": "model", "owned_by": owner} for id_ in ids]}
    }


VLLM: Pages = {**listed("openai/gpt-oss-20b", "llama", owner="vllm"), "/version": {"version": "0.11.0"}}
OLLAMA: Pages = {
    **listed("gpt-oss:20b", owner="library"),
    "/api/tags": {"models": [{"name": "gpt-oss:20b", "details": {"family": "gptoss"}}]},
}
OTHER: Pages = listed("llama", owner="somebody")
HARMONIA: Pages = listed("gpt-oss-20b", owner="harmonia")


AUTO = Settings()


def choose(
    settings: Settings = AUTO, *engines: Pages, own_port_at: int | None = None
) -> tuple[Chosen | HarmonyError, list[Served]]:
    """What is chosen among servers with these pages. `{0}` in the engine's name is the address of the first."""

    async def run() -> tuple[Chosen | HarmonyError, list[Served]]:
        async with _playing(engines) as served:
            ports = [unused_port(), *(each.port for each in served)]
            own = settings.port if own_port_at is None else served[own_port_at].port
            engine = settings.engine.format(*(each.url for each in served))
            wanted = msgspec.structs.replace(settings, engine=engine, port=own)
            try:
                chosen = await choose_model(wanted, ports=ports, patience=CALM)
            except HarmonyError as error:
                return error, served
            await chosen.model.close()
            return chosen, served

    return asyncio.run(run())


class _playing:
    def __init__(self, engines: Sequence[Pages]) -> None:
        self._managers = [serving(self._handler(pages)) for pages in engines]

    @staticmethod
    def _handler(pages: Pages) -> Any:
        async def handle(asked: Asked, wire: Wire) -> None:
            found = asked.path in pages
            await wire.answer(200 if found else 404, pages.get(asked.path, {"error": "not found"}))

        return handle

    async def __aenter__(self) -> list[Served]:
        return [await manager.__aenter__() for manager in self._managers]

    async def __aexit__(self, *exception: Any) -> None:
        for manager in reversed(self._managers):
            await manager.__aexit__(None, None, None)


def chosen_of(outcome: Chosen | HarmonyError) -> Chosen:
    assert isinstance(outcome, Chosen), outcome
    return outcome


def code_of(outcome: Chosen | HarmonyError) -> ErrorCode:
    assert isinstance(outcome, HarmonyError), outcome
    return outcome.code


# ── auto ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_auto_takes_the_engine_that_it_finds_and_says_why() -> None:
    outcome, served = choose(Settings(), OLLAMA, VLLM)
    chosen = chosen_of(outcome)
    assert (chosen.model.name, chosen.model.model) == ("vllm", "openai/gpt-oss-20b")
    assert served[1].url in chosen.why and chosen.notes == ()


def test_auto_falls_back_to_demo_and_notes_it() -> None:
    chosen = chosen_of(choose()[0])
    assert (chosen.model.name, chosen.model.model) == ("demo", "demo")
    assert len(chosen.notes) == 2


def test_auto_names_what_it_saw_and_could_not_use() -> None:
    outcome, served = choose(Settings(), OTHER)
    chosen = chosen_of(outcome)
    assert chosen.model.name == "demo" and served[0].url in chosen.notes[0] and "llama" in chosen.notes[0]


def test_auto_with_a_model_that_is_nowhere_is_an_error() -> None:
    assert code_of(choose(Settings(model="gpt-oss-120b"), VLLM)[0]) is ErrorCode.ENGINE_NONE_FOUND


def test_auto_takes_the_model_that_was_named_and_notes_that_it_is_no_gpt_oss() -> None:
    chosen = chosen_of(choose(Settings(model="llama"), VLLM)[0])
    assert chosen.model.model == "llama" and len(chosen.notes) == 1


def test_a_server_does_not_ask_its_own_port() -> None:
    outcome, served = choose(Settings(), VLLM, own_port_at=0)
    assert chosen_of(outcome).model.name == "demo" and served[0].asked == []


def test_another_harmonia_is_no_engine() -> None:
    assert chosen_of(choose(Settings(), HARMONIA)[0]).model.name == "demo"
    assert chosen_of(choose(Settings(), HARMONIA, OLLAMA)[0]).model.name == "ollama"


def test_the_default_ports_are_those_of_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    async def find_none(_model: str | None, *, ports: Sequence[int], **_: object) -> None:
        looked_at.extend(ports)
        raise EngineError(ErrorCode.ENGINE_NONE_FOUND, "no engine")

    monkeypatch.setattr("harmonia.serve.models.selection.discover", find_none)
    assert asyncio.run(choose_model(Settings())).model.name == "demo"
    assert looked_at == list(usual_ports().values())


# ── one that was named ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["demo", "{0}", "{0}/v1", "vllm:{0}"])
def test_an_engine_that_was_named_is_taken(engine: str) -> None:
    chosen = chosen_of(choose(Settings(engine=engine), VLLM)[0])
    assert chosen.model.name == ("demo" if engine == "demo" else "vllm") and chosen.notes == ()


@pytest.mark.parametrize("kind", ["", "vllm:", "llama.cpp:", "ollama:", "completions:", "responses:", "chat:"])
@pytest.mark.parametrize("model", ["gpt-oss-20b", None])
def test_an_engine_that_was_named_and_is_not_there_is_an_error(kind: str, model: str | None) -> None:
    engine = f"{kind}http://127.0.0.1:{unused_port()}"
    assert code_of(choose(Settings(engine=engine, model=model))[0]) is ErrorCode.ENGINE_UNREACHABLE


@pytest.mark.parametrize("engine", ["toaster", "demo2", "vllm:ftp://x"])
def test_what_names_no_engine_is_an_error(engine: str) -> None:
    assert code_of(choose(Settings(engine=engine))[0]) is ErrorCode.ENGINE_INVALID_OPTION


@pytest.mark.parametrize("kind", ["", "vllm:", "responses:"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_is_not_its_own_engine(kind: str, host: str) -> None:
    settings = Settings(engine=f"{kind}http://{host}:8765", model="x")
    assert code_of(choose(settings)[0]) is ErrorCode.SERVE_INVALID_OPTION


def test_another_harmonia_that_was_named_is_refused_as_an_engine_and_taken_as_a_provider() -> None:
    assert code_of(choose(Settings(engine="{0}"), HARMONIA)[0]) is ErrorCode.SERVE_INVALID_OPTION
    chosen = chosen_of(choose(Settings(engine="responses:{0}", model="gpt-oss-20b"), HARMONIA)[0])
    assert len(chosen.notes) == 1  # that it speaks messages


def test_a_provider_that_lists_no_models_is_there_all_the_same() -> None:
    assert chosen_of(choose(Settings(engine="chat:{0}", model="x"), {})[0]).model.model == "x"


def test_a_model_that_the_engine_does_not_list_is_noted() -> None:
    chosen = chosen_of(choose(Settings(engine="vllm:{0}", model="gpt-oss-120b"), VLLM)[0])
    assert len(chosen.notes) == 1 and "gpt-oss-120b" in chosen.notes[0]


@pytest.mark.parametrize(("calls", "says"), [("certain", "--calls unverified"), ("unverified", "echo")])
def test_an_engine_that_gives_text_is_noted_with_what_becomes_of_calls(calls: Any, says: str) -> None:
    chosen = chosen_of(choose(Settings(engine="{0}", calls=calls), OLLAMA)[0])
    assert len(chosen.notes) == 1 and says in chosen.notes[0]


def test_options_and_the_key_go_to_the_engine_and_no_key_to_demo() -> None:
    settings = Settings(engine="{0}", engine_api_key=KEY, engine_options={"context_tokens": 77})
    outcome, served = choose(settings, VLLM)
    model: Any = chosen_of(outcome).model
    assert model.traits.context_tokens == 77
    assert {asked.headers.get("authorization") for asked in served[0].asked} == {f"Bearer {KEY}"}
    assert chosen_of(choose(Settings(engine="demo", engine_api_key=KEY))[0]).model.name == "demo"
    unknown = Settings(engine="demo", engine_options={"context_tokens": 77})
    assert code_of(choose(unknown)[0]) is ErrorCode.ENGINE_INVALID_OPTION


def test_a_password_in_the_address_is_not_in_the_reason() -> None:
    async def run() -> Chosen:
        async with _playing([VLLM]) as served:
            address = served[0].url.replace("http://", "http://me:hidden-word@")
            chosen = await choose_model(Settings(engine=address), patience=CALM)
            await chosen.model.close()
            return chosen

    chosen = asyncio.run(run())
    assert "hidden-word" not in f"{chosen.why} {chosen.notes}"


def test_a_harmonia_is_known_by_its_models_or_by_its_health() -> None:
    async def run() -> list[bool]:
        pages: list[Pages] = [HARMONIA, {"/health": {"status": "ok", "server": "harmonia"}}, OTHER, {"/health": []}]
        async with _playing(pages) as served:
            return [await is_harmonia(each.url, CALM) for each in served]

    assert asyncio.run(run()) == [True, True, False, False]
