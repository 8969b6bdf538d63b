"""Read bodies into structs, and queries: a field that is unknown, missing, of the wrong type or out of range is refused
with its path, in terms of JSON, and with what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import inspect

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.json_codec import split_validation_error

T = TypeVar("T")
# The parameters of a URL; a repeated one is a list.
Query = Mapping[str, str | list[str]]

_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_NOT_ALLOWED: Final = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_WRONG_TYPE: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_OUT_OF_RANGE: Final = re.compile(r"Expected `([^`]*)` (>=|<=|>|<) (\S+)")
_WRONG_LENGTH: Final = re.compile(r"Expected `([^`]*)` of length (>=|<=|>|<|==)? ?(\d+)")
_WRONG_FORM: Final = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[[^\[\]]*+\]")

# Python's names of types, and JSON's.
_TYPES: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS: Final = {">=": "of at least", "<=": "of at most", ">": "greater than", "<": "less than", "==": "of"}
_UNITS: Final = {"str": "characters", "array": "entries", "object": "entries"}
MOST_SHOWN: Final = 100


def read_struct(value: Any, kind: type[T], path: str = "$", *, hints: Mapping[str, str] | None = None) -> T:
    """Read a value as a struct that forbids unknown fields. `hints` explain some fields that it does not have."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        sentence, inner = split_validation_error(error)
        where = path + inner.removeprefix("$")
        unknown = _UNKNOWN.match(sentence)
        if unknown is not None:
            field = unknown[1][:MOST_SHOWN]
            known = [name for each in _types_at(kind, inner) for name in _field_names(each)]
            told = (hints or {}).get(field) if inner == "$" else None
            raise unknown_field(field, known, where, told) from None
        missing = _MISSING.match(sentence)
        if missing is not None:
            where = f"{where}.{missing[1]}"
        message = f"{missing[1]} is missing" if missing is not None else _reword(sentence, kind, inner, where)
        raise InputError(ErrorCode.SERVE_INVALID_FIELD, message, Position(path=where)) from None


def unknown_field(field: str, known: list[str], where: str = "$", told: str | None = None) -> InputError:
    """The error for an unknown field, with the nearest known one."""
    field = field[:MOST_SHOWN]
    near = get_close_matches(field, known, 1)
    if told is None and near:
        told = f"did you mean {near[0]!r}?"
    message = f"unknown parameter {field!r}" + (f"; {told}" if told else "")
    return InputError(ErrorCode.SERVE_UNKNOWN_FIELD, message, Position(path=f"{where}.{field}"))


def _reword(sentence: str, kind: Any, inner: str, where: str) -> str:
    """Rewrite msgspec's message in terms of JSON."""
    if found := _NOT_ALLOWED.match(sentence):
        allowed = [str(value) for each in _types_at(kind, inner) for value in _values_of(each)]
        name = where.rpartition(".")[2]
        said = found[1][:MOST_SHOWN]
        return f"{name} is {said}; it may be {', '.join(allowed)}" if allowed else f"{name} may not be {said}"
    if found := _WRONG_TYPE.fullmatch(sentence):
        return f"expected {_in_json(found[1])}, got {_in_json(found[2], is_given=True)}"
    if found := _WRONG_LENGTH.fullmatch(sentence):
        return f"expected {_in_json(found[1])} {_BOUNDS[found[2] or '==']} {found[3]} {_UNITS.get(found[1], 'entries')}"
    if found := _OUT_OF_RANGE.fullmatch(sentence):
        return f"expected {_in_json(found[1])} {_BOUNDS[found[2]]} {found[3].removesuffix('.0')}"
    if found := _WRONG_FORM.fullmatch(sentence):
        return f"expected a string of the form {found[1]}"
    return sentence


def _in_json(types: str, *, is_given: bool = False) -> str:
    names = [
        _TYPES.get(name, name) if not (is_given and name == "bool") else "a boolean" for name in types.split(" | ")
    ]
    return " or ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} or {names[-1]}"


# ── the type at a path ──────────────────────────────────────────────────────────────────────────────────────────────


def _types_at(kind: Any, inner: str) -> list[inspect.Type]:
    """The types at a path such as `$.tools[0].name`; empty if the path leads nowhere."""
    found = list(_plain(inspect.type_info(kind)))
    for step in _STEP.finditer(inner.removeprefix("$")):
        found = [below for each in found for below in _below(each, step[1])]
    return found


def _plain(type_: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(type_, inspect.Metadata):
        yield from _plain(type_.type)
    elif isinstance(type_, inspect.UnionType):
        for each in type_.types:
            yield from _plain(each)
    else:
        yield type_


def _below(type_: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    match type_:
        case inspect.StructType(fields=fields) if name is not None:
            for field in fields:
                if field.encode_name == name:
                    yield from _plain(field.type)
        case inspect.ListType(item_type=item) if name is None:
            yield from _plain(item)
        case inspect.DictType(value_type=value) if name is None:
            yield from _plain(value)
        case _:
            pass


def _field_names(type_: inspect.Type) -> list[str]:
    return [field.encode_name for field in type_.fields] if isinstance(type_, inspect.StructType) else []


def _values_of(type_: inspect.Type) -> list[Any]:
    return list(type_.values) if isinstance(type_, inspect.LiteralType) else []


def invalid(message: str, path: str) -> NoReturn:
    """Refuse a value."""
    raise InputError(ErrorCode.SERVE_INVALID_FIELD, message, Position(path=path))


def unsupported(message: str, path: str) -> NoReturn:
    """Refuse a part of the API that this server does not support."""
    raise InputError(ErrorCode.SERVE_UNSUPPORTED, message, Position(path=path))


# ── the query of a URL ──────────────────────────────────────────────────────────────────────────────────────────────


def check_query(query: Query, known: tuple[str, ...]) -> None:
    """Refuse unknown parameters."""
    for name in query:
        if name not in known:
            raise InputError(
                ErrorCode.SERVE_UNKNOWN_FIELD, f"unknown parameter {name[:100]!r}", Position(path=f"$.{name[:100]}")
            )


def one_of(query: Query, name: str) -> str | None:
    """The value of a parameter that must not be repeated."""
    value = query.get(name)
    if isinstance(value, list):
        invalid(f"{name} is given more than once", f"$.{name}")
    return value


def limit_of(query: Query, most: int) -> int:
    """The page size of a list; 20 by default."""
    given = one_of(query, "limit") or "20"
    # int() fails on thousands of digits with an error of its own.
    if not given.isascii() or not given.isdigit() or len(given) > len(str(most)) or not 1 <= int(given) <= most:
        invalid(f"limit is {given[:20]!r}; expected a number from 1 to {most}", "$.limit")
    return int(given)
