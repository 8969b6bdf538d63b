"""Which names are tools: the declared ones, and those that the models were trained with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import ToolDescription, ToolNamespace, is_builtin, is_tool_address

__all__ = ["UNDECLARED", "DeclaredTool", "ToolKind", "Tools", "is_builtin", "is_tool_address"]

DeclaredTool = str | ToolDescription | ToolNamespace

# declared  by the caller
# builtin   python and browser.*, which the models call even if they were not declared
# unknown   neither
ToolKind = Literal["declared", "builtin", "unknown"]

_FUNCTIONS: Final = "functions"
_DOTTED_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")


class Tools:
    """The declared tools. A name without a namespace is in `functions`, which models sometimes omit."""

    def __init__(self, declared: Iterable[DeclaredTool] | None = None) -> None:
        self.is_known = declared is not None
        if isinstance(declared, str | Mapping):
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, "tools must be a list of names or descriptions")
        self.names = frozenset(name for tool in declared or () for name in _names_of(tool))
        # A cache of headers without faults; see parser/headers.py.
        self.remembered_headers: dict[Any, Any] = {}

    def declares(self, name: str) -> bool:
        """Whether a tool of this name was declared, with or without its namespace."""
        return name in self.names or f"{_FUNCTIONS}.{name}" in self.names

    def kind_of(self, name: str) -> ToolKind:
        if self.declares(name):
            return "declared"
        return "builtin" if is_builtin(name) else "unknown"

    def looks_like_one(self, word: str) -> bool:
        """Whether a word without `to=` can only be a tool name."""
        return self.declares(word) or is_builtin(word) or _DOTTED_NAME.fullmatch(word) is not None


UNDECLARED: Final = Tools()


def _names_of(tool: DeclaredTool) -> list[str]:
    match tool:
        case ToolNamespace():
            # A namespace without tools, such as `python`, is itself the tool.
            return [f"{tool.name}.{each.name}" for each in tool.tools] or [tool.name]
        case ToolDescription():
            return [f"{_FUNCTIONS}.{tool.name}"]
        case str():
            return [tool if "." in tool else f"{_FUNCTIONS}.{tool}"]
        case _:
            raise InputError(
                ErrorCode.PARSE_INVALID_OPTION,
                f"tools contains {tool!r}; it must contain names, ToolDescriptions or ToolNamespaces",
            )
