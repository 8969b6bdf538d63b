"""A model that does not speak Harmony behind the server and behind `harmonia chat`: the same answers for clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harmonia.cli import main
from harmonia.errors import ErrorCode, HarmonyError, InputError
from harmonia.run.family_models import ProfiledEngine, with_profile
from harmonia.serve.config.settings import Settings
from harmonia.serve.config.sources import Flag, load_settings
from harmonia.serve.models.selection import choose_model
from harmonia.serve.wire.error_responses import api_error_of
from tests.support.engines.engine_protocols import OLLAMA as OLLAMA_PROTOCOL
from tests.support.engines.engine_protocols import ollama_message
from tests.support.engines.scripted_text import ScriptedTextEngine
from tests.support.servers import chat_service
from tests.support.servers.chat_service import body, completions_of
from tests.support.servers.served import WEATHER, create, served, stream
from tests.support.servers.wire_servers import Asked, Wire, serving

QUESTION = "What is the weather in Rome?"
ANSWER = "It is 21 degrees."
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
GRAMMAR = {"syntax": "regex", "definition": "[0-9]+"}
THOUGHT = "<think>\nI look it up.\n</think>\n\n"


def test_a_response_has_the_call_and_then_the_answer(tmp_path: Path) -> None:
    engine = ScriptedTextEngine(THOUGHT + CALL, THOUGHT + ANSWER)

    async def check() -> None:
        async with served(with_profile(engine, "auto"), tmp_path, calls="unverified") as service:
            first = await create(service, input=QUESTION, tools=[WEATHER])
            (call,) = (item for item in first["output"] if item["type"] == "function_call")
            assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Rome"})
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
            second = await create(service, input=[result], previous_response_id=first["id"], tools=[WEATHER])
            assert second["output"][-1]["content"][0]["text"] == ANSWER
            assert "reasoning" in [item["type"] for item in second["output"]]

    asyncio.run(check())
    assert engine.prompts[1].startswith(engine.prompts[0])
    assert "<tool_response>\n21\n</tool_response>" in engine.prompts[1]


def test_a_call_from_text_is_held_back_unless_the_operator_allows_it(tmp_path: Path) -> None:
    engine = ScriptedTextEngine(CALL, ANSWER)

    async def check() -> None:
        async with served(with_profile(engine, "auto"), tmp_path) as service:
            response = await create(service, input=QUESTION, tools=[WEATHER])
            assert "function_call" not in [item["type"] for item in response["output"]]

    asyncio.run(check())


def test_a_stream_has_the_answer_and_nothing_of_the_thought(tmp_path: Path) -> None:
    engine = ScriptedTextEngine(THOUGHT + ANSWER)

    async def check() -> None:
        async with served(with_profile(engine, "auto"), tmp_path) as service:
            events = await stream(service, input=QUESTION)
            deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
            assert "".join(deltas) == ANSWER
            assert "I look it up" not in json.dumps(events)
            assert events[-1]["type"] == "response.completed"

    asyncio.run(check())


# ── who runs it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def play_ollama(*script: str) -> tuple[Any, list[Any]]:
    """An Ollama with a Qwen3, and what it is asked."""
    said: list[Any] = []

    async def handle(asked: Asked, wire: Wire) -> None:
        if asked.path == "/v1/models":
            await wire.answer(200, {"object": "list", "data": [{"id": "qwen3:8b", "owned_by": "library"}]})
        elif asked.path == "/api/tags":
            await wire.answer(200, {"models": [{"name": "qwen3:8b", "details": {"family": "qwen3"}}]})
        elif asked.path == "/api/generate":
            text = script[min(len(said), len(script) - 1)]
            said.append(asked.body)
            await wire.begin(OLLAMA_PROTOCOL.content_type)
            for message in (ollama_message(text), *OLLAMA_PROTOCOL.finish(3)):
                await wire.chunk(OLLAMA_PROTOCOL.frame(message))
            await wire.end()
        else:
            await wire.answer(404, {"error": "not found"})

    return handle, said


@pytest.mark.parametrize("profile", ["auto", "qwen3"])
def test_the_server_takes_the_profile_of_its_settings(profile: str) -> None:
    handle, _ = play_ollama(ANSWER)

    async def check() -> None:
        async with serving(handle) as there:
            chosen = await choose_model(Settings(engine=f"ollama:{there.url}", profile=profile))
            assert isinstance(chosen.model, ProfiledEngine) and chosen.model.profile.name == "qwen3"
            assert any("qwen3" in note and "as text" in note for note in chosen.notes)
            await chosen.model.close()

    asyncio.run(check())


def test_the_server_takes_profiles_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[profile]]\nname = "mine"\nfamily = "mine"\nformat = "text"\ntemplate = "llama3"\n')
    handle, _ = play_ollama(ANSWER)

    async def check() -> None:
        async with serving(handle) as there:
            settings = Settings(engine=f"ollama:{there.url}", profile="mine", profiles=str(file))
            chosen = await choose_model(settings)
            assert isinstance(chosen.model, ProfiledEngine) and chosen.model.profile.template == "llama3"
            await chosen.model.close()

    asyncio.run(check())
    with pytest.raises(InputError) as caught:
        load_settings({"profiles": Flag("--profiles", str(file))}, environment={})
    assert caught.value.at.path == "$.profiles"


def test_a_profile_that_nobody_knows_is_refused_at_the_start() -> None:
    handle, _ = play_ollama(ANSWER)

    async def check() -> None:
        async with serving(handle) as there:
            with pytest.raises(InputError) as caught:
                await choose_model(Settings(engine=f"ollama:{there.url}", profile="qwen-nobody-knows"))
            assert caught.value.code is ErrorCode.FORMATS_INVALID_OPTION

    asyncio.run(check())


def test_chat_takes_profiles_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "mine.toml"
    file.write_text('[[profile]]\nname = "mine"\nfamily = "mine"\nformat = "text"\ntemplate = "llama3"\n')
    handle, said = play_ollama(ANSWER)

    async def check() -> None:
        async with serving(handle) as there:
            words = ["chat", "-m", f"ollama:{there.url}", "--no-save", "--profiles", str(file), QUESTION]
            refused = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert refused.exit_code == 2 and "--profile" in refused.stderr
            result = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--profile", "mine"])
            assert result.exit_code == 0 and result.stdout.strip() == ANSWER, result.output

    asyncio.run(check())
    assert "<|start_header_id|>user" in said[0]["prompt"]


def test_chat_talks_with_it_and_runs_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    tool = tmp_path / "weather.py"
    tool.write_text('def get_weather(city: str) -> str:\n    """The weather."""\n    return f"21 in {city}"\n')
    handle, said = play_ollama(THOUGHT + CALL, THOUGHT + ANSWER)

    async def check() -> None:
        async with serving(handle) as there:
            words = ["chat", "-m", f"ollama:{there.url}", "--profile", "auto", "--approve", "all", "--no-save"]
            words += ["--tool", f"{tool}:get_weather", QUESTION]
            result = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert result.exit_code == 0, result.output
            assert result.stdout.strip() == ANSWER

    asyncio.run(check())
    assert said[0]["prompt"].startswith("<|im_start|>system") and "<|im_end|>" in said[0]["options"]["stop"]
    assert "<tool_response>\n21 in Rome\n</tool_response>" in said[1]["prompt"]


DIGITS: dict[str, Any] = {
    "type": "custom",
    "name": "count",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
}


def count_call(text: str) -> str:
    return f'<tool_call>\n{{"name": "count", "arguments": {{"input": "{text}"}}}}\n</tool_call>'


@pytest.mark.parametrize("name", ["count", "python"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_form_of_a_custom_tool_is_held_to(tmp_path: Path, choice: str, name: str) -> None:
    tool = {**DIGITS, "name": name}
    said = [count_call(text).replace("count", name) for text in ("abc", "12", "abc", "abc")]
    engine = ScriptedTextEngine(*said)

    async def check() -> None:
        async with served(with_profile(engine, "auto"), tmp_path, calls="unverified") as service:
            response = await create(service, input="Hi", tools=[tool], tool_choice=choice)
            assert [item["input"] for item in response["output"]] == ["12"]
            with pytest.raises(HarmonyError) as caught:
                await create(service, input="Hi", tools=[tool], tool_choice=choice)
            assert caught.value.code is ErrorCode.SERVE_FORM_NOT_MET

    asyncio.run(check())


def test_the_form_of_a_custom_tool_is_held_to_in_a_completion() -> None:
    tool = {"type": "custom", "custom": {"name": "count", "format": {"type": "grammar", "grammar": GRAMMAR}}}
    engine = ScriptedTextEngine(count_call("abc"), count_call("12"), count_call("abc"))
    service = completions_of(with_profile(engine, "auto"), Settings(calls="unverified"))
    (choice,) = chat_service.ask(service, body(tools=[tool]))["choices"]
    assert [call["custom"]["input"] for call in choice["message"]["tool_calls"]] == ["12"]
    with pytest.raises(HarmonyError) as caught:
        chat_service.ask(service, body(tools=[tool]))
    assert caught.value.code is ErrorCode.SERVE_FORM_NOT_MET


def test_an_effort_that_the_model_is_not_told_is_a_warning(tmp_path: Path) -> None:
    engine = with_profile(ScriptedTextEngine(ANSWER), "auto")

    async def check() -> None:
        async with served(engine, tmp_path) as service:
            response = await create(service, input="Hi", reasoning={"effort": "high"})
            assert any("effort" in each for each in response["warnings"])
            assert "warnings" not in await create(service, input="Hi")

    asyncio.run(check())
    (choice,) = chat_service.ask(completions_of(engine), body(reasoning_effort="high"))["choices"]
    assert any("effort" in each for each in choice["warnings"])


def test_going_on_is_refused_by_the_name_of_its_field(tmp_path: Path) -> None:
    async def check() -> None:
        async with served(with_profile(ScriptedTextEngine(ANSWER), "auto"), tmp_path) as service:
            begun = {"type": "message", "role": "assistant", "content": "It is"}
            with pytest.raises(InputError) as caught:
                await create(service, input=[{"role": "user", "content": "Hi"}, begun], harmonia_continue=True)
            assert caught.value.at.path == "$.harmonia_continue"

    asyncio.run(check())


def test_a_call_that_is_cut_off_is_none_whether_it_was_streamed_or_not() -> None:
    cut = ScriptedTextEngine('<function=get_weather>{"city": "Rome"', model="meta-llama/Llama-3.1-8B-Instruct")
    service = completions_of(with_profile(cut, "auto"), Settings(calls="unverified"))
    with pytest.raises(HarmonyError) as caught:
        chat_service.ask(service, body(tools=[chat_service.WEATHER]))
    assert caught.value.code is ErrorCode.TOOL_NOT_CERTAIN
    assert "stream" not in api_error_of(caught.value).message


def test_chat_without_a_terminal_says_how_its_calls_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    tool = tmp_path / "weather.py"
    tool.write_text('def get_weather(city: str) -> str:\n    """The weather."""\n    return f"21 in {city}"\n')
    handle, said = play_ollama(CALL)

    async def check() -> None:
        async with serving(handle) as there:
            words = ["chat", "-m", f"ollama:{there.url}", "--profile", "auto", "--approve", "certain", "--no-save"]
            words += ["--quiet", "--tool", f"{tool}:get_weather", QUESTION]
            result = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert result.exit_code == 1 and result.stdout == ""
            assert result.stderr.count("--approve all") == 1

    asyncio.run(check())
    assert len(said) == 2


def test_chat_says_that_a_model_may_need_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    handle, _ = play_ollama(THOUGHT)

    async def check() -> None:
        async with serving(handle) as there:
            words = ["chat", "-m", f"ollama:{there.url}", "--model", "qwen3:8b", "--no-save", QUESTION]
            result = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert result.exit_code == 1 and "--profile auto" in result.stderr, result.output

    asyncio.run(check())
