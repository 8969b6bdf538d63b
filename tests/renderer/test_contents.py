"""What system and developer messages say, word for word."""

from __future__ import annotations

import pytest

from harmonia import (
    BROWSER,
    PYTHON,
    ChannelConfig,
    DeveloperContent,
    ErrorCode,
    InputError,
    Message,
    ReasoningEffort,
    ResponseFormat,
    SystemContent,
    ToolDescription,
    ToolNamespace,
    render,
)
from harmonia.renderer.segments import content_said

SHOPPING_LIST = {
    "properties": {"items": {"type": "array", "description": "entries on the list", "items": {"type": "string"}}},
    "type": "object",
}


def system_text(content: SystemContent, *, has_functions: bool) -> str:
    return content_said(content, has_functions=has_functions).text


def developer_text(content: DeveloperContent) -> str:
    return content_said(content).text


def test_a_system_message_with_everything() -> None:
    content = SystemContent(conversation_start_date="2025-06-28", reasoning_effort=ReasoningEffort.HIGH)
    assert system_text(content, has_functions=True) == (
        "You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\n"
        "Current date: 2025-06-28\n"
        "\n"
        "Reasoning: high\n"
        "\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n"
        "Calls to these tools must go to the commentary channel: 'functions'."
    )


def test_every_part_of_a_system_message_can_be_left_out() -> None:
    nothing = SystemContent(None, None, None, None, None)
    assert system_text(nothing, has_functions=True) == ""
    assert system_text(nothing.replace(reasoning_effort=ReasoningEffort.LOW), has_functions=False) == "Reasoning: low"
    channels = ChannelConfig(("final",), channel_required=False)
    assert system_text(nothing.replace(channel_config=channels), has_functions=False) == "# Valid channels: final."


def test_builtin_tools_are_declared_in_the_order_of_their_names() -> None:
    text = system_text(SystemContent().with_tools(PYTHON, BROWSER), has_functions=False)
    assert text.index("## browser\n\n// Tool for browsing.") < text.index("## python\n\nUse this tool")
    assert "namespace browser {" in text and "namespace python" not in text


def test_a_developer_message_with_everything() -> None:
    content = (
        DeveloperContent("You are a helpful shopping assistant")
        .with_functions(ToolDescription("get_prices", "Gets today's prices."))
        .with_tools(ToolNamespace("notes", "Notes of the shop.\nOld ones, too."))
        .with_response_formats(ResponseFormat("shopping_list", SHOPPING_LIST, "What to buy.\nIn order."))
    )
    assert developer_text(content) == (
        "# Instructions\n"
        "\n"
        "You are a helpful shopping assistant\n"
        "\n"
        "# Tools\n"
        "\n"
        "## functions\n"
        "\n"
        "namespace functions {\n"
        "\n"
        "// Gets today's prices.\n"
        "type get_prices = () => any;\n"
        "\n"
        "} // namespace functions\n"
        "\n"
        "## notes\n"
        "\n"
        "Notes of the shop.\n"
        "Old ones, too.\n"
        "\n"
        "# Response Formats\n"
        "\n"
        "## shopping_list\n"
        "\n"
        "// What to buy.\n"
        "// In order.\n"
        '{"properties":{"items":{"type":"array","description":"entries on the list","items":{"type":"string"}}},'
        '"type":"object"}'
    )


def test_several_response_formats_stand_under_one_heading() -> None:
    content = DeveloperContent().with_response_formats(ResponseFormat("a", {}), ResponseFormat("b", True, ""))
    assert developer_text(content) == "# Response Formats\n\n## a\n\n{}\n\n## b\n\ntrue"


def test_a_response_format_is_written_as_it_was_given() -> None:
    schema = {"const": 10**40, "title": "Größe"}
    assert developer_text(DeveloperContent().with_response_formats(ResponseFormat("a", schema))).endswith(
        f'{{"const":{10**40},"title":"Größe"}}'
    )


def test_an_empty_developer_message_says_nothing() -> None:
    assert developer_text(DeveloperContent()) == ""
    assert developer_text(DeveloperContent("")) == "# Instructions\n\n"


def test_a_response_format_that_is_no_json_is_refused_with_its_message() -> None:
    message = Message.developer(response_formats=[ResponseFormat("a", {"const": object()})])
    with pytest.raises(InputError) as caught:
        render([Message.user("x"), message])
    assert caught.value.code is ErrorCode.SCHEMA_INVALID
    assert caught.value.at.message == 1
