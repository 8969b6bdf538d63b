"""The conditions that a schema puts on a value.

    {"$ref": "#/$defs/a", "anyOf": [b, c]}   ->   a and b,  or  a and c      (each with the keywords beside them)

1. A part is a schema and its place. `Taker` splits a part into alternatives, each a list of plain schemas that apply
   together. Two parts at the same place are one, so recursive schemas end: a schema that appears again as one of its
   own conditions adds nothing, and an alternative that is the whole schema again admits no new value.
2. `Conditions` are what the parts of an alternative say together: kinds, values, bounds, properties and items. Every
   method returns the intersection; keywords with invalid values are ignored and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.json_syntax import Bounds
from harmonia.grammar.regex_rules import is_found
from harmonia.schema.document import References, path_text, place_of, spelled
from harmonia.schema.work_budget import spend

Schema: TypeAlias = "dict[str, Any] | bool"
Steps: TypeAlias = tuple[str | int, ...]

# The most alternatives of one schema. A keyword that would make more is reported and not enforced.
MAX_ALTERNATIVES: Final = 256
# The same for a union that stands alone: people write long lists of values with it.
MAX_BRANCHES: Final = 1_000
# The most steps of splitting and combining schemas: nested references can make billions of alternatives of a few lines.
MAX_WORK: Final = 100_000

# How deep properties are compared to see whether two objects differ.
_MAX_COMPARED_DEPTH: Final = 3


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
    def fields(self) -> dict[str, Any]:
        return self.schema if isinstance(self.schema, dict) else {}


Together: TypeAlias = tuple[Part, ...]
# Called for each keyword that is not enforced: the part, the keyword, and why.
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
        reference = part.fields.get("$ref")
        if not isinstance(reference, str):
            return None
        schema, steps, _ = self._references.resolve(reference, place_of(part.steps))
        return Part(schema, steps)

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
        inside = (*within, (part.steps, False))
        target = self.target(part)
        if target is not None:
            made = self._both(part, "$ref", made, self.alternatives(target, inside))
        for condition in self._listed(part, "allOf"):
            made = self._both(part, "allOf", made, self.alternatives(condition, inside))
        for union in ("anyOf", "oneOf"):
            if not isinstance(schema.get(union, []), list) or schema.get(union) == []:
                self._report(part, union, "its value is not a list of schemas")
            elif union in schema:
                branches = self._listed(part, union)
                chosen = [each for one in branches for each in self.alternatives(one, (*within, (part.steps, True)))]
                made = self._both(part, union, made, chosen)
        return made

    def together(self, parts: Together) -> list[Together]:
        """The alternatives of several parts that hold together."""
        made: list[Together] = [()]
        for part in parts:
            made = self._both(part, "allOf", made, self.alternatives(part))
        return made

    def _listed(self, part: Part, keyword: str) -> Iterator[Part]:
        listed: Any = part.fields.get(keyword)
        for index, each in enumerate(cast("list[Any]", listed) if isinstance(listed, list) else ()):
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
            message = f"The schema of {self._about} has too many nested alternatives."
            raise InputError(ErrorCode.SCHEMA_TOO_LARGE, message, Position(path=path_text(place_of(part.steps))))


# Larger bounds cannot be compared as floats.
_LARGEST: Final = 1e300
# The cost of searching a name for a pattern, in steps.
_SEARCH_STEPS: Final = 5

KINDS: Final = frozenset(("null", "boolean", "string", "integer", "number", "array", "object"))

# Values with which a keyword has no effect, so that not enforcing it loses nothing.
_IDLE: Final[dict[str, tuple[Any, ...]]] = {
    "not": (False,),
    "uniqueItems": (False,),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    # Every name is a string.
    "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
    "extends": ({},),
}


class Conditions:
    """Plain schemas that a value has to fit all of. Their `$ref`, `allOf`, `anyOf` and `oneOf` were taken apart."""

    def __init__(self, parts: Together, report: Report) -> None:
        self.parts = tuple(part for part in parts if isinstance(part.schema, dict))
        self._report = report
        self._items: dict[Steps, list[Part]] = {}

    def each(self, keyword: str, fits: Callable[[Any], bool]) -> list[tuple[Part, Any]]:
        """The parts that have the keyword, and its values; those that make no sense are reported."""
        found: list[tuple[Part, Any]] = []
        for part in self.parts:
            if keyword in part.fields:
                if fits(part.fields[keyword]):
                    found.append((part, part.fields[keyword]))
                else:
                    self._report(part, keyword, "ignored, because its value is invalid")
        return found

    # Of any value

    def kinds(self) -> frozenset[str]:
        """The kinds that a value may have. A number may be an integer, so who admits numbers has both words."""
        left = KINDS
        for _, value in self.each("type", _is_kind):
            names: list[str] = [value] if isinstance(value, str) else value
            named = {cast("str", spelled(name)) for name in names}
            left &= named | ({"integer"} if "number" in named else set[str]())
        return left

    def values(self) -> list[Any] | None:
        """The values of `enum` and `const`; None where there is no such list."""
        lists = [value for _, value in self.each("enum", lambda value: isinstance(value, list))]
        lists += [[value] for _, value in self.each("const", lambda _: True)]
        if not lists:
            return None
        others = [{key_of(value) for value in other} for other in lists[1:]]
        made = {key_of(value): value for value in reversed(lists[0])}  # of equal ones, the first
        return [made[key] for key in dict.fromkeys(map(key_of, lists[0])) if all(key in other for other in others)]

    # Of numbers

    def bounds(self) -> Bounds:
        bounds = Bounds()
        for keyword in ("minimum", "maximum"):
            self.each(keyword, lambda value: _number(value) is not None)
            # Draft 4 had a boolean there, which speaks of the other keyword.
            name = f"exclusive{keyword.capitalize()}"
            self.each(name, lambda value: isinstance(value, bool) or _number(value) is not None)
        for part in self.parts:
            low, high = part.fields.get("minimum"), part.fields.get("maximum")
            out_low, out_high = part.fields.get("exclusiveMinimum"), part.fields.get("exclusiveMaximum")
            bounds = bounds.narrowed(_number(low), out_low is True, _number(high), out_high is True)
            bounds = bounds.narrowed(_number(out_low), True, _number(out_high), True)
        return bounds

    # Of strings, arrays and objects

    def counts(self, least: str, most: str) -> tuple[int, int | None]:
        """How many there may be: characters, items, properties."""
        low = max([0, *(int(value) for _, value in self.each(least, _is_count))])
        highs = [int(value) for _, value in self.each(most, _is_count)]
        return low, min(highs, default=None)

    def required(self) -> list[str]:
        listed = self.each("required", _are_names)
        return list(dict.fromkeys(name for _, names in listed for name in names))

    def declared(self) -> list[str]:
        """The names of the properties, in the order of their declaration."""
        listed = self.each("properties", lambda value: isinstance(value, dict))
        return list(dict.fromkeys(name for _, properties in listed for name in properties))

    def of_property(self, name: str) -> Together | None:
        """What the value of a property has to fit; None where it may not be there."""
        spend(len(self.parts))
        return _unless_never([each for part in self.parts for each in _of_property(part, name)])

    def of_others(self) -> Together | None:
        """What the values of properties have to fit that nobody declared; None where there may be none."""
        found = self.each("additionalProperties", _is_schema)
        return _unless_never([part.child("additionalProperties") for part, _ in found])

    def listed_items(self) -> int:
        """How many items have a schema of their own."""
        return max((len(self._own_items(part)) for part in self.parts), default=0)

    def _own_items(self, part: Part) -> list[Part]:
        """The items with a schema of their own. Before draft 2020 `items` was the list of them."""
        if part.steps not in self._items:
            listed = next((key for key in ("prefixItems", "items") if isinstance(part.fields.get(key), list)), "")
            items: list[Any] = part.fields[listed] if listed else []
            self._items[part.steps] = [part.child(listed, at) for at, each in enumerate(items) if _is_schema(each)]
        return self._items[part.steps]

    def of_item(self, index: int) -> Together | None:
        """What the item has to fit; after the listed ones it is the same for all. None where there may be none."""
        spend(len(self.parts))
        made: list[Part] = []
        for part in self.parts:
            own = self._own_items(part)
            other = "additionalItems" if isinstance(part.fields.get("items"), list) else "items"
            if index < len(own):
                made.append(own[index])
            elif _is_schema(part.fields.get(other)):
                made.append(part.child(other))
        return _unless_never(made)


def _unless_never(parts: list[Part]) -> Together | None:
    return None if any(part.schema is False for part in parts) else tuple(parts)


def _of_property(part: Part, name: str) -> list[Part]:
    properties, patterns = (
        cast("dict[str, Any]", value) if isinstance(value := part.fields.get(keyword), dict) else {}
        for keyword in ("properties", "patternProperties")
    )
    spend(_SEARCH_STEPS * len(patterns))
    made = [part.child("properties", name)] if _is_schema(properties.get(name)) else []
    for pattern, value in patterns.items():
        if _is_schema(value) and is_found(pattern, name):
            made.append(part.child("patternProperties", pattern))
    if not made and name not in properties and _is_schema(part.fields.get("additionalProperties")):
        made.append(part.child("additionalProperties"))
    return made


def _is_kind(value: Any) -> bool:
    names = cast("list[Any]", value if isinstance(value, list) else [value])
    return bool(names) and all(isinstance(name, str) and spelled(name) in KINDS for name in names)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast("list[Any]", value))


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_count(value: Any) -> bool:
    return _number(value) is not None and value >= 0 and float(value).is_integer()


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= _LARGEST else None


def key_of(value: Any) -> Hashable:
    """The same for two values if they are one in JSON, where 1 is 1.0, and true is not 1."""
    match value:
        case bool() | None:
            return repr(value)
        case list():
            return tuple(map(key_of, cast("list[Any]", value)))
        case dict():
            return frozenset((name, key_of(each)) for name, each in cast("dict[str, Any]", value).items())
        case str():
            return ("text", value)
        case _:
            return ("number", value)


# Does a value that is known fit?


def fits(value: Any, parts: Together, taker: Taker, report: Report) -> bool:
    """Whether a listed value fits the rest of what is said of it, as far as rules would enforce it."""
    found = (Conditions(together, report) for together in taker.together(parts))
    return any(_fits_all(value, conditions, taker, report) for conditions in found)


def _fits_all(value: Any, conditions: Conditions, taker: Taker, report: Report) -> bool:
    listed = conditions.values()
    return (listed is None or key_of(value) in map(key_of, listed)) and fits_beside(value, conditions, taker, report)


def fits_beside(value: Any, conditions: Conditions, taker: Taker, report: Report) -> bool:
    """The same for everything but the list of values itself."""
    kinds = conditions.kinds()
    match value:
        case None:
            return "null" in kinds
        case bool():
            return "boolean" in kinds
        case int() | float():
            of_kind = "number" in kinds or ("integer" in kinds and float(value).is_integer())
            return of_kind and conditions.bounds().admit(value)
        case str():
            least, most = conditions.counts("minLength", "maxLength")
            patterns = [text for _, text in conditions.each("pattern", lambda text: isinstance(text, str))]
            return (
                "string" in kinds
                and least <= len(value) <= (len(value) if most is None else most)
                and all(is_found(pattern, value) is not False for pattern in patterns)
            )
        case list():
            items = cast("list[Any]", value)
            least, most = conditions.counts("minItems", "maxItems")
            if "array" not in kinds or not least <= len(items) <= (len(items) if most is None else most):
                return False
            said = [(item, conditions.of_item(index)) for index, item in enumerate(items)]
        case _:
            properties = cast("dict[str, Any]", value)
            if "object" not in kinds or not set(conditions.required()) <= properties.keys():
                return False
            said = [(each, conditions.of_property(name)) for name, each in properties.items()]
    return all(parts is not None and fits(each, parts, taker, report) for each, parts in said)


def says_nothing(keyword: str, value: Any) -> bool:
    """Whether the keyword has no effect with this value."""
    return value in _IDLE.get(keyword, ())


def say_nothing(part: Part, keyword: str, why: str) -> None:
    """For schemas that are only compared: nothing is reported."""


def are_apart(one: Together, other: Together, taker: Taker, depth: int = 0) -> bool:
    """Whether it is certain that no value fits both."""
    spend(1)
    left, right = Conditions(one, say_nothing), Conditions(other, say_nothing)
    for conditions, others in ((left, right), (right, left)):
        values = conditions.values()
        if values is not None:
            return not any(_fits_all(value, others, taker, say_nothing) for value in values)
    kinds = left.kinds() & right.kinds()
    if kinds != frozenset(("object",)) or depth > _MAX_COMPARED_DEPTH:
        return not kinds
    for name in {*left.required(), *right.required()}:  # a value that fits both has them all
        first, second = left.of_property(name), right.of_property(name)
        if first is None or second is None:
            return True
        pairs = ((a, b) for a in taker.together(first) for b in taker.together(second))
        if all(are_apart(a, b, taker, depth + 1) for a, b in pairs):
            return True
    return False
