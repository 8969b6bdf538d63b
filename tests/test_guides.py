"""The guides for Ollama and vLLM, followed to the letter with their protocols played: commands, curl, Python, checks.

The guide for llama.cpp is followed with a real one, in `engines_real/test_real_guides.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from tests.run.engines.real.lessons import GREETING, GREETING_ANSWER, WEATHER_ANSWER, WEATHER_QUESTION
from tests.support.commands import run_harmonia
from tests.support.engines.played_engines import OLLAMA_CONTEXT, VLLM_CONTEXT, PlayedEngine, playing
from tests.support.guide_pages import (
    CHAT_TOOL,
    Guide,
    ask,
    ask_chat,
    client_of,
    only_json,
    read_guide,
    run_python,
    run_shell,
    verdicts_of,
)
from tests.support.servers.served import WEATHER, text_of
from tests.support.servers.server_processes import server_process
from tests.support.servers.wire_servers import Asked, Wire, serving, unused_port

PAGES = {"ollama": ("ollama.md", "127.0.0.1:11434"), "vllm": ("vllm.md", "127.0.0.1:8000")}
LONGER_THAN_ALL = "word " * 20_000

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture(params=["ollama", "vllm"])
def engine(request: pytest.FixtureRequest) -> Generator[PlayedEngine]:
    with playing(request.param) as played:
        yield played


@pytest.fixture
def ollama() -> Generator[PlayedEngine]:
    with playing("ollama") as played:
        yield played


@pytest.fixture
def vllm() -> Generator[PlayedEngine]:
    with playing("vllm") as played:
        yield played


def guide_of(engine: PlayedEngine, server_url: str = "http://127.0.0.1:8765") -> Guide:
    page, address = PAGES[engine.kind]
    return read_guide(page, {address: f"127.0.0.1:{engine.port}", "127.0.0.1:8765": server_url.removeprefix("http://")})


def usual_ports(engine: PlayedEngine, folder: Path) -> dict[str, str]:
    """Variables with which the processes of a test find this engine, and no other, where it usually is: the real ports
    of this machine may be somebody's."""
    ports = {kind: unused_port() for kind in ("vllm", "llama.cpp", "ollama", "lmstudio", "sglang")}
    ports[engine.kind] = engine.port
    folder.joinpath("sitecustomize.py").write_text(
        "import msgspec\nfrom harmonia.run.engines import registry\n"
        f"ports, known = {ports!r}, registry.kinds()\n"
        "moved = [msgspec.structs.replace(kind, port=ports.get(kind.name, kind.port)) for kind in known]\n"
        "registry.kinds = lambda: tuple(moved)\n"
    )
    return {"PYTHONPATH": str(folder)}


def start(engine: PlayedEngine, folder: Path, *more: str) -> Any:
    """The server, with the command of the guide."""
    return server_process(*guide_of(engine).serve, *more, folder=folder, **usual_ports(engine, folder))


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_curl
def test_the_requests_of_a_guide_are_answered_by_the_server_that_it_starts(
    engine: PlayedEngine, tmp_path: Path
) -> None:
    with start(engine, tmp_path) as server:
        guide = guide_of(engine, server.url)
        (curl,) = guide.find("curl")
        answered = only_json(run_shell(curl, tmp_path))
        printed = run_python(guide.python, tmp_path)
    assert engine.kind in server.line_with("engine ") and "gpt-oss" in server.line_with("model ")
    assert text_of(answered) == GREETING_ANSWER
    assert printed == [GREETING_ANSWER, WEATHER_ANSWER][: 2 if engine.kind == "vllm" else 1]


def test_auto_finds_the_engine_where_it_usually_is(engine: PlayedEngine, tmp_path: Path) -> None:
    variables = usual_ports(engine, tmp_path)
    with server_process(folder=tmp_path, engine="auto", **variables) as server:
        answer = ask(client_of(server.url))
    assert f"found at {engine.url}" in server.line_with("engine ")
    assert text_of(answer) == GREETING_ANSWER


def test_doctor_says_what_the_guide_says(engine: PlayedEngine, tmp_path: Path) -> None:
    guide = guide_of(engine)
    (command,) = guide.find("harmonia doctor --engine")
    ran = run_shell(f"{command} --port 0", tmp_path, **usual_ports(engine, tmp_path))
    verdicts = verdicts_of(ran)
    assert ran.returncode == 0 and "fail" not in verdicts
    assert {"engine", "tokens"} <= set(verdicts["ok"])
    assert verdicts.get("warn", []) == (["engine"] if engine.kind == "ollama" else [])
    with start(engine, tmp_path) as server:
        (command,) = guide_of(engine, server.url).find("harmonia doctor --server")
        assert set(verdicts_of(run_shell(command, tmp_path))) == {"ok"}


def test_check_says_what_the_guide_says(engine: PlayedEngine, tmp_path: Path) -> None:
    (command,) = guide_of(engine).find("harmonia check")
    ran = run_shell(command, tmp_path)
    verdicts = verdicts_of(ran)
    assert ran.returncode == 0
    warned = {"tokens.in", "tokens.out", "tokens.stop"} if engine.kind == "ollama" else set[str]()
    assert set(verdicts.get("warn", [])) == warned
    assert set(verdicts) <= {"ok", "warn"} and "tokens.special" in verdicts["ok"]


def test_without_the_engine_the_command_ends_as_the_guide_says(tmp_path: Path) -> None:
    for kind in PAGES:
        gone = PlayedEngine(kind, f"http://127.0.0.1:{unused_port()}")
        variables = usual_ports(gone, tmp_path)
        ran = run_harmonia("serve", "--port", "0", *guide_of(gone).serve, folder=tmp_path, **variables)
        assert ran.returncode == 4 and "[engine.unreachable]" in ran.stderr


