"""The reference's printer, byte for byte: openai-harmony 0.0.8 with all its quirks.

It reads ten keywords and prints `any` for everything else. Some of its output is not TypeScript: an array of a union
has no parentheses, keys are never quoted, the second line of a description is not commented, and a comment after the
last variant swallows what follows. `printer` corrects these; this module keeps them, for callers who need exactly the
reference's prompt. The tests compare it with the reference on generated schemas.

Where a keyword has a value of the wrong type, the reference behaves as if it were absent, and so does this module: only
exceeded limits and numbers that are not JSON raise.
"""

from __future__ import annotations

from harmonia.errors import ErrorCode, InputError, Position
from harmonia.schema.document import PRIMITIVES, Json, SchemaLimits
from harmonia.schema.literals import NotJsonError, reference_json_text


def exact_type(schema: Json, limits: SchemaLimits, root_path: str = "$") -> str:
    """The type that the reference prints for a schema."""
    try:
        return _ExactPrinter(limits, root_path).type_text(schema, "", 1)
    except RecursionError:
        # Only where the caller raised the limit, or called from deep in a stack of their own.
        message = "The schema is nested deeper than Python's stack allows."
        raise InputError(ErrorCode.SCHEMA_TOO_DEEP, message, Position(path=root_path)) from None
    except NotJsonError as fault:
        raise InputError(ErrorCode.SCHEMA_INVALID, f"{fault}.", Position(path=root_path)) from None


class _ExactPrinter:
    def __init__(self, limits: SchemaLimits, root_path: str) -> None:
        self._limits = limits
        self._root_path = root_path

    def type_text(self, schema: Json, indent: str, depth: int) -> str:
        if not isinstance(schema, dict):
            return "any"
        if depth > self._limits.depth:
            message = f"The schema is nested deeper than {self._limits.depth} levels."
            raise InputError(ErrorCode.SCHEMA_TOO_DEEP, message, Position(path=self._root_path))
        text = self._type_text(schema, indent, depth)
        if len(text) > self._limits.characters:
            message = f"The schema takes more than {self._limits.characters} characters to print."
            raise InputError(ErrorCode.SCHEMA_TOO_LARGE, message, Position(path=self._root_path))
        return text

    def _type_text(self, schema: dict[str, Json], indent: str, depth: int) -> str:
        variants = schema.get("oneOf")
        if isinstance(variants, list):
            lines = [
                f"\n{indent} | {self._nullable_text(variant, f'{indent}   ', depth + 1)}"
                f"{_trailing(_string(variant, 'description'), _default(variant, quoted=True))}"
                for variant in variants
            ]
            return "".join(lines)
        kind = schema.get("type")
        if isinstance(kind, list):
            names = ["number" if name == "integer" else name for name in kind if isinstance(name, str)]
            return " | ".join(names) or "any"
        if kind == "object":
            return self._object_text(schema, indent, depth)
        if kind == "array":
            return f"{self.type_text(schema['items'], indent, depth + 1)}[]" if "items" in schema else "Array<any>"
        if kind == "string":
            values = schema.get("enum")
            if isinstance(values, list):
                return " | ".join([f'"{value}"' for value in values if isinstance(value, str)]) or "string"
        return PRIMITIVES.get(kind, "any") if isinstance(kind, str) else "any"

    def _object_text(self, schema: dict[str, Json], indent: str, depth: int) -> str:
        description = schema.get("description")
        out = [f"{indent}// {description}\n{{\n" if isinstance(description, str) else "{\n"]
        properties = schema.get("properties")
        if isinstance(properties, dict):
            names = schema.get("required")
            required = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set[str]()
            for key, value in properties.items():
                out.append(self._property_text(key, "" if key in required else "?", value, indent, depth + 1))
        out.append(f"{indent}}}")
        return "".join(out)

    def _property_text(self, key: str, mark: str, schema: Json, indent: str, depth: int) -> str:
        out: list[str] = []
        union = schema.get("oneOf") if isinstance(schema, dict) else None
        has_union = isinstance(schema, dict) and "oneOf" in schema
        title = _string(schema, "title")
        if title is not None:
            out.append(f"{indent}// {title}\n{indent}//\n")
        description = _string(schema, "description")
        if description is not None and not has_union:
            out.append(f"{indent}// {description}\n")
        examples = schema.get("examples") if isinstance(schema, dict) else None
        if isinstance(examples, list) and examples:
            out.append(f"{indent}// Examples:\n")
            out.extend([f'{indent}// - "{example}"\n' for example in examples if isinstance(example, str)])
        default = _default(schema, quoted=False)
        if not isinstance(union, list):
            text = self._nullable_text(schema, f"{indent}    ", depth)
            out.append(f"{indent}{key}{mark}: {text},{_trailing(None, None if has_union else default)}\n")
            return "".join(out)

        # A description that the first variant repeats is left out here. It is left out there too.
        above = description is not None and not (union and _string(union[0], "description") == description)
        if above:
            out.append(f"{indent}// {description}\n")
        if default is not None:
            out.append(f"{indent}// {default}\n")
        out.append(f"{indent}{key}{mark}:\n")
        for index, variant in enumerate(union):
            own = _string(variant, "description")
            if own == description or (index == 0 and above):
                own = None
            text = self._nullable_text(variant, f"{indent}   ", depth + 1)
            out.append(f"{indent} | {text}{_trailing(own, _default(variant, quoted=False))}\n")
        out.append(f"{indent},\n")
        return "".join(out)

    def _nullable_text(self, schema: Json, indent: str, depth: int) -> str:
        text = self.type_text(schema, indent, depth)
        # The reference looks for the letters, wherever they stand: `"nullify"` counts as null.
        nullable = isinstance(schema, dict) and schema.get("nullable") is True and "null" not in text
        return f"{text} | null" if nullable else text


def _string(schema: Json, keyword: str) -> str | None:
    value = schema.get(keyword) if isinstance(schema, dict) else None
    return value if isinstance(value, str) else None


def _default(schema: Json, *, quoted: bool) -> str | None:
    """`default: …`. A string beside an enum stands without quotes, except in a union that is not a property's."""
    if not isinstance(schema, dict) or "default" not in schema:
        return None
    value = schema["default"]
    if not isinstance(value, str):
        return f"default: {reference_json_text(value)}"
    if not schema.get("enum") or not isinstance(schema["enum"], list):
        return f'default: "{value}"'
    return f"default: {reference_json_text(value) if quoted else value}"


def _trailing(description: str | None, default: str | None) -> str:
    parts = [part for part in (description, default) if part is not None]
    return f" // {' '.join(parts)}" if parts else ""
