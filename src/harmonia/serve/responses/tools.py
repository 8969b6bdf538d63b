"""The tools of a request: how the model is told of them, and what a call to each becomes for the client.

    function       function_call: the client runs it
    custom         custom_tool_call: the same; its input is text. The model reads its grammar in its description, and an
                   engine that takes grammars is held to it
    namespace      function_call with a `namespace`
    shell, local_shell, apply_patch    shell_call and so on: the client runs them; to the model they are functions
    mcp            a server that the operator configured, by its label; its calls run here
    web_search, tool_search    left out, with a warning: clients send them unasked, and a model may always choose not
                   to search

All others are a provider's own, and refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, NoReturn, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import TextForm
from harmonia.messages import Json
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.names import legal_names
from harmonia.run.tools.tool import FUNCTIONS
from harmonia.serve.config.settings import Limits
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.wire.custom_formats import check_size, describe_form
from harmonia.serve.wire.schema_limits import SchemaBudget
from harmonia.serve.wire.validation import invalid, read_struct, unsupported

_DEFINITION: Final = "format.definition"
ItemKind = Literal[
    "function_call",
    "custom_tool_call",
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
    "mcp_call",
    "mcp_approval_request",
]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, and the item that a call to it becomes. `namespace` is the client's, `server` an MCP server's label;
    `path` is where the request declares it."""

    tool: Tool
    item: ItemKind
    name: str
    namespace: str | None = None
    server: str | None = None
    path: str | None = None


class _Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: Literal["function"] = "function"
    description: str | None = None
    parameters: Json | bool | None = None
    strict: bool | None = None
    output_schema: Json | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")


class _Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "grammar"] = "text"
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class _Custom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: Literal["custom"] = "custom"
    description: str | None = None
    format: _Format | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None
    is_async: bool | None = msgspec.field(default=None, name="async")


class _Namespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    tools: list[Json]
    type: Literal["namespace"] = "namespace"
    description: str | None = None


class _BuiltIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["shell", "local_shell", "apply_patch"]
    environment: Json | None = None
    allowed_callers: list[str] | None = None


class _Mcp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    server_label: str
    type: Literal["mcp"] = "mcp"
    server_url: str | None = None
    server_description: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: list[str] | Json | None = None
    require_approval: Literal["always", "never"] | Json | None = None
    defer_loading: bool | None = None
    allowed_callers: list[str] | None = None


def _operation(*types: str, has_diff: bool = False) -> Json:
    """What a patch does to a file. Clients cannot create or change one without a diff."""
    properties: Json = {
        "type": {"type": "string", "enum": list(types)},
        "path": {"type": "string", "description": "The file, relative to the project."},
    }
    if has_diff:
        properties["diff"] = {"type": "string", "description": "The change as a diff; of a new file, all its lines."}
    return {"type": "object", "properties": properties, "required": list(properties)}


# Built-in tools of the API that the client runs. To the model they are functions.
_BUILT_IN: Final[dict[str, tuple[ItemKind, Tool]]] = {
    "shell": (
        "shell_call",
        Tool(
            "shell",
            "Runs commands in a shell of the user's machine, each on its own, and gives what they print.",
            {
                "type": "object",
                "properties": {
                    "commands": {"type": "array", "items": {"type": "string"}, "description": "Commands to run."},
                    "timeout_ms": {"type": "integer", "description": "How long they may take, in milliseconds."},
                    "max_output_length": {"type": "integer", "description": "The most characters to give back."},
                },
                "required": ["commands"],
            },
        ),
    ),
    "local_shell": (
        "local_shell_call",
        Tool(
            "local_shell",
            "Runs a program on the user's machine and gives what it prints.",
            {
                "type": "object",
                "properties": {
                    "command": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The program and its arguments.",
                    },
                    "working_directory": {"type": "string"},
                    "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    "timeout_ms": {"type": "integer"},
                },
                "required": ["command"],
            },
        ),
    ),
    "apply_patch": (
        "apply_patch_call",
        Tool(
            "apply_patch",
            "Creates, changes or deletes one file of the user's project.",
            {"anyOf": [_operation("create_file", "update_file", has_diff=True), _operation("delete_file")]},
        ),
    ),
}
_LEFT_OUT: Final = (
    "web_search",
    "web_search_preview",
    "web_search_2025_08_26",
    "web_search_preview_2025_03_11",
    "tool_search",
)
_KNOWN: Final = ("function", "custom", "namespace", *_BUILT_IN, "mcp", *_LEFT_OUT[:1])


