"""What an answer cost, by channel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harmonia.run.engines import Finish, Usage
from harmonia.serve.security.keys import Caller
from tests.serve.responses.test_response_tools import FREE, hosted
from tests.support.engines.scripted import ScriptedEngine, calls, final, say, think
from tests.support.servers.served import WEATHER, create, served

Json = dict[str, Any]

PREAMBLE = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
CALL = calls("get_weather", '{"city": "Paris"}')


def used(folder: Path, engine: ScriptedEngine, caller: Caller | None = None, **body: Any) -> Json:
    async def run() -> Json:
        tools = body.pop("hosted", ())
        async with served(engine, folder, tools=tools) as service:
            return (await create(service, caller, input="Hi", tools=[WEATHER], **body))["usage"]

    return asyncio.run(run())


def size(text: str) -> int:
    return len(say(text))


@pytest.mark.parametrize("chunk", [1, 1000])
def test_each_channel_has_its_tokens_to_the_last(tmp_path: Path, chunk: int) -> None:
    engine = ScriptedEngine(think("Hm, well.") + PREAMBLE + CALL, chunk=chunk)
    usage = used(tmp_path, engine)
    channels = usage["harmonia_channels"]
    opening = size("<|start|>assistant")
    assert channels == {
        "analysis": size(think("Hm, well.")) - opening,
        "commentary": size(PREAMBLE),
        "calls": size(CALL) + opening,
    }
    assert sum(channels.values()) == usage["output_tokens"]
    assert usage["output_tokens_details"]["reasoning_tokens"] == channels["analysis"]


def test_all_samplings_of_a_response_are_counted(tmp_path: Path) -> None:
    usage = used(tmp_path, ScriptedEngine(FREE, final("4 kB.")), hosted=[hosted()])
    channels = usage["harmonia_channels"]
    assert channels == {"calls": size(FREE), "final": size(final("4 kB."))}
    assert sum(channels.values()) == usage["output_tokens"]


def test_a_channel_that_there_is_not_has_no_name(tmp_path: Path) -> None:
    """Its name is something that the model wrote where nobody sees it."""
    odd = "<|channel|>secret<|message|>x<|end|><|start|>assistant"
    usage = used(tmp_path, ScriptedEngine(odd + final("Yes.")))
    assert set(usage["harmonia_channels"]) == {"other", "final"}


def test_what_was_mended_is_counted_as_it_came(tmp_path: Path) -> None:
    damaged = "<|channel|>analysis<|message|>Hm.<|start|>assistant" + final("Yes.")
    usage = used(tmp_path, ScriptedEngine(damaged))
    channels = usage["harmonia_channels"]
    assert sum(channels.values()) == usage["output_tokens"] == size(damaged)


@pytest.mark.parametrize("counted", [3, 1000])
def test_text_is_counted_as_its_tokens_and_never_more_than_all(tmp_path: Path, counted: int) -> None:
    engine = ScriptedEngine(
        [think("Hm, well.") + final("Yes, it is."), Finish("stop", Usage(5, counted))], is_text=True
    )
    usage = used(tmp_path, engine)
    channels = usage["harmonia_channels"]
    assert sum(channels.values()) == min(counted, size("Hm, well.") + size("Yes, it is."))


def test_the_other_dialect_has_no_place_for_it(tmp_path: Path) -> None:
    usage = used(tmp_path, ScriptedEngine(final("Yes.")), Caller(dialect="open-responses"))
    assert "harmonia_channels" not in usage


def test_details_of_tokens_are_numbers_alone(tmp_path: Path) -> None:
    """Clients read them as a map of counts; the Agents SDK for JavaScript gives up on anything else."""
    usage = used(tmp_path, ScriptedEngine(think("Hm.") + final("Yes.")))
    assert set(usage["input_tokens_details"]) == {"cached_tokens", "cache_write_tokens"}
    assert set(usage["output_tokens_details"]) == {"reasoning_tokens"}
    details = [usage["input_tokens_details"], usage["output_tokens_details"]]
    assert all(type(count) is int for each in details for count in each.values())
