"""What is demanded of a completion, as values: from which tools, which of them, and in which form the answer.

A demand knows nothing of engines. `completion_rules` makes the rules of it, and a writer for each engine its
text; a run without such an engine checks what came against the same demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import ResponseFormat, ToolNamespace
from harmonia.tool_definitions import Takes, TextForm, ToolDefinition

_SHOWN_NAMES: Final = 20


class Demand(msgspec.Struct, frozen=True):
    """What a completion has to be.

    `tool_choice` is auto, none, required, or the full name of a tool (`functions.get_weather`). `allowed` are the
    whole names that may be called in this turn, of all that are declared; None allows all. `texts` has the tools that
    take text instead of JSON, by whole name, with its form where they have one.
    """

    tools: tuple[ToolNamespace, ...] = ()
    tool_choice: str = "auto"
    allowed: tuple[str, ...] | None = None
    response_format: ResponseFormat | None = None
    texts: Mapping[str, TextForm | None] = {}

    def __post_init__(self) -> None:
        """Callers without types get an error here, not in the middle of a grammar."""
        wrong = _misfit(self.tools, self.tool_choice, self.allowed, self.response_format, self.texts)
        if wrong is not None:
            raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, wrong)

    @property
    def is_trivial(self) -> bool:
        """Whether any well-formed completion meets it."""
        return self.tool_choice == "auto" and self.allowed is None and self.response_format is None


def _misfit(tools: object, choice: object, allowed: object, form: object, texts: object) -> str | None:
    if not _are_all(tools, ToolNamespace):
        return "tools are ToolNamespaces, such as (ToolNamespace('functions', None, (description,)),)"
    if not isinstance(choice, str):
        return f"tool_choice is {choice!r}; expected auto, none, required, or the full name of a tool"
    if allowed is not None and not _are_all(allowed, str):
        return f"allowed is {allowed!r}; expected the full names of tools"
    if form is not None and not isinstance(form, ResponseFormat):
        return f"response_format is {form!r}; expected a ResponseFormat(name, schema)"
    values = list(cast("Mapping[str, object]", texts).values()) if isinstance(texts, Mapping) else None
    if values is None or not _are_all([value for value in values if value is not None], TextForm):
        return "texts must have a TextForm or None for the full name of each tool that takes text"
    return None


def _are_all(values: object, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, kind) for each in cast("list[object]", values))


def callable_tools(demand: Demand) -> tuple[ToolDefinition, ...]:
    """The tools that may be called under a demand, each under its full name, such as `functions.get_weather`.

    Raises if the demand names a tool that is not declared.
    """
    declared = {tool.name: tool for tool in _declared(demand)}
    choice = demand.tool_choice
    allowed = tuple(declared) if demand.allowed is None else demand.allowed
    for name in (*allowed, *(() if choice in ("auto", "none", "required") else (choice,))):
        if name not in declared:
            raise _undeclared(name, declared)
    for name in demand.texts:
        if name not in declared:
            raise _undeclared(name, declared)
    if choice == "none":
        return ()
    wanted = allowed if choice in ("auto", "required") else tuple(name for name in allowed if name == choice)
    if not wanted and choice != "auto":
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the tool choice is {choice}, but no tool may be called")
    return tuple(declared[name] for name in declared if name in wanted)


def _undeclared(name: str, declared: Mapping[str, ToolDefinition]) -> InputError:
    names = list(declared)
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    those = f"declared: {', '.join(names[:_SHOWN_NAMES])}{more}" if names else "no tool is declared"
    return InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the tool {name} is not declared; {those}")


def _declared(demand: Demand) -> Iterator[ToolDefinition]:
    for namespace in demand.tools:
        if not namespace.tools:  # such as python: the namespace is itself the tool, and takes text
            yield ToolDefinition(namespace.name, takes="text", text_form=demand.texts.get(namespace.name))
        for tool in namespace.tools:
            name = f"{namespace.name}.{tool.name}"
            takes: Takes = "text" if name in demand.texts else "json"
            yield ToolDefinition(name, tool.description, tool.parameters, takes=takes, text_form=demand.texts.get(name))
