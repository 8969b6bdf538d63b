"""The tools and schemas of a request, and which tools the model may or must call. What both APIs have in common.

function     declared in the namespace `functions`, under a legal name; the client knows it by its own
custom       the same, with a text as its argument. The model reads its grammar in its description, because a grammar
             cannot be declared, and an engine that takes grammars is held to it
server tools     run here

A tool that the client defines has the `path` of its definition; one of an MCP server has the label of that `server`.

A schema, of a tool or of the answer, has at most as many bytes as the operator allows, and only so many characters in
the prompt. A reference is written out where it stands, so a schema whose definitions name one another twice is short in
a body and endless in a prompt. What is written stays within a multiple of what was sent: work is linear (law 8).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.grammar.json_schema.unsatisfiable import fits_nothing
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json, ResponseFormat
from harmonia.run.cancellation import in_worker
from harmonia.run.constraints.attempts import find_fault
from harmonia.run.engines.base import ToolChoice
from harmonia.run.tools import Tool, ToolSet
from harmonia.run.tools.arguments import schema_fault
from harmonia.run.tools.tool_set import legal_names
from harmonia.schema import to_typescript
from harmonia.schema.document import DEFAULT_LIMITS
from harmonia.serve.config.settings import Limits
from harmonia.serve.wire.validation import invalid, read_struct, refuse, too_large
from harmonia.tool_definitions import (
    FUNCTIONS,
    SERVER_SEPARATOR,
    Choice,
    NamedTool,
    Spelling,
    read_definition,
    read_tool_choice,
)

# The tool choice for the run, the tools (all are declared, the allowed ones run), and the full names of those of which
# one has to be called.
Chosen = tuple[ToolChoice, ToolSet, frozenset[str]]

_INVALID: Final = ErrorCode.SERVE_INVALID_FIELD
# Types with references may be written several times; small ones always may.
_TIMES: Final = 8
_FREE_CHARACTERS: Final = 64 * 1024
# Checking a larger schema takes seconds; what is wrong with it becomes a warning when an answer is checked.
_AT_ONCE_BYTES: Final = 32_768
_REFERENCES: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


# ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class SchemaBudget:
    """One per request, for all of its schemas together."""

    def __init__(self, limits: Limits) -> None:
        self._most_bytes = limits.schema_bytes
        self._left = _FREE_CHARACTERS

    def admit(
        self, schema: Json | bool | None, path: str, *, is_demanded: bool = False, is_answer: bool = False
    ) -> None:
        """Raises the client's error if this schema, with those before it, is too large; if it is demanded, but invalid;
        or if it is demanded or for the answer, and nothing can match it. May take a second: not for event loops."""
        if schema is None:
            return
        encoded = encode_bytes(schema)
        if len(encoded) > self._most_bytes:
            too_large(f"the schema has {len(encoded)} bytes; at most {self._most_bytes} are accepted", path)
        if any(reference in encoded for reference in _REFERENCES):
            self._expand(schema, encoded, path)
        if is_demanded and len(encoded) <= _AT_ONCE_BYTES and (fault := schema_fault(schema)) is not None:
            reason, inner = fault
            invalid(f"not a valid JSON Schema: {reason}", f"{path}{inner.removeprefix('$')}")
        if (is_demanded or is_answer) and fits_nothing(schema):
            invalid("no value can match this schema", path)

    def _expand(self, schema: Json | bool, encoded: bytes, path: str) -> None:
        self._left += _TIMES * len(encoded)
        limits = msgspec.structs.replace(DEFAULT_LIMITS, characters=max(0, min(self._left, DEFAULT_LIMITS.characters)))
        try:
            written = to_typescript(schema, limits=limits)
        except InputError as error:
            if error.code is ErrorCode.SCHEMA_UNKNOWN_REFERENCE:
                return  # not a matter of size: rendering reports it
            raise _below(error, path) from error
        self._left -= len(written.text) + sum(len(each.text) for each in written.declarations)


def locate(error: InputError, tools: ToolSet, form: ResponseFormat | None, form_path: str) -> InputError:
    """The error with its path in the request, if a schema of the client's tools or of the answer caused it."""
    if not error.code.value.startswith("schema."):
        return error
    schemas = [(tool.parameters, f"{tool.path}.parameters") for tool in tools if tool.path is not None]
    for schema, path in [*schemas, (None if form is None else form.schema, form_path)]:
        try:
            if schema is not None:
                to_typescript(schema)
        except InputError as found:
            return _below(found, path)
    return error


