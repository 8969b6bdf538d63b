"""Where in a schema document we are, at the price of one small tuple per step.

A place is a chain of `(parent, step)` pairs that ends in None, the root. Its text is only made where somebody has
to be told, which is rare; a step is made for every property.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from harmonia.schema.literals import string_literal

Place: TypeAlias = "tuple[Place, str | int] | None"

# The names that may follow a dot in a JSON path (RFC 9535, member-name-shorthand); `$defs` is not one of them.
_SHORTHAND = re.compile(r"[^\W\d]\w*")


def steps_to(place: Place) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def place_of(steps: tuple[str | int, ...]) -> Place:
    place: Place = None
    for step in steps:
        place = (place, step)
    return place


def path_text(place: Place, root: str = "$") -> str:
    """A JSON path such as `$.properties.tags.items` or `$["$defs"].Node`."""
    text = [root]
    for step in steps_to(place):
        if isinstance(step, int):
            text.append(f"[{step}]")
        elif _SHORTHAND.fullmatch(step):
            text.append(f".{step}")
        else:
            text.append(f"[{string_literal(step)}]")
    return "".join(text)
