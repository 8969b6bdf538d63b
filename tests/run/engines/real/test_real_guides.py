"""The guide for llama.cpp, followed to the letter with a real llama.cpp server; and a server on a model of its own.

Everything is a process here, as a reader has it: the engine, `harmonia serve`, curl, Python with OpenAI's SDK.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.run.engines.real.lessons import GREETING, GREETING_ANSWER, WEATHER_ANSWER, WEATHER_QUESTION, get_weather
from tests.run.engines.real.real_engines import LlamaServer, run_watched, start_llama, until
from tests.support.guide_pages import (
    CHAT_TOOL,
    MODEL,
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
from tests.support.servers.served import WEATHER, fold, text_of
from tests.support.servers.server_processes import ServerProcess, server_process

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.engines

CONTEXT = 1024  # of the real server
TERMINAL = ("response.completed", "response.failed", "response.incomplete", "error")


def guide_to(llama: LlamaServer, server_url: str = "http://127.0.0.1:8765") -> Guide:
    addresses = {"127.0.0.1:8080": llama.url, "127.0.0.1:8765": server_url}
    return read_guide("llama-cpp.md", {name: url.removeprefix("http://") for name, url in addresses.items()})


def put_in_front_of(llama: LlamaServer, folder: Path) -> Any:
    """The server, with the command of the guide."""
    return server_process(*guide_to(llama).serve, folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guide")


@pytest.fixture(scope="module")
def server(taught_llama: LlamaServer, folder: Path) -> Generator[ServerProcess]:
    with put_in_front_of(taught_llama, folder) as started:
        yield started


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_requests_of_the_guide_are_answered(taught_llama: LlamaServer, server: ServerProcess, folder: Path) -> None:
    guide = guide_to(taught_llama, server.url)
    assert "llama.cpp" in server.line_with("engine ") and MODEL in server.line_with("model ")
    (curl,) = guide.find("curl")
    assert text_of(only_json(run_shell(curl, folder))) == GREETING_ANSWER
    assert run_python(guide.python, folder) == [GREETING_ANSWER, WEATHER_ANSWER]


def test_doctor_and_check_say_what_the_guide_says(
    taught_llama: LlamaServer, server: ServerProcess, folder: Path
) -> None:
    guide = guide_to(taught_llama, server.url)
    (of_engine,), (of_server,) = guide.find("harmonia doctor --engine"), guide.find("harmonia doctor --server")
    for command in (f"{of_engine} --port 0", of_server, *guide.find("harmonia check")):
        ran = run_shell(command, folder)
        verdicts = verdicts_of(ran)
        # What `check` finds behind a Harmonia has no name to it.
        assert ran.returncode == 0 and verdicts.pop("unknown", []) in ([], ["engine"]), ran.stdout
        assert set(verdicts) == {"ok"}, ran.stdout


# ── what works ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_responses_are_streamed_with_a_tool_call(server: ServerProcess) -> None:
    stream = ask(client_of(server.url), input=WEATHER_QUESTION, tools=[WEATHER], stream=True)
    events = [event.to_dict() for event in stream]
    output = fold(events)
    assert [item["type"] for item in output] == ["reasoning", "function_call"]
    assert json.loads(output[1]["arguments"]) == {"city": "Rome"}
    assert [event["type"] for event in events if event["type"] in TERMINAL] == ["response.completed"]


def test_chat_completions_are_streamed_with_and_without_a_tool_call(server: ServerProcess) -> None:
    client = client_of(server.url)
    chunks = [chunk.choices[0] for chunk in ask_chat(client, GREETING, stream=True)]
    assert "".join(choice.delta.content or "" for choice in chunks) == GREETING_ANSWER
    assert chunks[-1].finish_reason == "stop"
    chunks = [chunk.choices[0] for chunk in ask_chat(client, tools=[CHAT_TOOL], stream=True)]
    calls = [call for choice in chunks for call in choice.delta.tool_calls or ()]
    assert "".join(call.function.arguments or "" for call in calls) == '{"city":"Rome"}'
    assert chunks[-1].finish_reason == "tool_calls"


def test_the_second_turn_is_read_from_the_cache_but_for_the_result(server: ServerProcess) -> None:
    client = client_of(server.url)
    first = ask(client, input=WEATHER_QUESTION, tools=[WEATHER])
    result = json.dumps(get_weather("Rome"))
    output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": result}
    second = ask(client, input=[output], previous_response_id=first["id"], tools=[WEATHER])
    assert text_of(second) == WEATHER_ANSWER
    used = first["usage"]["input_tokens"] + first["usage"]["output_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] == used - 1  # the stop token was sampled, not read


def test_log_probabilities_stand_at_their_tokens_and_end_at_a_character_of_several(server: ServerProcess) -> None:
    client = client_of(server.url)
    first = ask(client, input=WEATHER_QUESTION, tools=[WEATHER], include=["message.output_text.logprobs"])
    output = {
        "type": "function_call_output",
        "call_id": first["output"][-1]["call_id"],
        "output": json.dumps(get_weather("Rome")),
    }
    answer = ask(
        client,
        input=[output],
        previous_response_id=first["id"],
        tools=[WEATHER],
        include=["message.output_text.logprobs"],
        top_logprobs=2,
    )
    (part,) = answer["output"][-1]["content"]
    assert "".join(each["token"] for each in part["logprobs"]) == WEATHER_ANSWER
    for each in part["logprobs"]:
        likeliest, other = each["top_logprobs"]
        assert (likeliest["token"], likeliest["logprob"]) == (each["token"], each["logprob"])
        assert other["logprob"] < each["logprob"] < 0
    greeted = ask_chat(client, GREETING, logprobs=True)["logprobs"]["content"]
    assert "".join(each["token"] for each in greeted) == GREETING_ANSWER.partition(" 🌍")[0]


def test_too_long_a_prompt_is_refused_and_auto_leaves_out_the_oldest_turns(server: ServerProcess) -> None:
    client = client_of(server.url)
    long = "word " * CONTEXT
    for request in (lambda: ask(client, input=long), lambda: ask_chat(client, long)):
        with pytest.raises(openai.BadRequestError) as caught:
            request()
        assert caught.value.code == "context_length_exceeded"
    *_, last = ask(client, input=long, stream=True)
    assert (last.type, last.response.error.code) == ("response.failed", "context_length_exceeded")
    turns = [{"role": "user", "content": long}, {"role": "assistant", "content": "ok"}]
    answer = ask(client, input=[*turns, {"role": "user", "content": GREETING}], truncation="auto")
    assert text_of(answer) == GREETING_ANSWER
    assert answer["usage"]["input_tokens"] < CONTEXT


def test_two_clients_at_once_are_both_answered(server: ServerProcess) -> None:
    both = threading.Barrier(2)

    def greet() -> str:
        both.wait(60)
        return text_of(ask(client_of(server.url)))

    def call() -> str:
        both.wait(60)
        return ask(client_of(server.url), input=WEATHER_QUESTION, tools=[WEATHER])["output"][-1]["arguments"]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(greet), threads.submit(call)
        assert (first.result(), second.result()) == (GREETING_ANSWER, '{"city":"Rome"}')


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "waiting"])
def test_a_client_that_hangs_up_frees_the_slot(random_llama: LlamaServer, tmp_path: Path, stream: bool) -> None:
    before = random_llama.sampled_tokens
    with put_in_front_of(random_llama, tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        body = json.dumps({"input": "Hi", "stream": stream}).encode()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
            connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + body)
            run_watched(until(lambda: random_llama.decoded_tokens > 2))
        run_watched(until(lambda: not random_llama.is_busy))
    assert random_llama.sampled_tokens - before < CONTEXT // 2


def test_an_engine_that_is_killed_is_one_failed_event_and_then_unreachable(random_gguf: Path, tmp_path: Path) -> None:
    with start_llama(random_gguf) as llama, put_in_front_of(llama, tmp_path) as server:
        client = client_of(server.url)
        model = client.models.list().data[0].id
        stream = ask(client, model=model, stream=True)
        events = [next(stream), next(stream)]
        run_watched(until(lambda: llama.decoded_tokens > 2))
        llama.kill()
        events += stream
        found = [event.to_dict() for event in events]
        assert [event["type"] for event in found if event["type"] in TERMINAL] == ["response.failed"]
        assert found[-1]["response"]["harmonia_reason"] == "engine_died"
        assert found[-1]["response"]["output"] == fold(found)
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client, model=model)
        assert (caught.value.status_code, caught.value.code) == (503, "engine_unreachable")


# ── a model in the server's own process ─────────────────────────────────────────────────────────────────────────────


def test_a_model_in_a_folder_is_served_by_transformers(taught_model: Any, tmp_path: Path) -> None:
    place = tmp_path / MODEL
    taught_model.save_pretrained(place)
    examined = run_shell(f"harmonia doctor --port 0 --engine transformers:{place}", tmp_path)
    assert (examined.returncode, set(verdicts_of(examined))) == (0, {"ok"}), examined.stdout
    with server_process("--engine", f"transformers:{place}", folder=tmp_path, OMP_NUM_THREADS="1") as server:
        client = client_of(server.url)
        assert text_of(ask(client)) == GREETING_ANSWER
        called = ask(client, input=WEATHER_QUESTION, tools=[WEATHER])
        assert called["output"][-1]["arguments"] == '{"city":"Rome"}'
        content = ask_chat(client, GREETING, logprobs=True)["logprobs"]["content"]
        assert bytes(byte for each in content for byte in each["bytes"]).decode() == GREETING_ANSWER
