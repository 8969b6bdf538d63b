"""The type expressions that the printer passes around, and how they join.

A printed type is `(comment, text, level)`: whole comment lines that stand before it, the expression, and how
tightly the expression holds together. It is a plain tuple because one is made for every schema.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from harmonia.schema.keywords import PRIMITIVES


class Level(IntEnum):
    """What a type expression is made of, from the tightest to the loosest."""

    ATOM = 0
    INTERSECTION = 1
    UNION = 2
    BLOCK = 3
    """A union with each variant on a line of its own, the first one too: it begins with a `|`."""


class Shown(IntEnum):
    """What the surroundings of a type have printed of its annotations already."""

    NOTHING = 0
    DESCRIPTION_AND_DEFAULT = 1
    """A variant of a union: they stand behind it."""
    ALL = 2
    """A property: they stand above its key."""


Printed: TypeAlias = tuple[str, str, Level]

ANY: Final[Printed] = ("", "any", Level.ATOM)
NEVER: Final[Printed] = ("", "never", Level.ATOM)
LEAVES: Final[dict[str, Printed]] = {
    kind: ("", text, Level.ATOM) for kind, text in (*PRIMITIVES.items(), ("null", "null"))
}


def operand(text: str, level: Level) -> str:
    """The text as an operand of `[]`, `?` or `&`, where a union needs parentheses."""
    return f"({text})" if level else text


def variant(text: str, level: Level) -> str:
    """The text as an operand of `|`. Only a union that begins with a bar needs parentheses."""
    return f"({text})" if level is Level.BLOCK else text


def intersection(parts: list[Printed]) -> Printed:
    """All parts at once. `any` is left out, since `any & T` is any; its comments stay, and so do others'."""
    comments: list[str] = []
    said: dict[str, str] = {}
    for comment, text, level in parts:
        part = operand(text, level)
        if text == "any" or part in said or not said:
            comments.append(comment)
        if text != "any":
            # The comments of later parts stand before these; the first part's, before the whole.
            said.setdefault(part, f"{comment}{part}" if said else part)
    before = "".join(comments)
    if len(said) > 1:
        return before, " & ".join(said.values()), Level.INTERSECTION
    _, text, level = next((part for part in parts if part[1] != "any"), ANY)
    return before, text, level
