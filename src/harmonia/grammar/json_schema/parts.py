"""Splits a schema into alternatives, each of which is a list of plain schemas that apply together.

    {"$ref": "#/$defs/a", "anyOf": [b, c]}   ->   a and b,  or  a and c      (each with the keywords beside them)

A part is a schema and its place. Two parts at the same place are one, so recursive schemas end: a schema that appears
again as one of its own conditions adds nothing, and an alternative that is the whole schema again admits no new value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.document import References, path_text, place_of

Schema: TypeAlias = "dict[str, Any] | bool"
Steps: TypeAlias = tuple[str | int, ...]

# So many alternatives may come of one schema; beyond it, what makes them is reported and left out.
MAX_ALTERNATIVES: Final = 256
# The same for one that stands alone: people write long lists of values with it.
MAX_BRANCHES: Final = 1_000
# So often a schema may be taken apart or put beside another in all. References and alternatives within each other can
# make thousands of millions out of a few lines.
MAX_WORK: Final = 100_000

_UNIONS: Final = ("anyOf", "oneOf")


class Part(NamedTuple):
    """A schema of the document, and the steps to it."""

    schema: Schema
    steps: Steps

    def child(self, *steps: str | int) -> Part:
        value: Any = self.schema
        for step in steps:
            value = value[step]
        return Part(value, (*self.steps, *steps))

    @property
    def path(self) -> str:
        return path_text(place_of(self.steps))


Together: TypeAlias = tuple[Part, ...]
# Told of what is left out: the part, its keyword, and why.
Report: TypeAlias = Callable[[Part, str, str], None]


class Taker:
    """Takes the schemas of one document apart."""

    def __init__(self, document: dict[str, Any], about: str, report: Report) -> None:
        self._references = References(document, "$")
        self._about = about
        self._report = report
        self._work = 0

    def target(self, part: Part) -> Part | None:
        """Where the `$ref` of a part leads."""
        if not isinstance(part.schema, dict) or not isinstance(part.schema.get("$ref"), str):
            return None
        target = self._references.resolve(part.schema["$ref"], place_of(part.steps))
        return Part(target.schema, target.steps)

    def alternatives(self, part: Part, within: tuple[tuple[Steps, bool], ...] = ()) -> list[Together]:
        """What a value has to fit one of. `within` are the parts that this is a condition of, and whether it is one of
        several to choose from."""
        self._count(part, 1)
        for place, (steps, _) in enumerate(within):
            if steps == part.steps:
                return [] if any(chosen for _, chosen in within[place:]) else [()]
        schema = part.schema
        if isinstance(schema, bool):
            return [()] if schema else []
        made: list[Together] = [(part,)]
        target = self.target(part)
        if target is not None:
            made = self._both(part, "$ref", made, self.alternatives(target, (*within, (part.steps, False))))
        for condition in self._listed(part, "allOf"):
            made = self._both(part, "allOf", made, self.alternatives(condition, (*within, (part.steps, False))))
        for union in _UNIONS:
            if union not in schema:
                continue
            branches = list(self._listed(part, union))
            if not isinstance(schema[union], list) or not schema[union]:
                self._report(part, union, "its value is not a list of schemas")
                continue
            chosen: list[Together] = []
            for branch in branches:
                chosen += self.alternatives(branch, (*within, (part.steps, True)))
            made = self._both(part, union, made, chosen)
        return made

    def together(self, parts: Together) -> list[Together]:
        """The alternatives of several parts that hold together."""
        made: list[Together] = [()]
        for part in parts:
            made = self._both(part, "allOf", made, self.alternatives(part))
        return made

    def _listed(self, part: Part, keyword: str) -> Iterator[Part]:
        assert isinstance(part.schema, dict)
        listed = part.schema.get(keyword)
        if isinstance(listed, list):
            for index, each in enumerate(listed):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                if isinstance(each, dict | bool):
                    yield part.child(keyword, index)
                else:
                    self._report(part, keyword, "one of its items is not a schema")

    def _both(self, part: Part, keyword: str, one: list[Together], other: list[Together]) -> list[Together]:
        """Each of the first with each of the second, which a keyword of the part gave."""
        limit = MAX_ALTERNATIVES if len(one) > 1 else MAX_BRANCHES
        if len(one) * len(other) > limit:
            self._report(part, keyword, f"it has more than {limit} alternatives")
            return one
        self._count(part, len(one) * len(other))
        made: list[Together] = []
        for left in one:
            places = {part.steps for part in left}
            made += [(*left, *(part for part in right if part.steps not in places)) for right in other]
        return made

    def _count(self, part: Part, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise InputError(
                ErrorCode.SCHEMA_TOO_LARGE,
                f"The schema of {self._about} has too many nested alternatives.",
                Position(path=part.path),
            )
