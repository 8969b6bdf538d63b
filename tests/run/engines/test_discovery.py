"""Finding an engine, and opening one by its name. The servers answer as the real ones do, as far as they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from harmonia.errors import EngineError, ErrorCode, InputError
from harmonia.run.engines import Found, Seen, discover, open_engine, open_model, probe
from harmonia.run.engines.registry import QUICK, usual_ports
from tests.support.servers.wire_servers import Asked, Wire, listen, serving, unused_port

# The machine may be busy; a server that hangs is played where it is needed.
CALM = msgspec.structs.replace(QUICK, connect_s=20, first_s=20, idle_s=20)

Pages = Mapping[str, object]


def models(*ids: str, owner: str, **more: Any) -> Pages:
    return {
        "/v1/models": {
            "object": "list",
            "data": [{"id": id_, "object": "model", "owned_by": owner} | more for id_ in ids],
        }
    }


VLLM: Pages = {
    **models("openai/gpt-oss-20b", owner="vllm", root="openai/gpt-oss-20b", max_model_len=131072),
    "/version": {"version": "0.11.0"},
}
LLAMA_CPP: Pages = {
    "/props": {
        "default_generation_settings": {"params": {"seed": 4294967295}, "n_ctx": 4096},
        "total_slots": 1,
        "model_path": "/models/gpt-oss-20b-mxfp4.gguf",
    },
    "/v1/models": {
        "models": [{"name": "gpt-oss-20b-mxfp4.gguf", "model": "gpt-oss-20b-mxfp4.gguf"}],
        "object": "list",
        "data": [
            {"id": "gpt-oss-20b-mxfp4.gguf", "owned_by": "llamacpp", "meta": {"n_vocab": 201088, "n_ctx_train": 131072}}
        ],
    },
    # Newer ones answer to this too, and are no Ollama for it.
    "/api/tags": {"models": [{"name": "gpt-oss-20b-mxfp4.gguf"}]},
}
OLLAMA: Pages = {
    **models("llama3.2:latest", "gpt-oss:20b", owner="library"),
    "/api/tags": {
        "models": [
            {"name": "llama3.2:latest", "model": "llama3.2:latest", "details": {"family": "llama"}},
            {"name": "gpt-oss:120b-cloud", "model": "gpt-oss:120b-cloud", "details": {"family": ""}},
            {"name": "gpt-oss-safeguard:20b", "model": "gpt-oss-safeguard:20b", "details": {"family": "gptoss"}},
            {"name": "mine:latest", "model": "mine:latest", "details": {"family": "gptoss"}},
        ]
    },
    "/api/version": {"version": "0.12.11"},
}
LM_STUDIO: Pages = {
    **models("openai/gpt-oss-20b", "text-embedding-nomic", owner="organization_owner"),
    "/api/v0/models": {
        "object": "list",
        "data": [
            {"id": "openai/gpt-oss-20b", "type": "llm", "arch": "gpt-oss", "loaded_context_length": 8192},
            {"id": "text-embedding-nomic", "type": "embeddings", "arch": "nomic-bert"},
        ],
    },
}
SGLANG: Pages = models("openai/gpt-oss-120b", owner="sglang", root="openai/gpt-oss-120b", max_model_len=4096)
OTHER: Pages = models("tiny", owner="somebody")
WEB_PAGE: Pages = {"/v1/models": b"<html>Hello</html>"}


@asynccontextmanager
async def playing(*servers: Pages) -> AsyncGenerator[list[int]]:
    """Servers with these pages; gives their ports."""

    def handle_with(pages: Pages) -> Any:
        async def handle(asked: Asked, wire: Wire) -> None:
            if asked.path in pages:
                await wire.answer(200, pages[asked.path])
            else:
                await wire.answer(404, {"error": "not found"})

        return handle

    async with AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(serving(handle_with(pages)))).port for pages in servers]


def found_among(*servers: Pages, model: str | None = None) -> tuple[Found, list[int]]:
    async def run() -> tuple[Found, list[int]]:
        async with playing(*servers) as ports:
            return await discover(model, ports=[unused_port(), *ports], patience=CALM), ports

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("pages", "kind", "model", "context_tokens"),
    [
        pytest.param(VLLM, "vllm", "openai/gpt-oss-20b", 131072, id="vllm"),
        pytest.param(LLAMA_CPP, "llama.cpp", "gpt-oss-20b-mxfp4.gguf", 4096, id="llama.cpp"),
        pytest.param(OLLAMA, "ollama", "mine:latest", None, id="ollama"),
        pytest.param(LM_STUDIO, "lmstudio", "openai/gpt-oss-20b", 8192, id="lmstudio"),
        pytest.param(SGLANG, "sglang", "openai/gpt-oss-120b", 4096, id="sglang"),
        pytest.param(OTHER, "completions", None, None, id="completions"),
    ],
)
def test_each_engine_is_known_by_its_own_endpoints(
    pages: Pages, kind: str, model: str | None, context_tokens: int | None
) -> None:
    async def run() -> Seen:
        async with playing(pages) as (port,):
            return await probe(f"http://127.0.0.1:{port}/v1/", patience=CALM)

    seen = asyncio.run(run())
    assert (seen.kind, seen.model, seen.context_tokens) == (kind, model, context_tokens)


def test_a_model_file_with_any_name_is_known_by_its_vocabulary() -> None:
    data = [{"id": "tiny.gguf", "owned_by": "llamacpp", "meta": {"n_vocab": 201088}}]
    props = {"default_generation_settings": {"n_ctx": 512}, "model_path": "tiny.gguf"}
    found, _ = found_among({"/props": props, "/v1/models": {"object": "list", "data": data}})
    assert found.chosen.model == "tiny.gguf"


def test_an_engine_that_speaks_tokens_is_preferred_and_the_others_are_told() -> None:
    found, ports = found_among(OLLAMA, OTHER, LLAMA_CPP, LM_STUDIO, WEB_PAGE)
    assert found.chosen.url == f"http://127.0.0.1:{ports[2]}" and found.chosen.speaks_tokens
    assert [other.kind for other in found.others] == ["ollama", "completions", "lmstudio"]
    assert found.why
    for seen in (found.chosen, *found.others):
        assert seen.url in str(found)


def test_the_first_port_wins_among_equals() -> None:
    found, ports = found_among(LLAMA_CPP, VLLM)
    assert found.chosen.url == f"http://127.0.0.1:{ports[0]}"


def test_a_model_may_be_asked_for() -> None:
    found, ports = found_among(VLLM, OLLAMA, model="llama3.2:latest")
    assert found.chosen.url == f"http://127.0.0.1:{ports[1]}" and found.chosen.model == "llama3.2:latest"


def test_what_was_found_can_be_opened() -> None:
    found, _ = found_among(VLLM)
    engine = found.open()
    assert (engine.name, engine.model, engine.traits.context_tokens) == ("vllm", "openai/gpt-oss-20b", 131072)


@pytest.mark.parametrize("servers", [(), (OTHER, WEB_PAGE)], ids=["nothing", "no gpt-oss"])
def test_none_found_says_how_to_start_one(servers: tuple[Pages, ...]) -> None:
    with pytest.raises(EngineError) as caught:
        found_among(*servers)
    assert caught.value.code == ErrorCode.ENGINE_NONE_FOUND
    assert "demo" in caught.value.message


def test_a_server_that_never_answers_holds_nobody_up() -> None:
    async def run() -> Found:
        async def hang(asked: Asked, wire: Wire) -> None:
            await wire.wait_for_reader_to_leave()

        async with serving(hang) as hanging, playing(VLLM) as (port,):
            # The one that works has answered by then, or this test fails; the hanging one never does.
            return await discover(ports=[hanging.port, port], patience=msgspec.structs.replace(CALM, first_s=5))

    assert asyncio.run(run()).chosen.kind == "vllm"


def test_a_server_that_asks_for_a_key_is_told_so() -> None:
    async def run() -> tuple[Seen, Seen]:
        async def handle(asked: Asked, wire: Wire) -> None:
            if asked.headers.get("authorization") != "Bearer key":
                await wire.answer(401, {"error": "Unauthorized"})
            elif asked.path in VLLM:
                await wire.answer(200, VLLM[asked.path])
            else:
                await wire.answer(404, {})

        async with serving(handle) as served:
            return await probe(served.url, patience=CALM), await probe(served.url, api_key="key", patience=CALM)

    without, with_key = asyncio.run(run())
    assert without.problem and not without.models
    assert with_key.kind == "vllm"


@pytest.mark.parametrize(
    ("name", "engine_name"),
    [
        ("vllm:http://host:1", "vllm"),
        ("llama.cpp:http://host:1", "llama.cpp"),
        ("ollama:http://host:1", "ollama"),
        ("lmstudio:http://host:1/v1", "lmstudio"),
        ("sglang:http://host:1", "sglang"),
        ("completions:https://host", "completions"),
        ("ollama", "ollama"),
    ],
)
def test_a_named_engine_with_a_model_is_opened_without_asking(name: str, engine_name: str) -> None:
    engine = asyncio.run(open_engine(name, "gpt-oss-20b"))
    assert (engine.name, engine.model) == (engine_name, "gpt-oss-20b")


@pytest.mark.parametrize(("pages", "kind"), [(VLLM, "vllm"), (OLLAMA, "ollama"), (OTHER, "completions")])
@pytest.mark.parametrize("is_named", [True, False])
def test_without_a_model_the_server_is_asked(pages: Pages, kind: str, is_named: bool) -> None:
    async def run() -> tuple[str, str]:
        async with playing(pages) as (port,):
            url = f"http://127.0.0.1:{port}"
            engine = await open_engine(f"{kind}:{url}" if is_named else url)
            return engine.name, engine.model

    name, model = asyncio.run(run())
    assert name == kind
    assert model == {"vllm": "openai/gpt-oss-20b", "ollama": "mine:latest", "completions": "tiny"}[kind]


def test_of_several_models_none_is_guessed() -> None:
    async def run() -> None:
        async with playing(models("one", "two", owner="somebody")) as (port,):
            await open_engine(f"http://127.0.0.1:{port}")

    with pytest.raises(InputError) as caught:
        asyncio.run(run())
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


def test_an_address_at_which_nobody_listens_is_unreachable() -> None:
    with pytest.raises(EngineError) as caught:
        asyncio.run(open_engine(f"http://127.0.0.1:{unused_port()}"))
    assert caught.value.code == ErrorCode.ENGINE_UNREACHABLE


def test_an_address_of_something_else_is_a_bad_answer() -> None:
    async def run() -> None:
        async with playing(WEB_PAGE) as (port,):
            await open_engine(f"http://127.0.0.1:{port}")

    with pytest.raises(EngineError) as caught:
        asyncio.run(run())
    assert caught.value.code == ErrorCode.ENGINE_BAD_ANSWER


@pytest.mark.parametrize(
    "name", ["", "gpt-5", "replay", "replay:", "transformers", "auto:x", "vllm:host", "completions"]
)
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_engine(name, "m"))
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


def test_an_option_that_an_engine_does_not_have_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_engine("vllm:http://host", "m", colour="red"))
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


def test_the_demo_needs_no_model() -> None:
    async def run() -> tuple[str, str, bool]:
        demo = await open_engine("demo")
        other = await open_model("demo", "anything")
        heard = await listen(demo)
        return demo.name, other.model, heard.finish is not None

    assert asyncio.run(run()) == ("demo", "anything", True)


@pytest.mark.parametrize("name", ["responses:https://host/v1", "chat:https://host/v1"])
def test_providers_are_opened_by_name(name: str) -> None:
    async def run() -> str:
        provider = await open_model(name, "openai/gpt-oss-120b", api_key="key")
        await provider.close()
        return provider.model

    assert asyncio.run(run()) == "openai/gpt-oss-120b"


@pytest.mark.parametrize(("name", "model"), [("responses:", "m"), ("chat:https://host", None)])
def test_a_provider_needs_an_address_and_a_model(name: str, model: str | None) -> None:
    with pytest.raises(InputError) as caught:
        asyncio.run(open_model(name, model))
    assert caught.value.code == ErrorCode.ENGINE_INVALID_OPTION


def test_auto_looks_at_the_usual_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def play_discover(model: str | None, **options: Any) -> Found:
        asked.append((model, options))
        return Found(Seen("vllm", "http://host", ("m",), "m"), "it speaks tokens")

    monkeypatch.setattr("harmonia.run.engines.registry.discover", play_discover)
    assert asyncio.run(open_engine("auto", api_key="key")).name == "vllm"
    assert asked == [(None, {"api_key": "key"})]
    assert set(usual_ports().values()) >= {8000, 8080, 11434, 1234, 30000}
