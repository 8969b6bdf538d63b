"""Small programs as users of other SDKs write them, each run as it is against `harmonia serve`.

Each prints what came of it, and what it printed is checked here. They can reach nothing but the server.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.client_processes import CLIENTS, JAVASCRIPT, node, offline, programs_of, run_program
from tests.support.engines.scripted import calls, final, think
from tests.support.servers.server_processes import ServerProcess, server_process, write_capture
from tests.support.watchdog import WATCHDOG_S

pytestmark = pytest.mark.clients

CALL = ["get_weather", {"city": "Paris"}]
WEATHER = "sunny in Paris, 20 degrees"
Json = dict[str, Any]


@pytest.fixture(scope="module", params=["hidden", "shown"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With the reasoning sealed and with the reasoning shown: either way clients send it back as they got it."""
    with server_process("--analysis", request.param, folder=tmp_path_factory.mktemp("server")) as started:
        yield started


def run(server: ServerProcess, folder: Path, environment: str, program: str) -> Json:
    """What a program in Python printed, which ran in one of the environments of clients.toml."""
    return run_program(server, folder, programs_of(environment) / "python", CLIENTS / "programs" / program)


def is_report(value: Json) -> bool:
    return value["city"] == "Paris" and value["unit"] in ("celsius", "fahrenheit") and isinstance(value["degrees"], int)


def check_weather_agent(got: Json) -> None:
    """An agent of OpenAI's Agents SDK, in either language, called its tool in three turns, the last one streamed."""
    assert WEATHER in got["answer"]
    assert "sunny in Rome" in got["next"]
    assert "sunny in Oslo" in got["streamed"] and got["deltas"] == got["streamed"]
    assert [item for item in got["items"] if item != "reasoning_item_created"] == [
        "tool_called",
        "tool_output",
        "message_output_created",
    ]


