"""A schema document: the schema as plain JSON, places in it, its keywords, its references, and the report of losses.

1. Callers may pass tuples, Decimals and other Python values. `as_json` turns them into JSON first; values that JSON
   cannot express are refused.
2. A place is a chain of `(parent, step)` pairs that ends in None, the root. That costs one small tuple a step; the path
   as text is only made for an error or a loss.
3. Nothing outside the document is ever read: a remote reference is refused. A reference is local if it is empty, a JSON
   pointer (`#/$defs/Node`), an anchor (`#node`), or one of these after the document's own `$id`. Two spellings of one
   place give equal `steps`.
4. A part that is printed twice, because two references lead to it, is reported once.
5. Every keyword (draft 3 to 2020-12, and OpenAPI's) is in exactly one of the tables at the end or is unknown; unknown
   keywords are reported.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias
from urllib.parse import unquote

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import json_path, pack, unpack

# Decoded JSON. Every function that reads a schema narrows this union.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class SchemaLimits(msgspec.Struct, frozen=True):
    """How much one schema may cost. Exceeding a limit is an InputError.

    `depth` is the maximum nesting, references followed; `schemas` the number of visited schemas, where one that is
    referred to twice counts twice; `characters` the maximum length of the printed text.

    The reference reads JSON of at most 127 levels, so the default depth refuses nothing that it accepts.
    """

    depth: int = 128
    schemas: int = 50_000
    characters: int = 1_000_000


DEFAULT_LIMITS = SchemaLimits()


class Loss(msgspec.Struct, frozen=True):
    """Something in a schema that the printed TypeScript does not express.

    `path` is the JSON path of the schema, `keyword` the keyword that is lost, `sentence` the reason, for people.
    """

    path: str
    keyword: str
    sentence: str


class Declaration(msgspec.Struct, frozen=True):
    """A helper type, printed before the tool that needs it as `type <name> = <text>;`."""

    name: str
    text: str


class TypeScript(msgspec.Struct, frozen=True):
    """A schema as a TypeScript type: `text` goes after `(_: `; recursive parts are named in `declarations`."""

    text: str
    declarations: tuple[Declaration, ...] = ()
    losses: tuple[Loss, ...] = ()


class Declared(msgspec.Struct, frozen=True):
    """A tool (helper types, `// description` lines and `type name = (_: …) => any;`) or a namespace (from `## name` to
    `} // namespace name`), without a last newline."""

    text: str
    losses: tuple[Loss, ...] = ()


_DECODER: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()


def as_json(schema: object, path: str = "$") -> Json:
    """The schema as dictionaries, lists, strings, numbers, booleans and None only."""
    try:
        document: Any = unpack(pack(schema), _DECODER)
    except UnicodeEncodeError:
        return schema  # pyright: ignore[reportReturnType] -- the vocabulary refuses half of a surrogate pair
    except RecursionError as error:
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, "The schema is nested too deeply.", Position(path=path)) from error
    except (TypeError, ValueError) as error:
        message = f"The schema is not valid JSON: {error}"
        raise InputError(ErrorCode.SCHEMA_INVALID, message, Position(path=path)) from error
    if not _has_text_keys(document):
        raise InputError(ErrorCode.SCHEMA_INVALID, "The schema has a key that is not a string.", Position(path=path))
    return document


def _has_text_keys(document: Any) -> bool:
    waiting: list[Any] = [document]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if not all([isinstance(key, str) for key in here]):  # pyright: ignore[reportUnknownVariableType]
                return False
            waiting.extend(here.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        elif isinstance(here, list):
            waiting.extend(here)  # pyright: ignore[reportUnknownArgumentType]
    return True


Place: TypeAlias = "tuple[Place, str | int] | None"
Steps: TypeAlias = tuple[str | int, ...]


def steps_to(place: Place) -> Steps:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def place_of(steps: Steps) -> Place:
    place: Place = None
    for step in steps:
        place = (place, step)
    return place


def path_text(place: Place, root: str = "$") -> str:
    return json_path(steps_to(place), root)


_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Target(NamedTuple):
    """The target of a reference: the schema, the steps from the root to it, and the same steps as a place."""

    schema: dict[str, Json] | bool
    steps: Steps
    place: Place


class References:
    """The references of one document, each looked up once."""

    def __init__(self, document: dict[str, Json], root_path: str) -> None:
        self._document = document
        self._root_path = root_path
        self._targets: dict[str, Target] = {}
        self._anchors: dict[str, Target] | None = None

    def resolve(self, reference: str, place: Place) -> Target:
        """The schema that the reference at `place` points to; an InputError if there is none."""
        target = self._targets.get(reference)
        if target is None:
            target = self._targets[reference] = self._look_up(reference, place)
        return target

    def _look_up(self, reference: str, place: Place) -> Target:
        base, _, fragment = reference.partition("#")
        own = self._document.get("$id", self._document.get("id"))
        if base and not (isinstance(own, str) and base == own.partition("#")[0]):
            code, why = ErrorCode.SCHEMA_REMOTE_REFERENCE, "points outside the document; put the definition into $defs"
        else:
            fragment = unquote(fragment)
            is_anchor = bool(fragment) and not fragment.startswith("/")
            target = self._anchored(fragment) if is_anchor else self._pointed_to(fragment.split("/")[1:])
            if target is not None:
                return target
            code, why = ErrorCode.SCHEMA_UNKNOWN_REFERENCE, "does not point to a schema in the document"
        position = Position(path=path_text((place, "$ref"), self._root_path))
        raise InputError(code, f"The reference {reference!r} {why}.", position)

    def _pointed_to(self, tokens: list[str]) -> Target | None:
        value: Json = self._document
        steps: list[str | int] = []
        for token in tokens:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
                steps.append(name)
            elif isinstance(value, list) and _ARRAY_INDEX.fullmatch(name) and int(name) < len(value):
                value = value[int(name)]
                steps.append(int(name))
            else:
                return None
        if not isinstance(value, dict | bool):
            return None
        return Target(value, tuple(steps), place_of(tuple(steps)))

    def _anchored(self, name: str) -> Target | None:
        if self._anchors is None:
            self._anchors = {}
            waiting: list[tuple[Json, Place]] = [(self._document, None)]
            seen: set[int] = set()
            while waiting:
                value, place = waiting.pop()
                if not isinstance(value, dict | list) or id(value) in seen:
                    continue
                seen.add(id(value))
                if isinstance(value, list):
                    waiting.extend([(item, (place, index)) for index, item in enumerate(value)])
                    continue
                waiting.extend([(item, (place, key)) for key, item in value.items()])
                # Drafts 4 and 6 wrote an anchor as an id that is only a fragment.
                for keyword, mark in (("$anchor", ""), ("$id", "#"), ("id", "#")):
                    anchor = value.get(keyword)
                    if isinstance(anchor, str) and anchor.startswith(mark):
                        target = Target(value, steps_to(place), place)
                        self._anchors.setdefault(anchor.removeprefix(mark), target)
        return self._anchors.get(name)


class Report:
    def __init__(self, root_path: str) -> None:
        self.root_path = root_path
        self._losses: dict[tuple[str, str], Loss] = {}

    def lose(self, place: Place, keyword: str, sentence: str) -> None:
        path = path_text(place, self.root_path)
        self._losses.setdefault((path, keyword), Loss(path, keyword, sentence))

    def refuse(self, code: ErrorCode, message: str, place: Place) -> NoReturn:
        raise InputError(code, message, Position(path=path_text(place, self.root_path)))

    @property
    def losses(self) -> tuple[Loss, ...]:
        return tuple(self._losses.values())


# A schema with only these needs none of the other tables. Most tools have nothing else, and the reference reads
# nothing else.
PLAIN: Final = frozenset(
    {"type", "description", "title", "examples", "default", "enum", "properties", "required", "items", "nullable"}
)

# Those of them that only describe a type. A schema without any of them has no comments.
SAID: Final = frozenset({"description", "title", "examples", "default"})
TYPE_ALONE: Final = PLAIN - SAID
TYPE_AND_SAID: Final = frozenset({"type", *SAID})

# Printed as part of the type.
STRUCTURE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "const", "prefixItems"}
    | {"additionalProperties", "patternProperties", "additionalItems"}
)

# Printed as `keyword: value` in a comment, because TypeScript has no type for them.
CONSTRAINTS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
    | {"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"}
    | {"propertyNames", "dependentRequired", "deprecated", "readOnly", "writeOnly"}
)

# Not printed, and nothing is lost: identity, definitions for references, notes to other authors, and
# `discriminator`, which only repeats what the variants' constants say. `example` is printed with `examples`.
SILENT: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "discriminator"}
    | {"example"}
)

KNOWN: Final = PLAIN | STRUCTURE | CONSTRAINTS | SILENT

# Known, but not expressible in TypeScript: keyword and reason.
INEXPRESSIBLE: Final = {
    **dict.fromkeys(("not", "disallow"), "TypeScript cannot exclude values."),
    **dict.fromkeys(("if", "then", "else"), "TypeScript cannot express conditions on values."),
    "dependentSchemas": "TypeScript cannot express conditions on the presence of a key.",
    "dependencies": "TypeScript cannot express conditions on the presence of a key.",
    **dict.fromkeys(
        ("contains", "minContains", "maxContains"), "TypeScript cannot require that an array contains such an item."
    ),
    "unevaluatedProperties": "TypeScript cannot express which keys other schemas have evaluated.",
    "unevaluatedItems": "TypeScript cannot express which items other schemas have evaluated.",
    "contentSchema": "TypeScript cannot describe a document inside a string.",
    **dict.fromkeys(("$dynamicRef", "$dynamicAnchor"), "Dynamic references are not followed; use $ref."),
    **dict.fromkeys(("$recursiveRef", "$recursiveAnchor"), "Recursive references are not followed; use $ref."),
    "extends": "This keyword of draft 3 is not followed; use allOf.",
}

# These mean "nothing beyond what is listed", which a TypeScript object or tuple means anyway.
CLOSING: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})

PRIMITIVES: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}

# The values of `type`. `any` is not JSON Schema, but is common and unambiguous.
KINDS: Final = frozenset({*PRIMITIVES, "null", "object", "array", "any"})


# Keywords that describe objects or arrays, and the types their values must have.
_OBJECT_KEYWORDS: Final = {
    "properties": dict,
    "patternProperties": dict,
    "required": list,
    "additionalProperties": (dict, bool),
}
_ARRAY_KEYWORDS: Final = {"items": (dict, list, bool), "prefixItems": list}
_DETAILS: Final = frozenset({*_OBJECT_KEYWORDS, *_ARRAY_KEYWORDS, "const", "enum"})


def spelled(kind: Json) -> Json:
    """The value of `type` in JSON Schema's spelling: Gemini's dialect writes its names in capitals."""
    if isinstance(kind, str):
        return kind if kind in KINDS or kind.lower() not in KINDS else kind.lower()
    return [spelled(name) for name in kind] if isinstance(kind, list) else kind


def is_about_objects(schema: dict[str, Json]) -> bool:
    """Whether a keyword describes the keys of an object. A plain `additionalProperties: false` names none."""
    return any(
        keyword in schema and schema[keyword] is not False and isinstance(schema[keyword], types)
        for keyword, types in _OBJECT_KEYWORDS.items()
    )


def is_about_arrays(schema: dict[str, Json]) -> bool:
    """Whether a keyword describes the items of an array."""
    return any(keyword in schema and isinstance(schema[keyword], types) for keyword, types in _ARRAY_KEYWORDS.items())


def says_more_than_type(schema: dict[str, Json]) -> bool:
    """Whether the schema lists values, properties or items, beside or without a `type`."""
    return any(schema[keyword] is not False for keyword in _DETAILS & schema.keys())


def is_of_kind(value: Json, kind: Json) -> bool:
    """Whether a value has the JSON Schema type `kind`."""
    match value:
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case None:
            return kind == "null"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"


def says_null(schema: dict[str, Json]) -> bool:
    """Whether the schema already allows null, so that `nullable` adds nothing."""
    kind, values = schema.get("type"), schema.get("enum")
    if "const" in schema:
        return schema["const"] is None
    if isinstance(values, list) and values:
        return None in values
    if isinstance(kind, list):
        return "null" in kind
    variants = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(variants, list):
        return {"type": "null"} in variants
    return kind == "null"
