"""The values that go in and come out of `harmonia.schema`: no behaviour, only shapes.

Everything here is frozen. `text` is ready to print, and `losses` is complete: check `if result.losses` to refuse a
schema that cannot be fully expressed.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import msgspec

# Decoded JSON. Every function that reads a schema narrows this union.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class SchemaLimits(msgspec.Struct, frozen=True):
    """How much one schema may cost. Exceeding a limit is an InputError.

    `depth` is the maximum nesting, references followed; `schemas` the number of visited schemas, where one that is
    referred to twice counts twice; `characters` the maximum length of the printed text.

    The reference reads JSON of at most 127 levels, so the default depth refuses nothing that it accepts.
    """

    depth: int = 128
    schemas: int = 50_000
    characters: int = 1_000_000


DEFAULT_LIMITS = SchemaLimits()


class Loss(msgspec.Struct, frozen=True):
    """Something in a schema that the printed TypeScript does not express.

    `path` is the JSON path of the schema, `keyword` the keyword that is lost, `sentence` the reason, for people.
    """

    path: str
    keyword: str
    sentence: str


class Declaration(msgspec.Struct, frozen=True):
    """A helper type, printed before the tool that needs it as `type <name> = <text>;`."""

    name: str
    text: str


class TypeScript(msgspec.Struct, frozen=True):
    """A schema as a TypeScript type: `text` goes after `(_: `; recursive parts are named in `declarations`."""

    text: str
    declarations: tuple[Declaration, ...] = ()
    losses: tuple[Loss, ...] = ()


class ToolDeclaration(msgspec.Struct, frozen=True):
    """One tool: helper types, `// description` lines and `type name = (_: …) => any;`, without a last newline."""

    text: str
    losses: tuple[Loss, ...] = ()


class NamespaceDeclaration(msgspec.Struct, frozen=True):
    """The section of one namespace, from `## name` to `} // namespace name`, without a last newline."""

    text: str
    losses: tuple[Loss, ...] = ()


class DescribedTool(Protocol):
    """What `declare_namespace` needs from a tool."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str | None: ...
    @property
    def parameters(self) -> dict[str, Any] | bool | None: ...
