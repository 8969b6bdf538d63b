"""A value that fits a JSON Schema, made of what the user's words offer where that is easy.

Several values are tried, the likeliest first, and the first that fits is taken: what the words offer, the schema's own
defaults and examples, then what its types and limits ask for. Optional properties are left out unless the words have
something for them. The work is bounded by a number of steps, so a schema that nothing fits, or that is too hard, gives
a value that does not fit; `Instance.fits` says so.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from harmonia.run.engines.demo.fitting import Fitting, Schema, is_same, item_schemas, property_schemas, types_of
from harmonia.run.engines.demo.hints import Hints
from harmonia.run.engines.demo.json_values import as_list, as_object, is_number
from harmonia.run.engines.demo.samples import FORMATS, samples_of

_STEPS: Final = 4000
_MOST_CANDIDATES: Final = 60
_MOST_VARIANTS: Final = 24
_DEEPEST: Final = 24
_LEVELS: Final = (5, 2, 24)
_LONGEST_TEXT: Final = 20_000
_MOST_ITEMS: Final = 200
# A property of one of these names is about what the user wrote as a whole.
_WHOLE_TEXT_NAMES: Final = frozenset(
    ("query", "q", "prompt", "text", "message", "input", "question", "content", "body", "description", "pattern")
)
_KINDS_BY_KEYWORD: Final = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "minProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "contains": "array",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
}
_ALL_KINDS: Final = ("object", "string", "integer", "number", "boolean", "array", "null")
_LEAST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_OF_ITEMS: Final = ("items", "additionalProperties", "propertyNames", "contains", "additionalItems")
_COMBINING: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else")


class Instance(NamedTuple):
    """A value, and whether it fits the schema that it was made for."""

    value: Any
    fits: bool


class _Nothing:
    """No value was found; None is one."""


_NOTHING: Final = _Nothing()


def make_instance(schema: Schema, hints: Hints) -> Instance:
    """A value for the schema; an object where the schema says nothing."""
    # A schema that contains itself would be followed down to the last level, so shallow values are tried first; but
    # not so shallow that a list of objects stays empty.
    for deepest in _LEVELS:
        value = _Search(schema, copy.copy(hints), deepest).find(schema, "", 0)
        if not isinstance(value, _Nothing):
            return Instance(value, True)
    # Nothing fits. What comes closest is still better to look at than nothing.
    search = _Search(schema, copy.copy(hints), _LEVELS[-1], is_checked=False)
    return Instance(next(search.candidates(schema, "", 0), cast("Any", {})), False)


class _Search:
    def __init__(self, document: Schema, hints: Hints, deepest: int, *, is_checked: bool = True) -> None:
        self._fitting = Fitting(document)
        self._deepest = deepest
        self._hints = hints
        self._steps = _STEPS
        self._is_checked = is_checked

    def find(self, schema: Schema, name: str, depth: int) -> Any:
        """The first candidate that fits, or _NOTHING."""
        value = next(self._fitting_candidates(schema, name, depth), _NOTHING)
        self._hints.use_up(value)
        return value

    def _fitting_candidates(self, schema: Schema, name: str, depth: int) -> Iterator[Any]:
        for candidate in self.candidates(schema, name, depth):
            if not self._step():
                return
            if not self._is_checked or self._fitting.fits(candidate, schema):
                yield candidate

    def _step(self) -> bool:
        self._steps -= 1
        return self._steps > 0

    # ── schemas that say several things ─────────────────────────────────────────────────────────────────────────

    def candidates(self, schema: Schema, name: str, depth: int) -> Iterator[Any]:
        if depth > self._deepest or schema is False:
            return
        for variant in self._variants(schema, 0):
            yield from self._plain_candidates(variant, name, depth)

    def _variants(self, schema: Schema, depth: int) -> list[dict[str, Any]]:
        """The schema without references and combinations: one plain schema for each way to fulfil it."""
        if schema is False or depth > _DEEPEST or not self._step():
            return []
        if not isinstance(schema, dict):
            return [{}]
        known = as_object(cast("object", schema))
        found = [{key: value for key, value in known.items() if key not in _COMBINING}]
        conditions: list[list[Schema]] = []  # one of each must hold
        if "$ref" in known:
            conditions.append([self._fitting.target_of(known)])
        conditions += [[each] for each in as_list(known.get("allOf"))]
        conditions += [listed for keyword in ("anyOf", "oneOf") if (listed := as_list(known.get(keyword)))]
        if "if" in known:
            conditions.append([{"allOf": [known["if"], known.get("then", True)]}, known.get("else", True)])
        for choices in conditions:
            inner = [variant for choice in choices for variant in self._variants(choice, depth + 1)]
            found = [_merge(one, other) for other in inner for one in found][:_MOST_VARIANTS]
        return found

    # ── plain schemas ───────────────────────────────────────────────────────────────────────────────────────────

    def _plain_candidates(self, schema: dict[str, Any], name: str, depth: int) -> Iterator[Any]:
        if "const" in schema:
            yield schema["const"]
            return
        said = self._hints.named(name) if name else None
        if isinstance(schema.get("enum"), list):
            yield from sorted(
                as_list(schema["enum"]), key=lambda value: value != said and not self._hints.mentions(value)
            )
            return
        kinds = types_of(schema)
        if not kinds:
            implied = [kind for keyword, kind in _KINDS_BY_KEYWORD.items() if keyword in schema]
            rest = _ALL_KINDS if depth == 0 else ("string", *_ALL_KINDS)
            kinds = list(dict.fromkeys([*implied, *rest]))
        if said is not None:
            yield from _readings(said, kinds)
        own = [schema["default"]] if "default" in schema else []
        own += as_list(schema.get("examples"))
        for kind in kinds:
            yield from islice(self._of_kind(kind, schema, name, depth, own), _MOST_CANDIDATES)

    def _of_kind(self, kind: str, schema: dict[str, Any], name: str, depth: int, own: list[Any]) -> Iterator[Any]:
        match kind:
            case "string":
                yield from self._texts(schema, name, own)
            case "integer" | "number":
                yield from self._numbers(schema, kind, own)
            case "boolean":
                yield from (*own, True, False)
            case "null":
                yield None
            case "array":
                yield from self._arrays(schema, name, depth, own)
            case "object":
                yield from self._objects(schema, depth, own)
            case _:
                pass

    def _texts(self, schema: dict[str, Any], name: str, own: list[Any]) -> Iterator[Any]:
        form, pattern = schema.get("format"), schema.get("pattern")
        if isinstance(form, str) and form in FORMATS:
            yield from self._hints.of_format(form)
            yield from own
            yield FORMATS[form]
        else:
            if name.lower() not in _WHOLE_TEXT_NAMES:
                yield from self._hints.texts()
            yield from own
            if name.lower() in _WHOLE_TEXT_NAMES:
                yield from self._hints.texts()[:1]
                yield self._hints.text[:500] or "demo"
        if isinstance(pattern, str):
            yield from samples_of(pattern)
        least = _number(schema.get("minLength"), 0)
        most = _number(schema.get("maxLength"), math.inf)
        if least > _LONGEST_TEXT:
            return
        for filler in ("demo", *(f"demo {number}" for number in range(2, _MOST_ITEMS))):
            length = int(min(max(least, len(filler)), most))
            yield (filler * (length // len(filler) + 1))[:length]
            if most < len(filler):
                # Too short for words; further ones differ by one character.
                yield from ("", "a"[: int(most)], "b"[: int(most)])
                yield from (chr(code) * max(int(least), 1) for code in range(ord("a"), ord("z")))
                return

    def _numbers(self, schema: dict[str, Any], kind: str, own: list[Any]) -> Iterator[Any]:
        is_integer = kind == "integer"
        yield from (number for number in self._hints.numbers() if not is_integer or number == number // 1)
        yield from own
        low = max(_number(schema.get("minimum"), -math.inf), _number(schema.get("exclusiveMinimum"), -math.inf))
        high = min(_number(schema.get("maximum"), math.inf), _number(schema.get("exclusiveMaximum"), math.inf))
        step = _number(schema.get("multipleOf"), 0)
        try:
            tries: list[float] = [1, 0, -1] if is_integer else [1, 0, -1, 0.5]
            if step > 0:
                nearest = [math.ceil(end / step) * step for end in (low, high) if math.isfinite(end)]
                tries = [*(near + by * step for near in nearest for by in (0, 1, -1)), step, 0]
            if math.isfinite(low):
                tries += [math.ceil(low), math.floor(low) + 1, low]
            if math.isfinite(high):
                tries += [math.floor(high), math.ceil(high) - 1, high]
            if not is_integer and math.isfinite(low + high):
                tries += [low + (high - low) / 2]
            if not is_integer and math.isfinite(low):
                tries += [math.nextafter(low, math.inf)]
            if not is_integer and math.isfinite(high):
                tries += [math.nextafter(high, -math.inf)]
            start = next((number for number in tries if self._fitting.fits(number, schema)), 0)
            tries += [start + (step or 1) * by for number in range(1, _MOST_ITEMS) for by in (number, -number)]
        except (OverflowError, ValueError):
            return
        yield from (int(number) if is_integer and math.isfinite(number) else number for number in tries)

    def _arrays(self, schema: dict[str, Any], name: str, depth: int, own: list[Any]) -> Iterator[Any]:
        yield from own
        first, rest = item_schemas(schema)
        least = _number(schema.get("minItems"), 0)
        most = _number(schema.get("maxItems"), math.inf)
        if least > _MOST_ITEMS:
            return
        declares = bool(first) or (rest is not True and rest is not False and "items" in schema)
        wanted = int(min(max(least, len(first), 1), most)) if declares else int(least)
        for length in dict.fromkeys([wanted, max(int(least), 1), int(least)]):
            made = self._items(schema, length, name, depth)
            if made is not None:
                yield made

    def _items(self, schema: dict[str, Any], length: int, name: str, depth: int) -> list[Any] | None:
        first, rest = item_schemas(schema)
        contained = schema.get("contains")
        needed = int(_number(schema.get("minContains"), 1)) if contained is not None else 0
        is_unique = schema.get("uniqueItems") is True
        made: list[Any] = []
        for at in range(max(length, needed)):
            item_schema = first[at] if at < len(first) else rest
            if at >= max(length, needed) - needed:
                item_schema = {"allOf": [item_schema, contained]}
            found = self._fitting_candidates(item_schema, name.removesuffix("s"), depth + 1)
            item = next((each for each in found if not is_unique or not _has(made, each)), _NOTHING)
            if isinstance(item, _Nothing):
                return None
            self._hints.use_up(item)
            made.append(item)
        return made

    def _objects(self, schema: dict[str, Any], depth: int, own: list[Any]) -> Iterator[Any]:
        if depth > 0:
            yield from own
        declared = as_object(schema.get("properties"))
        required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
        offered = [name for name in declared if name not in required and self._is_offered(name, declared[name])]
        if not required and len(declared) == 1:
            # An object around one list is about that list, though its author did not say that it is required.
            offered = [name for name, each in declared.items() if types_of(as_object(each)) == ["array"]] or offered
        yield from self._with_properties(schema, [*required, *offered], declared, depth)
        if offered:
            yield from self._with_properties(schema, required, declared, depth)
        least = int(min(_number(schema.get("minProperties"), 0), _MOST_ITEMS))
        more = [name for name in declared if name not in required]
        more += [f"key{number}" for number in range(1, least + 1)]
        more += [each for each in samples_of("|".join(as_object(schema.get("patternProperties"))) or "demo") if each]
        if least > len(required):
            yield from self._with_properties(schema, required, declared, depth, more, least)
        if declared and len(required) < len(declared):
            yield from self._with_properties(schema, required, declared, depth, more, len(declared))

    def _with_properties(
        self,
        schema: dict[str, Any],
        names: list[str],
        declared: dict[str, Any],
        depth: int,
        more: list[str] | None = None,
        least: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """The object with these properties, and with as many of `more` as it takes to have enough."""
        needed = list(dict.fromkeys(names))
        for name in needed:  # which grows by what they depend on
            needed += [
                each
                for each in as_list(as_object(schema.get("dependentRequired")).get(name))
                if isinstance(each, str) and each not in needed
            ]
        made: dict[str, Any] = {}
        order = {name: at for at, name in enumerate(declared)}
        for name in sorted(needed, key=lambda name: order.get(name, len(order))):
            value = self._property(schema, name, depth)
            if isinstance(value, _Nothing):
                return
            made[name] = value
        for name in more or ():
            if len(made) >= least:
                break
            if name not in made and not isinstance(value := self._property(schema, name, depth), _Nothing):
                made[name] = value
        yield made

    def _property(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        said = property_schemas(schema, name)
        return self.find(said[0] if len(said) == 1 else {"allOf": said}, name, depth + 1)

    def _is_offered(self, name: str, schema: Schema) -> bool:
        """Whether the user's words have something for an optional property, without much doubt."""
        if self._hints.named(name) is not None:
            return True
        for variant in self._variants(schema, 0)[:4]:
            if any(self._hints.mentions(value) for value in as_list(variant.get("enum"))):
                return True
            form = variant.get("format")
            if isinstance(form, str) and self._hints.of_format(form):
                return True
        return False


