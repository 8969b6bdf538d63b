"""Names for helper types: legal, the same on every run, and never one that is taken.

A helper of the tool `walk` for `#/$defs/Node` is called `walk_Node`. Where that is taken, by a tool or by another
helper, a number follows: `walk_Node_2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NOT_IN_A_NAME = re.compile(r"[^0-9A-Za-z_$]")

# What TypeScript does not accept as the name of a type: its own types and the reserved words of JavaScript.
# fmt: off
RESERVED: Final = frozenset({
    "any", "unknown", "never", "void", "null", "undefined", "string", "number", "boolean", "symbol",
    "object", "bigint",
    "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else",
    "enum", "export", "extends", "false", "finally", "for", "function", "if", "import", "in", "instanceof",
    "new", "return", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "while", "with",
    "implements", "interface", "let", "package", "private", "protected", "public", "static", "yield",
})
# fmt: on


class Names:
    """The names in use in one namespace."""

    __slots__ = ("_counts", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        # How far the numbers behind a name have got, so that the search for a free one does not start over.
        self._counts: dict[str, int] = {}

    def claim(self, owner: str, steps: tuple[str | int, ...]) -> str:
        """A free name for the schema that `steps` lead to, for the tool `owner`."""
        part = str(steps[-1]) if steps else "Root"
        wanted = _NOT_IN_A_NAME.sub("_", f"{owner}_{part}" if owner else part) or "_"
        if wanted[0].isdigit() or wanted in RESERVED:
            wanted = f"_{wanted}"
        name = wanted
        while name in self._taken:
            count = self._counts[wanted] = self._counts.get(wanted, 1) + 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
