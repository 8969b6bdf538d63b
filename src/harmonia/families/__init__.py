"""Model families other than gpt-oss: their prompts, and their answers as the same events, messages and parts."""

from harmonia.families.code_mode import code_functions, code_mode_tool
from harmonia.families.profiles import (
    ModelProfile,
    Thinking,
    answer_reader,
    parse_answer,
    profile_named,
    profile_of,
    prompt_for,
    read_profiles,
    resolve_profile,
)
from harmonia.families.prompt_builder import ModelInput, PromptOptions, build_prompt, tool_system_prompt
from harmonia.families.reader import read_answer
from harmonia.families.registry import Family, Reader, ReadingLimits, ReadingOptions, ToolFormat, family_of
from harmonia.families.templates import PromptText

__all__ = [
    "Family",
    "ModelInput",
    "ModelProfile",
    "PromptOptions",
    "PromptText",
    "Reader",
    "ReadingLimits",
    "ReadingOptions",
    "Thinking",
    "ToolFormat",
    "answer_reader",
    "build_prompt",
    "code_functions",
    "code_mode_tool",
    "family_of",
    "parse_answer",
    "profile_named",
    "profile_of",
    "prompt_for",
    "read_answer",
    "read_profiles",
    "resolve_profile",
    "tool_system_prompt",
]
