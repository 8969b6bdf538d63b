"""Model families other than gpt-oss: their prompts, and their answers as the same events, messages and parts."""

from harmonia.families.code_mode import code_functions, code_mode_tool
from harmonia.families.profiles import (
    ModelProfile,
    Thinking,
    answer_reader,
    parse_answer,
    profile_of,
    prompt_for,
    read_profiles,
    resolve_profile,
)
from harmonia.families.prompt_builder import PromptOptions, build_prompt, tool_system_prompt
from harmonia.families.registry import ToolFormat, family_of

__all__ = [
    "ModelProfile",
    "PromptOptions",
    "Thinking",
    "ToolFormat",
    "answer_reader",
    "build_prompt",
    "code_functions",
    "code_mode_tool",
    "family_of",
    "parse_answer",
    "profile_of",
    "prompt_for",
    "read_profiles",
    "resolve_profile",
    "tool_system_prompt",
]
