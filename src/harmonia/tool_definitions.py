"""Reads tool definitions, tool choices and response formats, whoever sends them. Pure: no I/O.

Tool definitions:
    {"type": "function", "function": {"name": …, "parameters": …}}     Chat Completions
    {"type": "function", "name": …, "parameters": …}                   Responses
    {"type": "custom", "name": …, "format": …}                         both; its argument is text
    {"type": "namespace", "name": …, "tools": […]}                     Responses
    {"name": …, "inputSchema": …}                                      MCP; also input_schema

Only the name has to be there. A custom tool's `format` may be a grammar for its text: `{"type": "grammar", "syntax":
"lark" | "regex", "definition": …}`, flat as in Responses or under `grammar` as in Chat Completions.

Tool choices:
    "auto" | "none" | "required"
    {"type": "function", "function": {"name": …}}                      Chat Completions; also custom
    {"type": "function", "name": …, "namespace": …}                    Responses; also custom
    {"type": "mcp", "server_label": …, "name": …}                      Responses; without a name, any of its tools
    {"type": "shell"}                                                  Responses: a built-in tool
    {"type": "allowed_tools", "mode": …, "tools": […]}                 flat, or under `allowed_tools`
    {"name": …}                                                        Chat Completions' older `function_call`

Response formats:
    {"type": "json_schema", "json_schema": {"name": …, "schema": …}}   Chat Completions
    {"type": "json_schema", "name": …, "schema": …}                    Responses
    {"type": "json_object"}                                            any JSON object
    {"type": "text"}                                                   any text

Reading is lenient: every spelling is read, and unknown fields are ignored. An API reads its own spelling only, and
exactly: it has a struct for each type (`CHAT`, `RESPONSES`, `CHAT_CHOICE`, …), and `check` validates against it first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NoReturn, Protocol, TypeVar, cast, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import Json, ResponseFormat

# json  the arguments are one JSON object that fits `parameters`
# text  the arguments are free text, such as python's code
Takes = Literal["json", "text"]
# lark   a grammar in Lark's notation, whose first rule is `start`
# regex  a regular expression for the whole text
Syntax = Literal["lark", "regex"]
# one  the tool that is named has to be called
Mode = Literal["auto", "none", "required", "one"]

FUNCTIONS: Final = "functions"
# Between the label of an MCP server and the name of its tool, in the name that the model reads.
SERVER_SEPARATOR: Final = "___"
SCHEMA_FIELDS: Final = ("parameters", "inputSchema", "input_schema")
JSON_OBJECT: Final = ResponseFormat("json_object", {"type": "object"}, "Any JSON object.")
_FORMAT_FIELDS: Final = ("type", "name", "schema", "description", "strict")
_WORDS: Final = ("auto", "none", "required")
_ALLOWED: Final = "allowed_tools"

T = TypeVar("T")
Fields = Mapping[str, Any]
# The struct that an API has for each type of a tool, or of a tool choice.
Spelling = Mapping[str, type[msgspec.Struct]]


class Check(Protocol):
    """Validates a value against a struct: raises an InputError with the path of an unknown, missing or wrong field."""

    def __call__(self, value: Any, kind: type[T], path: str, /) -> T: ...


class TextForm(msgspec.Struct, frozen=True):
    """The grammar of the text that a custom tool takes, as its owner wrote it."""

    syntax: Syntax
    definition: str


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool: its owner's name for it, which may be anything, and what it takes. `harmonia.run.Tool` adds what runs it.

    A tool without a `namespace` is called by its own name alone, like python. A `strict` tool's arguments have to fit
    `parameters`, as its text has to fit `text_form`. The model is not told of a tool with `defer_loading`. `server` is
    the label of the MCP server that has the tool; `built_in` the type of a tool that an API defines by its type alone,
    such as shell. `path` is where a request defines it.
    """

    name: str
    description: str | None = None
    parameters: Json | bool | None = None
    namespace: str | None = field(default=FUNCTIONS, kw_only=True)
    takes: Takes = field(default="json", kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    text_form: TextForm | None = field(default=None, kw_only=True)
    defer_loading: bool = field(default=False, kw_only=True)
    built_in: str | None = field(default=None, kw_only=True)
    server: str | None = field(default=None, kw_only=True)
    path: str | None = field(default=None, kw_only=True, compare=False)

    @property
    def kind(self) -> str:
        """function, custom, mcp, or the type of a built-in tool."""
        return self.built_in or ("mcp" if self.server else "custom" if self.takes == "text" else "function")

    @property
    def own_name(self) -> str:
        """Its name without that of its server."""
        return self.name.removeprefix(f"{self.server}{SERVER_SEPARATOR}") if self.server else self.name

    @property
    def text_form_path(self) -> str:
        """Where a request has the grammar of a custom tool: where its fields are nested, its grammar is, too."""
        grammar = "format.grammar" if (self.path or "").endswith(".custom") else "format"
        return f"{self.path}.{grammar}.definition"


class NamedTool(msgspec.Struct, frozen=True):
    """A tool as a choice names it. `path` is that of its name, or of the object if that has a type beside it."""

    name: str | None
    kind: str | None = None
    namespace: str | None = None
    server: str | None = None
    path: str = "$"


class Choice(msgspec.Struct, frozen=True):
    """What a tool choice asks for. `tools` are those that may be called; None allows all."""

    mode: Mode = "auto"
    tools: tuple[NamedTool, ...] | None = None


D = TypeVar("D", bound=ToolDefinition)


# ── exact spellings ─────────────────────────────────────────────────────────────────────────────────────────────────

_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
_ChatName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$(?!\n)")]
_FormatType = Literal["text", "json_object", "json_schema"]


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
    """When and by whom a tool is called, in Responses; only `defer_loading` has an effect."""

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


class _Name(_Exact, frozen=True, kw_only=True):
    name: str


class _ChosenFunction(_Exact, frozen=True, kw_only=True):
    function: _Name
    type: Literal["function"]


class _ChosenCustom(_Exact, frozen=True, kw_only=True):
    custom: _Name
    type: Literal["custom"]


class _AllowedTools(_Exact, frozen=True, kw_only=True):
    tools: list[Any]
    mode: Literal["auto", "required"] = "auto"


class _NestedAllowed(_Exact, frozen=True, kw_only=True):
    allowed_tools: _AllowedTools
    type: Literal["allowed_tools"]


class _FlatAllowed(_Exact, frozen=True, kw_only=True):
    tools: list[Json]
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required", "none"] = "auto"


class FlatTool(_Exact, frozen=True, kw_only=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


CHAT_CHOICE: Final[Spelling] = {"function": _ChosenFunction, "custom": _ChosenCustom, _ALLOWED: _NestedAllowed}
LEGACY_CHOICE: Final[Spelling] = {"function": _Name}
# An API adds the types of its built-in tools.
RESPONSES_CHOICE: Final[Spelling] = {
    **dict.fromkeys(("function", "custom", "mcp"), FlatTool),
    _ALLOWED: _FlatAllowed,
}


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


# ── tool definitions ────────────────────────────────────────────────────────────────────────────────────────────────


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
    fields, where = _inner(outer, str(kind), path)
    return str(kind), dict(fields), where


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
    if kind not in ("function", "custom") or (spelling is not None and kind not in spelling):
        expected = "cannot be defined here; expected function or custom"
        _refuse(f"a tool of type {kind[:60]!r} {expected}", f"{path}.type", code)
    if spelling is not None and check is not None:
        check(given, spelling[kind], path)
    name, description = _name_of(fields, where, code), _description_of(fields, where, code)
    is_deferred = fields.get("defer_loading") is True or cast("Fields", given).get("defer_loading") is True
    if kind == "custom":
        form = _text_form(fields, where, code)
        text: Json = {"type": "string"}
        return make(name, description, text, takes="text", text_form=form, defer_loading=is_deferred, path=where)
    schema, is_strict = _schema_of(fields, where, code), fields.get("strict") is True
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
    if name is None:
        _refuse("the definition has no name", f"{path}.name", code)
    if not isinstance(name, str) or not name:
        _refuse(f"the name is {_shown(name)}; expected a text that is not empty", f"{path}.name", code)
    return name


def _description_of(fields: Fields, path: str, code: ErrorCode) -> str | None:
    description: Any = fields.get("description")
    if description is not None and not isinstance(description, str):
        _refuse(f"the description is {_shown(description)}; expected a text", f"{path}.description", code)
    return description


def _schema_of(fields: Fields, path: str, code: ErrorCode) -> Json | bool | None:
    for name in SCHEMA_FIELDS:
        schema: Any = fields.get(name)
        if isinstance(schema, Mapping):
            return dict(cast("Fields", schema))
        if isinstance(schema, bool):
            return schema
        if schema is not None:
            _refuse(f"the parameters are {_shown(schema)}; expected a JSON Schema", f"{path}.{name}", code)
    return None


def _text_form(fields: Fields, path: str, code: ErrorCode) -> TextForm | None:
    given: Any = fields.get("format")
    if not isinstance(given, Mapping) or cast("Fields", given).get("type") != "grammar":
        return None
    grammar = _inner(cast("Fields", given), "grammar", path)[0]
    syntax: Any = grammar.get("syntax")
    definition: Any = grammar.get("definition")
    if syntax not in get_args(Syntax) or not isinstance(definition, str):
        _refuse("expected a grammar with a syntax, lark or regex, and a definition", f"{path}.format", code)
    return TextForm(syntax, definition)


# ── tool choices ────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tool_choice(
    given: object,
    path: str = "$",
    *,
    code: ErrorCode = ErrorCode.RUN_INVALID_OPTION,
    unknown_type: ErrorCode | None = None,
    spelling: Spelling | None = None,
    check: Check | None = None,
) -> Choice:
    """A tool choice in any spelling, or in that of one API. Without a spelling, a tool's name alone is one, too.

    `code` is that of an error, `unknown_type` that of a type that nobody knows, if it is another.
    """
    if given is None:
        return Choice()
    if isinstance(given, str) and given in _WORDS:
        return Choice(cast("Mode", given))
    if isinstance(given, str) and spelling is not None:
        _refuse(f"{given[:60]!r} is not a tool choice; expected {', '.join(_WORDS)} or an object", path, code)

    def fields_of(given: Fields, kind: str, path: str) -> tuple[Fields, str]:
        if spelling is not None and check is not None:
            check(given, spelling[kind], path)
        return _inner(given, kind, path)

    def read_name(given: object, path: str) -> NamedTool:
        if isinstance(given, str) and spelling is None:
            return NamedTool(given, path=path)
        if not isinstance(given, Mapping):
            _refuse("a tool is named by an object with a type", path, code)
        outer = cast("Fields", given)
        kind: Any = outer.get("type", "function")
        known = spelling or ("function", "custom")
        if not isinstance(kind, str) or kind not in known or kind == _ALLOWED:
            names = ", ".join(dict.fromkeys((*known, _ALLOWED)))
            _refuse(f"the type is {str(kind)[:60]!r}; expected one of {names}", f"{path}.type", unknown_type or code)
        fields, where = fields_of(outer, kind, path)
        name: Any = fields.get("name")
        if kind in ("function", "custom") and not isinstance(name, str):
            _refuse("a tool is named by its name", f"{where}.name", code)
        if where != path or "type" not in outer:
            path = f"{where}.name"
        return NamedTool(name, kind, fields.get("namespace"), fields.get("server_label"), path)

    outer: Fields = cast("Fields", given) if isinstance(given, Mapping) else {}
    if outer.get("type") != _ALLOWED:
        return Choice("one", (read_name(cast("object", given), path),))
    fields, where = fields_of(outer, _ALLOWED, path)
    tools, mode = fields.get("tools"), fields.get("mode", "auto")
    if not isinstance(tools, list) or mode not in _WORDS:
        _refuse("an allowed_tools choice has a mode, auto or required, and a list of tools", where, code)
    if mode == "required" and not tools:
        _refuse("a call is required, but no tool is allowed", where, code)
    named = (read_name(each, f"{where}.tools[{at}]") for at, each in enumerate(cast("list[Any]", tools)))
    return Choice(cast("Mode", mode), tuple(named))


# ── response formats ────────────────────────────────────────────────────────────────────────────────────────────────


def response_format_of(given: Format | TextFormat | None) -> ResponseFormat | None:
    """The format that a request demands, as the model is told of it."""
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return JSON_OBJECT
    fields = given.json_schema if isinstance(given, Format) else given
    assert fields is not None and fields.name is not None, "the request was checked"
    return ResponseFormat(fields.name, {} if fields.schema is None else fields.schema, fields.description)


def is_required(given: Format | TextFormat | None) -> bool:
    """Whether an answer in another format is an error."""
    if given is None or given.type == "text":
        return False
    fields = given.json_schema if isinstance(given, Format) else given
    return given.type == "json_object" or (fields is not None and fields.strict is True)


def unwrap_format(given: Fields, path: str = "$") -> tuple[Fields, str]:
    """The fields that describe the format, and their path."""
    return _inner(given, "json_schema", path)


def read_response_format(
    given: object, path: str = "$", *, code: ErrorCode, exact: bool = False, defaults: Fields | None = None
) -> ResponseFormat | None:
    """The format that JSON describes in any of the spellings; None where an answer may be any text.

    Unknown fields are ignored, or with `exact` refused. `defaults` are for a name or a schema that is missing.
    """
    if not isinstance(given, Mapping):
        _refuse(f"{_shown(given)} is not a response format; expected a JSON object", path, code)
    outer = cast("Fields", given)
    kind: Any = outer.get("type", "json_schema")
    if kind not in get_args(_FormatType):
        _refuse(f"the type is {_shown(kind)}; expected {', '.join(get_args(_FormatType))}", f"{path}.type", code)
    fields, where = unwrap_format(outer, path)
    if exact:
        _check_fields(outer, ("type", "json_schema") if fields is not outer else _FORMAT_FIELDS, path, code)
        _check_fields(fields, _FORMAT_FIELDS if kind == "json_schema" else ("type",), where, code)
    if kind != "json_schema":
        return JSON_OBJECT if kind == "json_object" else None
    named = {**(defaults or {}), **{name: value for name, value in fields.items() if value is not None}}
    name, schema = named.get("name"), named.get("schema")
    if not isinstance(name, str):
        _refuse("a response format needs a name, which is a text", f"{where}.name", code)
    if not isinstance(schema, Mapping | bool):
        _refuse("a response format needs a schema, which is a JSON Schema", f"{where}.schema", code)
    schema = schema if isinstance(schema, bool) else dict(cast("Json", schema))
    return ResponseFormat(name, schema, _description_of(named, where, code))


def _check_fields(given: Fields, known: Collection[str], path: str, code: ErrorCode) -> None:
    for name in given:
        if name not in known:
            _refuse(f"unknown field {name[:60]!r}; expected {', '.join(known)}", f"{path}.{name[:60]}", code)


def _inner(given: Fields, name: str, path: str) -> tuple[Fields, str]:
    """The object under a name and its path, or the given one where there is none."""
    inner: Any = given.get(name)
    return (cast("Fields", inner), f"{path}.{name}") if isinstance(inner, Mapping) else (given, path)


def _shown(value: object) -> str:
    return repr(value)[:60]


def _refuse(message: str, path: str, code: ErrorCode) -> NoReturn:
    raise InputError(code, message, Position(path=path))
