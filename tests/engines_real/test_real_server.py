"""The server in front of real engines: a tool call of the client's, stored and stateless, and the engine's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines_real.lessons import WEATHER_ANSWER, ask_server
from engines_real.real_engines import run_watched
from harmonia.run.engines.engine import Engine
from served import text_of

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("store", [True, False])
def test_a_client_calls_its_tool_through_the_server(taught_engine: Engine, tmp_path: Path, store: bool) -> None:
    first, second = run_watched(ask_server(taught_engine, tmp_path, store=store))
    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    assert first["output"][1]["arguments"] == '{"city":"Rome"}'
    assert text_of(second) == WEATHER_ANSWER
    # The engine need not read again what it read and said, whoever kept it meanwhile: only the stop token is new.
    usage = first["usage"]
    kept = second["usage"]["input_tokens_details"]["cached_tokens"]
    assert kept == usage["input_tokens"] + usage["output_tokens"] - 1


def test_a_random_model_is_no_reason_to_fail(random_engine: Engine, tmp_path: Path) -> None:
    from served import create, served

    async def ask() -> None:
        async with served(random_engine, tmp_path) as service:
            for _ in range(3):
                response = await create(service, input="Hi", max_output_tokens=40)
                assert response["status"] in ("completed", "incomplete")
                assert response["usage"]["output_tokens"] <= 40

    run_watched(ask())
