"""Grammars as values: rules before they are written, and the text that a writer makes of them for an engine.

    Grammar = named rules and the node to begin with;  node =
        Literal("x")  Special(200005)  Chars(ranges)  Sequence(...)  Choice(...)  Repeat(node, 0, None)  Name("rule")
        JsonValue(schema)  Text(form)

Literals and characters are ordinary text and never match a special token, even if they spell it. JsonValue and Text are
left to the writers, because some engines support them directly.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from harmonia.tool_definitions import TextForm

# llguidance  Lark, with true special tokens; for the engines of this process, and vLLM's `guidance`
# gbnf        llama.cpp
# xgrammar    a structural tag, as JSON; vLLM and SGLang
GrammarKind = typing.Literal["llguidance", "gbnf", "xgrammar"]
GRAMMAR_KINDS: Final[tuple[GrammarKind, ...]] = typing.get_args(GrammarKind)


class Literal(msgspec.Struct, frozen=True):
    """Exactly this text."""

    text: str


class Special(msgspec.Struct, frozen=True):
    """A special token, by its id."""

    token: int


class Chars(msgspec.Struct, frozen=True):
    """One character: of these ranges of code points, both ends included, or of all others."""

    ranges: tuple[tuple[int, int], ...]
    is_negated: bool = False


class Sequence(msgspec.Struct, frozen=True):
    """One after the other; none at all is the empty text."""

    nodes: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of these."""

    nodes: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True):
    """The node, `least` times or more, and at most `most` times; None is without end."""

    node: Node
    least: int = 0
    most: int | None = None

    @property
    def times(self) -> str:
        """How often, as Lark and EBNF write it after the node."""
        match self.least, self.most:
            case 0, None:
                return "*"
            case 1, None:
                return "+"
            case 0, 1:
                return "?"
            case least, most:
                return f"{{{least},{'' if most is None else most}}}"


class Name(msgspec.Struct, frozen=True):
    """A rule by its name."""

    name: str


class JsonValue(msgspec.Struct, frozen=True):
    """JSON text whose value fits the schema. `about` says whose it is, for reports: a tool's whole name."""

    schema: Any
    about: str


class Text(msgspec.Struct, frozen=True):
    """Text of the form that the owner of a custom tool gave. `about` is the tool's whole name."""

    form: TextForm
    about: str


Node = Literal | Special | Chars | Sequence | Choice | Repeat | Name | JsonValue | Text


class Grammar(msgspec.Struct, frozen=True):
    """Rules by name, in the order in which they are written, and where to begin."""

    start: Node
    rules: Mapping[str, Node]


def sequence(*nodes: Node | str) -> Node:
    """These after each other; a plain text is a literal."""
    made = tuple(Literal(node) if isinstance(node, str) else node for node in nodes)
    return made[0] if len(made) == 1 else Sequence(made)


def choice(*nodes: Node) -> Node:
    """One of these."""
    return nodes[0] if len(nodes) == 1 else Choice(nodes)


def optional(node: Node | str) -> Node:
    """The node, or nothing."""
    return Repeat(sequence(node), 0, 1)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its parts changed."""
    match node:
        case Sequence(nodes):
            return Sequence(tuple(map(change, nodes)))
        case Choice(nodes):
            return Choice(tuple(map(change, nodes)))
        case Repeat(inner, least, most):
            return Repeat(change(inner), least, most)
        case _:
            return node


# ── grammars as text for an engine ──


class Loss(msgspec.Struct, frozen=True):
    """A condition that the grammar does not enforce. It admits more than it should, never less: check the value.
    `about` is the tool's full name or `response_format`, `path` the place in its schema."""

    about: str
    path: str
    feature: str
    message: str


class WrittenGrammar(msgspec.Struct, frozen=True):
    """The text of a grammar for one kind of engine. It describes what follows `<|start|>assistant`.

    With `ends_by_engine` it omits the stop token: the engine samples one after the end of the grammar, and the message
    determines which one it should be.
    """

    kind: GrammarKind
    text: str
    losses: tuple[Loss, ...] = ()
    ends_by_engine: bool = False


Ranges: TypeAlias = tuple[tuple[int, int], ...]

HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """These ranges, in order, with those that touch made one."""
    made: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if made and low <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], high))
        else:
            made.append((low, high))
    return tuple(made)


def common(one: Ranges, other: Ranges) -> Ranges:
    """What both have."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return joined((low, high) for low, high in pairs if low <= high)


def without(one: Ranges, other: Ranges) -> Ranges:
    """What only the first has."""
    left: list[tuple[int, int]] = []
    taken = joined(other)
    for low, high in one:
        for begin, end in taken:
            if end < low or begin > high:
                continue
            if begin > low:
                left.append((low, begin - 1))
            low = end + 1
        if low <= high:
            left.append((low, high))
    return tuple(left)


def of(text: str) -> Ranges:
    """The characters of a text."""
    return joined((ord(character), ord(character)) for character in text)


def is_among(character: str, chars: Chars) -> bool:
    """Whether a node admits a character."""
    return any(low <= ord(character) <= high for low, high in chars.ranges) != chars.is_negated


@lru_cache(maxsize=1_000)
def ranges_of(chars: Chars) -> Ranges:
    """What a node admits."""
    ranges = joined(chars.ranges)
    return without(ALL, ranges) if chars.is_negated else common(ALL, ranges)
