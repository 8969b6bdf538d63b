"""The whole loop on real engines: render, sample, parse, call, and an answer."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia.messages import Conversation, Role
from harmonia.parts import visible_text
from harmonia.run.engines.base import Engine, Sampling
from harmonia.run.events import CallEnded, SamplingEnded, SamplingStarted, TurnEvent
from harmonia.run.loop import Run, run
from tests.run.engines.real.lessons import (
    GREETING,
    GREETING_ANSWER,
    WEATHER_ANSWER,
    WEATHER_QUESTION,
    begin,
    find_lessons,
    get_weather,
)
from tests.run.engines.real.real_engines import run_watched

pytestmark = pytest.mark.engines

GREEDY = Sampling(max_tokens=100, temperature=0.0)


def events_of(running: Run) -> list[TurnEvent]:
    async def collect() -> list[TurnEvent]:
        return [event async for event in running]

    return run_watched(collect())


def test_a_real_model_calls_a_tool_and_answers(taught_engine: Engine) -> None:
    asked: list[str] = []

    def get_weather(city: str) -> dict[str, object]:
        """The weather in a city, now."""
        asked.append(city)
        return {"city": city, "celsius": 21, "sky": "clear"}

    running = run(taught_engine, begin(WEATHER_QUESTION), tools=[get_weather], sampling=GREEDY)
    events = events_of(running)
    assert asked == ["Rome"]
    assert running.ended is not None and running.ended.reason == "answered"
    assert visible_text(running.conversation) == WEATHER_ANSWER
    assert [message.author.role for message in list(running.conversation)[-4:]] == [
        Role.ASSISTANT,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    assert [message.channel for message in list(running.conversation)[-4:]] == [
        "analysis",
        "commentary",
        "commentary",
        "final",
    ]
    (ended,) = (event for event in events if isinstance(event, CallEnded))
    assert not ended.result.is_error


def test_the_second_prompt_of_a_run_hits_the_engines_cache(taught_engine: Engine) -> None:
    events = events_of(run(taught_engine, begin(WEATHER_QUESTION), tools=[get_weather], sampling=GREEDY))
    first, second = (event.usage for event in events if isinstance(event, SamplingEnded))
    _, start = (event for event in events if isinstance(event, SamplingStarted))
    # Everything that the engine read and said is the beginning of the second prompt; only the stop token was not read.
    assert second.cached_tokens == first.prompt_tokens + first.completion_tokens - 1
    assert start.prompt_tokens == second.prompt_tokens


def test_a_real_model_answers_without_tools(taught_engine: Engine) -> None:
    running = run(taught_engine, begin(GREETING), sampling=GREEDY)
    events_of(running)
    assert running.ended is not None and running.ended.reason == "answered"
    assert visible_text(running.conversation) == GREETING_ANSWER


def test_both_engines_come_to_the_same_conversation(taught_model: Any, taught_llama: Any) -> None:
    from harmonia.run.engines.llama_cpp import LlamaCppEngine
    from harmonia.run.engines.transformers import TransformersEngine

    def talk(engine: Engine) -> Conversation:
        running = run(engine, begin(WEATHER_QUESTION), tools=[get_weather], sampling=GREEDY)
        events_of(running)
        return running.conversation

    assert talk(TransformersEngine(taught_model)) == talk(LlamaCppEngine(taught_llama.url))


def test_a_random_model_is_no_reason_to_crash(random_engine: Engine) -> None:
    running = run(
        random_engine,
        begin(WEATHER_QUESTION),
        tools=[get_weather],
        sampling=Sampling(max_tokens=60, temperature=1.0, seed=5),
    )
    events = events_of(running)
    assert running.ended is not None and running.ended.reason in ("length", "silent")
    (ended,) = (event for event in events if isinstance(event, SamplingEnded))
    assert ended.usage.completion_tokens <= 60
    assert len(find_lessons()) == 5
