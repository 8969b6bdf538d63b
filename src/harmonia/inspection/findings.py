"""What an inspection finds in a trace: the cost of each tool's declaration, and typed spellings of control tokens.

Costs: declarations are found in the text of system and developer messages, line by line, and parsed only as far as
needed to find where each one begins. A namespace without functions, such as `python`, is one tool.

Spellings in ordinary text are a sign of prompt injection. In token ids, a spelling and a control token differ, so each
spelling can be reported with what it was encoded as. In text they look the same: what looks like structure is
structure, and only spellings that are certainly text are found. Near misses such as `<|END|>` or `< |end| >` are found
too: they are always text, but may have been meant as more.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec

from harmonia.inspection.trace import Trace, TracedMessage
from harmonia.messages import Role
from harmonia.vocabulary import FIRST_SPECIAL, ID_BY_SPELLING, VOCABULARY_SIZE, Vocabulary

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


# Every quantifier is bounded, so matching is linear. The characters are those that look like `<`, `|` and `>`; one
# blank or zero-width character may separate them.
_GAP: Final = "[\\s\u200b-\u200d\u2060\ufeff\\\\]?"
_BAR: Final = "[|\uff5c\u00a6\u2502\u2223]"
_LIKELY: Final = re.compile(
    f"[<\uff1c\u2039\u3008\u2329]{_GAP}{_BAR}{_GAP}([A-Za-z0-9_]{{1,24}}){_GAP}{_BAR}{_GAP}[>\uff1e\u203a\u3009\u232a]"
)
_FIELDS: Final = ("name", "recipient", "channel", "content_type")


class TypedSpelling(msgspec.Struct, frozen=True):
    """A spelling: its message, field and position, and what it was encoded as. `near` marks a near miss."""

    message: int
    role: str
    where: str
    text: str
    start_char: int
    end_char: int
    start_token: int | None
    ids: list[int]
    became: Literal["text", "special"]
    near: bool


def find_typed_spellings(traced: Trace, vocabulary: Vocabulary, most: int) -> list[TypedSpelling]:
    """The first `most` spellings, in order."""
    spellings = (
        each
        for item in traced.messages
        for is_body in (False, True)
        for each in _spellings_in(item, traced.text, vocabulary, is_body=is_body)
    )
    return list(islice(spellings, most))


def _spellings_in(item: TracedMessage, text: str, vocabulary: Vocabulary, *, is_body: bool) -> Iterator[TypedSpelling]:
    """The spellings in the header or in the body of a message."""
    if is_body:
        ids, start_token, start, end = item.body_ids, item.body_token, item.body_char, item.stop_char
    else:
        ids, start_token, start, end = item.header_ids, item.start_token, item.start_char, item.body_char
    offsets: list[int] | None = None
    for match in _LIKELY.finditer(text, start, end):
        if f"<|{match[1].lower()}|>" not in ID_BY_SPELLING:
            continue
        if offsets is None:
            offsets = vocabulary.char_offsets(ids)
        first = max(bisect_right(offsets, match.start() - start) - 1, 0)
        last = max(bisect_left(offsets, match.end() - start), first + 1)
        written = ids[first:last]
        is_special = any(FIRST_SPECIAL <= token < VOCABULARY_SIZE for token in written)
        if is_special and not is_body:
            continue  # the structure itself
        spelled = match.group()
        field = next((name for name in _FIELDS if spelled in (getattr(item.message, name) or "")), "header")
        yield TypedSpelling(
            item.index,
            item.message.role.value,
            "body" if is_body else field,
            spelled,
            match.start(),
            match.end(),
            None if start_token is None else start_token + first,
            written,
            "special" if is_special else "text",
            spelled not in ID_BY_SPELLING,
        )
