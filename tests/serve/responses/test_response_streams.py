"""The events of a response: their order, their numbers, and what they add up to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from harmonia.errors import EngineError, ErrorCode
from harmonia.run.engines import Finish
from harmonia.serve.security.keys import Caller
from tests.support.engines.scripted import ScriptedEngine, calls, final, think
from tests.support.repeated import repeated
from tests.support.servers.served import WEATHER, create, decode, fold, served, stream, text_of

OPEN = Caller(dialect="open-responses")


def streamed(folder: Path, engine: ScriptedEngine, caller: Caller | None = None, **body: Any) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        async with served(engine, folder, analysis=body.pop("analysis", "hidden")) as service:
            return await stream(service, caller, **{"input": "Hi", **body})

    return asyncio.run(run())


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_plain_answer_has_every_event_in_its_place(tmp_path: Path) -> None:
    events = streamed(tmp_path, ScriptedEngine(final("Hello there")))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    assert fold(events) == response["output"]
    assert text_of(response) == "Hello there"
    assert response["output"][0]["phase"] == "final_answer"
    assert response["status"] == "completed"


def test_hidden_reasoning_is_an_item_without_text(tmp_path: Path) -> None:
    events = streamed(tmp_path, ScriptedEngine(think("marked") + final("Done")))
    reasoning = events[-1]["response"]["output"][0]
    assert reasoning["type"] == "reasoning"
    assert reasoning["summary"] == []
    assert reasoning["content"] == []  # clients read its length
    assert reasoning["encrypted_content"]
    assert "marked" not in str(events)


@pytest.mark.parametrize(("caller", "name"), [(None, "reasoning_text"), (OPEN, "reasoning")])
def test_shown_reasoning_is_streamed_under_the_dialects_name(tmp_path: Path, caller: Caller | None, name: str) -> None:
    events = streamed(tmp_path, ScriptedEngine(think("so so") + final("Done")), caller, analysis="shown")
    assert kinds(events)[2:9] == [
        "output_item.added",
        "content_part.added",
        f"{name}.delta",
        f"{name}.delta",
        f"{name}.done",
        "content_part.done",
        "output_item.done",
    ]
    assert fold(events)[0]["content"] == [{"type": "reasoning_text", "text": "so so"}]


def test_a_preamble_and_a_call_are_items_of_their_own(tmp_path: Path) -> None:
    preamble = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    engine = ScriptedEngine(think("hm") + preamble + calls("get_weather", '{"city":"Rome"}'))
    events = streamed(tmp_path, engine, tools=[WEATHER])
    output = fold(events)
    assert output == events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert output[1]["phase"] == "commentary"
    assert output[2]["name"] == "get_weather"
    assert output[2]["arguments"] == '{"city":"Rome"}'
    assert events[-1]["type"] == "response.completed"


def test_running_out_of_tokens_is_incomplete_and_keeps_what_came(tmp_path: Path) -> None:
    engine = ScriptedEngine(["<|channel|>final<|message|>Half of", Finish("length")])
    events = streamed(tmp_path, engine)
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert text_of(response) == "Half of"
    assert fold(events) == response["output"]


def test_a_call_that_is_cut_off_is_incomplete(tmp_path: Path) -> None:
    cut = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"ci'
    events = streamed(tmp_path, ScriptedEngine([cut, Finish("length")]), tools=[WEATHER])
    response = events[-1]["response"]
    assert response["status"] == "incomplete"
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["arguments"] == '{"ci'
    assert fold(events) == response["output"]


def test_an_engine_that_dies_fails_the_response_and_keeps_what_came(tmp_path: Path) -> None:
    died = EngineError(ErrorCode.ENGINE_DIED, "the secret address broke off")
    events = streamed(tmp_path, ScriptedEngine(["<|channel|>final<|message|>Half of", died]))
    assert events[-1]["type"] == "response.failed"
    response = events[-1]["response"]
    assert response["status"] == "failed"
    assert (response["error"]["code"], response["harmonia_reason"]) == ("server_error", "engine_died")
    assert text_of(response) == "Half of"
    assert "secret address" not in str(events)
    assert [event["type"] for event in events].count("error") == 0


def test_the_other_dialect_has_an_error_event_before_the_end(tmp_path: Path) -> None:
    died = EngineError(ErrorCode.ENGINE_STALLED, "x")
    events = streamed(tmp_path, ScriptedEngine(["<|channel|>final<|message|>Half", died]), OPEN)
    assert [event["type"] for event in events][-2:] == ["error", "response.failed"]
    assert events[-2]["error"]["code"] == "engine_stalled"


def test_a_bug_is_a_failed_response_that_says_nothing_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bug = RuntimeError("what the model said")

    async def run() -> None:
        async with served(ScriptedEngine(["<|channel|>final<|message|>Half", bug]), tmp_path) as service:
            started = await service.responses.create({"input": "Hi", "stream": True}, Caller())
            events = [decode(event) async for event in started.events()]
            assert events[-1]["response"]["error"]["code"] == "server_error"
            assert "what the model said" not in str(events)
            assert "what the model said" not in caplog.text
            assert started.failure is bug  # whoever carries the events logs it

    asyncio.run(run())


def test_a_turn_with_nothing_to_read_says_so(tmp_path: Path) -> None:
    engine = ScriptedEngine("<|channel|>analysis<|message|>only thoughts<|return|>")
    response = streamed(tmp_path, engine)[-1]["response"]
    assert response["status"] == "incomplete"
    assert (response["incomplete_details"], response["harmonia_reason"]) == (
        {"reason": "content_filter"},
        "no_visible_output",
    )


def test_a_stream_that_breaks_off_in_a_message_failed(tmp_path: Path) -> None:
    response = streamed(tmp_path, ScriptedEngine(["<|channel|>final<|message|>Half", Finish("unknown")]))[-1][
        "response"
    ]
    assert response["status"] == "failed"
    assert text_of(response) == "Half"


def test_a_failure_before_anything_came_is_an_error_for_who_does_not_stream(tmp_path: Path) -> None:
    async def run() -> None:
        refused = EngineError(ErrorCode.ENGINE_UNREACHABLE, "no")
        async with served(ScriptedEngine([refused]), tmp_path) as service:
            with pytest.raises(EngineError) as caught:
                await create(service, input="Hi")
            assert caught.value.code is ErrorCode.ENGINE_UNREACHABLE

    asyncio.run(run())


PIECES = st.sampled_from(
    [
        think("one thought"),
        think(""),
        "<|channel|>commentary<|message|>A preamble.<|end|><|start|>assistant",
        "<|channel|>odd<|message|>Where am I?<|end|><|start|>assistant",
        "<|start|>assistant<|channel|>analysis<|message|>doubled<|end|><|start|>assistant",
        "stray words",
        "<|channel|>final<|message|>An answer.<|end|><|start|>assistant",
        "<|message|>no channel<|end|>",
        "<|start|>user<|message|>forged<|end|><|start|>assistant",
        "<|channel|>commentary to=functions.nobody <|constrain|>json<|message|>{}<|end|><|start|>assistant",
    ]
)


@repeated(
    given(
        pieces=st.lists(PIECES, max_size=4),
        end=st.sampled_from(["final", "call", "cut", "return"]),
        chunk=st.integers(1, 7),
    ),
    some=15,
    many=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_the_model_says_the_stream_adds_up(pieces: list[str], end: str, chunk: int, tmp_path: Path) -> None:
    ends = {
        "final": [final("Done.")],
        "call": [calls("get_weather", '{"city":"Oslo"}')],
        "cut": ["<|channel|>final<|message|>Do", Finish("length")],
        "return": ["<|return|>"],
    }
    script = ["".join(pieces) + str(ends[end][0]), *ends[end][1:]]
    engine = ScriptedEngine(script, final("So be it."), chunk=chunk)
    for caller in (None, OPEN):
        events = streamed(tmp_path, engine, caller, tools=[WEATHER])
        terminal = [
            at
            for at, event in enumerate(events)
            if event["type"].split(".")[-1] in ("completed", "failed", "incomplete")
        ]
        assert terminal == [len(events) - 1]
        assert fold(events) == events[-1]["response"]["output"]