@dataclass(frozen=True, slots=True)
class Offer:
    """All tools of a request, by what the model calls them, and by their namespace, server and name."""

    toolset: ToolSet
    warnings: tuple[str, ...]
    servers: tuple[str, ...]  # the MCP servers that the request names, by their labels
    _by_recipient: dict[str, OfferedTool]
    _by_name: dict[tuple[str | None, str | None, str], OfferedTool]

    @property
    def forms(self) -> list[tuple[TextForm, str, str]]:
        """The forms of custom tools, each with the tool's name and the path of its definition."""
        custom = ((each, each.tool.text_form) for each in self._by_recipient.values())
        return [(form, each.name, f"{each.path}.{_DEFINITION}") for each, form in custom if form is not None]

    @property
    def names(self) -> list[tuple[str, str]]:
        """What the model calls each tool, and what the client does."""
        return [(recipient, tool.name) for recipient, tool in self._by_recipient.items()]

    def find(self, recipient: str) -> OfferedTool | None:
        """The tool that the model meant."""
        tool = self.toolset.find(recipient)
        return None if tool is None else self._by_recipient.get(self.toolset.recipient_of(tool))

    def recipient_of(self, name: str, namespace: str | None = None, server: str | None = None) -> str:
        """The whole name of a tool that a client names, whether it is offered now or was in an older request."""
        found = self._by_name.get((namespace, server, name))
        if found is not None:
            return self.toolset.recipient_of(found.tool)
        if server is not None:
            name = f"{server}___{name}"
        legal = legal_names([name])[name]
        return f"{legal_names([namespace])[namespace] if namespace else FUNCTIONS}.{legal}"

    def named(self, name: str, namespace: str | None = None) -> OfferedTool | None:
        """The offered tool of a name; in whichever namespace, where none is said and only one has it."""
        found = self._by_name.get((namespace, None, name))
        if found is None and namespace is None:
            same = [tool for (_, _, known), tool in self._by_name.items() if known == name]
            found = same[0] if len(same) == 1 else None
        return found

    @property
    def schemas(self) -> list[tuple[Json | bool | None, str]]:
        """The schemas that the client sent, with their paths."""
        return [(each.tool.parameters, f"{each.path}.parameters") for each in self._by_name.values() if each.path]

    def of_kind(self, kinds: Iterable[str]) -> list[OfferedTool]:
        wanted = set(kinds)
        return [tool for tool in self._by_name.values() if tool.item in wanted]

    def of_server(self, server: str, name: str | None = None) -> list[OfferedTool]:
        return [tool for tool in self._by_name.values() if tool.server == server and name in (None, tool.name)]


# Of a server that a client names by its address there may be any number of tools.
_MOST_NAMED: Final = 32
_NO_TOOLS: Final = Offer(ToolSet(), (), (), {}, {})


class RemoteServer(msgspec.Struct, frozen=True):
    """An MCP server that a client asks for by its address."""

    label: str
    url: str
    headers: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    asks: bool = True
    path: str = "$.tools"


def remote_servers(tools: Sequence[Json], path: str = "$.tools") -> list[RemoteServer]:
    """The MCP servers that come with an address. Whether that is allowed is not decided here."""
    found: list[RemoteServer] = []
    for at, given in enumerate(tools):
        if given.get("type") != "mcp" or given.get("server_url") is None:
            continue
        where = f"{path}[{at}]"
        mcp = read_struct(given, _Mcp, where)
        headers = dict(mcp.headers or {})
        if mcp.authorization is not None:
            headers["authorization"] = f"Bearer {mcp.authorization}"
        names = _names_allowed(mcp.allowed_tools, f"{where}.allowed_tools")
        # Which tools ask, where some do, is read with the tools.
        asks = mcp.require_approval in (None, "always")
        found.append(RemoteServer(mcp.server_label, mcp.server_url or "", headers, names, asks, where))
    return found


def check_allowed(label: str, allowed: Sequence[str] | None, names: Sequence[str], path: str) -> None:
    """Refuse a list of allowed tools none of which the server has. `path` is that of the server's definition."""
    if allowed and not set(allowed) & set(names):
        known = ", ".join(sorted(names)[:_MOST_NAMED]) or "none"
        invalid(f"the MCP server {label!r} has none of these tools; it has: {known}", f"{path}.allowed_tools")


