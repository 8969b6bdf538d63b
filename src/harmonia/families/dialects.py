"""Which dialect of a family the models of a chat template write: a format says how to read, a template how to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, Protocol, cast, runtime_checkable

from harmonia.families.family import Family
from harmonia.families.tool_format import ToolFormat

# By format and template: what the dialect is called in the format's module, which is loaded when it is asked for.
DIALECTS: Final = {
    (ToolFormat.OPENAI, "llama3"): "LLAMA",
    (ToolFormat.OPENAI, "mistral"): "MISTRAL",
    (ToolFormat.GEMINI, "functiongemma"): "FUNCTION_GEMMA",
    (ToolFormat.GEMINI, "gemma4"): "GEMMA_4",
    (ToolFormat.GRANITE, "granite3"): "GRANITE_3",
}


def dialect_of(family: Family, template: str) -> Family:
    """The family as the models of this template write it."""
    name = DIALECTS.get((family.format, template))
    if name is None:
        return family
    return cast("Family", getattr(import_module(f"harmonia.families.{family.format.value}"), name))


@runtime_checkable
class WritesCallsTogether(Protocol):
    """A family in which several calls are more than one behind the other, such as a list."""

    write_calls: Callable[[Sequence[tuple[str, str]]], str]


def write_calls(family: Family, calls: Sequence[tuple[str, str]]) -> str:
    """Calls that were made together, each as its name and its arguments."""
    if isinstance(family, WritesCallsTogether):
        return family.write_calls(calls)
    return "\n".join(family.write_call(name, arguments) for name, arguments in calls)
