"""The server in front of real engines: a tool call of the client's, stored and stateless, and the engine's cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harmonia.run.engines.base import Engine
from tests.run.engines.real.lessons import WEATHER_ANSWER, ask_server
from tests.run.engines.real.real_engines import run_watched
from tests.support.servers.served import text_of

WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Ulm"]}, "is_warm": {"type": "boolean"}},
    "required": ["city", "is_warm"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("store", [True, False])
def test_a_client_calls_its_tool_through_the_server(taught_engine: Engine, tmp_path: Path, store: bool) -> None:
    include = ["harmonia.encrypted_content"]  # the call as well: what a client wrote itself was not said by the model
    first, second = run_watched(ask_server(taught_engine, tmp_path, store=store, include=include))
    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    assert first["output"][1]["arguments"] == '{"city":"Rome"}'
    assert text_of(second) == WEATHER_ANSWER
    # The engine need not read again what it read and said, whoever kept it meanwhile: only the stop token is new.
    usage = first["usage"]
    kept = second["usage"]["input_tokens_details"]["cached_tokens"]
    assert kept == usage["input_tokens"] + usage["output_tokens"] - 1


def test_a_random_model_is_no_reason_to_fail(random_engine: Engine, tmp_path: Path) -> None:
    from tests.support.servers.served import create, served

    async def ask() -> None:
        async with served(random_engine, tmp_path) as service:
            for _ in range(3):
                response = await create(service, input="Hi", max_output_tokens=40)
                assert response["status"] in ("completed", "incomplete")
                assert response["usage"]["output_tokens"] <= 40

    run_watched(ask())


@pytest.mark.parametrize("demand", ["tool_choice", "text"])
def test_what_a_client_demands_is_what_it_gets_even_from_a_random_model(
    random_engine: Engine, tmp_path: Path, demand: str
) -> None:
    from tests.support.servers.served import create, served

    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": True}
    form = {"format": {"type": "json_schema", "name": "weather", "schema": WEATHER, "strict": True}}
    asked: dict[str, Any] = {"tools": [tool], "tool_choice": "required"} if demand == "tool_choice" else {"text": form}

    async def ask() -> None:
        async with served(random_engine, tmp_path) as service:
            for number in range(300):  # another prompt each time; most answers are cut off within a thought
                response = await create(
                    service, input=f"Question {number}", temperature=2.0, max_output_tokens=48, **asked
                )
                if response["status"] == "incomplete":
                    continue
                assert response["status"] == "completed"
                last = response["output"][-1]
                said = last["arguments"] if demand == "tool_choice" else last["content"][0]["text"]
                jsonschema.validate(json.loads(said), WEATHER)
                return
            raise AssertionError("none of them came to an end")

    run_watched(ask())
