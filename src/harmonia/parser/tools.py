"""Which names are tools: those that the caller declared, and those that the models know by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from harmonia.errors import ErrorCode, InputError
from harmonia.messages import ToolDescription, ToolNamespace, is_builtin, is_tool_address

__all__ = ["UNDECLARED", "DeclaredTool", "ToolKind", "Tools", "is_builtin", "is_tool_address"]

DeclaredTool = str | ToolDescription | ToolNamespace

# declared  the caller named it
# builtin   python and browser.*, which the models call even where nobody offered them
# unknown   neither
ToolKind = Literal["declared", "builtin", "unknown"]

_FUNCTIONS: Final = "functions"
_DOTTED_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")


class Tools:
    """The declared tools. A name without a namespace is one of `functions`, which models leave out at times."""

    def __init__(self, declared: Iterable[DeclaredTool] | None = None) -> None:
        self.is_known = declared is not None
        if isinstance(declared, str | Mapping):
            raise InputError(ErrorCode.PARSE_INVALID_OPTION, "tools must be a list of names or descriptions")
        self.names = frozenset(name for tool in declared or () for name in _names_of(tool))
        # What headers without a fault mean; see parser/headers.py.
        self.remembered_headers: dict[Any, Any] = {}

    def declares(self, name: str) -> bool:
        """Whether the caller declared a tool of this name, with its namespace or without."""
        return name in self.names or f"{_FUNCTIONS}.{name}" in self.names

    def kind_of(self, name: str) -> ToolKind:
        if self.declares(name):
            return "declared"
        return "builtin" if is_builtin(name) else "unknown"

    def looks_like_one(self, word: str) -> bool:
        """Whether a word without `to=` can only be a tool's name."""
        return self.declares(word) or is_builtin(word) or _DOTTED_NAME.fullmatch(word) is not None


UNDECLARED: Final = Tools()


def _names_of(tool: DeclaredTool) -> list[str]:
    match tool:
        case ToolNamespace():
            # A namespace without tools, such as `python`, is called by its own name.
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
