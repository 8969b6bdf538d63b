"""Prepares JSON Schemas for llguidance, and reports what it does not enforce.

llguidance refuses a schema with a keyword that it cannot enforce, and silently ignores some keywords. Here every
keyword is checked: those that it enforces stay, annotations are removed, and those that it does not enforce are removed
and reported. Nothing becomes narrower, with two exceptions (docs/concepts/grammars.md): properties come in the order
of their declaration, and a number with a bound has no exponent.

References are redirected to definitions at the top of the schema. The result compiles, unless no value matches it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.conditions import says_nothing
from harmonia.grammar.rules import Loss
from harmonia.messages import Json
from harmonia.schema.document import Place, path_text

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
_ESCAPED_SIGNS: Final = ('"', "\\")


class HeldSchema:
    """A schema as the engine takes it, and the losses."""

    __slots__ = ("losses", "schema")

    def __init__(self, schema: Json, losses: tuple[Loss, ...]) -> None:
        self.schema = schema
        self.losses = losses


def held_schema(schema: Any, about: str) -> HeldSchema:
    """What llguidance can hold of a schema. `about` is whose it is, for the losses."""
    reader = _Reader(schema, about)
    held = reader.read(schema, None, 0)
    top: Json = dict(held) if isinstance(held, dict) else {} if held else {"enum": []}
    if reader.definitions:
        top["$defs"] = reader.definitions
    options: Json = {"whitespace_pattern": WHITE_SPACE}
    if reader.has_known_names:
        options["json_allowed_escapes"] = _NAMED_ESCAPES
    return HeldSchema({"x-guidance": options, **top}, tuple(reader.losses.values()))


class _Reader:
    def __init__(self, root: Any, about: str) -> None:
        self._root = root
        self._about = about
        self._names: dict[str, str] = {}
        self._being_read: list[str] = []
        self.definitions: Json = {}
        self.losses: dict[tuple[str, str], Loss] = {}
        # Whether the names of some properties are known and others are held to a schema of their own. The engine would
        # take a known name that is written with `\u` escapes for one of the others, so that there must be none.
        self.has_known_names = False

    def read(self, schema: Any, place: Place, depth: int, met: frozenset[str] = frozenset()) -> Json | bool:
        """What is held of a schema. `met` are the definitions that this very value has to fit already."""
        if depth > MAX_DEPTH:
            raise InputError(
                ErrorCode.GRAMMAR_TOO_LARGE,
                f"the schema of {self._about} is nested more than {MAX_DEPTH} levels deep",
                Position(path=path_text(place)),
            )
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
            else:
                self._take(held, keyword, value, here, depth, met)
        if len(held) > 1 and held.get("$ref", "").rpartition("/")[2] in self._being_read:
            self._lose((place, "$ref"), "$ref", "keywords beside a recursive reference are not enforced")
            return {"$ref": held["$ref"]}
        self._settle_names(held, fields, place)
        return held

    def _take(self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str]) -> None:
        match keyword:
            case "type":
                self._keep_type(held, keyword, value, place)
            case "enum" | "const":
                self._keep_values(held, keyword, value, place)
            case "required":
                self._keep_required(held, keyword, value, place)
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                self._keep_bound(held, keyword, value, place)
            case "multipleOf":
                self._keep_multiple(held, keyword, value, place)
            case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
                self._keep_count(held, keyword, value, place)
            case "pattern":
                self._keep_pattern(held, keyword, value, place)
            case "format":
                self._keep_format(held, keyword, value, place)
            case "items" | "additionalItems" | "additionalProperties":
                self._read_one(held, keyword, value, place, depth)
            case "prefixItems":
                self._read_list(held, keyword, value, place, depth)
            case "anyOf":
                self._read_list(held, keyword, value, place, depth, met)
            case "allOf":
                self._read_all_of(held, keyword, value, place, depth, met)
            case "oneOf":
                self._read_one_of(held, keyword, value, place, depth, met)
            case "properties" | "patternProperties":
                self._read_properties(held, keyword, value, place, depth)
            case "$ref":
                self._read_reference(held, keyword, value, place, depth, met)
            case _:
                pass  # it describes a value, and does not bound it; definitions are read where something refers to them

    # One value of a keyword

    def _keep_count(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 <= value <= LARGEST_BOUND and value == int(value):
            held[keyword] = int(value)
        else:
            self._lose(place, keyword, "its value is not a count")

    def _keep_bound(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        if isinstance(value, bool) and keyword.startswith("exclusive"):
            held[keyword] = value  # draft 4, where it is said of minimum or maximum
        elif not isinstance(value, int | float) or isinstance(value, bool):
            self._lose(place, keyword, "its value is not a number")
        elif abs(value) > LARGEST_BOUND or round(value, BOUND_DIGITS) != value:
            self._lose(
                place,
                keyword,
                f"bounds beyond {LARGEST_BOUND:.0e} or with more than {BOUND_DIGITS} digits are not enforced",
            )
        else:
            held[keyword] = value

    def _keep_multiple(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        is_step = isinstance(value, int | float) and not isinstance(value, bool) and 1e-6 <= value <= 1e6
        if is_step and round(value, 6) == value:
            held[keyword] = value
        else:
            self._lose(place, keyword, "only steps of at most six digits are enforced")

    def _keep_type(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        named: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        if named and all(isinstance(name, str) and name in _TYPES for name in named):
            held[keyword] = value
        else:
            self._lose(place, keyword, "unknown type: any value is admitted")

    def _keep_required(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        if isinstance(value, list) and all(isinstance(name, str) for name in cast("list[Any]", value)):
            held[keyword] = value
        else:
            self._lose(place, keyword, "its value is not a list of names")

    def _keep_values(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        if keyword == "const" or isinstance(value, list):
            held[keyword] = value
        else:
            self._lose(place, keyword, "its value is not a list")

    def _keep_pattern(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        if not _is_plain(value):
            self._lose(place, keyword, "llguidance does not support this regular expression")
            return
        held[keyword] = value
        if any(
            not re.fullmatch(found, sign)
            for found in _NEGATED_SET.findall(value)
            if found[-1] == "]"
            for sign in _ESCAPED_SIGNS
        ):
            self._lose(place, keyword, "quotation marks and backslashes are admitted although it excludes them")

    def _keep_format(self, held: Json, keyword: str, value: Any, place: Place) -> None:
        if isinstance(value, str) and value in _FORMATS:
            held[keyword] = value
        else:
            self._lose(place, keyword, "llguidance does not support this format")

    # Schemas inside of schemas

    def _read_one(self, held: Json, keyword: str, value: Any, place: Place, depth: int) -> None:
        if isinstance(value, list):  # items, before prefixItems were there
            self._read_list(held, keyword, value, place, depth)
        else:
            held[keyword] = self.read(value, place, depth + 1)

    def _read_list(
        self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str] = frozenset()
    ) -> None:
        if isinstance(value, list) and value:
            schemas = cast("list[Any]", value)
            held[keyword] = [self.read(schema, (place, index), depth + 1, met) for index, schema in enumerate(schemas)]
        else:
            self._lose(place, keyword, "its value is not a list of schemas")

    def _read_one_of(self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str]) -> None:
        read: Json = {}
        self._read_list(read, keyword, value, place, depth, met)
        if keyword not in read:
            return
        # Beside an anyOf both have to hold.
        held["allOf"] = [*held.get("allOf", ()), {"anyOf": read[keyword]}]
        if not _exclude_each_other([self._followed(schema) for schema in cast("list[Any]", value)]):
            self._lose(place, keyword, "only that at least one schema matches is enforced, not that exactly one does")

    def _read_all_of(self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str]) -> None:
        read: Json = {}
        self._read_list(read, keyword, value, place, depth, met)
        held["allOf"] = [*held.get("allOf", ()), *read.get(keyword, ())]

    def _read_properties(self, held: Json, keyword: str, value: Any, place: Place, depth: int) -> None:
        if isinstance(value, dict):
            schemas = cast("Json", value)
            held[keyword] = {name: self.read(schemas[name], (place, name), depth + 1) for name in schemas}
        else:
            self._lose(place, keyword, "its value is not an object")

    def _read_reference(
        self, held: Json, keyword: str, value: Any, place: Place, depth: int, met: frozenset[str]
    ) -> None:
        target = self._target(value)
        if target is None:
            self._lose(place, keyword, "it points to nothing in this schema, so any value is admitted")
            return
        name = self._names.get(value)
        if name in met:
            self._lose(place, keyword, "it points to itself, so any value is admitted")
            return
        if name is None:
            name = self._names[value] = f"d{len(self._names)}"
            if len(self._names) > MAX_DEFINITIONS:
                raise InputError(
                    ErrorCode.GRAMMAR_TOO_LARGE,
                    f"the schema of {self._about} has more than {MAX_DEFINITIONS} definitions",
                    Position(path=path_text(place)),
                )
            schema, found_at = target
            self.definitions[name] = True  # its place: what it consists of may refer to it
            self._being_read.append(name)
            self.definitions[name] = self.read(schema, found_at, depth + 1, met | {name})
            self._being_read.pop()
        held[keyword] = f"#/$defs/{name}"

    def _target(self, reference: Any) -> tuple[Any, Place] | None:
        """Where a reference inside of the document leads to."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return None
        found: Any = self._root
        place: Place = None
        for step in reference.split("/")[1:]:
            name = _unquoted(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = cast("Json", found)[name]
            elif isinstance(found, list) and name in map(str, range(len(cast("list[Any]", found)))):
                found = cast("list[Any]", found)[int(name)]
            else:
                return None
            place = (place, name)
        return found, place

    def _followed(self, schema: Any) -> Any:
        """The schema that a schema stands for, where it is nothing but a reference."""
        for _ in range(8):
            reference = cast("Json", schema).get("$ref") if isinstance(schema, dict) else None
            target = self._target(reference) if reference is not None else None
            if target is None:
                break
            schema = target[0]
        return cast("Any", schema)

    # What depends on several keywords

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


def _is_plain(expression: Any) -> bool:
    if not isinstance(expression, str) or _PLAIN_EXPRESSION.fullmatch(expression) is None:
        return False
    try:
        re.compile(expression)
    except re.error:
        return False
    return True


def _unquoted(step: str) -> str:
    return re.sub("(?:%[0-9A-Fa-f]{2})+", lambda found: _decoded(found[0]), step)


def _decoded(quoted: str) -> str:
    return bytes.fromhex(quoted.replace("%", "")).decode(errors="replace")  # what is no text leads to nothing


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


# ── whether one value may fit two schemas ───────────────────────────────────────────────────────────────────────────


def _exclude_each_other(schemas: Sequence[Any]) -> bool:
    pairs = ((one, other) for index, one in enumerate(schemas) for other in schemas[index + 1 :])
    return len(schemas) <= MAX_COMPARED and all(_excludes(one, other) for one, other in pairs)


def _excludes(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether it is certain that no value fits both."""
    if one is False or other is False:
        return True
    if not isinstance(one, dict) or not isinstance(other, dict) or depth > MAX_DEPTH:
        return False
    first, second = cast("Json", one), cast("Json", other)
    values, other_values = _values_of(first), _values_of(second)
    if values is not None and other_values is not None:
        return not values & other_values
    if not _kinds_of(first) & _kinds_of(second):
        return True
    if _kinds_of(first) & _kinds_of(second) != frozenset(("object",)):
        return False
    return any(
        _excludes(_property(first, name), _property(second, name), depth + 1)
        for name in _required(first) | _required(second)  # a value that fits both has them all
    )


def _values_of(schema: Json) -> frozenset[str] | None:
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return None
    return frozenset(json.dumps(value, sort_keys=True) for value in cast("list[Any]", values))


def _kinds_of(schema: Json) -> frozenset[str]:
    values = _values_of(schema)
    if values is not None:
        return frozenset(_KIND_BY_FIRST_SIGN.get(value[:1], "number") for value in values)
    named: Any = schema.get("type", list(_TYPES))
    names = cast("list[Any]", named) if isinstance(named, list) else [named]
    return frozenset("number" if name == "integer" else str(name) for name in names)


_KIND_BY_FIRST_SIGN: Final = {
    "{": "object",
    "[": "array",
    '"': "string",
    "n": "null",
    "t": "boolean",
    "f": "boolean",
}


def _property(schema: Json, name: str) -> Any:
    properties = schema.get("properties")
    return cast("Json", properties).get(name) if isinstance(properties, dict) else None


def _required(schema: Json) -> frozenset[str]:
    names = schema.get("required")
    return frozenset(map(str, cast("list[Any]", names))) if isinstance(names, list) else frozenset()
