"""Tools from the JSON in which APIs and MCP servers describe them.

    {"type": "function", "function": {"name": …, "parameters": …}}     Chat Completions
    {"type": "function", "name": …, "parameters": …}                   Responses
    {"type": "custom", "name": …}                                      Responses; its argument is text
    {"name": …, "inputSchema": …}                                      MCP

A description may be missing, parameters may be missing or null, and fields that say nothing here, such as
`annotations`, are passed over. Only the name has to be there. A custom tool's `format` may be a grammar for its text:
`{"type": "grammar", "syntax": "lark" | "regex", "definition": …}`, flat as Responses write it or nested under `grammar`
as Chat Completions do. A tool with `"defer_loading": true` is not declared to the model.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import TextForm
from harmonia.messages import Json
from harmonia.run.tools.tool import Tool

_SCHEMA_FIELDS: Final = ("parameters", "inputSchema", "input_schema")
_TEXT: Final[Json] = {"type": "string"}


def tool_of_definition(definition: object) -> Tool:
    """The tool that a definition describes; see the module."""
    kind, fields, path = _unwrap(definition)
    if kind not in ("function", "custom"):
        raise _invalid(f"a tool of type {kind!r} has no definition; expected function or custom", "$.type")
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid(f"the name is {name!r}; expected a text", f"{path}.name")
    description = fields.get("description")
    if description is not None and not isinstance(description, str):
        raise _invalid(f"the description of {name} is {description!r}; expected a text", f"{path}.description")
    is_deferred = any(each.get("defer_loading") is True for each in (fields, cast("Json", definition)))
    if kind == "custom":
        return Tool(
            name,
            description or None,
            _TEXT,
            takes="text",
            text_form=_text_form(name, fields, path),
            defer_loading=is_deferred,
        )
    is_strict = fields.get("strict") is True
    return Tool(name, description or None, _schema_of(name, fields, path), strict=is_strict, defer_loading=is_deferred)


def convert_tools_for_harmony(definitions: Iterable[object] | Json) -> list[Json]:
    """Definitions of any kind as flat ones: `type`, `name`, `description` where there is one, and `parameters`.

    Takes a list, an object with a list `tools`, or one definition. Tools that a provider runs itself, such as
    `web_search`, have nothing to flatten and stay as they are. A definition that is wrong is an InputError with its
    path in what was given.
    """
    path = "$"
    if isinstance(definitions, Mapping):
        fields = cast("Json", definitions)
        if "name" in fields or "function" in fields or "tools" not in fields:
            return [_flatten(fields)]
        definitions, path = cast("list[object]", fields["tools"] or []), "$.tools"
    if not isinstance(definitions, Iterable) or isinstance(definitions, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        raise _invalid(f"{definitions!r} is no list of definitions", path)
    flat: list[Json] = []
    for index, definition in enumerate(definitions):
        with definition_at(f"{path}[{index}]"):
            flat.append(_flatten(definition))
    return flat


@contextmanager
def definition_at(path: str) -> Generator[None]:
    """Gives errors of one definition the path of that definition in a larger document."""
    try:
        yield
    except InputError as error:
        where = path + (error.at.path or "$").removeprefix("$")
        raise InputError(error.code, error.message, msgspec.structs.replace(error.at, path=where)) from error


def _flatten(definition: object) -> Json:
    kind, fields, _ = _unwrap(definition)
    if kind != "function":
        return {"type": kind, **fields}
    tool = tool_of_definition(definition)
    flat: Json = {"type": "function", "name": tool.name}
    if tool.description is not None:
        flat["description"] = tool.description
    flat["parameters"] = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    if isinstance(fields.get("strict"), bool):
        flat["strict"] = fields["strict"]
    return flat


def _unwrap(definition: object) -> tuple[str, Json, str]:
    """The type of a definition, the fields that describe the tool, and their path."""
    if not isinstance(definition, Mapping):
        raise _invalid(f"{definition!r} is no definition of a tool; expected a JSON object", "$")
    outer = cast("Mapping[str, Any]", definition)
    kind = outer.get("type")
    nested = outer.get(kind) if isinstance(kind, str) else outer.get("function")
    kind = "function" if kind is None else str(kind)
    if isinstance(nested, Mapping):
        return kind, dict(cast("Mapping[str, Any]", nested)), f"$.{kind}"
    return kind, dict(outer), "$"


def _schema_of(name: str, fields: Json, path: str) -> Json | bool | None:
    for field in _SCHEMA_FIELDS:
        schema = fields.get(field)
        if schema is None:
            continue
        if not isinstance(schema, dict | bool):
            raise _invalid(f"the parameters of {name} are {schema!r}; expected a JSON Schema", f"{path}.{field}")
        return cast("Json | bool", schema)
    return None


def _text_form(name: str, fields: Json, path: str) -> TextForm | None:
    given: Any = fields.get("format")
    if not isinstance(given, Mapping) or cast("Json", given).get("type") != "grammar":
        return None
    grammar: Any = cast("Json", given).get("grammar", given)
    try:
        form = msgspec.convert({key: grammar[key] for key in ("syntax", "definition")}, TextForm)
    except (KeyError, TypeError, msgspec.ValidationError):
        raise _invalid(
            f"the format of {name} is {given!r}; expected a grammar with a syntax, lark or regex, and a definition",
            f"{path}.format",
        ) from None
    return form


def _invalid(message: str, path: str) -> InputError:
    return InputError(ErrorCode.TOOL_INVALID_DEFINITION, message, Position(path=path))
