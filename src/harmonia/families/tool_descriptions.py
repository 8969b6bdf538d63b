"""Tools as prompts describe them: read from any definition, as JSON, in words, and as an example of a call.

    ToolDescription, ToolNamespace, {"type": "function", …}  ->  ToolDescription
    {"type": "array", "items": {"type": "string"}}           ->  array<string> in JSON's words, list[str] in Python's
    {"city": {"type": "string"}, "days": {"type": "integer"}}  ->  {"city": "the city", "days": 1}, an example

Nothing that a schema says raises: what cannot be said in a few words, leads nowhere or is not a schema is `any`.
Schemas that refer to themselves are followed to a depth and an amount that have names below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

import msgspec

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.interchange.conversion import Report
from harmonia.interchange.request_settings import read_tools
from harmonia.json_codec import json_fault
from harmonia.messages import Json, ToolDescription, ToolNamespace
from harmonia.schema.document import References

# An example shows the form, not all of a large schema.
_MAX_MEMBERS: Final = 6
_MAX_DEPTH: Final = 3


def example_call(tools: Sequence[ToolDescription]) -> tuple[str, str]:
    """The name of the first tool, and arguments for it as JSON text."""
    if not tools:
        return "tool_name", "{}"
    schema = tools[0].parameters
    arguments = _members(cast("Mapping[str, Any]", schema), 0) if isinstance(schema, Mapping) else {}
    return tools[0].name, json.dumps(arguments, ensure_ascii=False)


def _members(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Examples of the members that the schema requires, or of the first one if it requires none."""
    properties, needed = schema.get("properties"), _listed(schema.get("required"))
    if not isinstance(properties, Mapping) or depth > _MAX_DEPTH:
        return {}
    known = cast("Mapping[str, Any]", properties)
    names = [name for name in known if name in needed] or list(known)[:1]
    return {name: _value(name, known[name], depth + 1) for name in names[:_MAX_MEMBERS]}


