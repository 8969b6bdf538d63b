"""What tools cost: the difference that they make to a prompt."""

from __future__ import annotations

from typing import Any

from harmonia import BROWSER, PYTHON, DeveloperContent, Message, SystemContent, render
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.costs import cost_of

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}


def prompt_tokens(tools: ToolSet) -> int:
    messages = [Message.system(SystemContent().with_tools(*tools.system_namespaces))]
    if tools.developer_namespaces:
        messages.append(Message("developer", DeveloperContent().with_tools(*tools.developer_namespaces)))
    return len(render(messages).tokens)


def test_the_cost_of_a_tool_is_what_the_prompt_loses_without_it() -> None:
    given = [
        Tool("get weather", "The weather.", CITY),
        Tool("ping"),
        Tool("on", namespace="home"),
        *Tool.from_namespace(BROWSER),
        *Tool.from_namespace(PYTHON),
    ]
    whole = prompt_tokens(ToolSet(given))
    cost = cost_of(ToolSet(given))
    assert cost.tokens == whole - prompt_tokens(ToolSet([]))
    for index, tool in enumerate(cost.tools):
        if tool.name != "on":
            assert tool.tokens == whole - prompt_tokens(ToolSet([*given[:index], *given[index + 1 :]])), tool.name
    off = Tool("off", namespace="home")
    without = [tool for tool in given if tool.name != "on"]
    assert cost.tools[2].tokens == prompt_tokens(ToolSet([*given, off])) - prompt_tokens(ToolSet([*without, off]))
    assert cost.heading_tokens == cost.tokens - sum(tool.tokens for tool in cost.tools)
    assert [tool.recipient for tool in cost.tools if tool.is_renamed] == ["functions.get_weather"]
    assert [(each.name, each.role) for each in cost.namespaces] == [
        ("functions", "developer"),
        ("home", "developer"),
        ("browser", "system"),
        ("python", "system"),
    ]


def test_a_tool_costs_the_same_alone_and_beside_others() -> None:
    weather, ping = Tool("weather", "The weather.", CITY), Tool("ping", "Is it there?")
    both = cost_of(ToolSet([weather, ping]))
    for tool, expected in zip((weather, ping), both.tools, strict=True):
        alone = cost_of(ToolSet([tool]))
        assert alone.tools == (expected,)
        assert alone.heading_tokens == both.heading_tokens > 0
        assert alone.tokens == prompt_tokens(ToolSet([tool])) - prompt_tokens(ToolSet([]))


def test_what_a_schema_loses_is_told_of_its_tool() -> None:
    lossy = {**CITY, "if": {"required": ["city"]}}
    cost = cost_of(ToolSet([Tool("a", parameters=CITY), Tool("b", parameters=lossy)]))
    assert [[(loss.path, loss.keyword) for loss in tool.losses] for tool in cost.tools] == [
        [],
        [("$.parameters", "if")],
    ]


def test_no_tools_cost_nothing() -> None:
    cost = cost_of(ToolSet([]))
    assert (cost.tokens, cost.heading_tokens, cost.tools) == (0, 0, ())
