"""A type annotation as a JSON Schema, and what turns a JSON value into a value of that type.

msgspec knows most types; pydantic, where it is installed, those that have to do with it and those that msgspec refuses.
A text in `Annotated[str, "the city's name"]` is a description, like `msgspec.Meta(description=…)`.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, EnumType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from harmonia.json_codec import json_path, split_validation_error
from harmonia.messages import Json
from harmonia.run.tools.arguments import with_integers

_DATE_TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
_CONTAINERS: Final[tuple[Any, ...]] = (list, set, frozenset, dict, tuple)
_PYDANTIC: Final = ("pydantic", "annotated_types")


class Unfit(Exception):
    """A value is not of the type: what is wrong, and the steps to it."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason, path)
        self.reason = reason
        self.path = path


class Reader(msgspec.Struct, frozen=True):
    """The schema of a type, the schemas that it refers to as `#/$defs/…`, and what reads a value of it from JSON."""

    schema: Json
    definitions: dict[str, Json]
    read: Callable[[Any], Any]


def read_annotation(annotation: Any) -> Reader:
    """The reader of a type. Raises a TypeError for a type that has no JSON."""
    if _mentions_pydantic(annotation):
        return _pydantic_reader(annotation)
    try:
        return _msgspec_reader(annotation)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        try:
            return _pydantic_reader(annotation)
        except ImportError:
            raise TypeError(str(error).splitlines()[-1]) from error


def _msgspec_reader(annotation: Any) -> Reader:
    described: Any = _with_meta(annotation)
    (schema,), definitions = msgspec.json.schema_components([described], ref_template="#/$defs/{name}")
    orders = list(_declared_values(annotation, {}))

    def convert(value: Any) -> Any:
        converted = msgspec.convert(value, described, str_keys=True)
        _fill_defaults(converted)
        return converted

    def read(value: Any) -> Any:
        try:
            return convert(value)
        except msgspec.ValidationError as error:
            # JSON has one kind of number: 5.0 is an integer to a schema, and not to msgspec.
            try:
                return convert(with_integers(value))
            except msgspec.ValidationError:
                raise Unfit(*split_validation_error(error)) from error

    return Reader(_tidy(schema, orders), {name: _tidy(each, orders) for name, each in definitions.items()}, read)


def _pydantic_reader(annotation: Any) -> Reader:
    from pydantic import PydanticUserError, TypeAdapter, ValidationError
    from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema(ref_template="#/$defs/{model}")
    except (
        PydanticUserError,
        PydanticSchemaGenerationError,
        PydanticInvalidForJsonSchema,
        PydanticUndefinedAnnotation,
    ) as error:
        raise TypeError(str(error).splitlines()[0]) from error
    definitions = cast("dict[str, Json]", schema.pop("$defs", {}))
    # pydantic does not know that a text in Annotated describes.
    descriptions = (
        [each for each in get_args(annotation)[1:] if isinstance(each, str)] if _is_annotated(annotation) else []
    )
    if descriptions:
        schema.setdefault("description", descriptions[-1])

    def read(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Unfit(first["msg"], json_path(first["loc"])) from error

    return Reader(_tidy(schema), {name: _tidy(each) for name, each in definitions.items()}, read)


# ── annotations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_annotated(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated


def _mentions_pydantic(annotation: Any) -> bool:
    if _is_annotated(annotation) and any(_is_of_pydantic(type(each)) for each in get_args(annotation)[1:]):
        return True
    if hasattr(annotation, "__get_pydantic_core_schema__") or _is_of_pydantic(annotation):
        return True
    return any(_mentions_pydantic(each) for each in get_args(annotation) if not isinstance(each, str))


def _is_of_pydantic(kind: Any) -> bool:
    return str(getattr(kind, "__module__", "")).partition(".")[0] in _PYDANTIC


def _with_meta(annotation: Any) -> Any:
    """The annotation with what msgspec does not read by itself as `Meta`: texts, and the format of a point in time."""
    if annotation is datetime.datetime:
        return Annotated[annotation, _DATE_TIME]
    origin: Any = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        inner = _with_meta(parts[0])
        metas = [msgspec.Meta(description=each) if isinstance(each, str) else each for each in parts[1:]]
        return Annotated[(inner, *metas)]
    if origin in (Union, types.UnionType):
        return Union[tuple(_with_meta(part) for part in parts)]  # noqa: UP007 -- made of parts
    if parts and any(origin is each for each in _CONTAINERS):
        return origin[tuple(_with_meta(part) for part in parts)]
    return annotation


def _declared_values(annotation: Any, seen: dict[int, Any]) -> Iterator[list[Any]]:
    """The values of each Literal and each enum in a type, in the order in which people wrote them."""
    if id(annotation) in seen:
        return
    seen[id(annotation)] = annotation  # kept, so that no other object gets its id
    if get_origin(annotation) is Literal:
        yield list(get_args(annotation))
        return
    if isinstance(annotation, EnumType):
        yield [member.value for member in cast("Iterable[Enum]", annotation)]
        return
    parts: list[Any] = [each for each in get_args(annotation) if not isinstance(each, str)]
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and hasattr(kind, "__annotations__"):
        # A name that cannot be resolved is msgspec's to refuse; here it only costs the order.
        with suppress(NameError, TypeError, AttributeError):
            parts += get_type_hints(kind, include_extras=True).values()
    for each in (*parts, getattr(annotation, "__supertype__", None), getattr(annotation, "__value__", None)):
        if each is not None:
            yield from _declared_values(each, seen)


# ── values and schemas ──────────────────────────────────────────────────────────────────────────────────────────────


def _fill_defaults(value: Any) -> None:
    """Make every field of the dataclasses in a value the instance's own.

    msgspec leaves a default to the class, where `vars` and msgspec itself do not find it again.
    """
    match value:
        case list() | tuple() | set() | frozenset():
            for each in cast("list[Any]", value):
                _fill_defaults(each)
        case dict():
            for each in cast("dict[Any, Any]", value).values():
                _fill_defaults(each)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _fill_defaults(getattr(value, name))
        case _ if dataclasses.is_dataclass(value):
            own = getattr(value, "__dict__", None)
            for field in dataclasses.fields(value):
                each = getattr(value, field.name)
                _fill_defaults(each)
                if own is not None:
                    own[field.name] = each
        case _:
            pass


def _tidy(schema: Any, orders: Sequence[list[Any]] = ()) -> Any:
    """The schema without what costs tokens and tells nothing: titles, which repeat names, and defaults of null.

    msgspec sorts the values of an enum. People put the usual one first, or give an order that means something.
    """
    if not isinstance(schema, dict):
        return schema
    tidy: Json = {}
    for keyword, value in cast("Json", schema).items():
        if keyword in ("properties", "patternProperties", "$defs") and isinstance(value, dict):
            tidy[keyword] = {name: _tidy(each, orders) for name, each in cast("Json", value).items()}
        elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            tidy[keyword] = [_tidy(each, orders) for each in cast("list[Any]", value)]
        elif keyword in ("items", "additionalProperties"):
            tidy[keyword] = _tidy(value, orders)
        elif keyword == "enum":
            tidy[keyword] = _in_order(value, orders)
        elif keyword != "title" and not (keyword == "default" and value is None):
            tidy[keyword] = value
    return tidy


def _in_order(values: list[Any], orders: Sequence[list[Any]]) -> list[Any]:
    """The values as they were declared; as they are where two types declare the same values in different orders."""
    found = [[each for each in order if each in values] for order in orders if all(each in order for each in values)]
    return found[0] if found and all(each == found[0] for each in found) else values