def read_tools(
    lists: Sequence[tuple[str, Sequence[Json]]], hosted: Sequence[ServerTool], limits: Limits, schemas: SchemaBudget
) -> Offer:
    """The tools of a request: lists of definitions, each with its path, and those that run here.

    No list has a name twice. A tool of a later list stands for the one of an earlier list that has its name.
    """
    if not hosted and not any(tools for _, tools in lists):
        return _NO_TOOLS
    reader = _Reader(hosted, limits, schemas)
    for path, tools in lists:
        reader.begin_list()
        for at, given in enumerate(tools):
            reader.read(given, f"{path}[{at}]")
    return reader.finish()


class _Reader:
    def __init__(self, hosted: Sequence[ServerTool], limits: Limits, schemas: SchemaBudget) -> None:
        self._hosted = hosted
        self._limits = limits
        self._found: list[OfferedTool] = []
        self._described: dict[str, str | None] = {}
        self._places: dict[tuple[str | None, str], int] = {}  # in `_found`
        self._in_list: set[tuple[str | None, str]] = set()
        self._warnings: list[str] = []
        self._servers: dict[str, tuple[_Mcp, str]] = {}
        self._count = 0
        self._schemas = schemas

    def begin_list(self) -> None:
        self._in_list.clear()

    def finish(self) -> Offer:
        self._add_hosted()
        toolset = ToolSet((each.tool for each in self._found), descriptions=self._described)
        by_recipient = {toolset.recipient_of(each.tool): each for each in self._found}
        by_name = {(each.namespace, each.server, each.name): each for each in self._found}
        return Offer(toolset, tuple(self._warnings), tuple(self._servers), by_recipient, by_name)

    def read(self, given: object, path: str) -> None:
        if not isinstance(given, dict):
            invalid("a tool is a JSON object", path)
        tool = cast("Json", given)
        self._count_one(path)
        kind = tool.get("type", "function")
        match kind:
            case "function" | "custom":
                self._add(self._client_tool(tool, path, None), path)
            case "namespace":
                self._read_namespace(tool, path)
            case "shell" | "local_shell" | "apply_patch":
                built_in = read_struct(tool, _BuiltIn, path)
                self._check_environment(built_in, path)
                item, declared = _BUILT_IN[built_in.type]
                # Its arguments are checked here: the item has fields for them, not a text.
                self._add(OfferedTool(declared, item, declared.name), path)
            case "mcp":
                self._read_mcp(read_struct(tool, _Mcp, path), path)
            case str() if kind in _LEFT_OUT:
                self._warnings.append(f"{path.removeprefix('$.')}: this server has no {kind}; the tool was left out")
            case _:
                unsupported(f"tools of type {kind!r} are not here; known are {', '.join(_KNOWN)}", f"{path}.type")

    def _count_one(self, path: str) -> None:
        self._count += 1
        if self._count > self._limits.tools:
            raise InputError(
                ErrorCode.SERVE_TOO_LARGE, f"there are more than {self._limits.tools} tools", Position(path=path)
            )

    def _read_namespace(self, tool: Json, path: str) -> None:
        namespace = read_struct(tool, _Namespace, path)
        if namespace.name == FUNCTIONS:
            namespace_name: str | None = None
        else:
            namespace_name = namespace.name
            self._described[namespace.name] = namespace.description
        for at, each in enumerate(namespace.tools):
            where = f"{path}.tools[{at}]"
            self._count_one(where)
            self._add(self._client_tool(each, where, namespace_name), where)

    def _client_tool(self, tool: Json, path: str, namespace: str | None) -> OfferedTool | None:
        if "function" in tool and "name" not in tool:
            invalid("the fields of a function stand beside its type, not in `function`", f"{path}.function")
        kind = tool.get("type", "function")
        if kind == "custom":
            custom = read_struct(tool, _Custom, path)
            name, deferred, item = custom.name, custom.defer_loading, "custom_tool_call"
            form = self._form_of(custom, path)
            made = Tool(name, _describe(custom, form), {"type": "string"}, takes="text", text_form=form)
        elif kind == "function":
            function = read_struct(tool, _Function, path)
            self._schemas.admit(function.parameters, f"{path}.parameters", is_demanded=function.strict is True)
            name, deferred, item = function.name, function.defer_loading, "function_call"
            made = Tool(name, function.description or None, function.parameters, strict=function.strict is True)
        else:
            unsupported(f"a namespace has functions and custom tools, not {kind!r}", f"{path}.type")
        if not name:
            invalid("a tool needs a name", f"{path}.name")
        if deferred:
            self._warnings.append(f"{path.removeprefix('$.')}: {name} is deferred, and nothing here loads it later")
            return None
        made = replace(made, namespace=namespace or FUNCTIONS, checks_arguments=False, untrusted=True)
        return OfferedTool(made, cast("ItemKind", item), name, namespace, path=path)

    def _form_of(self, custom: _Custom, path: str) -> TextForm | None:
        given = custom.format
        if given is None or given.type == "text":
            return None
        if given.definition is None or given.syntax is None:
            invalid("a grammar has a syntax and a definition", f"{path}.format")
        form = TextForm(given.syntax, given.definition)
        check_size(form, f"{path}.{_DEFINITION}", self._limits)
        return form

    def _check_environment(self, tool: _BuiltIn, path: str) -> None:
        kind = None if tool.environment is None else tool.environment.get("type")
        if kind not in (None, "local"):
            unsupported("there are no containers here: the client runs the shell", f"{path}.environment")

    def _read_mcp(self, mcp: _Mcp, path: str) -> None:
        if mcp.connector_id is not None or mcp.tunnel_id is not None:
            unsupported("connectors are a provider's own", f"{path}.connector_id")
        known = {tool.server for tool in self._hosted}
        if mcp.server_label not in known and mcp.server_url is None:
            offered = ", ".join(sorted(known)) or "none"
            invalid(f"there is no MCP server {mcp.server_label!r} here; there are: {offered}", f"{path}.server_label")
        allowed = _names_allowed(mcp.allowed_tools, f"{path}.allowed_tools")
        names = [tool.name for tool in self._hosted if tool.server == mcp.server_label]
        check_allowed(mcp.server_label, allowed, names, path)
        self._servers[mcp.server_label] = (mcp, path)

    def _add_hosted(self) -> None:
        """Those that run here: of the servers that the request names or, where it names none, of all."""
        for hosted in self._hosted:
            asked = self._servers.get(hosted.server)
            if self._servers and asked is None:
                continue
            approval = hosted.approval
            if asked is not None:
                mcp, path = asked
                allowed = _names_allowed(mcp.allowed_tools, f"{path}.allowed_tools")
                if allowed is not None and hosted.name not in allowed:
                    continue
                # A client may ask for more care than the operator, never for less.
                if _wants_approval(mcp.require_approval, hosted.name, f"{path}.require_approval"):
                    approval = "ask"
            place = self._places.get((None, hosted.tool.name))
            if place is not None:
                _refuse_repeated(hosted.tool.name, self._found[place].path)
            if approval == "ask":
                tool = replace(hosted.tool, invoke=None)
                self._found.append(OfferedTool(tool, "mcp_approval_request", hosted.name, server=hosted.server))
            else:
                self._found.append(OfferedTool(hosted.tool, "mcp_call", hosted.name, server=hosted.server))

    def _add(self, tool: OfferedTool | None, path: str) -> None:
        if tool is None:
            return
        name = (tool.namespace, tool.name)
        if name in self._in_list:
            _refuse_repeated(tool.name, path)
        self._in_list.add(name)
        place = self._places.setdefault(name, len(self._found))
        self._found[place : place + 1] = [tool]


