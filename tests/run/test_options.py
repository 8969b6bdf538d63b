"""Options that mean nothing are refused before anything runs, in words that help."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harmonia import ErrorCode, InputError
from harmonia.grammar import Demand, TextForm
from harmonia.messages import ResponseFormat, Role, ToolDescription
from harmonia.run import Agent, RunChanges, RunLimits, RunOptions, Tool, run
from tests.support.engines.scripted import ScriptedEngine, calls, final


def get_weather(city: str) -> str:
    """The weather in a city."""
    return city


def test_the_options_of_a_run_are_one_value_and_the_same_names_as_keywords() -> None:
    assert list(RunChanges.__annotations__) == list(RunOptions.__struct_fields__)
    options = RunOptions(limits=RunLimits(calls=1))
    engine = ScriptedEngine(final("Sunny."))
    ended = asyncio.run(run(engine, "Hi", options, tools=[get_weather], tool_choice="none").result())
    assert ended.reason == "answered"
    assert engine.requests[0].tool_choice == "none"
    assert [tool.name for tool in engine.requests[0].tools] == ["functions.get_weather"]


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
        {"response_format": {"type": "object", "properties": {}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"response_format": "json"},
        {"response_format": {"name": "x", "schema": {}, "x": 1}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}, "x": 1}},
        {"response_format": {"type": "json_object", "x": 1}},
        {"response_format": {"name": "x", "schema": {"$ref": "#/$defs/nowhere"}}},
        {"tools": [get_weather], "tool_choice": {"type": "func", "name": "get_weather"}},
        {"tools": [get_weather], "tool_choice": {"type": "allowed_tools", "tools": [{"type": "f", "name": "x"}]}},
        {"tools": [get_weather], "tool_choice": {"type": "allowed_tools", "tools": ["get_weather"], "mode": "never"}},
        {"tools": [get_weather], "tool_choice": {"type": "allowed_tools"}},
        {"tools": [get_weather], "tool_choice": {"type": "allowed_tools", "tools": [], "mode": "required"}},
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


def get_time(zone: str) -> str:
    """The time in a zone."""
    return zone


ONE = [{"type": "function", "name": "get_time"}]


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "allowed_tools", "mode": "required", "tools": ONE},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": ONE}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "function": ONE[0]}]},
    ],
)
def test_only_allowed_tools_are_called(choice: Any) -> None:
    # Where only one tool may be called, the second attempt begins behind its header.
    engine = ScriptedEngine(calls("get_weather", '{"city":"Rome"}'), '{"zone":"CET"}<|call|>', final("Done."))
    ended = asyncio.run(run(engine, "Hello", tools=[get_weather, get_time], tool_choice=choice).result())
    assert ended.reason == "answered"
    assert [message.text for message in ended.conversation if message.role is Role.TOOL] == ["CET"]


def test_the_demo_engine_calls_only_what_is_allowed() -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": ONE}
    with Agent("demo", tools=[get_weather, get_time], tool_choice=choice) as agent:
        answer = agent.ask("Use get_weather for Rome.")
        assert [call.call.name for call in answer.calls] == ["get_time"]
        assert answer.reason == "answered"


SCHEMA = {"type": "array", "items": {"type": "integer"}, "maxItems": 1}


@pytest.mark.parametrize(
    "given",
    [
        ResponseFormat("numbers", SCHEMA),
        {"name": "numbers", "schema": SCHEMA},
        {"type": "json_schema", "name": "numbers", "schema": SCHEMA, "strict": True},
        {"type": "json_schema", "json_schema": {"name": "numbers", "schema": SCHEMA}},
    ],
)
def test_a_response_format_is_taken_as_openai_writes_it(given: Any) -> None:
    made = run(ScriptedEngine(final("[1]")), "Hello", response_format=given)
    assert made.response_format == ResponseFormat("numbers", SCHEMA)
    assert run(ScriptedEngine(final("Hi.")), "Hello", response_format={"type": "text"}).response_format is None


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, "$.type"),
        ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, '$.properties.a["$ref"]'),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "$"),
        (False, "$"),
    ],
)
def test_a_schema_to_which_nothing_can_be_held_is_refused_at_the_start(schema: Any, path: str) -> None:
    engine = ScriptedEngine(final("Hi."))
    with pytest.raises(InputError) as caught:
        run(engine, "Hello", response_format={"name": "x", "schema": schema})
    assert (caught.value.code, caught.value.at.path) == (ErrorCode.RUN_INVALID_OPTION, path)
    with pytest.raises(InputError) as caught:
        run(engine, "Hello", tools=[Tool("x", parameters=schema, strict=True)])
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    assert caught.value.at.path == f"$.parameters{path.removeprefix('$')}"
    assert engine.prompts == []


def test_an_agent_has_demands_of_its_own_and_those_of_a_question() -> None:
    with Agent("demo", tools=[get_weather], tool_choice="get_weather") as agent:
        assert [call.call.name for call in agent.ask("Hello").calls] == ["get_weather"]
        answer = agent.ask("Hello", tool_choice="none", response_format={"name": "numbers", "schema": SCHEMA})
        assert isinstance(json.loads(answer.text), list)
        assert answer.calls == ()


def test_a_tool_gets_the_text_that_was_checked() -> None:
    given: list[str] = []
    tool = Tool("count", invoke=given.append, takes="text", text_form=TextForm("regex", "[0-9]+"))
    call = '<|channel|>commentary to=functions.count<|message|>{"input": "12"}<|call|>'
    asyncio.run(run(ScriptedEngine(call, final("Done.")), "Hello", tools=[tool]).result())
    assert given == ["12"]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": (ToolDescription("x", "", None),)},
        {"tool_choice": {"type": "function", "name": "x"}},
        {"response_format": {"type": "json_object"}},
        {"allowed": "functions.x"},
    ],
)
def test_a_demand_says_what_it_is_made_of(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Demand(**fields)
    assert caught.value.code is ErrorCode.GRAMMAR_INVALID_OPTION
    assert next(iter(fields)) in caught.value.message


def test_an_agent_refuses_tools_that_are_no_list() -> None:
    with pytest.raises(InputError) as caught:
        Agent("demo", tools=get_weather)  # pyright: ignore[reportArgumentType]
    assert caught.value.code is ErrorCode.RUN_INVALID_OPTION


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


@pytest.mark.parametrize(
    "options",
    [
        {"takes": "text", "text_form": TextForm("regex", "[")},
        {"takes": "text", "text_form": TextForm("lark", "start: foo")},
        {"takes": "text", "text_form": TextForm("larc", "start: /a/")},  # pyright: ignore[reportArgumentType]
        {"takes": "text", "text_form": TextForm("regex", 5)},  # pyright: ignore[reportArgumentType]
        {"takes": "text", "text_form": "[0-9]+"},
        {"text_form": TextForm("regex", "[0-9]+")},
        {"text_form": TextForm("regex", "[0-9]+"), "parameters": {"type": "object"}},
    ],
)
def test_a_form_that_cannot_be_held_to_is_refused_before_anything_runs(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        run(ScriptedEngine(final("Hi.")), "Hello", tools=[Tool("count", "Counts.", invoke=str, **options)])
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    assert caught.value.at.path == "$.text_form"


def test_a_strict_tool_whose_reference_leads_nowhere_is_refused() -> None:
    lost = {"type": "object", "properties": {"id": {"$ref": "#/$defs/city"}}}
    with pytest.raises(InputError) as caught:
        run(ScriptedEngine(final("Hi.")), "Hello", tools=[Tool("count", "Counts.", lost, str, strict=True)])
    assert caught.value.code is ErrorCode.TOOL_INVALID_DEFINITION
    assert caught.value.at.path == '$.parameters.properties.id["$ref"]'
    found = {**lost, "$defs": {"city": {"type": "string"}}}
    run(ScriptedEngine(final("Hi.")), "Hello", tools=[Tool("count", "Counts.", found, str, strict=True)])
