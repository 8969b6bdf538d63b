"""Reads one tool definition, in every spelling that APIs and MCP servers have for it.

    {"type": "function", "function": {"name": …, "parameters": …}}     Chat Completions
    {"type": "function", "name": …, "parameters": …}                   Responses
    {"type": "custom", "name": …, "format": …}                         both; its argument is text
    {"type": "namespace", "name": …, "tools": […]}                     Responses
    {"name": …, "inputSchema": …}                                      MCP; also input_schema

Only the name has to be there. A custom tool's `format` may be a grammar for its text: `{"type": "grammar", "syntax":
"lark" | "regex", "definition": …}`, flat as in Responses or under `grammar` as in Chat Completions.

Reading is lenient: every spelling is read, and unknown fields are ignored. An API reads its own spelling alone, and
exactly: its row of `CHAT`, `LEGACY_FUNCTIONS` or `RESPONSES` has a struct for each type, which `check` holds the
definition to first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NoReturn, Protocol, TypeVar, cast, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json
from harmonia.tool_definitions.definition import Syntax, TextForm, ToolDefinition

SCHEMA_FIELDS: Final = ("parameters", "inputSchema", "input_schema")
_KINDS: Final = ("function", "custom")
_TEXT: Final[Json] = {"type": "string"}

T = TypeVar("T")
D = TypeVar("D", bound=ToolDefinition)
Fields = Mapping[str, Any]
# The struct that an API has for each type of a tool, or of a tool choice.
Spelling = Mapping[str, type[msgspec.Struct]]


class Check(Protocol):
    """Holds a value to a struct: raises an InputError with the path of an unknown, missing or wrong field."""

    def __call__(self, value: Any, kind: type[T], path: str, /) -> T: ...


# ── exact spellings ─────────────────────────────────────────────────────────────────────────────────────────────────

_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class _Exact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _ChatFunction(_Exact, frozen=True, kw_only=True):
    name: _NonEmpty
    description: str | None = None
    parameters: Json | bool | None = None
    strict: bool | None = None


class _Grammar(_Exact, frozen=True, kw_only=True):
    definition: str
    syntax: Syntax


class _PlainText(_Exact, frozen=True, kw_only=True, tag_field="type", tag="text"):
    pass


class _GrammarText(_Exact, frozen=True, kw_only=True, tag_field="type", tag="grammar"):
    grammar: _Grammar


class _ChatCustom(_Exact, frozen=True, kw_only=True):
    name: _NonEmpty
    description: str | None = None
    format: _PlainText | _GrammarText | None = None


class _NestedFunction(_Exact, frozen=True, kw_only=True):
    function: _ChatFunction
    type: Literal["function"] = "function"


class _NestedCustom(_Exact, frozen=True, kw_only=True):
    custom: _ChatCustom
    type: Literal["custom"] = "custom"


class _Loading(_Exact, frozen=True, kw_only=True):
    """What Responses say of when and by whom a tool is called; only `defer_loading` has an effect."""

    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")


class _FlatFunction(_Loading, frozen=True, kw_only=True):
    name: _NonEmpty
    description: str | None = None
    parameters: Json | bool | None = None
    strict: bool | None = None
    type: Literal["function"] = "function"
    output_schema: Json | None = None


class _FlatFormat(_Exact, frozen=True, kw_only=True):
    type: Literal["text", "grammar"] = "text"
    syntax: Syntax | None = None
    definition: str | None = None


class _FlatCustom(_Loading, frozen=True, kw_only=True):
    name: _NonEmpty
    type: Literal["custom"] = "custom"
    description: str | None = None
    format: _FlatFormat | None = None


class _Namespace(_Exact, frozen=True, kw_only=True):
    name: _NonEmpty
    tools: list[Json]
    type: Literal["namespace"] = "namespace"
    description: str | None = None


CHAT: Final[Spelling] = {"function": _NestedFunction, "custom": _NestedCustom}
LEGACY_FUNCTIONS: Final[Spelling] = {"function": _ChatFunction}
RESPONSES: Final[Spelling] = {"function": _FlatFunction, "custom": _FlatCustom, "namespace": _Namespace}


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def unwrap(
    given: object, path: str = "$", code: ErrorCode = ErrorCode.TOOL_INVALID_DEFINITION
) -> tuple[str, Json, str]:
    """The type of a definition, the fields that describe the tool, and the path of those."""
    if not isinstance(given, Mapping):
        _refuse(f"{_shown(given)} is not a tool definition; expected a JSON object", path, code)
    outer = cast("Fields", given)
    kind: Any = outer.get("type")
    if kind is None:
        kind = "namespace" if isinstance(outer.get("tools"), list) and "name" in outer else "function"
    nested: Any = outer.get(kind) if isinstance(kind, str) else None
    if isinstance(nested, Mapping):
        return str(kind), dict(cast("Fields", nested)), f"{path}.{kind}"
    return str(kind), dict(outer), path


def read_definition(
    given: object,
    path: str = "$",
    *,
    make: type[D] = ToolDefinition,
    code: ErrorCode = ErrorCode.TOOL_INVALID_DEFINITION,
    spelling: Spelling | None = None,
    check: Check | None = None,
) -> D:
    """The tool that a definition describes, as a `make`. `code` is that of an error; its path begins with `path`."""
    kind, fields, where = unwrap(given, path, code)
    exact = None if spelling is None else spelling.get(kind)
    if kind not in _KINDS or (spelling is not None and exact is None):
        _refuse(
            f"a tool of type {kind[:60]!r} cannot be defined here; expected function or custom", f"{path}.type", code
        )
    if exact is not None and check is not None:
        check(given, exact, path)
    name = _name_of(fields, where, code)
    description = _description_of(fields, where, code)
    is_deferred = fields.get("defer_loading") is True or cast("Fields", given).get("defer_loading") is True
    if kind == "custom":
        form = _text_form(fields, where, code)
        return make(name, description, _TEXT, takes="text", text_form=form, defer_loading=is_deferred, path=where)
    schema = _schema_of(fields, where, code)
    is_strict = fields.get("strict") is True
    return make(name, description, schema, strict=is_strict, defer_loading=is_deferred, path=where)


def read_namespace(
    given: object, path: str = "$", code: ErrorCode = ErrorCode.TOOL_INVALID_DEFINITION
) -> tuple[str, str | None, Sequence[Any]]:
    """The name, the description and the definitions of a namespace."""
    _, fields, where = unwrap(given, path, code)
    tools: Any = fields.get("tools") or []
    if not isinstance(tools, list | tuple):
        _refuse("the tools of a namespace are a list", f"{where}.tools", code)
    return _name_of(fields, where, code), _description_of(fields, where, code), cast("Sequence[Any]", tools)


def convert_tools_for_harmony(definitions: Iterable[object] | Json) -> list[Json]:
    """Definitions of any kind as flat ones: `type`, `name`, `description` where there is one, and `parameters`.

    Takes a list, an object with a list `tools`, or one definition. Tools that a provider runs itself, such as
    `web_search`, have nothing to flatten and stay as they are. A wrong definition is an InputError with its path in
    what was given.
    """
    path = "$"
    if isinstance(definitions, Mapping):
        fields = cast("Json", definitions)
        if "name" in fields or "function" in fields or "tools" not in fields:
            return [_flatten(fields, path)]
        definitions, path = cast("list[object]", fields["tools"] or []), "$.tools"
    if not isinstance(definitions, Iterable) or isinstance(definitions, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers without types
        _refuse(f"{_shown(definitions)} is not a list of tool definitions", path, ErrorCode.TOOL_INVALID_DEFINITION)
    return [_flatten(definition, f"{path}[{index}]") for index, definition in enumerate(definitions)]


def _flatten(definition: object, path: str) -> Json:
    kind, fields, _ = unwrap(definition, path)
    if kind != "function":
        return {"type": kind, **fields}
    tool = read_definition(definition, path)
    flat: Json = {"type": "function", "name": tool.name}
    if tool.description:
        flat["description"] = tool.description
    flat["parameters"] = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    if isinstance(fields.get("strict"), bool):
        flat["strict"] = fields["strict"]
    return flat


def _name_of(fields: Fields, path: str, code: ErrorCode) -> str:
    name: Any = fields.get("name")
    if not isinstance(name, str) or not name:
        _refuse(f"the name is {_shown(name)}; expected a text that is not empty", f"{path}.name", code)
    return name


def _description_of(fields: Fields, path: str, code: ErrorCode) -> str | None:
    description: Any = fields.get("description")
    if description is not None and not isinstance(description, str):
        _refuse(f"the description is {_shown(description)}; expected a text", f"{path}.description", code)
    return description


def _schema_of(fields: Fields, path: str, code: ErrorCode) -> Json | bool | None:
    for field in SCHEMA_FIELDS:
        schema: Any = fields.get(field)
        if isinstance(schema, Mapping):
            return dict(cast("Fields", schema))
        if isinstance(schema, bool):
            return schema
        if schema is not None:
            _refuse(f"the parameters are {_shown(schema)}; expected a JSON Schema", f"{path}.{field}", code)
    return None


def _text_form(fields: Fields, path: str, code: ErrorCode) -> TextForm | None:
    given: Any = fields.get("format")
    if not isinstance(given, Mapping) or cast("Fields", given).get("type") != "grammar":
        return None
    grammar: Any = cast("Fields", given).get("grammar", cast("Fields", given))
    fields = cast("Fields", grammar) if isinstance(grammar, Mapping) else {}
    syntax: Any = fields.get("syntax")
    definition: Any = fields.get("definition")
    if syntax not in get_args(Syntax) or not isinstance(definition, str):
        _refuse("expected a grammar with a syntax, lark or regex, and a definition", f"{path}.format", code)
    return TextForm(syntax, definition)


def text_form_path(tool: ToolDefinition) -> str:
    """Where a request has the grammar of a custom tool: where its fields are nested, its grammar is, too."""
    grammar = "format.grammar" if (tool.path or "").endswith(".custom") else "format"
    return f"{tool.path}.{grammar}.definition"


def _shown(value: object) -> str:
    return repr(value)[:60]


def _refuse(message: str, path: str, code: ErrorCode) -> NoReturn:
    raise InputError(code, message, Position(path=path))