def test_agents_sdk(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-3", "agents_sdk.py")
    for api in ("responses", "chat"):
        got = said[api]
        check_weather_agent(got)
        assert got["handed_to"] == "Weather"
        assert is_report(got["report"])
    # The model reasoned before it called. Over Chat Completions there is no place for reasoning that is sealed.
    assert said["responses"]["items"][0] == "reasoning_item_created"
    assert "sunny in Lima" in said["kept"][0]
    assert said["kept"][1].endswith("And what did I ask?")
    assert said["calls"] == ["Paris", "Rome", "Oslo"] * 2 + ["Lima"]


def test_langchain(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-3", "langchain_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"] and got["chunks"] > 1
        assert got["calls"] == got["streamed_calls"] == [CALL]
        assert WEATHER in got["with_tool"]
        assert is_report(got["report"]) and is_report(got["report_by_call"])
        assert got["usage"]


def test_litellm(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-2", "litellm_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"]
        assert got["call"] == CALL
        assert WEATHER in got["with_tool"]
    assert (said["responses"]["last"], said["chat"]["last"]) == ("response.completed", "stop")


def test_openai_sdk_in_javascript(server: ServerProcess, tmp_path: Path) -> None:
    said = run_program(server, tmp_path, node(), JAVASCRIPT / "openai_sdk.mjs")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["deltas"] == got["streamed"] == got["answer"]
        assert [got["call"][0], json.loads(got["call"][1])] == CALL
        assert WEATHER in got["withTool"]
        assert is_report(got["report"])
    responses = said["responses"]
    assert responses["items"] == ["message", "message"]
    assert responses["same"]
    assert responses["gone"] == ["NotFoundError", 404]
    assert responses["wrong"] == ["BadRequestError", 400, "temperature"]
    assert said["models"] == ["demo"]


def test_ai_sdk(server: ServerProcess, tmp_path: Path) -> None:
    said = run_program(server, tmp_path, node(), JAVASCRIPT / "ai_sdk.mjs")
    for got in (said["responses"], said["stateless"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"] and got["deltas"] > 1
        assert got["calls"] == [CALL]
        assert WEATHER in got["withTool"]
        assert "sunny in Oslo" in got["streamedTool"]
        assert is_report(got["report"])
        assert got["usage"]


def test_agents_sdk_in_javascript(server: ServerProcess, tmp_path: Path) -> None:
    said = run_program(server, tmp_path, node(), JAVASCRIPT / "agents_sdk.mjs")
    for got in (said["responses"], said["chat"]):
        check_weather_agent(got)
        assert got["handedTo"] == "Weather"
        assert is_report(got["report"])
    assert said["responses"]["items"][0] == "reasoning_item_created"
    assert said["calls"] == ["Paris", "Rome", "Oslo"] * 2


def test_pydantic_ai(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-3", "pydantic_ai_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert WEATHER in got["answer"]
        assert "sunny in Rome" in got["next"]
        assert "sunny in Oslo" in got["streamed"] and got["pieces"] > 1
        for form in ("report", "report_streamed", "report_native", "report_prompted"):
            assert is_report(got[form])
        assert [is_report(each) for each in got["reports"]] == [True]
    assert said["calls"] == ["Paris", "Rome", "Oslo", "Paris", "Paris"] * 2


def test_langchain_agents_and_langgraph(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-3", "langchain_agents.py")
    for got in (said["responses"], said["chat"]):
        assert WEATHER in got["answer"]
        assert "sunny in Rome" in got["next"] and got["kept"] == 8
        assert "sunny in Oslo" in got["streamed"] and got["pieces"] > 1
        assert is_report(got["report"]) and is_report(got["report_json_mode"])
        assert [is_report(each) for each in got["reports"]] == [True]
    assert said["calls"] == ["Paris", "Rome", "Oslo", "Paris"] * 2


def test_llama_index(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-2", "llama_index_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"] and got["pieces"] > 1
        assert WEATHER in got["with_tool"] and got["deltas"] == got["with_tool"]
        assert "sunny in Rome" in got["next"]
        assert is_report(got["report"])
    assert said["calls"] == ["Paris", "Rome"] * 2


def test_instructor(server: ServerProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, "openai-2", "instructor_sdk.py")
    for got in said.values():
        assert is_report(got["report"]) and is_report(got["streamed"])
        assert got["pieces"] > 1
        assert [is_report(each) for each in got["reports"]] == [True]


@pytest.mark.parametrize("analysis", ["hidden", "shown"])
def test_smolagents(analysis: str, tmp_path: Path) -> None:
    """Its agents send results back as the user's words, so the model has to be replayed to come to an end."""
    loop = [
        think("I ask.") + calls("get_weather", '{"city": "Paris"}'),
        think("I know.") + calls("final_answer", json.dumps({"answer": WEATHER})),
    ]
    program = 'Thought: I ask.\n<code>\nfinal_answer(get_weather("Paris"))\n</code>'
    report = {"city": "Paris", "unit": "celsius", "degrees": 20}
    spoken = [*[think("Hm.") + final("Hello, world!")] * 2, final(json.dumps(report)), *loop, *loop, final(program)]
    engine = write_capture(tmp_path / "capture.jsonl", spoken)
    with server_process("--analysis", analysis, "-o", "strict", "false", folder=tmp_path, engine=engine) as server:
        said = run(server, tmp_path, "openai-3", "smolagents_sdk.py")
    assert said["answer"] == said["streamed"] == "Hello, world!" and said["pieces"] > 1
    assert said["report"] == report
    for name, tools in (("run", ["get_weather", "final_answer"]), ("code", ["python_interpreter"])):
        assert said[name] == {"answer": WEATHER, "tools": tools, "errors": []}
    assert said["run_streamed"] == said["run"]
    assert said["calls"] == ["Paris"] * 3


def test_the_llm_command(server: ServerProcess, tmp_path: Path) -> None:
    program = programs_of("openai-3") / "llm"
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: demo\n  model_name: demo\n  api_base: {server.base_url}\n"
        "  supports_schema: true\n  supports_tools: true\n"
    )

    def llm(*arguments: str) -> str:
        ended = subprocess.run(
            [program, "-m", "demo", "--key", "none", *arguments],
            env=offline(tmp_path, LLM_USER_PATH=str(tmp_path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    tool = (
        'def get_weather(city: str) -> str:\n    "The weather of a city."\n    return f"sunny in {city}, 20 degrees"\n'
    )
    assert llm("Hello!").endswith("You said: Hello!")
    assert llm("--no-stream", "-c", "And now?").endswith("You said: And now?")
    assert WEATHER in llm("--functions", tool, "How is the weather in Paris?")
    assert WEATHER in llm("--no-stream", "--functions", tool, "How is the weather in Paris?")
    report = json.loads(llm("--schema", "city, degrees int", "Report on Paris"))
    assert report["city"] == "Paris" and isinstance(report["degrees"], int)
