"""Prompts that describe tools in words, which an application may use instead of a chat template's own way.

    opening words
    ## Factual Grounding       facts come from tools
    ## Available Tools         each with its description and its parameters
    ## Tool Calling Format     the family's way to call; never for Harmony

gpt-oss was trained to call tools in Harmony, without instructions. Instructions for another format make it mix the two
and write unreadable calls, so the prompt for Harmony has none, and a test proves it.

Served prompts do not come from here: Harmony declares tools in TypeScript (harmonia.renderer), the other families as
their chat templates do (`Family.tool_part`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from harmonia.families.code_mode import code_mode_tool
from harmonia.families.profiles import ModelProfile, profile_of
from harmonia.families.registry import ToolFormat, family_of, variant_of
from harmonia.families.tool_descriptions import JSON_WORDS, Parameter, ToolLike, described_tools, parameters_of
from harmonia.messages import Conversation, Message, Role, ToolDescription

OPENING: Final = "You are a helpful assistant with tool-calling capabilities."
GROUNDING: Final = (
    "**CRITICAL**: Never make up, infer, or guess data values. All factual information MUST come from executing tools. "
    "If you need data, call the appropriate tool first."
)


class PromptOptions(msgspec.Struct, frozen=True):
    """What the prompt says.

    `opening` is its first sentence. `deferred` are names of tools that the prompt omits, besides those whose definition
    has `defer_loading`. With `code_mode` there is one tool, `python`, and the others are functions in it.
    """

    opening: str = OPENING
    grounding: bool = True
    code_mode: bool = False
    deferred: Collection[str] = frozenset()


DEFAULT_PROMPT: Final = PromptOptions()


class ModelInput(msgspec.Struct, frozen=True):
    """The messages to send to a model."""

    messages: tuple[Message, ...]


def build_prompt(
    model: ModelProfile | ToolFormat | str,
    history: Iterable[Message] | str,
    tools: Iterable[ToolLike] = (),
    options: PromptOptions = DEFAULT_PROMPT,
) -> ModelInput:
    """The history, or a question of the user, after the prompt as a developer message.

    System messages at the beginning of the history stay in front: they outrank it, as in Harmony. They are for a
    server that has the chat template. `prompt_for` writes text, with `tool_system_prompt` as its `tools_part`.
    """
    messages = Conversation([Message.user(history)] if isinstance(history, str) else history).messages
    prompt = Message.developer(tool_system_prompt(model, tools, options))
    first = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    return ModelInput((*messages[:first], prompt, *messages[first:]))


def tool_system_prompt(
    model: ModelProfile | ToolFormat | str, tools: Iterable[ToolLike] = (), options: PromptOptions = DEFAULT_PROMPT
) -> str:
    """The text of the prompt, for a profile, a tool format or a model's name. With a profile, calls are those of the
    model's own variant."""
    model = ToolFormat(model) if model in tuple(ToolFormat) else profile_of(model)
    tool_format = model.format if isinstance(model, ModelProfile) else model
    described = described_tools(tools, options.deferred)
    if options.code_mode and described:
        described = (code_mode_tool(described),)
    parts = [options.opening] if options.opening else []
    # Without a tool there is no source of facts, and nothing to call.
    if options.grounding and described:
        parts.append(f"## Factual Grounding\n\n{GROUNDING}")
    if described:
        parts.append("## Available Tools\n\n" + "\n\n".join(describe_tool(tool) for tool in described))
    if described and tool_format is not ToolFormat.HARMONY:
        family = family_of(tool_format)
        writer = variant_of(family, model.template) if isinstance(model, ModelProfile) else family
        parts.append(f"## Tool Calling Format\n\n{writer.call_format(described)}")
    return "\n\n".join(parts)


def describe_tool(tool: ToolDescription) -> str:
    """One tool: its name, its description, and a line for each parameter and each member of one."""
    takes = parameters_of(tool.parameters, JSON_WORDS)
    lines = [f"### {tool.name}"]
    if tool.description:
        lines += ["", tool.description.strip()]
    if takes.whole is not None:
        lines += ["", f"Argument: {takes.whole}"]
    elif takes.named or takes.others is not None:
        lines += ["", "Parameters:", *(line for each in takes.named for line in _parameter_lines(each, ""))]
        if takes.others is not None:
            lines.append(f"- any other name ({takes.others}, optional)")
    else:
        lines += ["", "Parameters: none"]
    return "\n".join(lines)


def _parameter_lines(parameter: Parameter, indent: str) -> Iterator[str]:
    words = [parameter.type, "required" if parameter.is_required else "optional"]
    if parameter.has_default:
        words.append(f"default {json.dumps(parameter.default, ensure_ascii=False, default=str)}")
    said = f": {parameter.description}" if parameter.description else ""
    yield f"{indent}- `{parameter.name}` ({', '.join(words)}){said}"
    for member in parameter.members:
        yield from _parameter_lines(member, f"{indent}  ")
