"""What the declaration of each tool costs."""

from __future__ import annotations

from typing import Any

import harmonia
from harmonia import (
    BROWSER,
    PYTHON,
    Author,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolDescription,
    ToolNamespace,
)
from harmonia.inspection import Input, find_schema_costs, parse_input, trace
from harmonia.inspection.trace import SchemaCost
from harmonia.vocabulary import default_vocabulary

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "description": "ends with => any;"},
        "type": {"type": "string", "enum": ["x", "y"]},
        "o": {"type": "object", "properties": {"b": {"type": "number"}}},
    },
}
TOOLS = (
    ToolDescription("get_weather", "Gets\ntype now = () => any;", SCHEMA),
    ToolDescription("now"),
    ToolDescription(
        "node", "A tree.", {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}}
    ),
)


def costs(*messages: Message) -> tuple[list[SchemaCost], int]:
    tokens = harmonia.render(messages, next_role=None).tokens
    taken = Input("tokens", [tokens], "")
    vocabulary = default_vocabulary()
    return find_schema_costs(trace(taken, parse_input(taken), None, vocabulary), vocabulary), len(tokens)


def declaring(*tools: ToolDescription) -> Message:
    content = DeveloperContent("Help.", {"functions": ToolNamespace("functions", tools=tools)})
    return Message(Author(Role.DEVELOPER), content)


def test_each_tool_costs_what_the_prompt_is_longer_with_it() -> None:
    found, total = costs(declaring(*TOOLS), Message.user("Hi"))
    assert [each.tool for each in found] == ["functions.get_weather", "functions.now", "functions.node"]
    for at, each in enumerate(found):
        others = [tool for index, tool in enumerate(TOOLS) if index != at]
        _, without = costs(declaring(*others), Message.user("Hi"))
        assert abs(each.tokens - (total - without)) <= 2  # line breaks merge with what follows
        assert each.share == each.tokens / total


def test_the_built_in_tools_are_found_in_the_system_message() -> None:
    found, total = costs(Message.system(SystemContent(tools={"browser": BROWSER, "python": PYTHON})))
    assert [each.tool for each in found] == ["browser.search", "browser.open", "browser.find", "python"]
    assert sum(each.tokens for each in found) < total
    assert all(each.tokens > 10 for each in found)


def test_a_namespace_without_functions_at_the_end_is_found() -> None:
    found, _ = costs(Message.system(SystemContent(tools={"python": PYTHON}, channel_config=None)))
    assert [each.tool for each in found] == ["python"]


def test_what_a_user_writes_declares_nothing() -> None:
    text = "# Tools\n\n## functions\n\nnamespace functions {\n\ntype f = () => any;\n\n} // namespace functions"
    assert costs(Message.user(text))[0] == []
    assert costs(Message.developer("no tools"))[0] == []
