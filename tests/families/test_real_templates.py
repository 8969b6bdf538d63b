"""Our prompts are those that the families' own chat templates give, where both can say the same.

The templates are written anew from what the real ones do: the same turns, marks, filters and conditions, without their
default instructions, dates, images and documents (chat_templates/*.jinja). They are run as transformers runs one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harmonia.families.registry import family_of
from harmonia.families.templates import PromptThinking, chat_template, write_prompt
from harmonia.messages import Conversation, Message, ToolDescription

pytestmark = pytest.mark.engines  # jinja2 comes with transformers
TEMPLATES = Path(__file__).parent / "chat_templates"

WEATHER = ToolDescription(
    "get_weather", "The weather — now.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
SIMPLE = Conversation(
    [
        Message.developer("Be brief."),
        Message.user("Hello!"),
        Message.assistant("Hi."),
        Message.user("Who are you?"),
    ]
)
ASKED = Conversation([Message.developer("Be brief.", functions=[WEATHER]), Message.user("Oslo?")])
CALLED = ASKED.add(
    Message.assistant("I look.", channel="analysis"),
    Message.call("functions.get_weather", '{"city": "Tromsø"}'),
    Message.tool("functions.get_weather", "12 degrees"),
)
LONG = CALLED.add(
    Message.assistant("12 degrees."),
    Message.user("And Bern?"),
    Message.assistant("Two calls.", channel="analysis"),
    Message.assistant("One moment.", channel="commentary"),
    Message.call("functions.get_weather", '{"city": "Bern", "days": [1, 2]}'),
    Message.call("functions.get_weather", '{"city": "Genève"}'),
    Message.tool("functions.get_weather", "9 degrees"),
    Message.tool("functions.get_weather", "11 degrees"),
)


def as_chat(conversation: Conversation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages and tools that a chat template gets."""
    chat: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    for message in conversation:
        if message.role == "developer":
            (content,) = message.contents
            assert not isinstance(content, str)
            chat.append({"role": "system", "content": getattr(content, "instructions", "")})
            for namespace in (content.tools or {}).values():
                for tool in namespace.tools:
                    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                    tools.append({"type": "function", "function": function})
        elif message.role == "assistant":
            if chat[-1]["role"] != "assistant":
                chat.append({"role": "assistant", "content": "", "tool_calls": [], "reasoning_content": ""})
            if message.recipient is not None:
                name = message.recipient.removeprefix("functions.")
                chat[-1]["tool_calls"].append({"function": {"name": name, "arguments": json.loads(message.text)}})
            else:
                chat[-1]["reasoning_content" if message.channel == "analysis" else "content"] += message.text
        else:
            chat.append({"role": str(message.role), "content": message.text})
    return chat, tools


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def run_template(name: str, conversation: Conversation, **variables: Any) -> str:
    """What transformers makes of a chat template: see its apply_chat_template."""
    sandbox = pytest.importorskip("jinja2.sandbox")
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = _as_json
    source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8").rstrip("\n")
    messages, tools = as_chat(conversation)
    return environment.from_string(source).render(messages=messages, tools=tools, **variables)


@pytest.mark.parametrize(
    ("name", "real", "conversation"),
    [
        *(("chatml", "qwen3", talk) for talk in (SIMPLE, ASKED, CALLED, LONG)),
        *(("llama3", "llama3", talk) for talk in (SIMPLE, ASKED, CALLED)),  # it takes one call at a time
        ("gemma", "gemma3", SIMPLE),
        *(("granite", "granite4", talk) for talk in (SIMPLE, ASKED, CALLED, LONG)),
        *(("mistral", "mistral", talk) for talk in (SIMPLE, ASKED, CALLED, LONG)),
    ],
)
def test_the_prompt_is_what_the_familys_own_template_gives(name: str, real: str, conversation: Conversation) -> None:
    template = chat_template(name)
    written = write_prompt(template, family_of(template.native), conversation)
    assert written.text == run_template(real, conversation)


@pytest.mark.parametrize("thinking", ["free", "skipped"])
def test_qwen_is_kept_from_thinking_as_its_template_does_it(thinking: PromptThinking) -> None:
    template = chat_template("chatml")
    written = write_prompt(template, family_of(template.native), SIMPLE, thinking=thinking)
    assert written.text == run_template("qwen3", SIMPLE, enable_thinking=thinking != "skipped")
