"""The cost of each tool's declaration: the tokens of its TypeScript, with comments and helper types.

Declarations are found in the text of system and developer messages, line by line, and parsed only as far as needed to
find where each one begins. A namespace without functions, such as `python`, is one tool.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from harmonia.inspection.trace import Trace
from harmonia.messages import Role
from harmonia.vocabulary import Vocabulary

_SECTION: Final = "# Tools"
_HEADING: Final = re.compile(r"## (\S+)\s*")
_NAMESPACE: Final = re.compile(r"namespace (\S+) \{\s*")
# The value of a helper type is not a function.
_FUNCTION: Final = re.compile(r"type (.+?) = \((?:_: |\) => any;)")
_END_OF_FUNCTION: Final = "=> any;"


class SchemaCost(msgspec.Struct, frozen=True):
    """A tool by its full name, the tokens of its declaration, and their share of all tokens."""

    tool: str
    tokens: int
    share: float


class _Declared(NamedTuple):
    """A declaration, with its span in characters."""

    tool: str
    start: int
    end: int


def find_schema_costs(traced: Trace, vocabulary: Vocabulary) -> list[SchemaCost]:
    """The costs in the order of the declarations; a tool declared twice is listed twice."""
    costs: list[SchemaCost] = []
    for item in traced.messages:
        if item.message.role not in (Role.SYSTEM, Role.DEVELOPER):
            continue
        text = traced.text[item.body_char : item.stop_char]
        if _SECTION not in text:
            continue
        starts = vocabulary.char_offsets(item.body_ids)
        for declared in _declarations(text):
            tokens = bisect_left(starts, declared.end) - bisect_left(starts, declared.start)
            costs.append(SchemaCost(declared.tool, tokens, tokens / (traced.tokens or 1)))
    return costs


def _declarations(text: str) -> Iterator[_Declared]:
    is_inside = False  # the section of tools
    heading: str | None = None  # the name of a namespace whose functions have not begun
    heading_at = 0
    namespace: str | None = None  # the one whose functions are being declared
    start = 0  # where the current declaration begins
    function: str | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        here, at = at, at + len(line)
        said = line.rstrip()
        if namespace is not None:
            if found := _FUNCTION.match(said):
                function = found[1]
            if function is not None and said.endswith(_END_OF_FUNCTION) and not said.lstrip().startswith("//"):
                yield _Declared(f"{namespace}.{function}", start, at)
                function, start = None, at
            elif function is None and said == f"}} // namespace {namespace}":
                namespace = None
            continue
        is_heading = line.startswith(("# ", "## "))
        if is_heading and heading is not None:
            yield _Declared(heading, heading_at, here)
            heading = None
        if line.startswith("# "):
            is_inside = said == _SECTION
        elif is_inside and (found := _HEADING.fullmatch(line)):
            heading, heading_at = found[1], here
        elif is_inside and (found := _NAMESPACE.fullmatch(line)):
            namespace, heading, start = found[1], None, at
    if heading is not None:
        yield _Declared(heading, heading_at, len(text))