def test_an_engine_that_still_loads_its_model_is_quoted(tmp_path: Path) -> None:
    # As llama.cpp answers to everything meanwhile.
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}

    async def answer(_asked: Asked, wire: Wire) -> None:
        await wire.answer(503, loading)

    async def run() -> list[subprocess.CompletedProcess[str]]:
        async with serving(answer) as engine:
            return [
                await asyncio.to_thread(run_harmonia, "serve", "--port", "0", "--engine", name, folder=tmp_path)
                for name in (engine.url, f"llama.cpp:{engine.url}")
            ]

    for ran in asyncio.run(run()):
        assert ran.returncode == 1 and "Loading model" in ran.stderr and "[engine.refused]" in ran.stderr


# ── what works with Ollama ──────────────────────────────────────────────────────────────────────────────────────────


def test_ollama_is_asked_raw_with_the_context_of_the_command_and_never_to_cut(
    ollama: PlayedEngine, tmp_path: Path
) -> None:
    with start(ollama, tmp_path) as server:
        ask(client_of(server.url))
    (body,) = ollama.sampled
    assert (body["raw"], body["truncate"], body["options"]["num_ctx"]) == (True, False, 16384)


def test_calls_of_ollama_are_held_back_and_the_answer_says_so(ollama: PlayedEngine, tmp_path: Path) -> None:
    with start(ollama, tmp_path) as server:
        client = client_of(server.url)
        response = ask(client, input=WEATHER_QUESTION, tools=[WEATHER])
        choice = ask_chat(client, tools=[CHAT_TOOL])
    assert (response["status"], response["harmonia_reason"]) == ("incomplete", "uncertain_call")
    assert {item["type"] for item in response["output"]} == {"reasoning"}
    assert "tool_calls" not in choice["message"] and choice["hidden_because"]


def test_calls_of_ollama_are_handed_out_with_the_other_command(ollama: PlayedEngine, tmp_path: Path) -> None:
    options = guide_of(ollama).find("harmonia serve --engine ollama")[-1].split()[2:]
    assert options[-2:] == ["--calls", "unverified"]
    with server_process(*options, folder=tmp_path, **usual_ports(ollama, tmp_path)) as server:
        client = client_of(server.url)
        response = ask(client, input=WEATHER_QUESTION, tools=[WEATHER])
        choice = ask_chat(client, tools=[CHAT_TOOL])
    assert response["output"][-1]["arguments"] == '{"city":"Rome"}'
    assert choice["finish_reason"] == "tool_calls"


def test_what_ollama_cannot_do_is_refused_or_nought(ollama: PlayedEngine, tmp_path: Path) -> None:
    with start(ollama, tmp_path) as server:
        client = client_of(server.url)
        assert _refusal(client, include=["message.output_text.logprobs"]) == "unsupported_value"
        assert ask(client)["usage"]["input_tokens_details"]["cached_tokens"] == 0


def test_the_context_of_ollama_bounds_prompts_and_auto_needs_to_know_it(ollama: PlayedEngine, tmp_path: Path) -> None:
    turns = [_user(LONGER_THAN_ALL), {"role": "assistant", "content": "ok"}, _user(GREETING)]
    with start(ollama, tmp_path) as server:
        client = client_of(server.url)
        assert _refusal(client, input=LONGER_THAN_ALL) == "context_length_exceeded"
        assert text_of(ask(client, input=turns, truncation="auto")) == GREETING_ANSWER
    with server_process("--engine", "ollama", folder=tmp_path, **usual_ports(ollama, tmp_path)) as server:
        client = client_of(server.url)
        assert _refusal(client, input="word " * OLLAMA_CONTEXT) == "context_length_exceeded"
        assert _refusal(client, input=turns, truncation="auto") == "context_length_exceeded"


# ── what works with vLLM ────────────────────────────────────────────────────────────────────────────────────────────


def test_vllm_gives_calls_cached_tokens_and_the_log_probability_of_every_token(
    vllm: PlayedEngine, tmp_path: Path
) -> None:
    with start(vllm, tmp_path) as server:
        client = client_of(server.url)
        called = ask(client, input=WEATHER_QUESTION, tools=[WEATHER])
        answer = ask(client, include=["message.output_text.logprobs"], top_logprobs=1)
        content = ask_chat(client, GREETING, logprobs=True)["logprobs"]["content"]
    assert called["output"][-1]["type"] == "function_call"
    assert answer["usage"]["input_tokens_details"]["cached_tokens"] > 0
    given = answer["output"][-1]["content"][0]["logprobs"]
    assert bytes(byte for each in content for byte in each["bytes"]).decode() == GREETING_ANSWER
    assert [each["logprob"] for each in given] == [each["logprob"] for each in content]
    assert all(len(each["top_logprobs"]) == 1 for each in given)


def test_the_context_of_vllm_bounds_prompts_and_auto_leaves_out_the_oldest_turns(
    vllm: PlayedEngine, tmp_path: Path
) -> None:
    turns = [_user(LONGER_THAN_ALL), {"role": "assistant", "content": "ok"}, _user(GREETING)]
    with start(vllm, tmp_path) as server:
        client = client_of(server.url)
        assert _refusal(client, input="word " * VLLM_CONTEXT) == "context_length_exceeded"
        assert text_of(ask(client, input=turns, truncation="auto")) == GREETING_ANSWER
    assert len(vllm.sampled[-1]["prompt"]) < VLLM_CONTEXT


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _refusal(client: OpenAI, **body: Any) -> str | None:
    with pytest.raises(BadRequestError) as caught:
        ask(client, **body)
    return caught.value.code
