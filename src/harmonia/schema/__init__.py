"""JSON Schema to the TypeScript in which Harmony declares tools."""

from harmonia.schema.declarations import declare_namespace, declare_tool, to_typescript
from harmonia.schema.document import (
    DEFAULT_LIMITS,
    Declaration,
    DescribedTool,
    Loss,
    NamespaceDeclaration,
    SchemaLimits,
    ToolDeclaration,
    TypeScript,
)

__all__ = [
    "DEFAULT_LIMITS",
    "Declaration",
    "DescribedTool",
    "Loss",
    "NamespaceDeclaration",
    "SchemaLimits",
    "ToolDeclaration",
    "TypeScript",
    "declare_namespace",
    "declare_tool",
    "to_typescript",
]
