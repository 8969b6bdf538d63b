"""The parameters of a tool in words: what a JSON Schema says of each, for people and models to read.

    {"type": "array", "items": {"type": "string"}}    array<string>      in JSON's words
                                                      list[str]          in Python's

Only what helps to call the tool is said: types, values to choose from, defaults, descriptions, and the members of
nested objects. Nothing raises: what cannot be said in a few words, leads nowhere or is no schema at all is `any`.
Schemas that describe themselves are followed to a depth and an amount that have names below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from harmonia.errors import InputError
from harmonia.messages import Json
from harmonia.schema.document import References

MAX_DEPTH: Final = 6
# Schemas that are looked at for one tool.
MAX_SCHEMAS: Final = 2000


class TypeWords(msgspec.Struct, frozen=True):
    """How types are said: `names` by JSON's names of them, `{}` stands for the type inside."""

    names: Mapping[str, str]
    anything: str
    array: str
    map: str
    either: str
    values: Callable[[list[Any]], str]


class Parameter(msgspec.Struct, frozen=True):
    """One parameter, or a member of one that is an object. `default` is there if `has_default`."""

    name: str
    type: str
    is_required: bool
    description: str | None
    default: Any
    has_default: bool
    members: tuple[Parameter, ...]


class Parameters(msgspec.Struct, frozen=True):
    """What a tool takes. Where that is no object, `whole` is the type of its one argument; `others` is the type of
    members that have no name in the schema, where it says that there may be some."""

    named: tuple[Parameter, ...] = ()
    others: str | None = None
    whole: str | None = None


JSON_WORDS: Final = TypeWords(
    {name: name for name in ("string", "integer", "number", "boolean", "null", "object", "array")},
    anything="any",
    array="array<{}>",
    map="object<string, {}>",
    either=" or ",
    values=lambda values: " or ".join(json.dumps(value, ensure_ascii=False, default=str) for value in values),
)


def parameters_of(schema: Json | bool | None, words: TypeWords) -> Parameters:
    """What the schema of a tool's argument says, in these words."""
    if schema is None or isinstance(schema, bool):
        return Parameters()
    return _Reading(schema, words).parameters()


class _Reading:
    """One schema, read once; see the module."""

    __slots__ = ("_document", "_left", "_references", "_words")

    def __init__(self, document: Json, words: TypeWords) -> None:
        self._document = document
        self._words = words
        self._references = References(document, "$")
        self._left = MAX_SCHEMAS

    def parameters(self) -> Parameters:
        schema = self._followed(self._document)
        if "properties" not in schema and schema.get("type", "object") != "object":
            return Parameters(whole=self._type(schema, 0))
        others = cast("object", schema.get("additionalProperties"))
        is_closed = others is None or others is False
        return Parameters(self._members(schema, 0), None if is_closed else self._type(others, 1))

    def _members(self, schema: Json, depth: int) -> tuple[Parameter, ...]:
        properties = schema.get("properties")
        if depth > MAX_DEPTH or not isinstance(properties, dict):
            return ()
        required = schema.get("required")
        needed = cast("list[object]", required) if isinstance(required, list) else []
        members: list[Parameter] = []
        for name, given in cast("dict[object, object]", properties).items():
            if self._left <= 0:
                break
            member = self._followed(given)
            # What stands beside a reference is about this use of it.
            said = member | cast("Json", given) if isinstance(given, dict) else member
            members.append(
                Parameter(
                    str(name),
                    self._type(member, depth + 1),
                    name in needed,
                    description if isinstance(description := said.get("description"), str) and description else None,
                    said.get("default"),
                    "default" in said,
                    self._inner_members(member, depth + 1),
                )
            )
        return tuple(members)

    def _inner_members(self, schema: Json, depth: int) -> tuple[Parameter, ...]:
        """The members of an object, or of the objects in an array."""
        while depth <= MAX_DEPTH and "properties" not in schema and isinstance(schema.get("items"), dict):
            schema, depth = self._followed(schema["items"]), depth + 1
        return self._members(schema, depth)

    def _type(self, given: object, depth: int) -> str:
        if depth > MAX_DEPTH or self._left <= 0:
            return self._words.anything
        schema = self._followed(given)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return self._words.values(cast("list[Any]", values))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches:
                return self._either(self._type(branch, depth + 1) for branch in cast("list[object]", branches))
        # Several at once cannot be said as one type, and the first usually has it.
        if isinstance(parts := schema.get("allOf"), list) and parts and "type" not in schema:
            return self._type(cast("list[object]", parts)[0], depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else None)
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        return self._either(self._named(str(kind), schema, depth) for kind in kinds)

    def _named(self, kind: str, schema: Json, depth: int) -> str:
        if kind == "array" and "items" in schema:
            return self._words.array.format(self._type(schema["items"], depth + 1))
        others = schema.get("additionalProperties")
        if kind == "object" and "properties" not in schema and isinstance(others, dict) and others:
            return self._words.map.format(self._type(cast("Json", others), depth + 1))
        return self._words.names.get(kind, self._words.anything)

    def _either(self, types: Iterator[str]) -> str:
        different = list(dict.fromkeys(types))
        if self._words.anything in different or not different:
            return self._words.anything
        return self._words.either.join(different)

    def _followed(self, given: object) -> Json:
        """The schema that a reference leads to, after as many references as there are; empty where it is none."""
        self._left -= 1
        schema = cast("Json", given) if isinstance(given, dict) else {}
        followed: set[str] = set()
        while isinstance(reference := schema.get("$ref"), str) and reference not in followed:
            followed.add(reference)
            try:
                target = self._references.resolve(reference, None).schema
            except InputError:
                return {}
            schema = cast("Json", target) if isinstance(target, dict) else {}
        return schema
