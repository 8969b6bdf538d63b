"""JSON Schema to the TypeScript in which Harmony declares tools."""

from harmonia.schema.declarations import declare_namespace, declare_tool, to_typescript
from harmonia.schema.document import (
    DEFAULT_LIMITS,
    Declaration,
    Declared,
    Loss,
    SchemaLimits,
    TypeScript,
)

__all__ = [
    "DEFAULT_LIMITS",
    "Declaration",
    "Declared",
    "Loss",
    "SchemaLimits",
    "TypeScript",
    "declare_namespace",
    "declare_tool",
    "to_typescript",
]
