"""Schemas, tools and namespaces of tools as the TypeScript in which a Harmony prompt declares them.

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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.document import as_json
from harmonia.schema.literals import RESERVED, Names, is_identifier, lines_of, reference_lines_of
from harmonia.schema.plain_printer import plain_type
from harmonia.schema.printer import Printer
from harmonia.schema.reference_printer import exact_type
from harmonia.schema.values import (
    DEFAULT_LIMITS,
    DescribedTool,
    Loss,
    NamespaceDeclaration,
    SchemaLimits,
    ToolDeclaration,
    TypeScript,
)


def to_typescript(
    schema: dict[str, Any] | bool,
    *,
    exact_reference: bool = False,
    name: str = "",
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> TypeScript:
    """Print a schema as the TypeScript in which Harmony declares tools.

    `name` is the tool's; helper types begin with it. `exact_reference` prints what openai-harmony 0.0.8 prints,
    broken TypeScript included, and reports no losses. Raises InputError for an invalid schema, for a remote or
    unresolvable reference, and beyond `limits`.
    """
    return convert(schema, name, Names((name,)), exact_reference, limits, "$")


def convert(
    schema: dict[str, Any] | bool,
    owner: str,
    names: Names,
    exact_reference: bool,
    limits: SchemaLimits,
    root_path: str,
) -> TypeScript:
    """`to_typescript` for several schemas of one namespace or one larger document."""
    # Schemas this simple are printed the same in both modes.
    text = plain_type(schema)
    if text is not None and len(text) <= limits.characters:
        return TypeScript(text)
    document = as_json(schema, root_path)
    if exact_reference:
        return TypeScript(exact_type(document, limits, root_path))
    if not isinstance(document, dict | bool):
        raise InputError(
            ErrorCode.SCHEMA_INVALID,
            f"A schema must be an object or a boolean, not {type(document).__name__}.",
            Position(path=root_path),
        )
    return Printer(document, owner, names, limits, root_path).print_document()


# APIs name tools with letters, digits, `_` and `-`; MCP servers add `.`, `/`, `:` and `@`.
_NAME = re.compile(r"[\w$./:@-]+")


def declare_tool(
    name: str,
    description: str | None,
    parameters: dict[str, Any] | bool | None,
    *,
    exact_reference: bool = False,
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> ToolDeclaration:
    """Print one tool. Paths in losses and errors begin at the tool: `$.parameters.properties.a`."""
    return _declare_tool(name, description, parameters, Names((name,)), exact_reference, limits, "$")


def declare_namespace(
    name: str,
    description: str | None,
    tools: Iterable[DescribedTool],
    *,
    exact_reference: bool = False,
    limits: SchemaLimits = DEFAULT_LIMITS,
    path: str = "$",
) -> NamespaceDeclaration:
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
            declared = _declare_tool(
                tool.name, tool.description, tool.parameters, names, exact_reference, limits, tool_path
            )
            parts.append(f"{declared.text}\n")
            losses.extend(declared.losses)
        parts.append(f"}} // namespace {name}")
    else:
        # Without tools there is no TypeScript: the description is prose, printed unchanged.
        parts.extend(described)
    return NamespaceDeclaration("\n".join(parts), tuple(losses))


def _declare_tool(
    name: str,
    description: str | None,
    parameters: dict[str, Any] | bool | None,
    names: Names,
    exact_reference: bool,
    limits: SchemaLimits,
    path: str,
) -> ToolDeclaration:
    lines: list[str] = []
    losses: tuple[Loss, ...] = ()
    text = "()"
    if not exact_reference:
        losses = _check_name(name, path)
    if parameters is not None:
        printed = convert(parameters, name, names, exact_reference, limits, f"{path}.parameters")
        lines = [f"type {helper.name} = {helper.text};\n" for helper in printed.declarations]
        losses += printed.losses
        text = f"(_: {printed.text})"
    if description:
        split = reference_lines_of if exact_reference else lines_of
        lines.extend([f"// {line}" for line in split(description)])
    lines.append(f"type {name} = {text} => any;")
    return ToolDeclaration("\n".join(lines), losses)


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