def _merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema that says, as far as it can be said plainly, what both say."""
    merged = dict(one)
    for key, value in other.items():
        if key not in merged:
            merged[key] = value
            continue
        mine = merged[key]
        if key == "type":
            kinds = types_of(one)
            shared = [kind for kind in types_of(other) if kind in kinds or (kind == "integer" and "number" in kinds)]
            if "integer" in kinds and "number" in types_of(other):
                shared.append("integer")
            merged[key] = shared or ["none at all"]
        elif key == "properties":
            first, second = as_object(mine), as_object(value)
            both = {name: {"allOf": [first[name], second[name]]} for name in first if name in second}
            merged[key] = {**first, **second, **both}
        elif key == "required":
            merged[key] = list(
                dict.fromkeys(each for each in [*as_list(mine), *as_list(value)] if isinstance(each, str))
            )
        elif key == "enum":
            merged[key] = [each for each in as_list(mine) if _has(as_list(value), each)]
        elif key in _LEAST and is_number(mine) and is_number(value):
            merged[key] = max(mine, value)
        elif key in _MOST and is_number(mine) and is_number(value):
            merged[key] = min(mine, value)
        elif key in _OF_ITEMS and not is_same(mine, value):
            merged[key] = {"allOf": [mine, value]}
        else:
            merged[key] = value
    return merged


def _readings(said: str, kinds: list[str]) -> Iterator[Any]:
    """What a word may mean as a value of one of these types."""
    for kind in kinds:
        if kind == "string":
            yield said
        else:
            try:
                yield json.loads(said.lower() if kind == "boolean" else said)
            except (ValueError, RecursionError):
                continue


def _has(values: list[Any], value: Any) -> bool:
    return any(is_same(each, value) for each in values)


def _number(value: Any, otherwise: float) -> float:
    return value if is_number(value) else otherwise
