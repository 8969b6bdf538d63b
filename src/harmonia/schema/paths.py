"""Where in a schema document we are, at the price of one small tuple per step.

A place is a chain of `(parent, step)` pairs that ends in None, the root. Its text is only made where somebody has
to be told, which is rare; a step is made for every property.
"""

from __future__ import annotations

from typing import TypeAlias

from harmonia.json_codec import json_path

Place: TypeAlias = "tuple[Place, str | int] | None"


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
    return json_path(steps_to(place), root)
