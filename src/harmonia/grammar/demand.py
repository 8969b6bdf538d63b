"""What is demanded of a completion: which tools it may or must call, and in which format it answers.

A demand does not depend on an engine. `completion_rules` turns it into rules, and a writer for each kind of engine
turns those into text. A run without such an engine validates completions against the same demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import Json, ResponseFormat, ToolNamespace
from harmonia.tool_definitions import Takes, TextForm

_SHOWN_NAMES: Final = 20


class CallableTool(msgspec.Struct, frozen=True):
    """A tool without its description. `name` is the full one, such as `functions.get_weather`.

    Its arguments are JSON that fits `parameters`, or text, which may have a form.
    """

    name: str
    parameters: Json | bool | None = None
    takes: Takes = "json"
    text_form: TextForm | None = None


class Demand(msgspec.Struct, frozen=True):
    """What a completion has to be.

    `tool_choice` is auto, none, required, or the full name of a tool (`functions.get_weather`). `allowed` are the
    full names that may be called in this turn, of all that are declared; None allows all.
    """

    tools: tuple[CallableTool, ...] = ()
    tool_choice: str = "auto"
    allowed: tuple[str, ...] | None = None
    response_format: ResponseFormat | None = None

    def __post_init__(self) -> None:
        """Callers without types get an error here, not in the middle of a grammar."""
        wrong = None
        if not _are_all(self.tools, CallableTool):
            wrong = "tools must be CallableTools; declared_tools makes them from ToolNamespaces"
        elif not isinstance(cast("object", self.tool_choice), str):
            wrong = f"tool_choice is {self.tool_choice!r}; expected auto, none, required, or the full name of a tool"
        elif self.allowed is not None and not _are_all(self.allowed, str):
            wrong = f"allowed is {self.allowed!r}; expected the full names of tools"
        elif not isinstance(cast("object", self.response_format), ResponseFormat | None):
            wrong = f"response_format is {self.response_format!r}; expected a ResponseFormat(name, schema)"
        if wrong is not None:
            raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, wrong)

    @property
    def is_trivial(self) -> bool:
        """Whether any well-formed completion meets it."""
        return self.tool_choice == "auto" and self.allowed is None and self.response_format is None


def _are_all(values: object, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, kind) for each in cast("list[object]", values))


def declared_tools(
    namespaces: Iterable[ToolNamespace], texts: Mapping[str, TextForm | None] | None = None
) -> tuple[CallableTool, ...]:
    """The tools of namespaces under their full names. `texts` are those that take text, with its form if it has one."""
    texts = texts or {}
    found: list[CallableTool] = []
    for namespace in namespaces:
        if not namespace.tools:  # such as python: the namespace is itself the tool, and takes text
            found.append(CallableTool(namespace.name, takes="text", text_form=texts.get(namespace.name)))
        for tool in namespace.tools:
            name = f"{namespace.name}.{tool.name}"
            found.append(CallableTool(name, tool.parameters, "text" if name in texts else "json", texts.get(name)))
    names = [tool.name for tool in found]
    for name in texts:
        if name not in names:
            raise _undeclared(name, names)
    return tuple(found)


def _undeclared(name: str, declared: list[str]) -> InputError:
    more = f" and {len(declared) - _SHOWN_NAMES} more" if len(declared) > _SHOWN_NAMES else ""
    those = f"declared: {', '.join(declared[:_SHOWN_NAMES])}{more}" if declared else "no tool is declared"
    return InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the tool {name} is not declared; {those}")


def callable_tools(demand: Demand) -> tuple[CallableTool, ...]:
    """The tools that may be called under a demand. Raises if the demand names a tool that is not declared."""
    declared = {tool.name: tool for tool in demand.tools}
    choice = demand.tool_choice
    is_named = choice not in ("auto", "none", "required")
    allowed = frozenset(declared if demand.allowed is None else demand.allowed)
    for name in (*(demand.allowed or ()), *((choice,) if is_named else ())):
        if name not in declared:
            raise _undeclared(name, list(declared))
    if choice == "none":
        return ()
    wanted = tuple(tool for tool in declared.values() if tool.name in allowed and (not is_named or tool.name == choice))
    if not wanted and choice != "auto":
        raise InputError(ErrorCode.GRAMMAR_INVALID_OPTION, f"the tool choice is {choice}, but no tool may be called")
    return wanted
