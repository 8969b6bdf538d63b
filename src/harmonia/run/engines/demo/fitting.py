"""Whether a value fits a JSON Schema, for a speaker that tries several.

1. Only local references are followed; nothing is read from elsewhere, and no extra is needed.
2. A keyword whose value means nothing, such as `"required": 5`, says nothing. Nothing here raises.
3. `format` says nothing, as in the JSON Schema of today. `unevaluatedProperties` and `unevaluatedItems` are not looked
   at: what the speaker makes has declared properties only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from harmonia.errors import InputError
from harmonia.grammar.regex_search import is_found
from harmonia.run.engines.demo.json_values import as_list, as_object, is_number
from harmonia.schema.references import References

Schema = Any  # a dictionary, a boolean, or what a caller wrote instead
_DEEPEST: Final = 80


class Fitting:
    """The schemas of one document, and what fits them."""

    def __init__(self, document: Schema) -> None:
        self._references = References(as_object(document), "$")

    def target_of(self, schema: dict[str, Any]) -> Schema:
        """What `$ref` leads to; True, which says nothing, where it leads nowhere."""
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return True
        try:
            return self._references.resolve(reference, None).schema
        except InputError:
            return True

    def fits(self, value: Any, schema: Schema, depth: int = 0) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        if depth > _DEEPEST:
            return False
        known = as_object(cast("object", schema))
        if "$ref" in known and not self.fits(value, self.target_of(known), depth + 1):
            return False
        return (
            _is_one_of(value, known)
            and self._fits_all(value, known, depth + 1)
            and self._fits_kind(value, known, depth + 1)
        )

    def _fits_all(self, value: Any, schema: dict[str, Any], depth: int) -> bool:
        """The keywords that say something about a value of any type."""

        def fits(each: Schema) -> bool:
            return self.fits(value, each, depth)

        variants = as_list(schema.get("anyOf"))
        if variants and not any(map(fits, variants)):
            return False
        variants = as_list(schema.get("oneOf"))
        if variants and sum(map(fits, variants)) != 1:
            return False
        if not all(map(fits, as_list(schema.get("allOf")))):
            return False
        if "not" in schema and isinstance(schema["not"], dict | bool) and fits(schema["not"]):
            return False
        if "if" in schema:
            return fits(schema.get("then" if fits(schema["if"]) else "else", True))
        return True

    def _fits_kind(self, value: Any, schema: dict[str, Any], depth: int) -> bool:
        match value:
            case bool() | None:
                return True
            case int() | float():
                return _number_fits(value, schema)
            case str():
                return _length_fits(len(value), schema, "Length") and _matches(schema.get("pattern"), value)
            case list():
                return self._array_fits(as_list(cast("object", value)), schema, depth)
            case dict():
                return self._object_fits(as_object(cast("object", value)), schema, depth)
            case _:
                return False

    def _array_fits(self, value: list[Any], schema: dict[str, Any], depth: int) -> bool:
        if not _length_fits(len(value), schema, "Items"):
            return False
        first, rest = item_schemas(schema)
        for at, item in enumerate(value):
            if not self.fits(item, first[at] if at < len(first) else rest, depth):
                return False
        if "contains" in schema:
            found = sum(self.fits(item, schema["contains"], depth) for item in value)
            if found < schema.get("minContains", 1) or found > schema.get("maxContains", len(value)):
                return False
        is_unique = schema.get("uniqueItems") is True
        return not is_unique or not any(is_same(value[a], value[b]) for a in range(len(value)) for b in range(a))

    def _object_fits(self, value: dict[str, Any], schema: dict[str, Any], depth: int) -> bool:
        if not _length_fits(len(value), schema, "Properties"):
            return False
        if any(isinstance(name, str) and name not in value for name in as_list(schema.get("required"))):
            return False
        for name, needed in as_object(schema.get("dependentRequired")).items():
            if name in value and any(each not in value for each in needed):
                return False
        for name, dependent in as_object(schema.get("dependentSchemas")).items():
            if name in value and not self.fits(value, dependent, depth):
                return False
        for name, item in value.items():
            if not all([self.fits(item, each, depth) for each in property_schemas(schema, name)]):
                return False
            if "propertyNames" in schema and not self.fits(name, schema["propertyNames"], depth):
                return False
        return True


def property_schemas(schema: dict[str, Any], name: str) -> list[Schema]:
    """All that an object's schema says about a property of this name."""
    found = [each for pattern, each in as_object(schema.get("patternProperties")).items() if _matches(pattern, name)]
    properties = as_object(schema.get("properties"))
    if name in properties:
        found.insert(0, properties[name])
    return found or [schema.get("additionalProperties", True)]


def item_schemas(schema: dict[str, Any]) -> tuple[list[Schema], Schema]:
    """What an array's schema says about its first items, and about the rest. Older drafts list them in `items`."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return as_list(cast("object", items)), schema.get("additionalItems", True)
    return as_list(schema.get("prefixItems")), items


def types_of(schema: dict[str, Any]) -> list[str]:
    """The types that a schema names; none where it leaves them open."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    return [each for each in as_list(schema.get("type")) if isinstance(each, str)]


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, and True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        mine, its = as_list(cast("object", one)), as_list(cast("object", other))
        return len(mine) == len(its) and all(map(is_same, mine, its))
    if isinstance(one, dict) and isinstance(other, dict):
        named, others = as_object(cast("object", one)), as_object(cast("object", other))
        return named.keys() == others.keys() and all(is_same(named[key], others[key]) for key in named)
    return one == other


_IS_TYPE: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: is_number(value) and value == value // 1,
    "number": lambda value: is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_one_of(value: Any, schema: dict[str, Any]) -> bool:
    kinds = [kind for kind in types_of(schema) if kind in _IS_TYPE]
    if kinds and not any(_IS_TYPE[kind](value) for kind in kinds):
        return False
    if "const" in schema and not is_same(value, schema["const"]):
        return False
    return not isinstance(schema.get("enum"), list) or any(is_same(value, each) for each in schema["enum"])


def _number_fits(value: float, schema: dict[str, Any]) -> bool:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if is_number(least) and (value < least or (above is True and value == least)):
        return False
    if is_number(most) and (value > most or (below is True and value == most)):
        return False
    if (is_number(above) and value <= above) or (is_number(below) and value >= below):
        return False
    step = schema.get("multipleOf")
    if not is_number(step) or step <= 0:
        return True
    try:
        return (value / step).is_integer() if isinstance(step, float) or isinstance(value, float) else value % step == 0
    except OverflowError:
        return False


def _length_fits(length: int, schema: dict[str, Any], what: str) -> bool:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    return not (is_number(least) and length < least) and not (is_number(most) and length > most)


def _matches(pattern: Any, text: str) -> bool:
    return not isinstance(pattern, str) or is_found(pattern, text) is not False