def _below(error: InputError, path: str) -> InputError:
    return InputError(error.code, error.message, Position(path=path + (error.at.path or "$").removeprefix("$")))


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def read_client_tool(given: Json, path: str, spelling: Spelling, limits: Limits, schemas: SchemaBudget) -> Tool:
    """A tool that the client runs, whose definition is exactly in the API's spelling."""
    tool = read_definition(given, path, make=Tool, code=_INVALID, spelling=spelling, check=read_struct)
    description, form = tool.description or None, tool.text_form
    if tool.takes == "json":
        schemas.admit(tool.parameters, f"{tool.path}.parameters", is_demanded=tool.strict)
    if form is not None:
        size = len(form.definition.encode())
        if size > limits.schema_bytes:
            too_large(f"the grammar has {size} bytes; at most {limits.schema_bytes} are accepted", tool.text_form_path)
        kind = "Lark grammar" if form.syntax == "lark" else "regular expression"
        grammar = f"The input is plain text, not JSON, and follows this {kind}:\n{form.definition}"
        description = "\n\n".join(filter(None, (description, grammar)))
    return replace(tool, description=description, checks_arguments=False, untrusted=True)


def refuse_repeated(name: str, path: str | None) -> NoReturn:
    refuse(ErrorCode.TOOL_REPEATED_NAME, f"two tools are called {name!r}; rename one", path)


async def check_text_forms(tools: ToolSet) -> None:
    """Raises the client's error for the first grammar of a custom tool that is not one. Without llguidance it is not
    checked here: an engine that takes grammars reports what is wrong with it."""
    for tool in tools:
        form = tool.text_form
        fault = None if form is None else await in_worker(partial(find_fault, form, tool.name))  # it may take seconds
        if form is not None and fault is not None:
            at = fault.at.character
            place = "" if at is None else f" (at {_place(form.definition, at)})"
            refuse(fault.code, f"{fault.message}{place}", tool.text_form_path)


def _place(definition: str, character: int) -> str:
    if "\n" not in definition.strip():
        return f"character {character}"
    before = definition[:character]
    return f"line {before.count(chr(10)) + 1}, character {len(before.rpartition(chr(10))[2])}"


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def recipient_for(tools: ToolSet, name: str, namespace: str | None = None, server: str | None = None) -> str:
    """The full name of a tool that a client names, whether it is offered now or was in an older request."""
    if server is not None:
        name = f"{server}{SERVER_SEPARATOR}{name}"
    found = tools.named(name, namespace or FUNCTIONS)
    if found is not None:
        return tools.recipient_of(found)
    space = legal_names([namespace])[namespace] if namespace else FUNCTIONS
    return f"{space}.{legal_names([name])[name]}"


def tools_of_server(tools: ToolSet, server: str | None, name: str | None = None) -> list[Tool]:
    return [tool for tool in tools if tool.server and tool.server == server and name in (None, tool.own_name)]


# ── the choice ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read_choice(given: object, path: str, spelling: Spelling, unknown_type: ErrorCode = _INVALID) -> Choice:
    """A tool choice that is exactly in the API's spelling."""
    return read_tool_choice(given, path, code=_INVALID, unknown_type=unknown_type, spelling=spelling, check=read_struct)


def choose(choice: Choice, tools: ToolSet, path: str) -> Chosen:
    """What a tool choice means for these tools."""
    if choice.tools is None:
        if choice.mode == "required" and not len(tools):
            invalid("a call is required, but there are no tools; define one, or use auto", path)
        demanded = frozenset(map(tools.recipient_of, tools)) if choice.mode == "required" else frozenset[str]()
        # The model may call all the same; then the call is not delivered.
        return choice.mode, tools.allow([]) if choice.mode == "none" else tools, demanded
    found = [tools.recipient_of(tool) for named in choice.tools for tool in _find_named(tools, named)]
    if choice.mode == "one" and len(found) == 1:
        return found[0], tools, frozenset(found)
    if choice.mode in ("one", "required"):  # a whole MCP server: some call, and only to it
        return "required", tools.allow(found), frozenset(found)
    return choice.mode, tools.allow(found), frozenset()


def _find_named(tools: ToolSet, named: NamedTool) -> list[Tool]:
    if named.kind == "mcp":
        found = tools_of_server(tools, named.server, named.name)
    elif named.kind in ("function", "custom"):
        found = _client_tools(tools, named.name or "", named.namespace)
        if found and (found[0].takes == "text") is not (named.kind == "custom"):
            # Where the name is nested, the type is said twice, and the name is what leads astray.
            where = named.path if named.path.endswith(".name") else f"{named.path}.type"
            invalid(f"{named.name} is not a tool of type {named.kind} in this request", where)
    else:
        found = [tool for tool in tools if tool.built_in == named.kind]
    if not found:
        what = named.name or named.server or named.kind
        invalid(f"this request has no tool {what!r} of type {named.kind}; name one of its tools", named.path)
    return found


def _client_tools(tools: ToolSet, name: str, namespace: str | None) -> list[Tool]:
    """The tool of a name; in any namespace, if the choice names none and only one has it."""
    # A client of Chat Completions does not know the tools that run here.
    known = [tool for tool in tools if tool.invoke is None or tool.server]
    here = (name, namespace or FUNCTIONS)
    exact = [tool for tool in known if (tool.name, tool.namespace) == here and not tool.server]
    same = [] if namespace else [tool for tool in known if tool.own_name == name]
    return exact or (same if len(same) == 1 else [])