def _value(name: str, given: Any, depth: int) -> Any:
    schema: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    first = [next(iter(_listed(schema.get(keyword))), None) for keyword in ("enum", "examples")]
    for value in (schema.get("const"), schema.get("default"), *first):
        if isinstance(value, str | int) and value != "":
            return value
    kinds = _listed(schema.get("type"))
    match kinds[0] if kinds else schema.get("type"):
        case "integer" | "number":
            least = schema.get("minimum")
            return least if isinstance(least, int) and least > 1 else 1
        case "boolean":
            return True
        case "array":
            return [_value(name, schema.get("items"), depth + 1)] if depth <= _MAX_DEPTH else []
        case "object":
            return _members(schema, depth)
        case _:
            return f"the {name.replace('_', ' ')}"


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def described_as_openai(tool: ToolDescription) -> str:
    """A tool as the JSON in which OpenAI's API takes it, and most chat templates show it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    known = {key: value for key, value in function.items() if value is not None}
    return json.dumps({"type": "function", "function": known}, ensure_ascii=False)


def as_json(arguments: str) -> str:
    """Arguments where JSON is required: if they are not JSON, as a JSON string."""
    return arguments if json_fault(arguments) is None else json.dumps(arguments, ensure_ascii=False)


def json_call(name: str, arguments: str, key: str = "arguments") -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": {as_json(arguments)}}}'


def result_text(text: str, *, is_error: bool) -> str:
    """A result as it is, an error as an object that says so."""
    return json.dumps({"error": text}, ensure_ascii=False) if is_error else text


# ── from any definition to a description ──

# Our own descriptions, such as the namespaces of a ToolSet, or the JSON of an API's or an MCP server's definition.
ToolLike = ToolDescription | ToolNamespace | Json


def described_tools(tools: Iterable[ToolLike], deferred: Collection[str] = ()) -> tuple[ToolDescription, ...]:
    """The tools that a prompt describes, by the names that the model calls. Deferred tools are omitted: those whose
    definition has `defer_loading`, and those that the caller names."""
    given = list(tools)
    found = [tool for index, each in enumerate(given) for tool in _descriptions(each, f"$[{index}]")]
    names: set[str] = set()
    for tool in found:
        if tool.name in names:
            raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"two tools have the name {tool.name!r}")
        names.add(tool.name)
    for name in deferred:
        if name not in names and not any(_defines(each, name) for each in given):
            near = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, names, 1))
            what = f"cannot defer {name!r}: there is no tool with that name{near}"
            raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what)
    return tuple(tool for tool in found if tool.name not in deferred)


def _descriptions(given: ToolLike, path: str) -> Iterator[ToolDescription]:
    match given:
        case ToolDescription():
            yield given
        case ToolNamespace():
            if not given.tools:
                yield ToolDescription(given.name, given.description, {"type": "string"})
            yield from flat_tools([given])
        case dict():
            loaded = _without_deferred(given)
            for namespace in () if loaded is None else _read_definition(loaded, path):
                yield from _descriptions(namespace, path)
        case _:
            raise InputError(ErrorCode.FORMATS_INVALID_OPTION, f"not a tool: {given!r}", Position(path=path))


def _read_definition(definition: Json, path: str) -> Iterable[ToolNamespace]:
    try:
        found = read_tools([definition], "$", Report()).values()
    except InputError as error:
        where = path + (error.at.path or "").removeprefix("$[0]")
        raise InputError(error.code, error.message, Position(path=where)) from None
    if not found:  # such as web_search, which its server runs
        what = f"a tool of type {definition.get('type')!r} cannot be described to a model"
        raise InputError(ErrorCode.FORMATS_INVALID_OPTION, what, Position(path=path))
    return found


def flat_tools(namespaces: Iterable[ToolNamespace]) -> Iterator[ToolDescription]:
    """The tools without namespaces, which other families do not have: functions by name, others by their full name."""
    for namespace in namespaces:
        for tool in namespace.tools:
            name = f"{namespace.name}.{tool.name}".removeprefix("functions.")
            yield ToolDescription(name, tool.description, tool.parameters)


def _without_deferred(definition: Json) -> Json | None:
    """The definition, without the deferred tools of a namespace; None if all of it is deferred."""
    if definition.get("defer_loading") is True or _fields_of(definition).get("defer_loading") is True:
        return None
    if definition.get("type") != "namespace" or not isinstance(definition.get("tools"), list):
        return definition
    inner = [_without_deferred(tool) for tool in _tools_in(definition)]
    loaded = [tool for tool in inner if tool is not None]
    # A namespace without tools would itself be one.
    return {**definition, "tools": loaded} if loaded or not inner else None


def _defines(given: ToolLike, name: str) -> bool:
    """Whether a definition has a tool of this name, deferred or not."""
    if not isinstance(given, dict):
        return False
    own = str(_fields_of(given).get("name", ""))
    return own == name or any(_defines(tool, name.removeprefix(f"{own}.")) for tool in _tools_in(given))


def _fields_of(definition: Json) -> Json:
    """The object with a definition's name: the one that is named like its type, or the definition itself."""
    nested = definition.get(str(definition.get("type", "function")))
    return cast("Json", nested) if isinstance(nested, dict) else definition


def _tools_in(definition: Json) -> list[Json]:
    inner: object = definition.get("tools")
    listed = cast("list[object]", inner) if isinstance(inner, list) else []
    return [cast("Json", tool) for tool in listed if isinstance(tool, dict)]


MAX_DEPTH: Final = 6
# Schemas that are looked at for one tool.
MAX_SCHEMAS: Final = 2000


class TypeWords(msgspec.Struct, frozen=True):
    """How types are written: `names` by their JSON names; `{}` stands for the inner type."""

    names: Mapping[str, str]
    anything: str
    array: str
    map: str
    either: str
    values: Callable[[list[Any]], str]


class Parameter(msgspec.Struct, frozen=True):
    """One parameter, or a member of one that is an object. Its description is one line, or empty. `default` counts only
    if `has_default`."""

    name: str
    type: str
    is_required: bool
    description: str
    default: Any
    has_default: bool
    members: tuple[Parameter, ...]


class Parameters(msgspec.Struct, frozen=True):
    """What a tool takes. If that is not an object, `whole` is the type of its only argument. `others` is the type of
    members that the schema allows without naming them."""

    named: tuple[Parameter, ...] = ()
    others: str | None = None
    whole: str | None = None


