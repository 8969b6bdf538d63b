"""The families by the names of their formats. A family is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Final, cast

from harmonia.errors import ErrorCode, InputError
from harmonia.families.family import Family, ReadingOptions
from harmonia.families.profiles import ModelProfile
from harmonia.families.tool_format import ToolFormat
from harmonia.messages import ToolDescription
from harmonia.parser.tools import UNDECLARED, Tools

# Harmony is none of them: it has a renderer and a parser of its own.
FAMILY_FORMATS: Final = tuple(each for each in ToolFormat if each is not ToolFormat.HARMONY)


def family_of(tool_format: ToolFormat | str) -> Family:
    """The family that writes in this format: the value of its name in the module of its name."""
    if tool_format not in tuple(ToolFormat):
        known = ", ".join(FAMILY_FORMATS)
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"there is no format {tool_format!r}; there are: {known}")
    tool_format = ToolFormat(tool_format)
    if tool_format not in FAMILY_FORMATS:
        raise InputError(
            ErrorCode.FORMATS_INVALID_OPTION,
            f"{tool_format} is read by harmonia.Parser and written by harmonia.render, not as a family",
        )
    module = import_module(f"harmonia.families.{tool_format.value}")
    return cast("Family", getattr(module, tool_format.name))


def reading_options(
    profile: ModelProfile, *, tools: Tools = UNDECLARED, descriptions: Iterable[ToolDescription] = ()
) -> ReadingOptions:
    """How the answers of a profile's models are read. Without marks of its own, thoughts have those of the format."""
    thinking = profile.thinking
    return ReadingOptions(
        None if thinking is None else thinking.marks,
        thinking is not None and thinking.opened_by_prompt,
        tools,
        tuple(descriptions),
    )
