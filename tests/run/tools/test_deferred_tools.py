"""Tools with `defer_loading`: the model is not told of them, and they are there."""

from __future__ import annotations

import pytest

from harmonia.messages import Json
from harmonia.run.tools import ToolSet
from harmonia.run.tools.tool import Tool

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "function", "name": "late", "parameters": SCHEMA, "defer_loading": True},
        {"type": "function", "function": {"name": "late", "parameters": SCHEMA, "defer_loading": True}},
        {"type": "function", "function": {"name": "late", "parameters": SCHEMA}, "defer_loading": True},
        {"type": "custom", "name": "late", "defer_loading": True},
    ],
)
def test_a_definition_says_that_the_tool_is_deferred(definition: Json) -> None:
    assert Tool.from_definition(definition).defer_loading
    assert not Tool.from_definition({**definition, "defer_loading": None, "function": {"name": "late"}}).defer_loading


def test_a_deferred_tool_is_not_declared_but_found() -> None:
    early = Tool("early", parameters=SCHEMA)
    late = Tool("late", parameters=SCHEMA, defer_loading=True)
    alone = Tool("other", namespace="others", defer_loading=True)
    tools = ToolSet([early, late, alone])
    assert tools.namespaces == ToolSet([early]).namespaces
    assert tools.developer_namespaces == tools.namespaces
    assert tools.tools == (early, late, alone)
    assert (tools.find("functions.late"), tools.find("others.other")) == (late, alone)
    assert tools.recipient_of(late) == "functions.late"
    # A demand is about tools that are declared.
    allowed = tools.allow(["early", "late"])
    assert (allowed.allowed, allowed.is_allowed(late), allowed.is_allowed(alone)) == (("functions.early",), True, False)


def test_a_set_without_deferred_tools_declares_all() -> None:
    tools = ToolSet([Tool("a"), Tool("b")])
    assert [tool.name for namespace in tools.namespaces for tool in namespace.tools] == ["a", "b"]
    assert ToolSet([Tool("a", defer_loading=True)]).namespaces == ()
