"""Schemas, tools and namespaces of tools as the TypeScript in which a Harmony prompt declares them, and read back.

    ## functions

    // What the namespace is for.
    namespace functions {

    // What the tool does.
    type get_weather = (_: {
    location: string,
    }) => any;

    } // namespace functions

The renderer writes `# Tools` above the sections and joins them. Names are printed unchanged, because the model has to
repeat them; a name that could end its line or its declaration is refused.

A prompt contains less than its schemas: integers are numbers in it, and limits are words in a comment. The schemas that
`read_namespaces` reads print as the same text again, which the caller checks; any other text gives None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.messages import ToolDescription, ToolNamespace
from harmonia.schema.document import (
    DEFAULT_LIMITS,
    Declared,
    Json,
    Loss,
    SchemaLimits,
    TypeScript,
    as_json,
)
from harmonia.schema.literals import RESERVED, Names, is_identifier, lines_of, reference_lines_of
from harmonia.schema.printer import Printer, plain_type
from harmonia.schema.reference_printer import exact_type


def to_typescript(
    schema: dict[str, Any] | bool,
    *,
    exact_reference: bool = False,
    name: str = "",
    limits: SchemaLimits = DEFAULT_LIMITS,
    names: Names | None = None,
    path: str = "$",
) -> TypeScript:
    """Print a schema as the TypeScript in which Harmony declares tools.

    `name` is the tool's; helper types begin with it, and avoid the `names` of its namespace. `exact_reference` prints
    what openai-harmony 0.0.8 prints, broken TypeScript included, and reports no losses. Raises InputError for an
    invalid schema, for a remote or unresolvable reference, and beyond `limits`.
    """
    # Schemas this simple are printed the same in both modes.
    text = plain_type(schema)
    if text is not None and len(text) <= limits.characters:
        return TypeScript(text)
    document = as_json(schema, path)
    if exact_reference:
        return TypeScript(exact_type(document, limits, path))
    if not isinstance(document, dict | bool):
        raise InputError(
            ErrorCode.SCHEMA_INVALID,
            f"A schema must be an object or a boolean, not {type(document).__name__}.",
            Position(path=path),
        )
    return Printer(document, name, names or Names((name,)), limits, path).print_document()


# APIs name tools with letters, digits, `_` and `-`; MCP servers add `.`, `/`, `:` and `@`.
_NAME = re.compile(r"[\w$./:@-]+")


def declare_tool(
    name: str,
    description: str | None,
    parameters: dict[str, Any] | bool | None,
    *,
    exact_reference: bool = False,
    limits: SchemaLimits = DEFAULT_LIMITS,
    names: Names | None = None,
    path: str = "$",
) -> Declared:
    """Print one tool. Paths in losses and errors begin with `path`: `$.parameters.properties.a`."""
    lines: list[str] = []
    losses: tuple[Loss, ...] = () if exact_reference else _check_name(name, path)
    text = "()"
    if parameters is not None:
        schema_path = f"{path}.parameters"
        printed = to_typescript(
            parameters, exact_reference=exact_reference, name=name, limits=limits, names=names, path=schema_path
        )
        lines = [f"type {helper.name} = {helper.text};\n" for helper in printed.declarations]
        losses += printed.losses
        text = f"(_: {printed.text})"
    if description:
        split = reference_lines_of if exact_reference else lines_of
        lines.extend([f"// {line}" for line in split(description)])
    lines.append(f"type {name} = {text} => any;")
    return Declared("\n".join(lines), losses)


def declare_namespace(
    name: str,
    description: str | None,
    tools: Iterable[ToolDescription],
    *,
    exact_reference: bool = False,
    limits: SchemaLimits = DEFAULT_LIMITS,
    path: str = "$",
) -> Declared:
    """Print one namespace. Paths in losses and errors begin with `path`: `$.tools[0].parameters.properties.a`."""
    tools = list(tools)
    losses: list[Loss] = []
    described = reference_lines_of(description or "")
    parts = [f"## {name}\n"]
    if not exact_reference:
        losses.extend(_check_name(name, path))
    if tools:
        if not exact_reference:
            described = lines_of(description) if description else []
        parts.extend([f"// {line}" for line in described])
        parts.append(f"namespace {name} {{\n")
        names = Names(tool.name for tool in tools)
        for index, tool in enumerate(tools):
            tool_path = f"{path}.tools[{index}]"
            declared = declare_tool(
                *(tool.name, tool.description, tool.parameters),
                exact_reference=exact_reference,
                limits=limits,
                names=names,
                path=tool_path,
            )
            parts.append(f"{declared.text}\n")
            losses.extend(declared.losses)
        parts.append(f"}} // namespace {name}")
    else:
        # Without tools there is no TypeScript: the description is prose, printed unchanged.
        parts.extend(described)
    return Declared("\n".join(parts), tuple(losses))


def _check_name(name: str, path: str) -> tuple[Loss, ...]:
    path = f"{path}.name"
    if not _NAME.fullmatch(name):
        raise InputError(
            ErrorCode.SCHEMA_INVALID,
            f"The name {name!r} cannot be declared: only letters, digits and _ $ . / : @ - are allowed.",
            Position(path=path),
        )
    if is_identifier(name) and name not in RESERVED:
        return ()
    return (Loss(path, "name", "The name is not a TypeScript identifier; it is printed unchanged."),)


_DEPTH: Final = 32
_HEADING: Final = re.compile(r"## ([\w$./:@-]++)\n\n((?://[^\n]*+\n)*+)namespace \1 \{\n\n")
_TOOL: Final = re.compile(r"((?://[^\n]*+\n)*+)type ([\w$./:@-]++) = \((_: )?")
_KEY: Final = re.compile(r'(\w++|"(?:[^"\\\n]|\\.)*+")(\?)?: ')
_COMMENTS: Final = re.compile(r"(?:[ ]*+//[^\n]*+\n)*+")
_DEFAULT: Final = re.compile(r" // default: ([^\n]*)")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SPACES: Final = re.compile(r"[ \n]*")
_WORDS: Final = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
}


class _Unreadable(Exception):
    pass


def read_namespaces(text: str) -> list[ToolNamespace] | None:
    """The namespaces of the text below `# Tools`; None if it was not printed here."""
    reader = _Reader(text)
    try:
        return reader.namespaces()
    except _Unreadable:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def namespaces(self) -> list[ToolNamespace]:
        found: list[ToolNamespace] = []
        while True:
            heading = self._match(_HEADING)
            name, end = heading[1], f"}} // namespace {heading[1]}"
            tools: list[ToolDescription] = []
            while not self._skip(end):
                tools.append(self._tool())
            found.append(ToolNamespace(name, _comment(heading[2]), tuple(tools)))
            if self._at == len(self._text):
                return found
            self._expect("\n\n")

    def _tool(self) -> ToolDescription:
        declared = self._match(_TOOL)
        parameters = self._type(0) if declared[3] else None
        self._expect(") => any;\n\n")
        return ToolDescription(declared[2], _comment(declared[1]), parameters)

    def _type(self, depth: int) -> dict[str, Any]:
        if depth > _DEPTH:
            self._fail()
        options = [self._option(depth)]
        while self._skip(" | "):
            options.append(self._option(depth))
        if len(options) == 1:
            return options[0]
        if all("enum" in option for option in options):
            return {"type": "string", "enum": [value for option in options for value in option["enum"]]}
        if all(option.keys() == {"type"} and isinstance(option["type"], str) for option in options):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}

    def _option(self, depth: int) -> dict[str, Any]:
        if self._skip("{"):
            found = self._object(depth)
        elif self._skip("("):
            found = self._type(depth + 1)
            self._expect(")")
        elif literal := _STRING.match(self._text, self._at):
            self._at = literal.end()
            found = {"type": "string", "enum": [self._literal(literal[0])]}
        else:
            word = next((word for word in _WORDS if self._skip(word)), None)
            found = dict(_WORDS[word]) if word is not None else self._fail()
        while self._skip("[]"):
            found = {"type": "array", "items": found}
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        properties: dict[str, Json] = {}
        required: list[str] = []
        self._expect("\n")
        while True:
            comments = self._match(_COMMENTS)[0]
            self._match(_SPACES)
            if self._skip("}"):
                break
            declared = self._match(_KEY)
            key = self._literal(declared[1]) if declared[1].startswith('"') else declared[1]
            schema = self._type(depth + 1)
            self._expect(",")
            if default := _DEFAULT.match(self._text, self._at):
                self._at = default.end()
                schema["default"] = self._default(default[1], schema)
            if described := _comment(comments):
                schema["description"] = described
            properties[key] = schema
            if not declared[2]:
                required.append(key)
            self._expect("\n")
        if comments or len(properties) < len(required):
            self._fail()
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _default(self, text: str, schema: dict[str, Any]) -> Json:
        return text if text in schema.get("enum", ()) else self._literal(text)

    def _literal(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            self._fail()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._fail()
        self._at = found.end()
        return found

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            self._fail()

    def _fail(self) -> NoReturn:
        raise _Unreadable


def _comment(lines: str) -> str | None:
    """The text of comment lines: a description."""
    said = [line.strip().removeprefix("//").removeprefix(" ") for line in lines.splitlines()]
    return "\n".join(said) or None