def _refuse_repeated(name: str, path: str | None) -> NoReturn:
    raise InputError(ErrorCode.TOOL_REPEATED_NAME, f"there are two tools {name!r}", Position(path=path))


def _describe(custom: _Custom, form: TextForm | None) -> str | None:
    description = custom.description or ""
    return (description if form is None else f"{description}\n\n{describe_form(form)}").strip() or None


def _names_allowed(given: list[str] | Json | None, path: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, list):
        return tuple(given)
    if "read_only" in given:
        unsupported("name the tools: which of them only read is not known here", f"{path}.read_only")
    unknown = next((name for name in given if name != "tool_names"), None)
    if unknown is not None:
        invalid(f"unknown parameter {unknown[:100]!r}", f"{path}.{unknown[:100]}")
    names: Any = given.get("tool_names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        invalid("tool_names is a list of texts", f"{path}.tool_names")
    return tuple(cast("list[str]", names))


def _wants_approval(given: str | Json | None, name: str, path: str) -> bool:
    """Whether a client wants to be asked. Where it names tools that never ask, all others do."""
    if not isinstance(given, dict):
        return given == "always"
    names: dict[str, tuple[str, ...]] = {}
    for when, each in given.items():
        if when not in ("always", "never") or not isinstance(each, dict | None):
            invalid("tools are named under always and never, as tool_names", f"{path}.{when[:100]}")
        names[when] = _names_allowed(cast("Json | None", each), f"{path}.{when}") or ()
    return name in names.get("always", ()) or ("never" in names and name not in names["never"])
