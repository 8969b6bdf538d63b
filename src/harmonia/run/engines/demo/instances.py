"""A value for a JSON Schema, made from the user's words where that is easy.

The likeliest value comes first: what the words offer, then the schema's own constants, defaults and examples, then what
its types and limits ask for. Optional properties are left out unless the words offer something for them. A few attempts
are made, each with other variants, and the first that validates is returned; `Instance.fits` reports whether one did.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from harmonia.errors import ErrorCode, HarmonyError
from harmonia.grammar.regex_rules import UnreadableRegexError, regex_alternatives
from harmonia.grammar.regex_search import is_found
from harmonia.grammar.rules import Chars, Choice, Literal, Node, Repeat, Sequence
from harmonia.run.engines.demo.hints import Hints
from harmonia.run.tools.arguments import compile_schema

Schema = dict[str, Any] | bool | None

_ATTEMPTS: Final = 8
_STEPS: Final = 2000
_DEEPEST: Final = 24
_DEEP: Final = 4  # from here on, the variant that ends a recursion is preferred
_LONGEST_TEXT: Final = 20_000
_MOST_ITEMS: Final = 200
# A property of one of these names is about everything that the user wrote.
_WHOLE_TEXT_NAMES: Final = frozenset(
    ("query", "q", "prompt", "text", "message", "input", "question", "content", "body", "description", "pattern")
)
# What a schema without a type is about, by the keywords that it has.
_KINDS_BY_KEYWORD: Final = {
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "contains"),
}
_TYPES: Final[dict[str, Any]] = {
    "object": dict,
    "string": str,
    "integer": int,
    "number": float,
    "array": list,
    "boolean": bool,
    "null": type(None),
}
_BOUNDS: Final = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
# One text of each format, from the names that are reserved for examples.
FORMATS: Final = {
    "date-time": "2025-01-31T12:00:00Z",
    "date": "2025-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "idn-email": "demo@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/demo",
    "iri-reference": "/demo",
    "uri-template": "/demo/{id}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "/demo",
    "relative-json-pointer": "0/demo",
    "regex": "demo",
}


class Instance(NamedTuple):
    """A value, and whether it fits the schema that it was made for."""

    value: Any
    fits: bool


def make_instance(schema: Schema, hints: Hints) -> Instance:
    """A value for the schema; an object where the schema is empty."""
    schema = {"type": "object"} if schema is None or schema is True or schema == {} else schema
    first: Any = None
    for attempt in range(_ATTEMPTS):
        # Every second attempt does without the user's words, which may be what does not fit.
        maker = _Maker(schema, hints if attempt % 2 == 0 else Hints(""), attempt // 2)
        value = maker.make(schema)
        if attempt == 0:
            first = value
        if not maker.missed and _fits(value, schema):
            return Instance(value, True)
    return Instance(first, False)


def samples_of(pattern: str) -> Iterator[str]:
    """Texts that a regular expression matches, the shortest first; none for one that cannot be read."""
    try:
        alternatives = regex_alternatives(pattern)
    except UnreadableRegexError:
        return
    for more in (0, 1, 2, 5, 10, 20, 50):
        yield from (text for each in alternatives[:1] if is_found(pattern, text := _spell(each.node, more)))


def _spell(node: Node, more: int) -> str:
    match node:
        case Literal(text):
            return text
        case Chars(ranges, is_negated):
            if not is_negated:
                return chr(ranges[0][0])
            return next(each for each in "a1-A_ é" if not any(low <= ord(each) <= high for low, high in ranges))
        case Sequence(nodes):
            return "".join(_spell(each, more) for each in nodes)
        case Choice(nodes):
            return _spell(nodes[0], more)
        case Repeat(inner, least, most):
            times = min(least + more, _MOST_ITEMS if most is None else most)
            return _spell(inner, more) * times
        case _:
            raise AssertionError(node)  # a regular expression has no other nodes


def _fits(value: Any, schema: Schema) -> bool:
    try:
        compile_schema("demo", cast("Any", schema), untrusted=True)(value)
    except HarmonyError as error:
        return error.code is ErrorCode.TOOL_MISSING_EXTRA  # without jsonschema, nothing can be said against it
    return True


class _Maker:
    """One attempt. `missed` says that no text was found for a pattern, which the validator does not try."""

    def __init__(self, root: Schema, hints: Hints, variant: int) -> None:
        self.missed = False
        self._root = root
        self._hints = hints.copy()
        self._variant = variant
        self._steps = _STEPS

    def make(self, given: object, name: str = "", depth: int = 0, turn: int = 0) -> Any:
        """A value for one schema in the document. `turn` counts the values that must differ from each other."""
        self._steps -= 1
        if self._steps < 0 or depth > _DEEPEST:
            return None
        schema = self._plain(given, depth)
        if "const" in schema:
            return schema["const"]
        kinds = self._kinds(schema)
        options = _list(schema.get("enum"))
        if options:
            mentioned = [each for each in options if self._hints.mentions(each)]
            return (mentioned or options)[(turn + self._variant) % len(mentioned or options)]
        if (said := self._hints.named(name)) is not None:
            for kind in kinds:
                try:
                    return said if kind == "string" else json.loads(said.lower() if kind == "boolean" else said)
                except (ValueError, RecursionError):
                    continue
        own = [schema["default"]] if "default" in schema else _list(schema.get("examples"))
        own = [each for each in own if type(each) is _TYPES.get(kinds[0]) and kinds[0] not in ("array", "object")]
        if own and depth > 0 and turn == 0 and self._variant == 0 and not self._has_words_for(kinds[0], name):
            return own[0]
        match kinds[0]:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "string":
                return self._text(schema, name, turn)
            case "integer" | "number":
                return self._number(schema, turn, is_integer=kinds[0] == "integer")
            case kind:
                return None if kind == "null" else turn == 0

    # ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plain(self, given: object, depth: int) -> dict[str, Any]:
        """The schema without references and alternatives: one variant of each is chosen."""
        schema = _object(given)
        for _ in range(_DEEPEST):
            if "$ref" in schema:
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = _merge(rest, _object(self._follow(schema["$ref"])))
            elif parts := _list(schema.get("allOf")):
                schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in parts:
                    schema = _merge(schema, _object(part))
            elif "if" in schema:
                kept = {key: value for key, value in schema.items() if key not in ("if", "then", "else")}
                chosen = [schema["if"], schema.get("then")] if self._variant % 2 == 0 else [schema.get("else")]
                schema = {**kept, "allOf": [*_list(kept.get("allOf")), *chosen]}
            elif key := next((each for each in ("anyOf", "oneOf") if _list(schema.get(each))), None):
                variants = [each for each in _list(schema[key]) if each is not False] or [{}]
                at = self._variant % len(variants)
                if depth >= _DEEP:
                    at = next((at for at, each in enumerate(variants) if _object(each).get("type") == "null"), at)
                rest = {name: value for name, value in schema.items() if name != key}
                schema = _merge(rest, _object(variants[at]))
            else:
                break
        return schema

    def _follow(self, reference: object) -> object:
        """What a `$ref` within the document points to."""
        found: Any = self._root
        for part in str(reference).removeprefix("#").split("/")[1:]:
            found = _object(found).get(part.replace("~1", "/").replace("~0", "~"))
        return found

    def _kinds(self, schema: dict[str, Any]) -> list[str]:
        given = schema.get("type")
        kinds = [given] if isinstance(given, str) else [each for each in _list(given) if isinstance(each, str)]
        if not kinds:
            found = (kind for kind, keywords in _KINDS_BY_KEYWORD.items() if any(each in schema for each in keywords))
            kinds = [next(found, [*_TYPES][self._variant % len(_TYPES)])]
        return [each for each in kinds if each != "null"] or kinds

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _text(self, schema: dict[str, Any], name: str, turn: int) -> str:
        form, pattern = schema.get("format"), schema.get("pattern")
        least = int(min(_bound(schema, "minLength", 0), _LONGEST_TEXT))
        most = int(min(_bound(schema, "maxLength", _LONGEST_TEXT), _LONGEST_TEXT))
        if isinstance(pattern, str):
            offered = [*self._hints.texts(), *samples_of(pattern)]
            fitting = [text for text in offered if least <= len(text) <= most and is_found(pattern, text) is not False]
            self.missed |= not fitting
            return fitting[turn % len(fitting)] if fitting else "demo"
        if isinstance(form, str) and (form in FORMATS or self._hints.of_format(form)):
            return next(iter(self._hints.of_format(form)), FORMATS.get(form, "demo"))
        offered = self._hints.texts()
        if name.lower() in _WHOLE_TEXT_NAMES:
            offered = [*offered[:1], self._hints.text[:500]]
        text = next((each for each in offered if each and least <= len(each) <= most), "")
        if text:
            self._hints.use_up(text)
        else:
            text = "demo" if turn == 0 else f"demo{turn}"
        return (text + "o" * (least - len(text)))[: max(most, 0)]

    def _number(self, schema: dict[str, Any], turn: int, *, is_integer: bool) -> float:
        low, high = _bound(schema, "minimum", -math.inf), _bound(schema, "maximum", math.inf)
        above, below = _bound(schema, "exclusiveMinimum", -math.inf), _bound(schema, "exclusiveMaximum", math.inf)
        step = _bound(schema, "multipleOf", 1 if is_integer else 0)
        for number in self._hints.numbers():
            if low <= number <= high and above < number < below and (not step or number % step == 0):
                self._hints.use_up(number)
                return number
        least, most = max(low, above), min(high, below)
        if step:
            start = least if math.isfinite(least) else min(step, most) if math.isfinite(most) else step
            number = (math.ceil(start / step) if start <= most else math.floor(most / step)) * step
            number += step * (number <= above) - step * (number >= below) + turn * step
            return int(number) if is_integer else number
        if math.isfinite(least) and math.isfinite(most):
            return least if least == most else (least + most) / 2
        return least + 1 + turn if math.isfinite(least) else most - 1 - turn if math.isfinite(most) else turn + 1.5

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        first, rest = _list(schema.get("prefixItems")), schema.get("items", {})
        if isinstance(rest, list):  # as older drafts have it
            first, rest = cast("list[Any]", rest), schema.get("additionalItems", {})
        most = int(min(_bound(schema, "maxItems", _MOST_ITEMS), _MOST_ITEMS))
        declares = bool(first) or ("items" in schema and rest is not False)
        needed = int(_bound(schema, "minContains", 1)) if "contains" in schema else 0
        length = min(max(int(_bound(schema, "minItems", 0)), len(first), int(declares), needed), most)
        made: list[Any] = []
        for at in range(length):
            item: Any = first[at] if at < len(first) else rest
            if at >= length - needed:
                item = {"allOf": [item, schema["contains"]]}
            made.append(self.make(item, name.removesuffix("s"), depth + 1, turn=at))
        return made

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        declared = _object(schema.get("properties"))
        names = [each for each in _list(schema.get("required")) if isinstance(each, str)]
        optional = [each for each in declared if each not in names]
        offered = [each for each in optional if self._is_offered(each, declared[each])]
        if not names and len(declared) == 1:
            # An object around one list is about that list, even where the schema does not require it.
            offered = [each for each in declared if _object(declared[each]).get("type") == "array"] or offered
        names += offered
        for name in names:  # which grows by what they depend on
            names += [each for each in _list(_object(schema.get("dependentRequired")).get(name)) if each not in names]
        patterns = _object(schema.get("patternProperties"))
        more = [*optional, *(text for pattern in patterns for text in samples_of(pattern))]
        least = len(declared) if self._variant >= 2 else int(min(_bound(schema, "minProperties", 0), _MOST_ITEMS))
        more += [] if schema.get("additionalProperties") is False else [f"key{at}" for at in range(1, least + 1)]
        for name in more:
            if len(names) < least and name not in names and declared.get(name) is not False:
                names.append(name)
        order = {name: at for at, name in enumerate(declared)}
        return {
            name: self.make(self._property(schema, declared, patterns, name), name, depth + 1)
            for name in sorted(names, key=lambda name: order.get(name, len(order)))
        }

    def _property(self, schema: dict[str, Any], declared: dict[str, Any], patterns: dict[str, Any], name: str) -> Any:
        found = [declared[name]] if name in declared else []
        found += [each for pattern, each in patterns.items() if is_found(pattern, name)]
        return {"allOf": found} if len(found) > 1 else found[0] if found else schema.get("additionalProperties", {})

    def _has_words_for(self, kind: str, name: str) -> bool:
        if kind == "string":
            return bool(self._hints.texts()) and name.lower() not in _WHOLE_TEXT_NAMES
        return kind in ("integer", "number") and bool(self._hints.numbers())

    def _is_offered(self, name: str, given: object) -> bool:
        """Whether the user's words have something for an optional property, without much doubt."""
        schema = self._plain(given, 0)
        form = schema.get("format")
        return (
            self._hints.named(name) is not None
            or any(self._hints.mentions(each) for each in _list(schema.get("enum")))
            or (isinstance(form, str) and bool(self._hints.of_format(form)))
        )


def _merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema that demands what both demand, as far as that can be written plainly."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        mine, yours = one[key], other[key]
        if key == "properties":
            both = {name: {"allOf": [mine[name], yours[name]]} for name in _object(mine) if name in _object(yours)}
            merged[key] = {**_object(mine), **_object(yours), **both}
        elif key in ("required", "allOf"):
            merged[key] = [*_list(mine), *(each for each in _list(yours) if each not in _list(mine))]
        elif key == "enum":
            merged[key] = [each for each in _list(mine) if each in _list(yours)]
        elif key == "type" and {mine, yours} == {"integer", "number"} if isinstance(mine, str) else False:
            merged[key] = "integer"
        elif key in _BOUNDS and _is_number(mine) and _is_number(yours):
            merged[key] = _BOUNDS[key](mine, yours)
        elif key in ("items", "additionalProperties", "contains") and mine != yours:
            merged[key] = {"allOf": [mine, yours]}
    return merged


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bound(schema: dict[str, Any], key: str, otherwise: float) -> float:
    value = schema.get(key)
    return cast("float", value) if _is_number(value) else otherwise
