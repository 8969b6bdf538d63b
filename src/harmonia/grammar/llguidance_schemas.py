"""Prepares JSON Schemas for llguidance, and reports what it does not enforce.

llguidance refuses a schema with a keyword that it cannot enforce, and silently ignores some keywords. Here every
keyword is checked: those that it enforces stay, annotations are removed, and those that it does not enforce are removed
and reported. Nothing becomes narrower, with two exceptions (docs/concepts/grammars.md): properties come in the order
of their declaration, and a number with a bound has no exponent.

References are redirected to definitions at the top of the schema. The result compiles, unless no value matches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.conditions import Part, Taker, are_apart, say_nothing, says_nothing
from harmonia.grammar.rules import Loss
from harmonia.messages import Json
from harmonia.schema.document import Place, References, path_text, steps_to

# Each definition and each level costs the engine's compiler a part of its stack; some thousand end the process.
MAX_DEFINITIONS: Final = 500
MAX_DEPTH: Final = 40
# The engine makes a regular expression of a range, and gives up beyond this, or after so many digits.
LARGEST_BOUND: Final = 10**18
BOUND_DIGITS: Final = 12
# The branches of a `oneOf` are compared, each with each; more than this are reported as if they overlapped.
MAX_COMPARED: Final = 100

# White space between the signs of JSON: one space, or a line break with its indentation. Without a bound, a model with
# no mind of its own wanders off in it.
WHITE_SPACE: Final = r"\x20|\n\x20{0,40}|\n\t{0,10}"
# Without `\u`: see `_Reader.has_known_names`.
_NAMED_ESCAPES: Final = 'nrbtf\\"'

_TYPES: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
_NOT_HELD: Final = {
    "not": "not enforced: values that match it are admitted too",
    "if": "conditions are not enforced",
    "then": "conditions are not enforced",
    "else": "conditions are not enforced",
    "contains": "not enforced: an array without a matching item is admitted",
    "minContains": "the number of items that match `contains` is not enforced",
    "maxContains": "the number of items that match `contains` is not enforced",
    "uniqueItems": "not enforced: equal items are admitted",
    "dependentRequired": "dependencies between properties are not enforced",
    "dependentSchemas": "dependencies between properties are not enforced",
    "dependencies": "dependencies between properties are not enforced",
    "propertyNames": "not enforced for the names of additional properties",
    "unevaluatedProperties": "not enforced: additional properties are admitted",
    "unevaluatedItems": "not enforced: additional items are admitted",
    "$dynamicRef": "not followed: any value is admitted",
    "$recursiveRef": "not followed: any value is admitted",
    "divisibleBy": "a keyword of draft 3; use `multipleOf`",
    "extends": "a keyword of draft 3; use `allOf`",
    "disallow": "a keyword of draft 3, not enforced",
}

# The part of regular expressions that means the same to JSON Schema, to Rust and to Python: no looking around, no
# references back, no word boundaries, and the ends of the text at the ends of the expression only.
# A class that is negated, `\\W`, means other characters to each of them.
_ESCAPE: Final = r"(?:\\[dwsStnrfv]|\\[^\w\s]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})"
_CLASS_CHARACTER: Final = rf"(?:[^\[\]\\&~^-]|{_ESCAPE})"
_PLAIN_EXPRESSION: Final = re.compile(
    rf"""\^?(?:
        [^\\^$?*+()\[\]{{}}]
      | {_ESCAPE}
      | \[ \^? -? (?:{_CLASS_CHARACTER}(?:-{_CLASS_CHARACTER})?)+ -? \]
      | \((?!\?) | \(\?: | \)
      | [*+?](?![*+]) | \{{\d{{1,3}}(?:,\d{{0,3}})?\}}(?![*+])
    )*\$?""",
    re.VERBOSE,
)
# A set that excludes these lets them through in llguidance 1.9: JSON writes them as two characters.
_NEGATED_SET: Final = re.compile(r"\[\^(?:\\.?|[^\]\\])++(?:\]|\Z)", re.DOTALL)
_ADMITS_SIGNS: Final = "quotation marks and backslashes are admitted although it excludes them"
_COUNTS: Final = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))
# Keywords whose value is not a schema.
_VALUED: Final = (
    _COUNTS
    | {"type", "enum", "const", "required", "multipleOf", "pattern", "format"}
    | {*("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")}
)


def held_schema(schema: Any, about: str) -> tuple[Json, tuple[Loss, ...]]:
    """What llguidance can hold of a schema, and what it cannot. `about` is whose it is, for the losses."""
    reader = _Reader(schema, about)
    held = reader.read(schema, None, 0)
    top: Json = dict(held) if isinstance(held, dict) else {} if held else {"enum": []}
    if reader.definitions:
        top["$defs"] = reader.definitions
    options: Json = {"whitespace_pattern": WHITE_SPACE}
    if reader.has_known_names:
        options["json_allowed_escapes"] = _NAMED_ESCAPES
    return {"x-guidance": options, **top}, tuple(reader.losses.values())


class _Reader:
    def __init__(self, root: Any, about: str) -> None:
        self._about = about
        self._document: Json = root if isinstance(root, dict) else {}
        self._references = References(self._document, "$")
        self._names: dict[str, str] = {}
        self._being_read: list[str] = []
        self.definitions: Json = {}
        self.losses: dict[tuple[str, str], Loss] = {}
        # Whether the names of some properties are known and others are held to a schema of their own. The engine would
        # take a known name that is written with `\\u` escapes for one of the others, so that there must be none.
        self.has_known_names = False

    def read(self, schema: Any, place: Place, depth: int, met: frozenset[str] = frozenset()) -> Json | bool:
        """What is held of a schema. `met` are the definitions that this very value has to fit already."""
        if depth > MAX_DEPTH:
            raise self._too_large(f"is nested more than {MAX_DEPTH} levels deep", place)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            self._lose(place, "schema", "not a schema, so any value is admitted")
            return True
        fields = cast("Json", schema)
        held: Json = {}
        for keyword, value in fields.items():
            if not isinstance(keyword, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
                continue
            here: Place = (place, keyword)
            if keyword in _NOT_HELD:
                if not says_nothing(keyword, value):
                    self._lose(here, keyword, _NOT_HELD[keyword])
            elif keyword in _VALUED:
                fault = _find_fault(keyword, value)
                if fault is not None:
                    self._lose(here, keyword, fault)
                if fault is None or fault == _ADMITS_SIGNS:
                    held[keyword] = int(value) if keyword in _COUNTS else value
            else:
                self._read_inner(held, keyword, value, here, depth, met)
        if len(held) > 1 and held.get("$ref", "").rpartition("/")[2] in self._being_read:
            self._lose((place, "$ref"), "$ref", "keywords beside a recursive reference are not enforced")
            return {"$ref": held["$ref"]}
        self._settle_names(held, fields, place)
        return held

    def _read_inner(self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str]) -> None:
        """A keyword whose value is a schema, or has some. Others describe a value and do not bound it; definitions are
        read where something refers to them."""
        match keyword:
            case "items" | "additionalItems" | "additionalProperties" if not isinstance(value, list):
                held[keyword] = self.read(value, place, depth + 1)
            case "items" | "additionalItems" | "additionalProperties" | "prefixItems":
                self._read_list(held, keyword, value, place, depth)
            case "anyOf":
                self._read_list(held, keyword, value, place, depth, met)
            case "allOf" | "oneOf":
                read: Json = {}
                self._read_list(read, keyword, value, place, depth, met)
                branches: list[Any] = read.get(keyword, [])
                if keyword == "oneOf" and branches:
                    branches = [{"anyOf": branches}]  # beside an anyOf both have to hold
                    if self._overlap(cast("list[Any]", value), place):
                        why = "only that at least one schema matches is enforced, not that exactly one does"
                        self._lose(place, keyword, why)
                if branches or keyword == "allOf":
                    held["allOf"] = [*held.get("allOf", ()), *branches]
            case "properties" | "patternProperties" if isinstance(value, dict):
                schemas = cast("Json", value)
                held[keyword] = {name: self.read(schemas[name], (place, name), depth + 1) for name in schemas}
            case "properties" | "patternProperties":
                self._lose(place, keyword, "its value is not an object")
            case "$ref":
                self._read_reference(held, value, place, depth, met)
            case _:
                pass

    def _read_list(
        self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str] = frozenset()
    ) -> None:
        if isinstance(value, list) and value:
            schemas = cast("list[Any]", value)
            held[keyword] = [self.read(schema, (place, index), depth + 1, met) for index, schema in enumerate(schemas)]
        else:
            self._lose(place, keyword, "its value is not a list of schemas")

    def _read_reference(self, held: Json, value: Any, place: Place, depth: int, met: frozenset[str]) -> None:
        try:
            target = self._references.resolve(value, place) if isinstance(value, str) else None
        except InputError:
            target = None
        if target is None:
            self._lose(place, "$ref", "it points to nothing in this schema, so any value is admitted")
            return
        name = self._names.get(value)
        if name in met:
            self._lose(place, "$ref", "it points to itself, so any value is admitted")
            return
        if name is None:
            name = self._names[value] = f"d{len(self._names)}"
            if len(self._names) > MAX_DEFINITIONS:
                raise self._too_large(f"has more than {MAX_DEFINITIONS} definitions", place)
            self.definitions[name] = True  # its place: what it consists of may refer to it
            self._being_read.append(name)
            self.definitions[name] = self.read(target.schema, target.place, depth + 1, met | {name})
            self._being_read.pop()
        held["$ref"] = f"#/$defs/{name}"

    def _overlap(self, schemas: list[Any], place: Place) -> bool:
        """Whether some value may fit several of the schemas."""
        if len(schemas) > MAX_COMPARED or not all(isinstance(each, dict | bool) for each in schemas):
            return True
        steps = steps_to(place)
        try:
            taker = Taker(self._document, self._about, say_nothing)
            found = [taker.alternatives(Part(each, (*steps, index))) for index, each in enumerate(schemas)]
            pairs = ((one, other) for index, one in enumerate(found) for other in found[index + 1 :])
            return not all(are_apart(a, b, taker) for one, other in pairs for a in one for b in other)
        except InputError:
            return True

    def _settle_names(self, held: Json, fields: Json, place: Place) -> None:
        """Make of the keywords about the names of properties what the engine can hold together."""
        patterns: Json = held.get("patternProperties", {})
        if patterns and not _have_different_beginnings(patterns):
            self._lose(
                (place, "patternProperties"), "patternProperties", "several or complex patterns are not enforced"
            )
            held.pop("patternProperties")
            held.pop("additionalProperties", None)  # or it would forbid what the patterns admit
        known: Json = held.get("properties", {})
        self._settle_counts(held, fields, place)
        others = held.get("additionalProperties", True)
        if others is False or not (known or "patternProperties" in held):
            return
        if others in (True, {}) and "patternProperties" not in held:
            # The same, in words in which the engine does not take `"\u0061"` for another name than `"a"`.
            held["patternProperties"] = {"": True}
            held["additionalProperties"] = False
        else:
            self.has_known_names = True

    def _settle_counts(self, held: Json, fields: Json, place: Place) -> None:
        known: Json = held.get("properties", {})
        must = set(cast("list[str]", held.get("required", [])))
        for keyword in ("minProperties", "maxProperties"):
            if keyword not in held:
                continue
            if any(name not in must for name in known) or any(
                isinstance(fields.get(each), list) for each in ("allOf", "anyOf", "oneOf")
            ):
                held.pop(keyword)
                self._lose((place, keyword), keyword, "only enforced if all known properties are required")
            elif keyword == "minProperties" and held[keyword] > len(must) + 1:
                self._lose((place, keyword), keyword, "an additional property that is repeated counts twice")

    def _lose(self, place: Place, feature: str, message: str) -> None:
        path = path_text(place)
        self.losses.setdefault((path, feature), Loss(self._about, path, feature, message))

    def _too_large(self, message: str, place: Place) -> InputError:
        message = f"the schema of {self._about} {message}"
        return InputError(ErrorCode.GRAMMAR_TOO_LARGE, message, Position(path=path_text(place)))


def _find_fault(keyword: str, value: Any) -> str | None:
    """Why the engine does not hold this value of a keyword."""
    is_list, is_number = _is_a(value, list), _is_a(value, int, float) and not _is_a(value, bool)
    listed: list[Any] = value if is_list else [value]
    match keyword:
        case "type":
            is_held = bool(listed) and all(isinstance(name, str) and name in _TYPES for name in listed)
            return None if is_held else "unknown type: any value is admitted"
        case "enum":
            return None if is_list else "its value is not a list"
        case "required":
            is_held = is_list and all(isinstance(name, str) for name in listed)
            return None if is_held else "its value is not a list of names"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            if not is_number:
                is_draft_4 = _is_a(value, bool) and keyword.startswith("exclusive")  # said of the other keyword
                return None if is_draft_4 else "its value is not a number"
            is_held = abs(value) <= LARGEST_BOUND and round(value, BOUND_DIGITS) == value
            limits = f"{LARGEST_BOUND:.0e} or with more than {BOUND_DIGITS} digits"
            return None if is_held else f"bounds beyond {limits} are not enforced"
        case "multipleOf":
            is_held = is_number and 1e-6 <= value <= 1e6 and round(value, 6) == value
            return None if is_held else "only steps of at most six digits are enforced"
        case "pattern":
            if not _is_plain(value):
                return "not enforced: llguidance cannot read this regular expression"
            sets = [found for found in _NEGATED_SET.findall(value) if found[-1] == "]"]
            is_held = all(re.fullmatch(found, sign) for found in sets for sign in '"\\')
            return None if is_held else _ADMITS_SIGNS
        case "format":
            is_held = _is_a(value, str) and value in _FORMATS
            return None if is_held else "not enforced: llguidance does not know this format"
        case _ if keyword in _COUNTS:
            is_held = is_number and 0 <= value <= LARGEST_BOUND and value == int(value)
            return None if is_held else "its value is not a count"
        case _:
            return None


def _is_a(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds)


def _is_plain(expression: Any) -> bool:
    if not isinstance(expression, str) or _PLAIN_EXPRESSION.fullmatch(expression) is None:
        return False
    try:
        re.compile(expression)
    except re.error:
        return False
    return True


def _have_different_beginnings(patterns: Iterable[str]) -> bool:
    """Whether no name fits two of these patterns, as far as their first characters show."""
    listed = list(patterns)
    if not all(_is_plain(pattern) for pattern in listed):
        return False
    if len(listed) == 1:
        return True
    beginnings = [re.match(r"\^([A-Za-z0-9_-]+)(?![?*{|+])", pattern) for pattern in listed]
    texts = [found[1] for found in beginnings if found is not None]
    return len(texts) == len(listed) and not any(
        one.startswith(other) for index, one in enumerate(texts) for at, other in enumerate(texts) if index != at
    )
