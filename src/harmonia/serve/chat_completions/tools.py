"""The tools of a request, and which of them the model may or must call.

function     declared in the namespace `functions`, under a legal name; the client knows it by its own
custom       the same, with a text as its argument; the model reads its grammar in its description, and an engine that
             takes grammars is held to it
functions    the older form of the first
the server's own tools     run here, and their calls are no part of the answer
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar import TextForm
from harmonia.grammar.json_schema.emptiness import fits_nothing
from harmonia.messages import Json
from harmonia.run.engines.base import ToolChoice
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.names import legal_names
from harmonia.run.tools.tool import FUNCTIONS
from harmonia.serve.chat_completions.request import CreateCompletion
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.custom_formats import check_size, describe_form
from harmonia.serve.wire.schema_limits import SchemaBudget
from harmonia.serve.wire.validation import invalid, read_struct

CallKind = Literal["function", "custom"]
_DEFINITION: Final = "format.grammar.definition"

_PLAIN: Final = ("auto", "none", "required")
_TEXT: Final[Json] = {"type": "string"}
_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the client runs, under the client's own name."""

    name: str
    kind: CallKind
    tool: Tool
    path: str


@dataclass(frozen=True, slots=True)
class Offer:
    """All tools of a request. `is_older` says that the client speaks of functions, not of tools."""

    toolset: ToolSet
    is_older: bool
    _clients: dict[str, ClientTool] = field(repr=False)  # by the name that the client has for it
    _by_recipient: dict[str, ClientTool] = field(repr=False)

    @property
    def clients(self) -> Iterable[ClientTool]:
        return self._clients.values()

    @property
    def forms(self) -> list[tuple[TextForm, str, str]]:
        """The forms of custom tools, each with the tool's name and the path of its definition."""
        custom = ((each, each.tool.text_form) for each in self.clients)
        return [(form, each.name, f"{each.path}.{_DEFINITION}") for each, form in custom if form is not None]

    @property
    def names(self) -> list[tuple[str, str]]:
        """What the model calls each tool, and what the client does."""
        return [(recipient, client.name) for recipient, client in self._by_recipient.items()]

    def find(self, recipient: str) -> ClientTool | None:
        """The client's tool that the model meant; None where it is not the client's, or is nobody's."""
        tool = self.toolset.find(recipient)
        return None if tool is None else self._by_recipient.get(self.toolset.recipient_of(tool))

    def named(self, name: str, kind: CallKind | None = None) -> ClientTool | None:
        found = self._clients.get(name)
        return found if found is not None and kind in (None, found.kind) else None

    def recipient_of(self, name: str) -> str:
        """The whole name of a tool that the client names, whether it is offered now or was in an older request."""
        found = self._clients.get(name)
        if found is not None:
            return self.toolset.recipient_of(found.tool)
        return f"{FUNCTIONS}.{legal_names([name])[name]}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """`toolset` declares all tools and runs those that are allowed; `choice` is for the run. `demanded` are the whole
    names of which one has to be called."""

    choice: ToolChoice
    toolset: ToolSet
    demanded: frozenset[str] = frozenset()


class _Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _NonEmpty
    description: str | None = None
    parameters: Json | bool | None = None
    strict: bool | None = None


class _Grammar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    definition: str
    syntax: Literal["lark", "regex"]


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "grammar"]
    grammar: _Grammar | None = None


class _Custom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _NonEmpty
    description: str | None = None
    format: _Form | None = None


class _FunctionTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    function: _Function
    type: Literal["function"] = "function"


class _CustomTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    custom: _Custom
    type: Literal["custom"] = "custom"


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_tools(request: CreateCompletion, hosted: Sequence[Tool], limits: Limits, schemas: SchemaBudget) -> Offer:
    """The tools of a request, and those that run here."""
    is_older = request.functions is not None
    if is_older and request.tools is not None:
        invalid("there are tools as well; give only these", "$.functions")
    path = "$.functions" if is_older else "$.tools"
    given = (request.functions if is_older else request.tools) or []
    if len(given) > limits.tools:
        raise InputError(
            ErrorCode.SERVE_TOO_LARGE,
            f"there are {len(given)} tools; at most {limits.tools} are taken",
            Position(path=path),
        )
    clients: dict[str, ClientTool] = {}
    for at, each in enumerate(given):
        here = f"{path}[{at}]"
        client = _function(each, here, schemas) if is_older else _read_tool(each, here, limits, schemas)
        if client.name in clients:
            raise InputError(
                ErrorCode.TOOL_REPEATED_NAME, "another tool has this name, too", Position(path=f"{client.path}.name")
            )
        clients[client.name] = client
    toolset = ToolSet([*(client.tool for client in clients.values()), *hosted])
    by_recipient = {toolset.recipient_of(client.tool): client for client in clients.values()}
    return Offer(toolset, is_older, clients, by_recipient)


def _read_tool(given: Json, path: str, limits: Limits, schemas: SchemaBudget) -> ClientTool:
    kind = given.get("type", "function")
    if kind == "function":
        read_struct(given, _FunctionTool, path)
        return _function(cast("Json", given["function"]), f"{path}.function", schemas)
    if kind != "custom":
        invalid("expected function or custom", f"{path}.type")
    custom = read_struct(given, _CustomTool, path).custom
    path = f"{path}.custom"
    form = _form_of(custom, path, limits)
    described = custom.description or None
    if form is not None:
        described = "\n\n".join(filter(None, (described, describe_form(form))))
    tool = Tool(custom.name, described, _TEXT, takes="text", checks_arguments=False, text_form=form, untrusted=True)
    return ClientTool(custom.name, "custom", tool, path)


def _function(given: Json, path: str, schemas: SchemaBudget) -> ClientTool:
    function = read_struct(given, _Function, path)
    schemas.admit(function.parameters, f"{path}.parameters", is_demanded=function.strict is True)
    tool = Tool(
        function.name,
        function.description or None,
        function.parameters,
        checks_arguments=False,
        strict=function.strict is True,
        untrusted=True,
    )
    return ClientTool(function.name, "function", tool, path)


def check_form(request: CreateCompletion, schemas: SchemaBudget) -> None:
    """The schema of the answer, which is told to the model as those of tools are."""
    form = request.form
    if form is not None:
        path = "$.response_format.json_schema.schema"
        schemas.admit(form.schema, path, is_demanded=request.demands_form)
        if not request.demands_form and fits_nothing(form.schema):
            invalid("no value fits this schema", path)


def _form_of(custom: _Custom, path: str, limits: Limits) -> TextForm | None:
    given = custom.format
    if given is None or given.type == "text":
        if given is not None and given.grammar is not None:
            invalid("a format of type text has no grammar", f"{path}.format.grammar")
        return None
    if given.grammar is None:
        invalid("a format of type grammar has a grammar", f"{path}.format.grammar")
    form = TextForm(given.grammar.syntax, given.grammar.definition)
    check_size(form, f"{path}.{_DEFINITION}", limits)
    return form


# ── the choice ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class _NamedFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    function: _Named
    type: Literal["function"] = "function"


class _NamedCustom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    custom: _Named
    type: Literal["custom"] = "custom"


class _AllowedTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tools: list[Any]
    mode: Literal["auto", "required"] = "auto"


class _Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allowed_tools: _AllowedTools
    type: Literal["allowed_tools"] = "allowed_tools"


def read_choice(request: CreateCompletion, offer: Offer) -> Chosen:
    """What the request demands: auto, none, required, one tool, or some of them."""
    if offer.is_older:
        if request.tool_choice is not None:
            invalid("it chooses among tools, and there are functions", "$.tool_choice")
        return _older_choice(request.function_call, offer)
    if request.function_call is not None:
        invalid("it chooses among functions, and there are none", "$.function_call")
    given, path, toolset = request.tool_choice, "$.tool_choice", offer.toolset
    if given is None:
        return Chosen("auto", toolset)
    if isinstance(given, str):
        if given not in _PLAIN:
            invalid(f"expected {', '.join(_PLAIN)} or an object", path)
        if given != "required":
            return _undemanding(given, offer)
        if not len(toolset):
            invalid("a call is required, and there are no tools", path)
        return Chosen(given, toolset, frozenset(toolset.recipient_of(tool) for tool in toolset))
    if given.get("type") != "allowed_tools":
        return _demand(_named(given, offer, path), offer)
    allowed = read_struct(given, _Allowed, path).allowed_tools
    path = f"{path}.allowed_tools.tools"
    chosen = [_named(each, offer, f"{path}[{at}]").tool for at, each in enumerate(allowed.tools)]
    names = frozenset(toolset.recipient_of(tool) for tool in chosen)
    if allowed.mode == "required" and not names:
        invalid("a call is required, and no tool is allowed", path)
    # The client knows nothing of the tools that run here, so it did not mean to forbid them.
    hosted = [toolset.recipient_of(tool) for tool in toolset if tool.invoke is not None]
    demanded = names if allowed.mode == "required" else frozenset[str]()
    return Chosen(allowed.mode, toolset.allow([*names, *hosted]), demanded)


def _older_choice(given: str | Json | None, offer: Offer) -> Chosen:
    if given is None or isinstance(given, str):
        if given not in (None, "auto", "none"):
            invalid("expected auto, none or an object", "$.function_call")
        return _undemanding(given or "auto", offer)
    name = read_struct(given, _Named, "$.function_call").name
    return _demand(_known(offer.named(name), "$.function_call.name"), offer)


def _undemanding(choice: str, offer: Offer) -> Chosen:
    return Chosen(choice, offer.toolset.allow([]) if choice == "none" else offer.toolset)


def _demand(client: ClientTool, offer: Offer) -> Chosen:
    recipient = offer.toolset.recipient_of(client.tool)
    return Chosen(recipient, offer.toolset.allow([recipient]), frozenset((recipient,)))


def _named(given: object, offer: Offer, path: str) -> ClientTool:
    if not isinstance(given, dict):
        invalid("a tool is named by an object with a type", path)
    kind = cast("Json", given).get("type")
    if kind == "custom":
        name = read_struct(given, _NamedCustom, path).custom.name
    elif kind == "function":
        name = read_struct(given, _NamedFunction, path).function.name
    else:
        invalid("expected function, custom or allowed_tools", f"{path}.type")
    return _known(offer.named(name, kind), f"{path}.{kind}.name")


def _known(found: ClientTool | None, path: str) -> ClientTool:
    if found is None:
        invalid("no tool of this request has this name and type", path)
    return found
