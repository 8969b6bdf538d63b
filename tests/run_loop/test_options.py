"""Options that mean nothing are refused before anything runs, in words that help."""

from __future__ import annotations

from typing import Any

import pytest

from harmonia import ErrorCode, InputError
from harmonia.run import Agent, run
from scripted import ScriptedEngine, final


def get_weather(city: str) -> str:
    """The weather in a city."""
    return city


@pytest.mark.parametrize(
    "options",
    [
        {"effort": "huge"},
        {"limits": {"calls": 1}},
        {"sampling": {"temperature": 1}},
        {"tools": get_weather},
        {"tools": "get_weather"},
        {"approve": "ask"},
        {"tool_choice": 5},
        {"tools": [get_weather], "tool_choice": "requird"},
        {"tool_choice": "required"},
        {"resume": True},
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        run(ScriptedEngine(final("Hi.")), "Hello", **options)
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


def test_a_name_is_no_engine() -> None:
    with pytest.raises(InputError) as caught:
        run("demo", "Hello")  # pyright: ignore[reportArgumentType]
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


@pytest.mark.parametrize(
    "choice", [{"type": "function", "function": {"name": "get_weather"}}, {"type": "function", "name": "get_weather"}]
)
def test_openais_form_of_a_tool_choice_is_understood(choice: Any) -> None:
    with Agent("demo", tools=[get_weather]) as agent:
        assert [call.call.name for call in agent.ask("Hello", tool_choice=choice).calls] == ["get_weather"]


def test_an_agent_refuses_tools_that_are_no_list() -> None:
    with pytest.raises(InputError) as caught:
        Agent("demo", tools=get_weather)  # pyright: ignore[reportArgumentType]
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION


def test_an_agent_goes_on_with_what_was_cut_off() -> None:
    from harmonia.run import Sampling

    with Agent("demo", sampling=Sampling(max_tokens=30)) as agent:
        first = agent.ask("Tell me something.")
        assert first.reason == "length"
        texts = [first.text]
        while (answer := agent.resume()).reason == "length":
            texts.append(answer.text)
        assert answer.reason == "answered"
        assert answer.text.startswith(texts[-1])
        assert len(repr(answer)) < 300
