"""Reads the form that an answer is to have.

    {"type": "json_schema", "json_schema": {"name": …, "schema": …}}     Chat Completions
    {"type": "json_schema", "name": …, "schema": …}                      Responses
    {"type": "json_object"}                                              any JSON object
    {"type": "text"}                                                     no form

The structs are what the APIs take, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, cast, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json, ResponseFormat

JSON_OBJECT: Final = ResponseFormat("json_object", {"type": "object"}, "Any JSON object.")
FORMAT_FIELDS: Final = ("type", "name", "schema", "description", "strict")

_FormatType = Literal["text", "json_object", "json_schema"]
_ChatName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$(?!\n)")]


class JsonSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _ChatName
    schema: Json | bool | None = None
    description: str | None = None
    strict: bool | None = None


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`response_format` of Chat Completions."""

    type: _FormatType
    json_schema: JsonSchema | None = None


class TextFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`text.format` of Responses."""

    type: _FormatType = "text"
    name: str | None = None
    schema: Json | bool | None = None
    description: str | None = None
    strict: bool | None = None


def response_format_of(given: Format | TextFormat | None) -> ResponseFormat | None:
    """The form that a request wants, as the model is told of it."""
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return JSON_OBJECT
    fields = given.json_schema if isinstance(given, Format) else given
    assert fields is not None and fields.name is not None, "the request was checked"
    return ResponseFormat(fields.name, {} if fields.schema is None else fields.schema, fields.description)


def is_required(given: Format | TextFormat | None) -> bool:
    """Whether an answer of another form is an error."""
    if given is None or given.type == "text":
        return False
    fields = given.json_schema if isinstance(given, Format) else given
    return given.type == "json_object" or (fields is not None and fields.strict is True)


def unwrap_format(given: Mapping[str, Any], path: str = "$") -> tuple[Mapping[str, Any], str]:
    """The fields that describe the form, and their path."""
    inner: Any = given.get("json_schema")
    if not isinstance(inner, Mapping):
        return given, path
    return cast("Mapping[str, Any]", inner), f"{path}.json_schema"


def read_response_format(
    given: object, path: str = "$", *, code: ErrorCode, exact: bool = False, defaults: Mapping[str, Any] | None = None
) -> ResponseFormat | None:
    """The form that JSON describes in any of the spellings; None where an answer may be any text.

    Unknown fields are ignored, or with `exact` refused. `defaults` are for a name or a schema that is missing.
    """
    if not isinstance(given, Mapping):
        _refuse(f"{repr(given)[:60]} is not a response format; expected a JSON object", path, code)
    outer = cast("Mapping[str, Any]", given)
    kind: Any = outer.get("type", "json_schema")
    if kind not in get_args(_FormatType):
        _refuse(f"the type is {repr(kind)[:60]}; expected {', '.join(get_args(_FormatType))}", f"{path}.type", code)
    fields, where = unwrap_format(outer, path)
    if exact:
        _check_fields(outer, ("type", "json_schema") if fields is not outer else FORMAT_FIELDS, path, code)
        _check_fields(fields, FORMAT_FIELDS if kind == "json_schema" else ("type",), where, code)
    if kind != "json_schema":
        return JSON_OBJECT if kind == "json_object" else None
    named = {**(defaults or {}), **{name: value for name, value in fields.items() if value is not None}}
    name, schema, description = (named.get(field) for field in ("name", "schema", "description"))
    if not isinstance(name, str):
        _refuse("a response format needs a name, which is a text", f"{where}.name", code)
    if not isinstance(schema, Mapping | bool):
        _refuse("a response format needs a schema, which is a JSON Schema", f"{where}.schema", code)
    if description is not None and not isinstance(description, str):
        _refuse(f"the description is {repr(description)[:60]}; expected a text", f"{where}.description", code)
    return ResponseFormat(name, schema if isinstance(schema, bool) else dict(cast("Json", schema)), description)


def _check_fields(given: Mapping[str, Any], known: Collection[str], path: str, code: ErrorCode) -> None:
    for name in given:
        if name not in known:
            _refuse(f"unknown field {name[:60]!r}; expected {', '.join(known)}", f"{path}.{name[:60]}", code)


def _refuse(message: str, path: str, code: ErrorCode) -> NoReturn:
    raise InputError(code, message, Position(path=path))
