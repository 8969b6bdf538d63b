"""Small programs as users of other SDKs write them, each run as it is against `harmonia serve`.

Each prints what came of it, and what it printed is checked here. They can reach nothing but the server.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client_processes import CLIENTS, JAVASCRIPT, node, offline
from serving_process import WATCHDOG_S, ServingProcess, serving

pytestmark = pytest.mark.clients

LITELLM = Path(sys.prefix) / "clients" / "litellm" / "bin" / "python"
CALL = ["get_weather", {"city": "Paris"}]
WEATHER = "sunny in Paris, 20 degrees"
Json = dict[str, Any]


@pytest.fixture(scope="module", params=["hidden", "shown"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingProcess]:
    """With the reasoning sealed and with the reasoning shown: either way clients send it back as they got it."""
    with serving(tmp_path_factory.mktemp("server"), "--analysis", request.param) as started:
        yield started


def run(server: ServingProcess, folder: Path, *command: str | Path) -> Json:
    ended = subprocess.run(
        [str(part) for part in command],
        env=offline(folder, BASE_URL=server.base_url),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert not [line for line in server.said if " ERROR " in line]
    return said


def python(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; make test-clients does it")
    return sys.executable


def is_report(value: Json) -> bool:
    return value["city"] == "Paris" and value["unit"] in ("celsius", "fahrenheit") and isinstance(value["degrees"], int)


def test_agents_sdk(server: ServingProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, python("agents"), CLIENTS / "programs" / "agents_sdk.py")
    for api in ("responses", "chat"):
        got = said[api]
        assert WEATHER in got["answer"]
        assert "sunny in Rome" in got["next"]
        assert "sunny in Oslo" in got["streamed"] and got["deltas"] == got["streamed"]
        assert [item for item in got["items"] if item != "reasoning_item_created"] == [
            "tool_called",
            "tool_output",
            "message_output_created",
        ]
        assert got["handed_to"] == "Weather"
        assert is_report(got["report"])
    # The model reasoned before it called. Over Chat Completions there is no place for reasoning that is sealed.
    assert said["responses"]["items"][0] == "reasoning_item_created"
    assert "sunny in Lima" in said["kept"][0]
    assert said["kept"][1].endswith("And what did I ask?")
    assert said["calls"] == ["Paris", "Rome", "Oslo"] * 2 + ["Lima"]


def test_langchain(server: ServingProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, python("langchain_openai"), CLIENTS / "programs" / "langchain_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"] and got["chunks"] > 1
        assert got["calls"] == got["streamed_calls"] == [CALL]
        assert WEATHER in got["with_tool"]
        assert is_report(got["report"]) and is_report(got["report_by_call"])
        assert got["usage"]


def test_litellm(server: ServingProcess, tmp_path: Path) -> None:
    if not LITELLM.exists():
        pytest.skip("litellm has no environment of its own; make test-clients makes it")
    said = run(server, tmp_path, LITELLM, CLIENTS / "programs" / "litellm_sdk.py")
    for got in (said["responses"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"]
        assert got["call"] == CALL
        assert WEATHER in got["with_tool"]
    assert (said["responses"]["last"], said["chat"]["last"]) == ("response.completed", "stop")


def test_openai_sdk_in_javascript(server: ServingProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, node(), JAVASCRIPT / "openai_sdk.mjs")
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


def test_ai_sdk(server: ServingProcess, tmp_path: Path) -> None:
    said = run(server, tmp_path, node(), JAVASCRIPT / "ai_sdk.mjs")
    for got in (said["responses"], said["stateless"], said["chat"]):
        assert got["answer"].endswith("You said: Hello!")
        assert got["streamed"] == got["answer"] and got["deltas"] > 1
        assert got["calls"] == [CALL]
        assert WEATHER in got["withTool"]
        assert "sunny in Oslo" in got["streamedTool"]
        assert is_report(got["report"])
        assert got["usage"]
