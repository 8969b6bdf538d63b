"""What a prompt costs by part: the parts add up, and each is what it says."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given

from harmonia import (
    BROWSER,
    PYTHON,
    Conversation,
    DeveloperContent,
    Message,
    ResponseFormat,
    SystemContent,
    ToolDescription,
    ToolNamespace,
    encode,
    parse,
    render,
)
from harmonia.history import Budget, measure
from harmonia.history.preparation import RenderConversation
from harmonia.messages import Json
from tests.support.repeated import repeated
from tests.support.strategies.chats import call, final, odd_chats, preamble, result, think, user
from tests.support.strategies.conversations import conversations

RENDERERS: dict[str, RenderConversation] = {
    "as it is": render,
    "history": partial(render, next_role=None),
    "recipients behind the channel": partial(render, recipient_section="channel"),
    "calls with end": partial(render, call_stop="end"),
    "exact": partial(render, exact_reference=True),
    "training": partial(render, training=True),
}


@repeated(given(chat=conversations), some=15, many=60)
@pytest.mark.parametrize("name", RENDERERS)
def test_the_parts_add_up_to_the_prompt(name: str, chat: Conversation) -> None:
    rendered = RENDERERS[name](chat)
    budget = measure(chat, render=RENDERERS[name])
    assert budget.total == sum(budget.parts.values()) == len(rendered.tokens)
    assert budget.tools == sum(budget.by_tool.values())
    assert all(count >= 0 for count in (*budget.parts.values(), *budget.by_tool.values()))
    spans = rendered.spans
    assert budget.by_message == tuple(span.end_token - span.start_token for span in spans)
    assert budget.structure == len(rendered.tokens) - sum(span.stop_token - span.body_token for span in spans)


@given(odd_chats)
def test_turns_add_up_too(chat: Conversation) -> None:
    assert measure(chat).total == len(render(chat).tokens)


def only(message: Message) -> dict[str, int]:
    """The parts of a message alone, but for the structure."""
    return {name: count for name, count in measure([message]).parts.items() if count and name != "structure"}


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (Message.system("Words enough."), "system"),
        (Message.system(), "system"),
        (Message.developer("Words enough."), "instructions"),
        (Message.developer(response_formats=[ResponseFormat("list", {})]), "instructions"),
        (user("Words enough."), "user"),
        (think("Words enough."), "reasoning"),
        (Message.assistant("Words enough.", channel="Analysis"), "reasoning"),
        (call(arguments="Words enough."), "calls"),
        (Message.call("python", "1 + 1", channel="analysis"), "calls"),
        (result(text="Words enough."), "results"),
        (Message.tool("python", "Words enough.", channel="analysis"), "results"),
        (final("Words enough."), "finals"),
        (preamble("Words enough."), "preambles"),
        (Message.assistant("Words enough.", channel=None), "other"),
        (Message.assistant("Words enough.", channel="thoughts"), "other"),
    ],
)
def test_a_body_counts_to_its_part(message: Message, part: str) -> None:
    (span,) = render([message]).spans
    assert only(message) == {part: span.stop_token - span.body_token}


CITY: Json = {"type": "object", "properties": {"city": {"type": "string", "description": "Where?"}}}
TOOLS = [ToolDescription("get_weather", "The weather.", CITY), ToolDescription("now", "What time it is.")]


def test_tools_are_counted_one_by_one() -> None:
    budget = measure([Message.developer("Be kind.", functions=TOOLS)])
    weather = "// The weather.\ntype get_weather = (_: {\n// Where?\ncity?: string,\n}) => any;"
    now = "// What time it is.\ntype now = () => any;"
    assert set(budget.by_tool) == {"functions", "functions.get_weather", "functions.now"}
    # Where two texts meet, a token may cover a little of both.
    assert abs(budget.by_tool["functions.get_weather"] - len(encode(weather))) <= 1
    assert abs(budget.by_tool["functions.now"] - len(encode(now))) <= 1
    without = measure([Message.developer("Be kind.")])
    assert abs(budget.instructions - without.instructions) <= 1


def test_built_in_tools_are_counted_in_the_system_message() -> None:
    budget = measure([Message.system(SystemContent().with_tools(BROWSER, PYTHON))])
    assert set(budget.by_tool) == {"browser", "browser.search", "browser.open", "browser.find", "python"}
    assert abs(budget.system - measure([Message.system()]).system) <= 2


def test_a_further_tool_costs_what_its_entry_says() -> None:
    one = measure([Message.developer("Be kind.", functions=TOOLS[:1])])
    both = measure([Message.developer("Be kind.", functions=TOOLS)])
    assert abs((both.total - one.total) - both.by_tool["functions.now"]) <= 2
    assert both.by_tool["functions.get_weather"] == one.by_tool["functions.get_weather"]


@pytest.mark.parametrize(
    "content",
    [
        DeveloperContent().with_functions(*TOOLS),
        DeveloperContent("").with_functions(*TOOLS),
        DeveloperContent("# Tools\n\n## functions").with_functions(*TOOLS),
        DeveloperContent("Be kind.").with_functions(*TOOLS).with_response_formats(ResponseFormat("list", {})),
        DeveloperContent("x").with_tools(ToolNamespace("a", "type now = () => any;", tuple(TOOLS)), ToolNamespace("b")),
        # What is written outside may look like a tool.
        DeveloperContent("x").with_functions(ToolDescription("f", "=> any;\ntype now = () => any;"), TOOLS[1]),
    ],
)
def test_tools_are_found_whatever_stands_around_them(content: DeveloperContent) -> None:
    message = Message("developer", content)
    budget = measure([message])
    alone = measure([Message.developer(functions=TOOLS[1:])]).by_tool["functions.now"]
    counts = [count for name, count in budget.by_tool.items() if name.endswith(".now")]
    assert counts == [alone]
    assert budget.total == len(render([message]).tokens)


def test_a_tool_whose_helper_type_is_renamed_is_counted_nearly_right() -> None:
    tree: Json = {"type": "object", "$defs": {"Node": {"type": "object", "properties": {}}}}
    tree["$defs"]["Node"]["properties"]["next"] = {"$ref": "#/$defs/Node"}
    tree["properties"] = {"root": {"$ref": "#/$defs/Node"}}
    walk = ToolDescription("walk", "Walks.", tree)
    clash = ToolDescription("walk_Node", "Another.")
    alone = measure([Message.developer(functions=[walk])]).by_tool["functions.walk"]
    for functions in ([clash, walk], [walk, clash]):
        budget = measure([Message.developer(functions=functions)])
        assert "walk_Node_2" in render([Message.developer(functions=functions)]).text
        assert abs(budget.by_tool["functions.walk"] - alone) < 12
        assert abs(budget.by_tool["functions.walk_Node"] - len(encode("// Another.\ntype walk_Node = () => any;"))) <= 1


def test_sampled_messages_cost_what_was_sampled() -> None:
    # The header is written otherwise than the renderer would.
    parsed = parse(render([call()], next_role=None, recipient_section="channel").tokens[2:], "assistant")
    assert measure(parsed).total == len(render(parsed).tokens)
    # Whatever a store says a message with tools was sampled as.
    sampled = parsed.messages[0].sampled
    assert sampled is not None
    message = Message.developer("Be kind.", functions=TOOLS).with_origin(None, sampled)
    budget = measure([message])
    assert (budget.total, budget.tools) == (len(render([message]).tokens), 0)


def test_an_empty_prompt_is_all_structure() -> None:
    assert measure([]).parts == {**dict.fromkeys(Budget().parts, 0), "structure": 2}
    assert measure([], render=RENDERERS["history"]).total == 0