JSON_WORDS: Final = TypeWords(
    {name: name for name in ("string", "integer", "number", "boolean", "null", "object", "array")},
    anything="any",
    array="array<{}>",
    map="object<string, {}>",
    either=" or ",
    values=lambda values: " or ".join(json.dumps(value, ensure_ascii=False, default=str) for value in values),
)


def parameters_of(schema: Json | bool | None, words: TypeWords) -> Parameters:
    """What the schema of a tool's argument says, in these words."""
    return Parameters() if schema is None or isinstance(schema, bool) else _Reading(schema, words).parameters()


class _Reading:
    """One schema, read once."""

    def __init__(self, document: Json, words: TypeWords) -> None:
        self._document = document
        self._words = words
        self._references = References(document, "$")
        self._left = MAX_SCHEMAS

    def parameters(self) -> Parameters:
        schema = self._followed(self._document)
        if "properties" not in schema and schema.get("type", "object") != "object":
            return Parameters(whole=self._type(schema, 0))
        others = cast("object", schema.get("additionalProperties"))
        is_closed = others is None or others is False
        return Parameters(self._members(schema, 0), None if is_closed else self._type(others, 1))

    def _members(self, schema: Json, depth: int) -> tuple[Parameter, ...]:
        properties = schema.get("properties")
        if depth > MAX_DEPTH or not isinstance(properties, dict):
            return ()
        required = schema.get("required")
        needed = cast("list[object]", required) if isinstance(required, list) else []
        members: list[Parameter] = []
        for name, given in cast("dict[object, object]", properties).items():
            if self._left <= 0:
                break
            member = self._followed(given)
            # Keywords beside a reference are about this use of it.
            said = member | cast("Json", given) if isinstance(given, dict) else member
            about = said.get("description")
            about = " ".join(about.split()) if isinstance(about, str) else ""
            kind, inner, inner_depth = self._type(member, depth + 1), member, depth + 1
            while inner_depth <= MAX_DEPTH and "properties" not in inner and isinstance(inner.get("items"), dict):
                inner, inner_depth = self._followed(inner["items"]), inner_depth + 1  # the objects in an array
            nested = self._members(inner, inner_depth)
            default = said.get("default")
            members.append(Parameter(str(name), kind, name in needed, about, default, "default" in said, nested))
        return tuple(members)

    def _type(self, given: object, depth: int) -> str:
        if depth > MAX_DEPTH or self._left <= 0:
            return self._words.anything
        schema = self._followed(given)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return self._words.values(cast("list[Any]", values))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches:
                return self._either(self._type(branch, depth + 1) for branch in cast("list[object]", branches))
        # Several at once cannot be written as one type, and the first usually has it.
        if isinstance(parts := schema.get("allOf"), list) and parts and "type" not in schema:
            return self._type(cast("list[object]", parts)[0], depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else None)
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        return self._either(self._named(str(kind), schema, depth) for kind in kinds)

    def _named(self, kind: str, schema: Json, depth: int) -> str:
        if kind == "array" and "items" in schema:
            return self._words.array.format(self._type(schema["items"], depth + 1))
        others = schema.get("additionalProperties")
        if kind == "object" and "properties" not in schema and isinstance(others, dict) and others:
            return self._words.map.format(self._type(cast("Json", others), depth + 1))
        return self._words.names.get(kind, self._words.anything)

    def _either(self, types: Iterator[str]) -> str:
        different = list(dict.fromkeys(types))
        if self._words.anything in different or not different:
            return self._words.anything
        return self._words.either.join(different)

    def _followed(self, given: object) -> Json:
        """The schema that a chain of references leads to; empty if it is not a schema."""
        self._left -= 1
        schema = cast("Json", given) if isinstance(given, dict) else {}
        followed: set[str] = set()
        while isinstance(reference := schema.get("$ref"), str) and reference not in followed:
            followed.add(reference)
            try:
                target = self._references.resolve(reference, None).schema
            except InputError:
                return {}
            schema = cast("Json", target) if isinstance(target, dict) else {}
        return schema
